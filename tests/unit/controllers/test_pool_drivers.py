"""A driver of a warm pool is kept for the session that decides to take it, and for nobody who only looks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import cast

from sparksql.api.base import ObjectMeta
from sparksql.api.names import ANNOTATION_POOL_KEY, LABEL_SESSION_UID, LABEL_WARM_POOL
from sparksql.api.session import SqlSession, SqlSessionSpec
from sparksql.api.session_class import SqlSessionClass, SqlSessionClassSpec
from sparksql.cache.indexes import INDEXES, POD
from sparksql.controllers.context import ControllerContext
from sparksql.controllers.session.pools import RESERVED_SECONDS, PoolDrivers
from sparksql.domain.session.warm import pool_key
from sparksql.engine.store import Store
from tests.unit.kube.effective_sessions import PLAIN

CLASS = SqlSessionClass(metadata=ObjectMeta(name="standard"), spec=SqlSessionClassSpec(image="spark"))
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


def pools(clock: Clock, key: str) -> PoolDrivers:
    """Pools of a store in which one driver waits that was started with `key`."""
    store = Store(INDEXES)
    metadata = {
        "namespace": PLAIN.namespace,
        "name": "warm-standard-1",
        "uid": "pod",
        "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {LABEL_WARM_POOL: "standard", LABEL_SESSION_UID: "member"},
        "annotations": {ANNOTATION_POOL_KEY: key},
    }
    status = {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
    store.apply(POD, {"metadata": metadata, "status": status})
    return PoolDrivers(cast(ControllerContext, SimpleNamespace(store=store, clock=clock)))


def test_a_driver_is_kept_for_the_session_that_takes_it() -> None:
    clock = Clock()
    found = pools(clock, pool_key(PLAIN))
    looked = found.find(FIRST, CLASS, PLAIN)
    assert looked is not None and (looked.pod_name, looked.uid) == ("warm-standard-1", "member")
    assert found.find(SECOND, CLASS, PLAIN) == looked  # who only looks keeps nothing
    found.keep(SECOND, looked.pod_uid)
    assert found.find(FIRST, CLASS, PLAIN) is None
    assert found.find(SECOND, CLASS, PLAIN) == looked
    clock.now += timedelta(seconds=RESERVED_SECONDS + 1)
    assert found.find(FIRST, CLASS, PLAIN) == looked


def test_a_driver_of_another_key_fits_nobody() -> None:
    assert pools(Clock(), "other").find(FIRST, CLASS, PLAIN) is None
