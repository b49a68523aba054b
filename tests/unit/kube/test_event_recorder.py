"""Deduplication, rates and losses of events, with an API that keeps what it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sparksql.domain.public_text import PublicText
from sparksql.kube.client import Object
from sparksql.kube.errors import Forbidden, NotFound
from sparksql.kube.events import EventRecorder
from sparksql.kube.resources import EVENTS, Resource


@pytest.fixture(autouse=True)
def _time_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked at is what was written, not how much of it a slow machine writes before a stop gives up."""
    monkeypatch.setattr("sparksql.kube.events.STOP_SECONDS", 60.0)


class Api:
    """Events by namespace and name. `broken` makes every request fail, `blocked` makes it wait."""

    def __init__(self) -> None:
        self.events: dict[tuple[str, str], Object] = {}
        self.broken: Exception | None = None
        self.blocked = asyncio.Event()
        self.blocked.set()

    async def create(self, resource: Resource, namespace: str, body: Object) -> Object:
        assert resource is EVENTS
        await self.blocked.wait()
        if self.broken:
            raise self.broken
        self.events[namespace, body["metadata"]["name"]] = dict(body)
        return body

    async def patch_merge(self, resource: Resource, namespace: str, name: str, body: Object) -> Object:
        assert resource is EVENTS
        if (namespace, name) not in self.events:
            raise NotFound(404, "NotFound", "")
        self.events[namespace, name] |= body
        return self.events[namespace, name]


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


def statement(uid: str = "u1", namespace: str | None = "team-a") -> Object:
    meta = {"name": "one", "uid": uid, "resourceVersion": "7"} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "sparksql.dev/v1alpha1", "kind": "SqlStatement", "metadata": meta, "spec": {"sql": "SECRET"}}


@asynccontextmanager
async def recording(api: Any, clock: Clock) -> AsyncIterator[EventRecorder]:
    recorder = EventRecorder(api, "spark-sql-operator", clock)
    await recorder.start()
    yield recorder
    await recorder.stop()


async def test_an_event_names_its_object_and_holds_no_spec() -> None:
    api = Api()
    async with recording(api, Clock()) as recorder:
        recorder.emit(statement(), "Normal", "Finished", PublicText("done"))
    [((namespace, _), event)] = api.events.items()
    assert namespace == "team-a"
    del event["metadata"]
    assert event == {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": {
            "apiVersion": "sparksql.dev/v1alpha1",
            "kind": "SqlStatement",
            "namespace": "team-a",
            "name": "one",
            "uid": "u1",
            "resourceVersion": "7",
        },
        "type": "Normal",
        "reason": "Finished",
        "message": "done",
        "count": 1,
        "firstTimestamp": "2023-11-14T22:13:20Z",
        "lastTimestamp": "2023-11-14T22:13:20Z",
        "source": {"component": "spark-sql-operator"},
        "reportingComponent": "spark-sql-operator",
    }


async def test_a_repeated_event_is_counted_for_ten_minutes() -> None:
    api, clock = Api(), Clock()
    async with recording(api, clock) as recorder:
        for _ in range(3):
            recorder.emit(statement(), "Warning", "DriverLost", PublicText("gone"))
            clock.now += 60
        recorder.emit(statement(), "Warning", "DriverLost", PublicText("gone again"))
        clock.now += 700
        recorder.emit(statement(), "Warning", "DriverLost", PublicText("gone"))
    counts = sorted((event["message"], event["count"]) for event in api.events.values())
    assert counts == [("gone", 1), ("gone", 3), ("gone again", 1)]


async def test_an_event_that_expired_is_made_anew() -> None:
    api, clock = Api(), Clock()
    async with recording(api, clock) as recorder:
        recorder.emit(statement(), "Normal", "Started", PublicText("m"))
    api.events.clear()
    await recorder.start()
    recorder.emit(statement(), "Normal", "Started", PublicText("m"))
    await recorder.stop()
    assert [event["count"] for event in api.events.values()] == [1]


async def test_a_talkative_object_is_held_to_its_rate_and_others_are_not() -> None:
    api, clock = Api(), Clock()
    async with recording(api, clock) as recorder:
        for number in range(40):
            recorder.emit(statement("loud"), "Normal", "Progress", PublicText(f"{number}"))
        recorder.emit(statement("quiet"), "Normal", "Started", PublicText("m"))
        assert recorder.dropped == 15
        clock.now += 300
        recorder.emit(statement("loud"), "Normal", "Progress", PublicText("later"))
        recorder.emit(statement("loud"), "Normal", "Progress", PublicText("too soon"))
        assert recorder.dropped == 16
    assert len(api.events) == 27


async def test_events_of_cluster_scoped_objects_go_to_default() -> None:
    api = Api()
    async with recording(api, Clock()) as recorder:
        recorder.emit(statement(namespace=None), "Normal", "Accepted", PublicText("m"))
    assert [namespace for namespace, _ in api.events] == ["default"]


async def test_a_long_message_is_cut_at_a_character() -> None:
    api = Api()
    async with recording(api, Clock()) as recorder:
        recorder.emit(statement(), "Normal", "Long", PublicText("é" * 2000))
    [event] = api.events.values()
    assert len(event["message"].encode()) <= 1024
    assert event["message"].endswith("é...")


async def test_failures_are_counted_and_do_not_end_the_recorder() -> None:
    api = Api()
    async with recording(api, Clock()) as recorder:
        for error in (Forbidden(403, "Forbidden", "namespace is terminating"), RuntimeError("odd")):
            api.broken = error
            recorder.emit(statement(), "Normal", "Lost", PublicText(str(error)))
            await recorder._queue.join()
        api.broken = None
        recorder.emit(statement(), "Normal", "Kept", PublicText("m"))
    assert recorder.dropped == 2
    assert [event["reason"] for event in api.events.values()] == ["Kept"]


async def test_a_full_queue_drops_and_never_blocks() -> None:
    api = Api()
    api.blocked.clear()
    async with recording(api, Clock()) as recorder:
        for number in range(1500):
            recorder.emit(statement(f"u{number}"), "Normal", "Started", PublicText("m"))
        assert recorder.dropped == 500
        api.blocked.set()
    assert len(api.events) == 1000
