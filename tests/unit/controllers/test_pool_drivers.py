"""A driver of a warm pool is kept for the session that decides to take it, and for nobody who only looks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import cast

from sparksql.api.base import ObjectMeta
from sparksql.api.names import API_VERSION, LABEL_WARM_POOL
from sparksql.api.session import SqlSession, SqlSessionSpec
from sparksql.api.session_class import (
    SqlSessionClass,
    SqlSessionClassSpec,
    SqlSessionClassStatus,
    WarmPoolMember,
    WarmPoolStatus,
)
from sparksql.cache.indexes import INDEXES, POD
from sparksql.controllers.context import ControllerContext
from sparksql.controllers.session.pools import RESERVED_SECONDS, PoolDrivers
from sparksql.domain.session.warm import pool_key
from sparksql.engine.store import Store
from tests.unit.kube.effective_sessions import PLAIN

OWNER = {"apiVersion": API_VERSION, "kind": "SqlSessionClass", "name": "standard", "uid": "class", "controller": True}
FIRST, SECOND = (
    SqlSession(metadata=ObjectMeta(namespace=PLAIN.namespace, name=name, uid=name), spec=SqlSessionSpec())
    for name in ("first", "second")
)


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def class_with(key: str, pod_uid: str = "pod") -> SqlSessionClass:
    """A class whose status has one driver that was started with `key`."""
    record = WarmPoolMember(
        namespace=PLAIN.namespace, uid="member", pod_name="warm-standard-1", pod_uid=pod_uid, key=key
    )
    status = SqlSessionClassStatus(warm_pool=WarmPoolStatus(members=(record,)))
    metadata = ObjectMeta(name="standard", uid="class")
    return SqlSessionClass(metadata=metadata, spec=SqlSessionClassSpec(image="spark"), status=status)


def pools(clock: Clock, owner: dict[str, object] = OWNER) -> PoolDrivers:
    """Pools of a store in which one driver waits."""
    store = Store(INDEXES)
    metadata = {
        "namespace": PLAIN.namespace,
        "name": "warm-standard-1",
        "uid": "pod",
        "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {LABEL_WARM_POOL: "standard"},
        "ownerReferences": [owner],
    }
    status = {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
    store.apply(POD, {"metadata": metadata, "status": status})
    return PoolDrivers(cast(ControllerContext, SimpleNamespace(store=store, clock=clock)))


def test_a_driver_is_kept_for_the_session_that_takes_it() -> None:
    clock = Clock()
    found, session_class = pools(clock), class_with(pool_key(PLAIN))
    looked = found.find(FIRST, session_class, PLAIN)
    assert looked is not None and (looked.pod_name, looked.uid) == ("warm-standard-1", "member")
    assert found.find(SECOND, session_class, PLAIN) == looked  # who only looks keeps nothing
    found.keep(SECOND, looked.pod_uid)
    assert found.find(FIRST, session_class, PLAIN) is None
    assert found.find(SECOND, session_class, PLAIN) == looked
    clock.now += timedelta(seconds=RESERVED_SECONDS + 1)
    assert found.find(FIRST, session_class, PLAIN) == looked


def test_a_driver_of_another_key_fits_nobody() -> None:
    assert pools(Clock()).find(FIRST, class_with("other"), PLAIN) is None


def test_a_pod_that_the_class_has_no_record_of_fits_nobody() -> None:
    unknown = class_with(pool_key(PLAIN), pod_uid="another")
    assert pools(Clock()).find(FIRST, unknown, PLAIN) is None


def test_a_driver_that_a_session_has_fits_no_other() -> None:
    taken = {"apiVersion": API_VERSION, "kind": "SqlSession", "name": "first", "uid": "first", "controller": True}
    assert pools(Clock(), taken).find(SECOND, class_with(pool_key(PLAIN)), PLAIN) is None
