"""Savepoints that the schedule of a streaming statement takes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from sparksql.api.savepoint import SavepointPhase, SavepointTrigger
from sparksql.domain.statement.decide import decide
from sparksql.domain.statement.decision import CreateSavepoint, Decision
from sparksql.domain.statement.snapshot import SavepointFacts, Unobserved
from sparksql.domain.statement.stream.schedule import savepoint_name
from sparksql.wire.control import OperationState
from tests.unit.domain.builders.conditions import PARKED, message, told
from tests.unit.domain.builders.objects import NOW, ago
from tests.unit.domain.builders.streams import (
    OTHER,
    created,
    fact,
    resting,
    running,
    shown,
    stream,
    stream_snapshot,
    streaming_of,
    telling,
)

EVERY_TEN_MINUTES: dict[str, Any] = {"streaming": {"savepoints": {"schedule": {"intervalSeconds": 600}}}}
WITH_STATE = {"queryId": "q", "committedBatchId": 2}
OVER = telling(OperationState.CANCELED)


def periodic(*, age: float, phase: str | None = "Completed", **fields: Any) -> SavepointFacts:
    return fact(f"one-{age:g}", phase, age=age, **{"trigger": SavepointTrigger.PERIODIC, **fields})


def scheduled(*savepoints: SavepointFacts, now: datetime = NOW, **spec: Any) -> Decision:
    """`stream()` was created 1000 s ago: due times are 400 s ago, 200 s from now, and so on."""
    schedule = {"schedule": {"intervalSeconds": 600, **spec}}
    of = stream(running(streaming=WITH_STATE), streaming={"savepoints": schedule})
    return decide(stream_snapshot(of, operation=telling(), savepoints=savepoints, now=now))


def test_savepoint_that_is_not_due_is_announced() -> None:
    decision = scheduled()
    assert (told(decision), decision.commands) == (("Running", "Running"), ())
    assert streaming_of(decision).next_savepoint_time == NOW + timedelta(seconds=200)


def test_stream_is_reconciled_again_when_its_next_savepoint_is_due() -> None:
    decision = scheduled(now=NOW + timedelta(seconds=195))
    assert decision.requeue_after == pytest.approx(5.05)


def test_savepoint_that_is_due_is_taken() -> None:
    due = NOW + timedelta(seconds=200)
    decision = scheduled(now=due + timedelta(seconds=3))
    assert created(decision) == CreateSavepoint(savepoint_name("one", due), SavepointTrigger.PERIODIC)
    assert decision.status.phase == "Running"


@pytest.mark.parametrize("phase", ["Completed", "Failed", "Abandoned"])
def test_savepoint_of_a_slot_is_taken_once(phase: str) -> None:
    due = NOW + timedelta(seconds=200)
    taken = replace(periodic(age=0, phase=phase), created=due)
    decision = scheduled(taken, now=due + timedelta(seconds=3))
    assert decision.commands == ()
    assert streaming_of(decision).next_savepoint_time == due + timedelta(seconds=600)


@pytest.mark.parametrize("trigger", SavepointTrigger)
@pytest.mark.parametrize("phase", [None, "Pending", "InProgress"])
def test_scheduled_savepoint_waits_while_another_is_taken(trigger: SavepointTrigger, phase: str | None) -> None:
    due = NOW + timedelta(seconds=200)
    at_work = fact("other", phase, age=500, trigger=trigger)
    decision = scheduled(at_work, now=due + timedelta(seconds=3))
    assert decision.commands == ()
    over = replace(at_work, phase=SavepointPhase.COMPLETED)
    created(scheduled(over, now=due + timedelta(seconds=3)))


@pytest.mark.parametrize("trigger", [SavepointTrigger.MANUAL, SavepointTrigger.UPGRADE])
def test_only_periodic_savepoints_count_for_the_schedule(trigger: SavepointTrigger) -> None:
    due = NOW + timedelta(seconds=200)
    other = replace(fact("other", age=0, trigger=trigger), created=due + timedelta(seconds=1))
    created(scheduled(other, now=due + timedelta(seconds=3)))


def test_schedule_without_a_batch_has_nothing_to_save() -> None:
    of = stream(running(), **EVERY_TEN_MINUTES)
    told_ = {"committed_batch_id": None}
    decision = decide(stream_snapshot(of, operation=telling(told=told_), now=NOW + timedelta(seconds=201)))
    assert (decision.commands, streaming_of(decision).next_savepoint_time) == ((), None)


def test_paused_schedule_takes_no_savepoint() -> None:
    decision = scheduled(now=NOW + timedelta(seconds=203), paused=True)
    assert (decision.commands, streaming_of(decision).next_savepoint_time) == ((), None)


@pytest.mark.parametrize("catch_up", [False, True])
def test_missed_savepoint_is_made_up_for_when_that_is_wished(catch_up: bool) -> None:
    decision = scheduled(periodic(age=990), catchUp=catch_up)
    assert bool(decision.commands) is catch_up


@pytest.mark.parametrize(
    ("status", "spec", "word"),
    [
        (running(streaming=WITH_STATE), {"desiredState": "Stopped"}, telling()),
        (running(streaming=WITH_STATE), {"desiredState": "Stopped"}, OVER),
        (running(streaming=WITH_STATE), {"sql": OTHER}, telling()),
        (running(streaming=WITH_STATE), {}, Unobserved.DRIVER_GONE),
        (resting(streaming=WITH_STATE), {"desiredState": "Stopped"}, None),
        (resting("Initialized", streaming=WITH_STATE), {}, None),
        (resting("Pending", streaming=WITH_STATE), {}, telling(OperationState.PENDING)),
    ],
    ids=["stops", "stopped now", "upgrades", "lost", "stopped", "waits", "pending"],
)
def test_no_periodic_savepoint_is_due_while_the_stream_does_not_run(
    status: dict[str, Any], spec: dict[str, Any], word: Any
) -> None:
    status = {**status, "streaming": {**status["streaming"], "nextSavepointTime": ago(3)}}
    decision = decide(
        stream_snapshot(stream(status, **EVERY_TEN_MINUTES, **spec), operation=word, now=NOW + timedelta(seconds=203))
    )
    assert not any(isinstance(command, CreateSavepoint) for command in decision.commands)
    assert streaming_of(decision).next_savepoint_time is None


BAD_SCHEDULES = [
    ({"cron": "61 * * * *"}, ".cron: '61 * * * *': ", "for instance '0 * * * *'"),
    ({"cron": "0 0 31 2 *"}, ".cron: '0 0 31 2 *': ", "write five fields"),
    ({"cron": "0 * * * *", "timezone": "Mars/Olympus"}, ".timezone: 'Mars/Olympus' is no time zone", "IANA"),
]


@pytest.mark.parametrize(("schedule", "names", "remedy"), BAD_SCHEDULES)
def test_schedule_that_cannot_be_followed_is_refused(schedule: dict[str, str], names: str, remedy: str) -> None:
    spec = {"savepoints": {"schedule": schedule}}
    decision = decide(stream_snapshot(stream(streaming=spec)))
    assert told(decision) == ("Error", "InvalidSpec")
    assert message(decision).startswith(f"spec.streaming.savepoints.schedule{names}")
    assert remedy in message(decision)
    with_state = decide(
        stream_snapshot(stream(running(streaming=WITH_STATE), sql=OTHER, streaming=spec), operation=OVER)
    )
    assert (told(with_state), shown(with_state)) == (("Stopped", "InvalidSpec"), PARKED)
