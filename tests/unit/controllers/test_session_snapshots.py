"""Sessions as they see the statements of their drivers."""

from __future__ import annotations

from typing import Any

import pytest

from sparksql.cache.indexes import INDEXES
from sparksql.controllers.session.gather import in_hand
from sparksql.engine.store import Store
from tests.unit.domain.builders.sessions import session

DRIVER = {"podName": "s-2", "podUID": "uid-2", "incarnation": 2}


def statement(namespace: str = "team-a", **status: Any) -> dict[str, Any]:
    metadata = {"name": "one", "namespace": namespace, "uid": "uid-one", "resourceVersion": "1"}
    return {"metadata": metadata, "spec": {"sessionRef": {"name": "analytics"}}, "status": status}


def at(pod_uid: str) -> dict[str, Any]:
    return {"session": {"name": "analytics", "podUID": pod_uid}}


@pytest.mark.parametrize(
    ("obj", "count"),
    [
        (statement(phase="Running", **at("uid-2")), 1),
        (statement(phase="Pending", **at("uid-2")), 1),
        (statement(phase="Running", **at("uid-1")), 0),
        (statement(phase="Finished", **at("uid-2")), 0),
        (statement(phase="Initialized", lostDrivers=["s-2"]), 1),
        (statement(phase="Error", lostDrivers=["s-1", "s-2"]), 1),
        (statement(phase="Initialized", lostDrivers=["s-1"]), 0),
        (statement("team-b", phase="Error", lostDrivers=["s-2"]), 0),
    ],
)
def test_driver_has_in_hand_what_it_runs_and_what_has_noted_its_loss(obj: dict[str, Any], count: int) -> None:
    store = Store(indexes=INDEXES)
    store.apply("SqlStatement", obj)
    assert in_hand(store, session({"phase": "Ready", "driver": DRIVER})) == count
    assert in_hand(store, session()) == 0
