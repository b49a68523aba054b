"""What the store does that no API server of the tests does: collects what owners leave behind, notifies watchers, is stored in a file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparksql.kube.errors import ApiError, NotFound
from sparksql.kube.resources import CONFIG_MAPS, NAMESPACES, PODS, SECRETS, SESSIONS, Resource
from sparksql.local.client import LocalClient
from sparksql.local.objects.database import FormatError
from sparksql.local.objects.store import ObjectStore

Object = dict[str, Any]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ObjectStore]:
    made = ObjectStore(tmp_path / "objects.db")
    made.create(NAMESPACES, "", {"metadata": {"name": "default"}})
    yield made
    made.close()


def _create(store: ObjectStore, resource: Resource, name: str, *owners: Object, **metadata: Any) -> Object:
    references = [
        {"kind": each["kind"], "name": each["metadata"]["name"], "uid": each["metadata"]["uid"]} for each in owners
    ]
    body = {"metadata": {"name": name, "ownerReferences": references, **metadata}, "spec": {"containers": []}}
    return store.create(resource, "default", body)


def _names(store: ObjectStore, resource: Resource) -> list[str]:
    return [each["metadata"]["name"] for each in store.list(resource, "default").items]


def test_object_is_deleted_with_the_last_owner_and_dependents_follow(store: ObjectStore) -> None:
    one, two = (_create(store, SESSIONS, name) for name in ("one", "two"))
    shared = _create(store, SECRETS, "shared", one, two)
    _create(store, CONFIG_MAPS, "below", shared)
    store.delete(SESSIONS, "default", "one")
    assert (_names(store, SECRETS), _names(store, CONFIG_MAPS)) == (["shared"], ["below"])
    store.delete(SESSIONS, "default", "two")
    assert (_names(store, SECRETS), _names(store, CONFIG_MAPS)) == ([], [])


def test_owned_pod_on_a_node_gets_a_grace_period_when_the_owner_is_deleted(store: ObjectStore) -> None:
    _create(store, PODS, "driver", _create(store, SESSIONS, "one"))
    store.patch_merge(PODS, "default", "driver", {"spec": {"nodeName": "node"}})
    store.delete(SESSIONS, "default", "one")
    assert store.get(PODS, "default", "driver")["metadata"]["deletionGracePeriodSeconds"] == 30


def test_object_of_an_absent_owner_is_collected(store: ObjectStore) -> None:
    stranger = {"kind": "SqlSession", "metadata": {"name": "gone", "uid": "u"}}
    _create(store, SECRETS, "orphan", stranger)
    _create(store, SECRETS, "free")
    store.collect_orphans()
    assert _names(store, SECRETS) == ["free"]


def test_watcher_sees_each_change_after_the_write(store: ObjectStore) -> None:
    seen: list[tuple[str, str, bool]] = []

    def watch(kind: str, change: str, obj: Object) -> None:
        seen.append((kind, change, obj["metadata"]["name"] in _names(store, SECRETS)))

    stop = store.watch(watch)
    _create(store, SECRETS, "a", finalizers=["x.y/z"])
    store.patch_merge(SECRETS, "default", "a", {"data": {}})
    store.patch_merge(SECRETS, "default", "a", {"data": {}})
    store.delete(SECRETS, "default", "a")
    store.patch_merge(SECRETS, "default", "a", {"metadata": {"finalizers": []}})
    stop()
    _create(store, SECRETS, "b")
    changes = [("ADDED", True), ("MODIFIED", True), ("MODIFIED", True), ("DELETED", False)]
    assert seen == [("Secret", *each) for each in changes]


def test_objects_and_versions_survive_the_process(store: ObjectStore, tmp_path: Path) -> None:
    before = _create(store, SECRETS, "a")
    # Not closed: as after the end of the process, the write-ahead log holds what was written.
    again = ObjectStore(tmp_path / "objects.db")
    assert again.get(SECRETS, "default", "a") == before
    later = again.create(SECRETS, "default", {"metadata": {"name": "b"}})
    assert int(later["metadata"]["resourceVersion"]) > int(before["metadata"]["resourceVersion"])
    again.close()


def test_database_is_readable_to_the_owner_only(store: ObjectStore, tmp_path: Path) -> None:
    assert {file.stat().st_mode & 0o077 for file in tmp_path.glob("objects.db*")} == {0}


def test_file_of_another_format_is_refused_with_a_remedy(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "later.db")
    connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(FormatError, match="format 99, this version reads 1: use the version of sparksql that made it"):
        ObjectStore(tmp_path / "later.db")


def test_failed_write_leaves_nothing(store: ObjectStore) -> None:
    with pytest.raises(TypeError):
        store.create(SECRETS, "default", {"metadata": {"name": "a"}, "data": {"k": object()}})
    with pytest.raises(NotFound):
        store.get(SECRETS, "default", "a")


async def test_unsupported_requests_are_refused(store: ObjectStore) -> None:
    client = LocalClient(store)
    with pytest.raises(ApiError, match="in the background only"):
        await client.delete(NAMESPACES, "", "default", propagation="Foreground")
    with pytest.raises(ApiError, match="applies no subresource"):
        await client.apply(SECRETS, "default", "a", {}, "status")
    with pytest.raises(ValueError, match="only key=value and key in"):
        await client.list(PODS, "default", label_selector="!app")
