"""A driver pod that a queue system holds back is waited for as long as it takes; only then do the deadlines of its start begin."""

from __future__ import annotations

from typing import Any

import pytest

from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase as Phase
from sparksql.api.session import SqlSession
from sparksql.domain.session.decide import decide
from sparksql.domain.session.snapshot import Command, Deadlines, Decision
from sparksql.domain.statement.decide import decide as decide_statement
from sparksql.domain.statement.snapshot import SessionFacts
from tests.unit.domain.builders.classes import session_class
from tests.unit.domain.builders.conditions import conditions_of, reason_of
from tests.unit.domain.builders.objects import NOW, seconds, with_spec, with_status
from tests.unit.domain.builders.sessions import gateway, pod, resolved, session_snapshot, starting
from tests.unit.domain.builders.statements import statement, statement_snapshot

LIMITS = Deadlines()
GATE = {"gates": ("kueue.x-k8s.io/admission",), "has_node": False}
NO_ROOM = {"unschedulable": "queue root.team-a is full", "has_node": False}
QUEUED_CLASSES: list[dict[str, Any]] = [
    {"queueLabel": {"kueue.x-k8s.io/queue-name": "team-a"}},
    {"queueLabel": {"queue": "root.team-a"}, "schedulerName": "yunikorn"},
]


def later(obj: SqlSession, count: float, *, scheduling: dict[str, Any] | None = None, **facts: Any) -> Decision:
    resolution = resolved(obj, session_class(scheduling=scheduling or {}))
    pod_facts = pod(obj, **facts)
    return decide(session_snapshot(obj, now=NOW + seconds(count), pod=pod_facts, resolution=resolution))


def waits_in_queue(decision: Decision) -> bool:
    return (decision.status.phase, reason_of(decision.status)) == (Phase.STARTING, Reason.WAITING_IN_QUEUE)


@pytest.mark.parametrize("hours", [0.01, 1, 1000])
def test_a_gate_is_waited_for_without_a_deadline(hours: float) -> None:
    decision = later(starting(), hours * 3600, **GATE)
    assert waits_in_queue(decision)
    assert "kueue.x-k8s.io/admission" in (decision.status.message or "")
    assert conditions_of(decision.status)["Stalled"] == ("False", Reason.WAITING_IN_QUEUE)
    assert (decision.status.restarts, decision.commands) == (0, ())
    assert decision.status.driver is not None and decision.status.driver.incarnation == 1


@pytest.mark.parametrize("scheduling", QUEUED_CLASSES)
def test_no_room_in_a_queue_that_the_class_names_is_no_failure(scheduling: dict[str, Any]) -> None:
    decision = later(starting(), 9000, scheduling=scheduling, **NO_ROOM)
    assert waits_in_queue(decision)
    assert "queue root.team-a is full" in (decision.status.message or "")


def test_a_scheduler_of_the_pods_own_has_a_queue_too() -> None:
    """As a class's pod template may name it."""
    assert waits_in_queue(later(starting(), 9000, scheduler="volcano", **NO_ROOM))
    assert waits_in_queue(later(starting(), 9000, scheduler="volcano", has_node=False))


@pytest.mark.parametrize("scheduler", ["", "default-scheduler"])
def test_without_a_queue_no_room_gives_the_start_up_at_its_deadline(scheduler: str) -> None:
    decision = later(starting(), LIMITS.scheduling_seconds + 1, scheduler=scheduler, **NO_ROOM)
    assert (decision.status.phase, reason_of(decision.status)) == (Phase.PENDING, Reason.UNSCHEDULABLE)


def let_go() -> SqlSession:
    """A session whose pod was held for an hour and let go after that."""
    obj = starting()
    obj = with_status(obj, later(obj, 3600, **GATE))
    return with_status(obj, later(obj, 3605))


@pytest.mark.parametrize(
    ("facts", "limit", "reason"),
    [
        ({"unschedulable": "no node"}, LIMITS.scheduling_seconds, Reason.UNSCHEDULABLE),
        ({"image_problem": "ErrImagePull"}, LIMITS.image_pull_seconds, Reason.IMAGE_PULL_FAILED),
        ({}, LIMITS.driver_start_seconds + LIMITS.image_pull_seconds, Reason.DRIVER_NOT_READY),
    ],
)
def test_deadlines_begin_when_the_queue_lets_the_pod_go(facts: dict[str, Any], limit: float, reason: Reason) -> None:
    obj = let_go()
    assert obj.status.driver is not None and obj.status.driver.admitted_time == NOW + seconds(3605)
    assert later(obj, 3605 + limit, **facts).status.phase is Phase.STARTING
    assert reason_of(later(obj, 3605 + limit + 1, **facts).status) == reason


def test_queue_admission_of_a_lost_driver_is_not_carried_to_the_next_driver() -> None:
    obj = let_go()
    gone = with_status(obj, decide(session_snapshot(obj, now=NOW + seconds(3700))))
    again = decide(session_snapshot(gone, now=NOW + seconds(3800)))
    assert again.status.driver is not None and again.status.driver.admitted_time is None


def test_a_session_that_waits_in_a_queue_can_be_stopped() -> None:
    held = starting()
    held = with_status(held, later(held, 3600, **GATE))
    stopped = later(with_spec(held, desiredState="Stopped"), 3601, **GATE)
    assert stopped.status.phase is Phase.DRAINING
    draining = with_status(with_spec(held, desiredState="Stopped"), stopped)
    assert later(draining, 3602, **GATE).commands == (Command.DELETE_DRIVER,)


def test_a_driver_that_was_let_go_becomes_ready() -> None:
    obj = let_go()
    ready = decide(session_snapshot(obj, now=NOW + seconds(3700), pod=pod(obj, started=NOW), gateway=gateway()))
    assert ready.status.phase is Phase.READY


def test_statements_say_that_their_session_is_queued() -> None:
    facts = SessionFacts("analytics", Phase.STARTING, queue="a queue system holds pod p back")
    status = decide_statement(statement_snapshot(statement(), session=facts)).status
    assert reason_of(status) == Reason.WAITING_IN_QUEUE
    assert {c.message for c in status.conditions} >= {"session analytics: a queue system holds pod p back"}
