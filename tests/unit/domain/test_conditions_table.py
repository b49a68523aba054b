"""The contract's table of conditions, row by row: every phase of every kind, and each cause that makes a difference."""

from __future__ import annotations

from datetime import timedelta

import pytest

from sparksql.api.reasons import Reason
from sparksql.api.savepoint import SavepointPhase
from sparksql.api.session import SessionPhase
from sparksql.api.session_class import WarmPoolMember, WarmPoolStatus
from sparksql.api.statement import SqlStatement, StatementDesiredState, StatementPhase
from sparksql.domain import session_class as classes
from sparksql.domain.conditions import savepoint_standing, session_standing, stated, statement_standing
from sparksql.domain.public_text import compose
from sparksql.domain.session import status as sessions
from sparksql.domain.statement import status as statements
from sparksql.domain.warm_pool import PoolPlan
from tests.unit.domain.builders.classes import session_class
from tests.unit.domain.builders.conditions import (
    CANCELED,
    FAILED,
    PARKED,
    RESTS,
    STREAMS,
    SUCCEEDED,
    UNDER_WAY,
    conditions_of,
)
from tests.unit.domain.builders.objects import NOW
from tests.unit.domain.builders.sessions import session
from tests.unit.domain.builders.statements import statement

TYPES = ("Ready", "Reconciling", "Stalled", "Succeeded", "Finished")
T, F = "True", "False"
STREAM = {"sql": "INSERT INTO t SELECT * FROM STREAM s", "streaming": {}}


def of(phase: str, desired: str = "Running", *, parked: bool = False) -> tuple[str, ...]:
    standing, work = statement_standing(StatementPhase(phase), StatementDesiredState(desired), stalled=parked)
    return tuple(str(c.status) for c in stated(standing, "R", work=work))


@pytest.mark.parametrize("desired", ["Running", "Stopped", "Canceled"])
@pytest.mark.parametrize(
    ("phase", "row"),
    [
        *((phase, UNDER_WAY) for phase in ("Initialized", "Pending", "Running")),
        ("Finished", SUCCEEDED),
        *((phase, FAILED) for phase in ("Closed", "Error", "TimedOut")),
    ],
)
def test_conditions_of_a_statement_follow_its_phase_whatever_is_wished(
    phase: str, row: tuple[str, ...], desired: str
) -> None:
    assert of(phase, desired) == row


@pytest.mark.parametrize(
    ("phase", "desired", "parked", "row"),
    [
        ("Canceled", "Canceled", False, CANCELED),
        ("Canceled", "Stopped", False, CANCELED),  # of a batch statement that is a wish to cancel as well
        ("Canceled", "Running", False, FAILED),
        ("Stopped", "Stopped", False, RESTS),
        ("Stopped", "Running", False, UNDER_WAY),  # it goes on at once
        ("Stopped", "Canceled", False, UNDER_WAY),  # it ends at once
        ("Running", "Running", True, PARKED),  # it runs as before a change that is refused
        *(("Stopped", desired, True, PARKED) for desired in ("Running", "Stopped", "Canceled")),
    ],
)
def test_rest_and_cancellation_are_what_was_asked_for_only_by_wish(
    phase: str, desired: str, parked: bool, row: tuple[str, ...]
) -> None:
    assert of(phase, desired, parked=parked) == row


def test_every_phase_of_a_statement_has_a_row() -> None:
    for phase in StatementPhase:
        assert of(phase) in {UNDER_WAY, SUCCEEDED, FAILED}


@pytest.mark.parametrize(("age", "row"), [(1, STREAMS), (100_000, UNDER_WAY)])
def test_running_stream_is_ready_only_while_it_makes_progress(age: float, row: tuple[str, ...]) -> None:
    obj = statement({"phase": "Running", "run": 1, "attempt": 1}, **STREAM)
    began = NOW - timedelta(seconds=age)
    made = statements.with_phase(obj, NOW, StatementPhase.RUNNING, Reason.RUNNING, start_time=began)
    assert tuple(str(c.status) for c in made.conditions[:5]) == row
    assert made.conditions[0].reason == ("Running" if row[0] == T else "NoProgress")


@pytest.mark.parametrize(
    ("phase", "row"),
    [
        *((phase, (F, T, F)) for phase in ("Pending", "Starting", "Draining")),
        *((phase, (T, F, F)) for phase in ("Ready", "Hibernated", "Stopped", "Closed")),
        ("Failed", (F, F, T)),
    ],
)
def test_conditions_of_a_session_follow_its_phase(phase: str, row: tuple[str, ...]) -> None:
    made = sessions.with_phase(session(), NOW, SessionPhase(phase), Reason.READY)
    assert tuple(str(c.status) for c in made.conditions) == row
    assert tuple(c.type for c in made.conditions) == TYPES[:3]


@pytest.mark.parametrize("phase", ["Pending", "Starting", "Draining"])
def test_a_session_that_waits_for_a_person_is_stalled_and_still_under_way(phase: str) -> None:
    standing = session_standing(SessionPhase(phase), stalled=True)
    assert tuple(str(c.status) for c in stated(standing, "ClassNotFound")) == (F, T, T)


