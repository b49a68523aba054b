"""Gauges of the operator: what they say of all objects, and that what is gone leaves no series behind."""

from __future__ import annotations

from typing import Any

from sparksql.controllers.manager import ControllerManager
from sparksql.domain.public_text import PublicText
from sparksql.kube.client import KubeClient
from sparksql.kube.credentials import Credentials
from sparksql.kube.events import BURST
from sparksql.process.config import OperatorConfig
from sparksql.process.metrics import Metrics

Object = dict[str, Any]
CREATED = "2026-01-31T00:00:00Z"
DAY = 86_400.0


def _savepoint(namespace: str, phase: str | None, size: int | None = None, source: str = "Copy") -> Object:
    status = {"phase": phase, **({"sizeBytes": size} if size is not None else {})} if phase else {}
    return {"metadata": {"namespace": namespace, "name": "one"}, "spec": {"source": source}, "status": status}


def _statement(namespace: str, phase: str = "Running", saved: str | None = None, **schedule: Any) -> Object:
    last = {"lastSavepoint": {"name": "sp", "time": saved}} if saved else {}
    return {
        "metadata": {"namespace": namespace, "name": "one", "creationTimestamp": CREATED},
        "spec": {"streaming": {"savepoints": {"schedule": schedule}} if schedule else {}},
        "status": {"phase": phase, "streaming": last},
    }


def _series(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    (family,) = (each for each in metrics.registry.collect() if each.name == name)
    return {tuple(sample.labels.values()): sample.value for sample in family.samples}


def test_objects_are_counted_by_namespace_and_phase() -> None:
    metrics = Metrics()
    savepoints = [
        _savepoint("a", "Completed"),
        _savepoint("a", "Completed"),
        _savepoint("a", None),
        _savepoint("b", "Failed"),
    ]
    metrics.count([_statement("a"), _statement("a", "Stopped")], [], savepoints)
    counts = {("a", "Completed"): 2.0, ("a", "New"): 1.0, ("b", "Failed"): 1.0}
    assert _series(metrics, "sparksql_savepoints") == counts
    assert _series(metrics, "sparksql_statements") == {("a", "Running"): 1.0, ("a", "Stopped"): 1.0}
    assert _series(metrics, "sparksql_sessions") == {}


def test_savepoint_bytes_metric_sums_the_completed_copies_of_a_namespace() -> None:
    metrics = Metrics()
    complete = [_savepoint("a", "Completed", 5), _savepoint("a", "Completed", 7), _savepoint("b", "Completed", 1)]
    others = [_savepoint("a", "Completed", 100, "Existing"), _savepoint("a", "InProgress", 100), _savepoint("c", None)]
    metrics.count([], [], [*complete, *others])
    assert _series(metrics, "sparksql_savepoint_bytes") == {("a",): 12.0, ("b",): 1.0}


def test_the_statement_that_was_not_saved_the_longest_is_told() -> None:
    metrics = Metrics()
    often = {"intervalSeconds": 60}
    in_a = [
        _statement("a", saved="2026-02-02T00:00:00Z", **often),
        _statement("a", saved="2026-02-01T00:00:00Z", **often),
    ]
    idle = [
        _statement("a", "Stopped", **often),
        _statement("a", paused=True, **often),
        _statement("a"),
    ]
    metrics.count([*in_a, *idle, _statement("b", **often)], [], [])
    times = _series(metrics, "sparksql_savepoint_oldest_timestamp_seconds")
    assert times.keys() == {("a",), ("b",)}
    assert times[("a",)] - times[("b",)] == DAY


def test_metric_series_of_a_namespace_goes_with_its_last_object() -> None:
    metrics = Metrics()
    statement = _statement("a", intervalSeconds=60)
    metrics.count([statement], [], [_savepoint("a", "Completed", 5)])
    metrics.count([], [], [])
    names = ("sparksql_savepoints", "sparksql_savepoint_bytes", "sparksql_savepoint_oldest_timestamp_seconds")
    assert [_series(metrics, name) for name in names] == [{}, {}, {}]


async def test_events_that_are_not_recorded_are_told() -> None:
    manager = ControllerManager(OperatorConfig(), Metrics())
    loud = {"metadata": {"namespace": "a", "name": "loud", "uid": "u"}}
    server = Credentials("http://127.0.0.1:1")
    async with KubeClient(server) as client, manager.context(client, None, None) as context:
        for number in range(BURST + 15):
            context.events.emit(loud, "Normal", "Progress", PublicText(f"{number}"))
        assert _series(manager.metrics, "sparksql_events_dropped") == {(): 15.0}
    # Nobody serves there, so that the others are not recorded either.
    assert _series(manager.metrics, "sparksql_events_dropped") == {(): BURST + 15.0}
