"""What the store keeps, whatever the order in which events, answers and listings arrive."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.engine.key import Key
from sparksql.engine.store import Object, Store

KIND = "SqlStatement"


def obj(name: str = "a", rv: int | str = 1, uid: str = "u1", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "team", "name": name, "uid": uid, "resourceVersion": str(rv)}, "spec": spec}


def by_session() -> Store:
    return Store({"session": (KIND, lambda one: [one["spec"]["session"]] if "session" in one["spec"] else [])})


def names(objects: list[dict[str, Any]]) -> set[str]:
    return {one["metadata"]["name"] for one in objects}


@pytest.mark.parametrize(
    ("known", "new", "news"),
    [
        (None, "5", True),
        ("5", "6", True),
        ("5", "5", False),
        ("5", "4", False),
        ("9", "10", True),  # as numbers, not as text
        ("10", "9", False),
        ("abc", "abd", True),  # opaque: different means news
        ("abc", "abc", False),
    ],
)
def test_apply_keeps_the_newest(known: str | None, new: str, news: bool) -> None:
    store = Store()
    if known is not None:
        assert store.apply(KIND, obj(rv=known))
    assert store.apply(KIND, obj(rv=new)) is news
    kept = store.get(KIND, "team", "a")
    assert kept is not None
    assert kept["metadata"]["resourceVersion"] == (new if news else known)


def test_a_deleted_object_never_returns_but_its_name_may() -> None:
    store = Store()
    store.apply(KIND, obj(rv=5))
    assert store.delete(KIND, "team", "a", uid="u1")
    assert not store.apply(KIND, obj(rv=6))
    assert store.get(KIND, "team", "a") is None
    assert store.apply(KIND, obj(rv=7, uid="u2"))


def test_a_deletion_that_arrives_before_the_object_holds() -> None:
    store = Store()
    assert not store.delete(KIND, "team", "a", uid="u1")
    assert not store.apply(KIND, obj(rv=5, uid="u1"))


def test_a_late_deletion_of_an_earlier_object_leaves_its_successor() -> None:
    store = Store()
    store.apply(KIND, obj(rv=5, uid="u1"))
    store.apply(KIND, obj(rv=8, uid="u2"))
    assert not store.delete(KIND, "team", "a", uid="u1")
    assert store.get(KIND, "team", "a") is not None
    assert not store.apply(KIND, obj(rv=9, uid="u1"))


def test_an_event_of_an_earlier_object_does_not_displace_its_successor() -> None:
    store = Store()
    store.apply(KIND, obj(rv=8, uid="u2"))
    assert not store.apply(KIND, obj(rv=5, uid="u1"))


def list_into(store: Store, listing: list[Object], at: str) -> int:
    """Takes in a listing, as the resync does; how many objects changed, appeared or vanished by it."""
    news = sum(store.apply(KIND, one) for one in listing)
    return news + store.retain(KIND, {Key(KIND, "team", one["metadata"]["name"]) for one in listing}, at)


def test_a_listing_tells_how_many_changed_appeared_and_vanished() -> None:
    store = Store()
    for name in ("same", "changed", "vanished"):
        store.apply(KIND, obj(name, rv=5, uid=name))
    assert not store.synced(KIND)
    listing = [obj("same", 5, "same"), obj("changed", 7, "changed"), obj("new", 8, "new")]
    assert list_into(store, listing, "9") == 3
    assert names(store.list(KIND)) == {"same", "changed", "new"}
    assert store.synced(KIND)
    assert list_into(store, listing, "9") == 0


def test_a_listing_neither_erases_nor_revives_what_is_newer_than_the_listing() -> None:
    store = Store()
    store.apply(KIND, obj("deleted", rv=5, uid="u1"))
    store.delete(KIND, "team", "deleted", uid="u1")
    store.apply(KIND, obj("written", rv=12, uid="u2", v="new"))
    store.apply(KIND, obj("created", rv=13, uid="u3"))
    assert list_into(store, [obj("deleted", 5, "u1"), obj("written", 8, "u2", v="old")], "10") == 0
    assert names(store.list(KIND)) == {"written", "created"}
    written = store.get(KIND, "team", "written")
    assert written is not None
    assert written["spec"] == {"v": "new"}


def test_kinds_and_cluster_scope_are_apart() -> None:
    store = Store()
    store.apply("SqlSessionClass", {"metadata": {"name": "a", "uid": "c", "resourceVersion": "1"}})
    store.apply(KIND, obj("a", uid="s"))
    assert store.retain(KIND, (), "5") == 1
    assert store.get("SqlSessionClass", "", "a") is not None


def test_large_metadata_is_not_kept_and_the_given_object_is_left_alone() -> None:
    store = Store()
    given_one = obj()
    given_one["metadata"] |= {
        "managedFields": [{"manager": "kubectl"}],
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "mine": "1"},
    }
    store.apply(KIND, given_one)
    kept = store.get(KIND, "team", "a")
    assert kept is not None
    assert "managedFields" not in kept["metadata"]
    assert kept["metadata"]["annotations"] == {"mine": "1"}
    assert len(given_one["metadata"]["annotations"]) == 2


def test_an_index_follows_changes_and_deletions() -> None:
    store = by_session()
    store.apply(KIND, obj("a", 1, "a", session="x"))
    store.apply(KIND, obj("b", 2, "b", session="x"))
    store.apply(KIND, obj("c", 3, "c"))
    assert names(store.by_index("session", "x")) == {"a", "b"}
    store.apply(KIND, obj("a", 4, "a", session="y"))
    store.delete(KIND, "team", "b")
    assert store.by_index("session", "x") == []
    assert names(store.by_index("session", "y")) == {"a"}
    with pytest.raises(KeyError):
        store.by_index("sesion", "x")


events = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(1, 12), st.integers(0, 2), st.sampled_from("xyz"), st.booleans()),
    max_size=30,
)


@given(events)
def test_an_index_always_equals_a_scan_and_versions_never_go_back(
    history: list[tuple[str, int, int, str, bool]],
) -> None:
    store = by_session()
    buried: set[str] = set()
    for name, rv, generation, session, deleted in history:
        uid = f"{name}-{generation}"
        before = store.get(KIND, "team", name)
        if deleted:
            store.delete(KIND, "team", name, uid=uid)
            buried.add(uid)
        elif store.apply(KIND, obj(name, rv, uid, session=session)):
            assert uid not in buried
            assert before is None or int(before["metadata"]["resourceVersion"]) < rv
        for value in "xyz":
            scan = [one for one in store.list(KIND) if one["spec"]["session"] == value]
            assert names(scan) == names(store.by_index("session", value))


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 20)),
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 20)),
    st.integers(0, 20),
)
def test_after_a_listing_the_store_is_the_newer_of_both(seen: dict[str, int], live: dict[str, int], at: int) -> None:
    listing = {name: rv for name, rv in live.items() if rv <= at}
    store = Store()
    for name, rv in seen.items():
        store.apply(KIND, obj(name, rv, name))
    list_into(store, [obj(name, rv, name) for name, rv in listing.items()], str(at))
    expected = {name: max(rv, seen.get(name, 0)) for name, rv in listing.items()}
    expected |= {name: rv for name, rv in seen.items() if rv > at and name not in listing}
    kept = {one["metadata"]["name"]: int(one["metadata"]["resourceVersion"]) for one in store.list(KIND)}
    assert kept == expected