@pytest.mark.parametrize(
    ("phase", "row"),
    [
        *((phase, UNDER_WAY) for phase in ("Pending", "InProgress")),
        ("Completed", SUCCEEDED),
        *((phase, FAILED) for phase in ("Failed", "Abandoned")),
    ],
)
def test_conditions_of_a_savepoint_follow_its_phase(phase: str, row: tuple[str, ...]) -> None:
    standing, work = savepoint_standing(SavepointPhase(phase))
    assert tuple(str(c.status) for c in stated(standing, "R", work=work)) == row


def test_a_class_is_as_asked_and_says_what_its_pool_lacks() -> None:
    plain, situation = session_class(), classes.PoolSituation()
    decision = classes.decide(plain, NOW, situation)
    assert conditions_of(decision.status) == {
        "Ready": (T, "Ready"),
        "Reconciling": (F, "Ready"),
        "Stalled": (F, "Ready"),
    }
    assert (decision.events, decision.commands, decision.status.warm_pool) == ((), (), None)
    pooled = session_class(warmPool={"size": 2})
    decision = classes.decide(pooled, NOW, situation)
    assert conditions_of(decision.status)["WarmPool"] == (F, "InvalidSpec")
    assert conditions_of(decision.status)["Ready"][0] == T
    (event,) = decision.events
    assert (event.type, event.reason) == ("Warning", "InvalidSpec")
    assert "spec.warmPool.namespaces is empty" in event.message.text
    seen = pooled.replace(status=decision.status)
    assert classes.decide(seen, NOW, situation).events == ()  # said once
    later = classes.decide(plain.replace(status=decision.status), NOW, situation)
    assert "WarmPool" not in conditions_of(later.status)
    placed = session_class(warmPool={"size": 2, "namespaces": ["a", "b"]})
    intent = WarmPoolMember(namespace="a", uid="m", pod_name="warm-m-1", key="k")
    planned = PoolPlan(start=("a",), ready=1, starting=2)
    full = classes.decide(placed, NOW, classes.PoolSituation(planned, intents=(intent,)))
    assert "WarmPool" not in conditions_of(full.status)
    assert full.status.warm_pool == WarmPoolStatus(ready=1, starting=2, members=(intent,))
    assert full.commands == (classes.StartDriver(intent),)
    again = classes.decide(placed, NOW, classes.PoolSituation(unfinished=(intent,)))
    assert again.commands == (classes.ClearUp(intent),)
    assert again.status.warm_pool == WarmPoolStatus(members=(intent,)), "its record stays until nothing of it is left"
    refused = classes.decide(placed, NOW, classes.PoolSituation(problems={"b": "not allowed"}))
    assert conditions_of(refused.status)["WarmPool"] == (F, "InvalidSpec")
    assert refused.events[0].message.text == "no driver can be started in namespaces b; see status"


def test_pool_without_room_for_all_its_drivers_names_the_limit() -> None:
    placed = session_class(warmPool={"size": 2, "namespaces": ["a", "b"]})
    situation = classes.PoolSituation(PoolPlan(ready=3, is_limited=True), limit=compose("spec.limits.sessions (5)"))
    decision = classes.decide(placed, NOW, situation)
    assert conditions_of(decision.status)["WarmPool"] == (F, "LimitExceeded")
    (event,) = decision.events
    assert event.message.text.startswith("spec.limits.sessions (5) leaves no room for all 4 drivers of the pool")
    assert classes.decide(placed.replace(status=decision.status), NOW, situation).events == ()


def canceled(desired: str) -> SqlStatement:
    obj = statement({"phase": "Running", "run": 1, "attempt": 1}, desiredState=desired)
    return obj.replace(
        status=statements.with_phase(obj, NOW, StatementPhase.CANCELED, Reason.CANCELED_BY_USER, "canceled")
    )


def test_a_wish_to_cancel_that_is_taken_back_is_not_fulfilled() -> None:
    obj = canceled("Canceled")
    back = obj.replace(spec=obj.spec.replace(desired_state=StatementDesiredState.RUNNING))
    again = statements.restated(back, NOW)
    assert tuple(str(c.status) for c in again.conditions) == FAILED
    assert (again.phase, again.completion_time) == (StatementPhase.CANCELED, obj.status.completion_time)
    assert tuple(str(c.status) for c in statements.restated(obj, NOW).conditions) == CANCELED


def test_conditions_of_what_rests_follow_the_generation() -> None:
    obj = canceled("Canceled")
    later = obj.replace(metadata=obj.metadata.replace(generation=9))
    assert {c.observed_generation for c in statements.restated(later, NOW).conditions} == {9}
    closed = session(sessions.with_phase(session(), NOW, SessionPhase.CLOSED, Reason.IDLE_TIMEOUT).to_dict())
    moved = closed.replace(metadata=closed.metadata.replace(generation=9))
    assert {c.observed_generation for c in sessions.restated(moved, NOW).conditions} == {9}
