"""What a warm pool needs: a table of situations, and what holds for all of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from sparksql.api.session_class import WarmPool
from sparksql.domain.session.warm import pool_key
from sparksql.domain.warm_pool import MOST_STARTING, PAUSE_SECONDS, PoolMember, plan
from sparksql.wire.driver import OpenEndpoints
from tests.unit.kube.effective_sessions import FULL, PLAIN

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = {"a": "k"}
TWO = WarmPool(size=2, max_age_seconds=100, namespaces=("a",))


def member(
    name: str, age: float = 0, *, ready: bool = True, over: bool = False, key: str = "k", namespace: str = "a"
) -> PoolMember:
    created = NOW - timedelta(seconds=age)
    return PoolMember(namespace, name, f"uid-{name}", f"member-{name}", key, created, ready, over)


def test_a_pool_is_filled_and_counted() -> None:
    empty = plan(TWO, KEYS, [], None, NOW)
    assert (empty.start, empty.remove, empty.ready, empty.starting) == (("a", "a"), (), 0, 2)
    half = plan(TWO, KEYS, [member("x"), member("y", ready=False)], None, NOW)
    assert (half.start, half.remove, half.ready, half.starting) == ((), (), 1, 1)


def test_drivers_that_fit_no_more_are_taken_away_and_replaced() -> None:
    others = [member("old-key", key="other"), member("elsewhere", namespace="b"), member("ended", over=True)]
    found = plan(TWO, KEYS, others, None, NOW)
    assert found.start == ("a", "a")
    assert {each.pod_name for each in found.remove} == {"old-key", "elsewhere"}


def test_an_old_driver_stays_until_another_one_is_ready_but_not_for_ever() -> None:
    one = WarmPool(size=1, max_age_seconds=100, namespaces=("a",))
    alone = plan(one, KEYS, [member("old", age=150)], None, NOW)
    assert (alone.start, alone.remove, alone.ready) == (("a",), (), 1)
    coming = plan(one, KEYS, [member("old", age=150), member("new", ready=False)], None, NOW)
    assert (coming.start, coming.remove, coming.ready, coming.starting) == ((), (), 1, 1)
    there = plan(one, KEYS, [member("old", age=150), member("new")], None, NOW)
    assert [each.pod_name for each in there.remove] == ["old"]
    assert [each.pod_name for each in plan(one, KEYS, [member("old", age=250)], None, NOW).remove] == ["old"]


def test_a_driver_that_was_taken_is_replaced_after_a_pause() -> None:
    at_once = plan(TWO, KEYS, [member("x")], None, NOW, NOW - timedelta(seconds=2))
    assert (at_once.start, at_once.ready, at_once.starting, at_once.pause) == ((), 1, 0, PAUSE_SECONDS - 2)
    later = plan(TWO, KEYS, [member("x")], None, NOW, NOW - timedelta(seconds=PAUSE_SECONDS))
    assert (later.start, later.pause) == (("a",), None)
    full = plan(TWO, KEYS, [member("x"), member("y")], None, NOW, NOW)
    assert (full.start, full.pause) == ((), None)


def test_pool_with_less_room_than_its_size_is_limited() -> None:
    found = {room: plan(TWO, KEYS, [member("x")], room, NOW) for room in (-1, 0, 1, 2, None)}
    assert {room: each.is_limited for room, each in found.items()} == {
        -1: True, 0: True, 1: True, 2: False, None: False,
    }  # fmt: skip
    assert found[1].ready == 1 and found[1].start == ()


def test_a_pool_without_a_size_keeps_nothing() -> None:
    none = plan(WarmPool(), {}, [member("x")], None, NOW)
    assert (none.start, [each.pod_name for each in none.remove]) == ((), ["x"])


MEMBERS = st.lists(
    st.builds(
        member,
        name=st.uuids().map(str),
        age=st.floats(0, 400),
        ready=st.booleans(),
        over=st.booleans(),
        key=st.sampled_from(["k", "other"]),
        namespace=st.sampled_from(["a", "b", "c"]),
    ),
    max_size=12,
)


@given(members=MEMBERS, size=st.integers(0, 4), room=st.none() | st.integers(0, 6))
def test_a_plan_stays_within_its_bounds(members: list[PoolMember], size: int, room: int | None) -> None:
    keys = {"a": "k", "b": "k"} if size else {}
    made = plan(WarmPool(size=size, max_age_seconds=100, namespaces=("a", "b")), keys, members, room, NOW)
    left = [each for each in members if not each.is_over and each not in made.remove]
    assert all(keys.get(each.namespace) == each.key for each in left)
    assert made.ready == sum(each.is_ready for each in left)
    assert made.starting == len(left) - made.ready + len(made.start)
    assert len(made.start) <= MOST_STARTING
    if room is not None:
        assert len(left) + len(made.start) <= max(room, 0) or not made.start
        assert len(left) <= room
    for namespace in keys:
        young = [each for each in left if each.namespace == namespace and (NOW - each.created).total_seconds() < 100]
        assert len(young) + made.start.count(namespace) <= size


def test_sessions_that_one_driver_fits_have_one_key() -> None:
    key = pool_key(PLAIN)
    same = replace(
        PLAIN, name="other", uid="other", database="d", endpoints=OpenEndpoints(connect=True, rest=False),
        conf={**PLAIN.conf, "spark.sql.shuffle.partitions": "3"}, front_only=True,
    )  # fmt: skip
    assert pool_key(same) == key
    for changed in (
        replace(PLAIN, namespace="other"),
        replace(PLAIN, image="other"),
        replace(PLAIN, service_account="other"),
        replace(PLAIN, warehouse="s3a://other"),
        replace(PLAIN, conf={**PLAIN.conf, "spark.sql.extensions": "x.Y"}),
        replace(PLAIN, conf={**PLAIN.conf, "spark.sql.codegen.cache.maxEntries": "7"}),
        replace(PLAIN, conf={**PLAIN.conf, "spark.hadoop.fs.s3a.endpoint": "x"}),
        replace(PLAIN, driver=replace(PLAIN.driver, heap_mib=7)),
        replace(PLAIN, executors=replace(PLAIN.executors, instances=7)),
    ):
        assert pool_key(changed) != key
    assert pool_key(FULL) != key
