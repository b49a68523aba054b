"""A statement that is Initialized: accepted, not yet handed to a driver. What it waits for, and what ends it there. Pure."""

from __future__ import annotations

from typing import assert_never

from sparksql.api.conditions import ConditionType, find_condition
from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase
from sparksql.api.statement import StatementDesiredState as DesiredState
from sparksql.api.statement import StatementPhase as Phase
from sparksql.domain import dependencies
from sparksql.domain.statement.comparison import state_of
from sparksql.domain.statement.decision import CreateSession, Decision, NeedsInputs
from sparksql.domain.statement.handover import hand_over
from sparksql.domain.statement.snapshot import Inputs, MissingReference, Settings, Snapshot
from sparksql.domain.statement.steps import end, wait
from sparksql.domain.statement.stream.run import come_to_rest, refuse, renew
from sparksql.domain.statement.stream.savepoints import Awaited, origin
from sparksql.domain.statement.stream.spec import change, is_stream, obstacle
from sparksql.domain.violation import Violation

SAVEPOINT_SECONDS = 5.0  # wake-up of one that waits for a savepoint, of which a change tells first
REFERENCE_GRACE_SECONDS = 60.0  # a ConfigMap or Secret applied beside the statement may come a little later


def initialized(s: Snapshot) -> Decision | NeedsInputs:
    """The decision for a statement that no driver has yet."""
    spec = s.statement.spec
    streams = is_stream(spec)
    if streams and spec.desired_state is DesiredState.STOPPED:
        return come_to_rest(s)
    if spec.desired_state is not DesiredState.RUNNING:
        return end(s, Phase.CANCELED, Reason.CANCELED_BY_USER, "canceled before it was handed to a driver")
    if streams and s.inputs is None and _could_go(s):  # another text in the ConfigMap is a change, which comes first
        return NeedsInputs()
    violation = obstacle(s) if streams else s.settings
    if isinstance(violation, Violation):
        return refuse(s, violation)
    if s.session is not None and s.session.is_closing and spec.session is None:
        return end(s, Phase.CLOSED, Reason.SESSION_CLOSED, f"session {s.session.name} is closed")
    if change(s) is not None:
        return renew(s)
    begins_with = origin(s) if streams else None
    if isinstance(begins_with, Violation):
        return refuse(s, begins_with)
    if isinstance(begins_with, Awaited):
        return wait(s, Reason.WAITING_FOR_SAVEPOINT, begins_with.message, wake=SAVEPOINT_SECONDS)
    if s.queue_full:
        message = "the session's queue is full (maxQueuedStatements); raise it, or apply fewer statements at a time"
        return end(s, Phase.ERROR, Reason.LIMIT_EXCEEDED, message)
    match s.dependencies:
        case dependencies.Cycle(path):
            return end(s, Phase.ERROR, Reason.DEPENDENCY_CYCLE, f"spec.dependsOn is a cycle: {' -> '.join(path)}")
        case dependencies.Failed(name, phase):
            return end(s, Phase.ERROR, Reason.DEPENDENCY_FAILED, f"{name} ended in {phase}")
        case dependencies.Unmet(met, waiting, missing):
            names = ", ".join((*waiting, *(f"{m} (does not exist)" for m in missing)))
            return wait(s, Reason.WAITING_FOR_DEPENDENCIES, f"waits for {names}", met_dependencies=met)
        case dependencies.Met(met):
            return _waiting_for_turn(s, met)
        case other:
            assert_never(other)


def _could_go(s: Snapshot) -> bool:
    """Whether nothing outside of it stands against a hand-over of a stream, which waits for no turn."""
    return isinstance(s.dependencies, dependencies.Met) and s.session is not None and s.session.driver is not None


def _waiting_for_turn(s: Snapshot, met: tuple[str, ...]) -> Decision | NeedsInputs:
    due = s.statement.status.next_attempt_time
    if due is not None and due > s.now:
        reason, message = _backing_off(s)
        return wait(s, reason, message, wake=(due - s.now).total_seconds(), met_dependencies=met)
    if s.session is None or s.session.driver is None:
        return _without_driver(s, met)
    if not isinstance(s.settings, Settings):
        return wait(s, Reason.SESSION_NOT_READY, "waits for the session's class", met_dependencies=met)
    if not s.turn.granted:
        message = f"{s.turn.ahead} statements ahead in session {s.session.name}"
        return wait(s, Reason.QUEUED_BEHIND_STATEMENTS, message, met_dependencies=met)
    match state_of(s):
        case Violation() as violation:
            return refuse(s, violation)
        case MissingReference(message):
            return _missing_reference(s, message, met)
        case _:
            pass
    match s.inputs:
        case Violation() as violation:
            return refuse(s, violation)
        case MissingReference(message):
            return _missing_reference(s, message, met)
        case Inputs() as inputs:
            return hand_over(s, s.session.driver, s.settings, inputs, met)
        case None:
            return NeedsInputs()
        case other:
            assert_never(other)


def _backing_off(s: Snapshot) -> tuple[Reason, str]:
    """A stream goes on saying why it was restarted; `error` is of the attempt that failed, and that is over."""
    ready = find_condition(s.statement.status.conditions, ConditionType.READY)
    if is_stream(s.statement.spec) and ready is not None and ready.reason == Reason.RESTARTING:
        return Reason.RESTARTING, ready.message
    return Reason.RETRYING, "waits before the next attempt"


def _without_driver(s: Snapshot, met: tuple[str, ...]) -> Decision:
    spec, session = s.statement.spec, s.session
    if spec.session is not None and (session is None or session.deleting):
        commands = (CreateSession(),) if session is None else ()
        return wait(s, Reason.SESSION_NOT_READY, "waits for its own session", *commands, met_dependencies=met)
    if session is None:
        name = spec.session_ref.name if spec.session_ref else ""
        return wait(s, Reason.SESSION_NOT_READY, f"session {name} does not exist", met_dependencies=met)
    if spec.session is not None and session.problem is not None:
        return _dedicated_failed(s, *session.problem)
    if spec.session is not None and session.phase is SessionPhase.CLOSED:
        return end(s, Phase.CLOSED, Reason.SESSION_CLOSED, "its own session was closed")
    if session.queue is not None:
        return wait(s, Reason.WAITING_IN_QUEUE, f"session {session.name}: {session.queue}", met_dependencies=met)
    message = f"session {session.name} is {session.phase or 'new'}"
    if session.incompatibility is not None:
        message = f"session {session.name}: {session.incompatibility}"
    return wait(s, Reason.SESSION_NOT_READY, message, met_dependencies=met)


def _dedicated_failed(s: Snapshot, reason: Reason, message: str) -> Decision:
    shown: Reason
    match reason:
        case Reason.NOT_ALLOWED | Reason.LIMIT_EXCEEDED:
            shown = reason
        case Reason.CLASS_NOT_FOUND | Reason.INIT_FAILED:
            shown = Reason.INVALID_SPEC
        case _:
            shown = Reason.SESSION_LOST
    return end(s, Phase.ERROR, shown, f"its own session cannot start: {reason}: {message}")


def _missing_reference(s: Snapshot, message: str, met: tuple[str, ...]) -> Decision:
    since = s.statement.status.submitted_time or s.now
    if (s.now - since).total_seconds() > REFERENCE_GRACE_SECONDS:
        return refuse(s, Violation(Reason.INVALID_SPEC, message))
    return wait(s, Reason.WAITING_FOR_SOURCE, message, wake=2.0, met_dependencies=met)
