"""A query that runs and whose spec has changed: its driver looks first whether the change fits, and it is stopped only then. Pure.

Invariants (property tests): a query is never stopped for a change that its driver would refuse, if that driver can tell; a
driver is asked once about one change, and about what may heal by itself, as a table that is missing, once a minute.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sparksql.api.conditions import ConditionStatus, ConditionType, find_condition
from sparksql.api.execution import StatementMode
from sparksql.api.reasons import Reason
from sparksql.api.statement import StatementError
from sparksql.api.statement import StatementPhase as Phase
from sparksql.api.streaming import OnIncompatible
from sparksql.domain.statement.decision import Ask, Question
from sparksql.domain.statement.outcome import end_of, seen
from sparksql.domain.statement.snapshot import Driver, Inputs, Settings, Snapshot
from sparksql.domain.statement.stream.savepoints import origin
from sparksql.domain.statement.stream.spec import Change, change, obstacle, renewal, unreadable
from sparksql.domain.statement.submission import begun, request
from sparksql.domain.violation import Violation
from sparksql.wire.control import OperationState, OperationView, ResultOptions

LOOK_SECONDS = 120  # limit of one look: a source's files may have to be listed
AGAIN_SECONDS = 60.0  # after which a driver is asked again about what may heal by itself
ANSWER_SECONDS = 0.5  # wake-up of a statement whose driver looks


@dataclass(frozen=True)
class RunsOn:
    """Why a query is not stopped for a change of its spec. `refused`: not before somebody acts, else it is a matter of time."""

    reason: Reason
    message: str
    refused: bool = False
    error: StatementError | None = None


UNCHANGED = RunsOn(Reason.RUNNING, "")


def runs_on(s: Snapshot) -> RunsOn | None:
    """Why a query that was handed over goes on as it is, although its spec has changed; None if it has not, or may be stopped."""
    changed = change(s)
    if changed is None:
        return None
    if changed is Change.RESTORE and not isinstance(origin(s), str):
        return UNCHANGED  # what it waits for is told aside
    hindrance = obstacle(s) or unreadable(s)
    if hindrance is not None:
        return _refused(s, hindrance)
    if not _can_tell(s):
        return None
    return _judged(s) if question(s) is not None else _undecided(s)


def asking(s: Snapshot) -> Ask | None:
    """What the driver is to be asked now, if anything."""
    asked = question(s)
    if asked is None or obstacle(s) is not None or unreadable(s) is not None:
        return None
    answer = s.answer
    if answer is None or not answer.state.is_terminal:
        return Ask(asked)
    match answer.state:
        case OperationState.FINISHED:
            return None
        case OperationState.ERROR if _error(answer) in (Reason.STATE_INCOMPATIBLE, Reason.NOT_IMPLEMENTED):
            return None
        case OperationState.ERROR | OperationState.TIMED_OUT:
            since = answer.completion_time or s.now
            return Ask(asked) if (s.now - since).total_seconds() >= AGAIN_SECONDS else None
        case _:  # it was ended before it could look
            return Ask(asked)


def question(s: Snapshot) -> Question | None:
    """What the driver is asked: whether the attempt that comes next could begin. None if that cannot be said (yet)."""
    changed, driver = change(s), _driver(s)
    if changed is None or driver is None or not driver.compares_states:
        return None
    if not isinstance(s.settings, Settings) or not isinstance(s.inputs, Inputs):
        return None
    begins_with = origin(s)
    if changed is Change.RESTORE and not isinstance(begins_with, str):
        return None
    renewed = renewal(s, begins_with if isinstance(begins_with, str) else None)
    following = replace(s, statement=s.statement.replace(status=s.statement.status.replace(**renewed)))
    attempt = request(following, driver.boot_id, s.settings, s.inputs, begun(following, s.settings))
    assert attempt.streaming is not None
    look = {
        "mode": StatementMode.VALIDATE,
        "streaming": None,
        "validate_against": attempt.streaming.model_copy(update={"unconfirmed": ()}),
        "execution_seconds": LOOK_SECONDS,
        "result": ResultOptions(preview_rows=0, retention_seconds=0),
    }
    return Question(s.statement.metadata.generation, attempt.model_copy(update=look))


def _driver(s: Snapshot) -> Driver | None:
    """The driver that has the query, while it takes statements."""
    driver, has = s.session.driver if s.session is not None else None, s.statement.status.session
    return driver if driver is not None and has is not None and driver.boot_id == has.boot_id else None


def _can_tell(s: Snapshot) -> bool:
    """Whether the driver, which may just be out of sight, can be asked."""
    driver = _driver(s)
    return driver is None or driver.compares_states


def _judged(s: Snapshot) -> RunsOn | None:
    answer, streaming = s.answer, s.statement.spec.streaming
    assert streaming is not None
    if answer is None or not answer.state.is_terminal:
        return _undecided(s)
    match answer.state:
        case OperationState.FINISHED:
            return None
        case OperationState.ERROR if _error(answer) is Reason.NOT_IMPLEMENTED:  # it must be tried
            return None
        case OperationState.ERROR if _error(answer) is Reason.STATE_INCOMPATIBLE and (
            streaming.on_incompatible is OnIncompatible.START_FRESH
        ):
            return None
        case OperationState.ERROR:
            return _refused(s, Violation(_error(answer), end_of(answer).message), seen(answer).get("error"))
        case OperationState.TIMED_OUT:
            message = f"the driver could not tell within {LOOK_SECONDS} s whether it fits; it is asked again"
            return _refused(s, Violation(Reason.EXECUTION_TIMEOUT, message))
        case _:
            return _undecided(s)


def _error(answer: OperationView) -> Reason:
    return end_of(answer).reason


def _refused(s: Snapshot, why: Violation, error: StatementError | None = None) -> RunsOn:
    status = s.statement.status
    text = (
        f" with the text before it (sqlHash {status.sql_hash[:12]})" if _has_other_text(s) and status.sql_hash else ""
    )
    message = f"the change is not taken in, the query runs on{text or ' as before'}: {why.message}"
    return RunsOn(why.reason, message, refused=True, error=error)


def _has_other_text(s: Snapshot) -> bool:
    return change(s) in (Change.TEXT, Change.ANEW)


def _undecided(s: Snapshot) -> RunsOn:
    """Until the driver has answered; what it has said of this generation of the spec before the operator started again holds."""
    status = s.statement.status
    known = find_condition(status.conditions, ConditionType.STALLED)
    is_known = status.phase is Phase.RUNNING and status.observed_generation == s.statement.metadata.generation
    if is_known and known is not None and known.status is ConditionStatus.TRUE:
        return RunsOn(Reason(known.reason), known.message, refused=True, error=status.error)
    if _driver(s) is None:
        return RunsOn(Reason.UPGRADING, "the spec changed; the driver that has the query must serve first")
    return RunsOn(Reason.UPGRADING, "the spec changed; the driver looks whether that fits before the query is stopped")
