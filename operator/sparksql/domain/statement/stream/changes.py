"""A query that runs while its spec changes: it is stopped only once its driver has found that the change fits. Pure.

Invariants (property tests): a query is never stopped for a change that its driver would refuse, if that driver can
tell; a driver is asked once about one change, and about what may heal by itself, as a table that is missing, once a
minute.
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
from sparksql.domain.statement.outcome import end_of, view_update
from sparksql.domain.statement.snapshot import Driver, Inputs, Settings, Snapshot
from sparksql.domain.statement.stream.facts import Change, StreamFacts, stream_facts
from sparksql.domain.statement.stream.status import next_start
from sparksql.domain.statement.submission import streaming_at_hand_over, submit_request
from sparksql.domain.violation import Violation
from sparksql.wire.control import OperationState, ResultOptions

LOOK_SECONDS = 120  # limit of one look: a source's files may have to be listed
AGAIN_SECONDS = 60.0  # after which a driver is asked again about what may heal by itself
ANSWER_SECONDS = 0.5  # wake-up of a statement whose driver looks


@dataclass(frozen=True)
class RunsOn:
    """Says why a query is not stopped for a change of its spec.

    `refused` tells that it will not be before somebody acts; else it is a matter of time.
    """

    reason: Reason
    message: str
    refused: bool = False
    error: StatementError | None = None


UNCHANGED = RunsOn(Reason.RUNNING, "")


def takes_in_change(s: Snapshot, facts: StreamFacts) -> bool:
    """Tells whether a query that was handed over must stop for a change of its spec."""
    return facts.change is not None and runs_on(s, facts) is None


def runs_on(s: Snapshot, facts: StreamFacts) -> RunsOn | None:
    """Returns why a query that was handed over runs on as it is, although its spec has changed.

    None if the spec has not changed, or if the query may be stopped for it.
    """
    if facts.change is None:
        return None
    if facts.change is Change.RESTORE and not isinstance(facts.restore_source, str):
        return UNCHANGED  # `savepoint_warning` tells what it waits for
    if facts.start_blocker is not None:
        return _refusal(s, facts, facts.start_blocker)
    driver = _driver(s)
    if driver is not None and not driver.compares_states:  # it must be tried
        return None
    return _by_answer(s, facts) if _question(s, facts) is not None else _until_answer(s)


def next_question(s: Snapshot, facts: StreamFacts) -> Ask | None:
    """Returns what the driver is to be asked now, if anything."""
    question = _question(s, facts)
    if question is None or facts.start_blocker is not None:
        return None
    answer = s.answer
    if answer is None or not answer.state.is_terminal:
        return Ask(question)
    match answer.state:
        case OperationState.FINISHED:
            return None
        case OperationState.ERROR if end_of(answer).reason in (Reason.STATE_INCOMPATIBLE, Reason.NOT_IMPLEMENTED):
            return None
        case OperationState.ERROR | OperationState.TIMED_OUT:
            since = answer.completion_time or s.now
            return Ask(question) if (s.now - since).total_seconds() >= AGAIN_SECONDS else None
        case _:  # it was ended before it could look
            return Ask(question)


def question(s: Snapshot) -> Question | None:
    """Returns what the driver is asked: whether the attempt that comes next could begin.

    None while that cannot be said.
    """
    return _question(s, stream_facts(s))


def _question(s: Snapshot, facts: StreamFacts) -> Question | None:
    driver = _driver(s)
    if facts.change is None or driver is None or not driver.compares_states:
        return None
    return question_to(s, facts, driver)


def question_to(s: Snapshot, facts: StreamFacts, driver: Driver) -> Question | None:
    """Returns the request that has `driver` validate the next attempt, whatever has changed.

    None while settings, inputs or the savepoint are missing.
    """
    if not isinstance(s.settings, Settings) or not isinstance(s.inputs, Inputs):
        return None
    if facts.change is Change.RESTORE and not isinstance(facts.restore_source, str):
        return None
    next_status = s.statement.status.replace(**next_start(s.statement, facts))
    following = replace(s, statement=s.statement.replace(status=next_status))
    streaming = streaming_at_hand_over(following, s.settings, source=None)  # `next_start` has fixed what it begins with
    attempt = submit_request(following, driver.boot_id, s.settings, s.inputs, streaming)
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
    """Returns the driver that has the query, while it takes statements."""
    driver, session = s.session.driver if s.session is not None else None, s.statement.status.session
    return driver if driver is not None and session is not None and driver.boot_id == session.boot_id else None


def _by_answer(s: Snapshot, facts: StreamFacts) -> RunsOn | None:
    answer, streaming = s.answer, s.statement.spec.streaming
    assert streaming is not None
    if answer is None or not answer.state.is_terminal:
        return _until_answer(s)
    match answer.state:
        case OperationState.FINISHED:
            return None
        case OperationState.ERROR if end_of(answer).reason is Reason.NOT_IMPLEMENTED:  # it must be tried
            return None
        case OperationState.ERROR if end_of(answer).reason is Reason.STATE_INCOMPATIBLE and (
            streaming.on_incompatible is OnIncompatible.START_FRESH
        ):
            return None
        case OperationState.ERROR:
            why = Violation(end_of(answer).reason, end_of(answer).message)
            return _refusal(s, facts, why, view_update(answer).get("error"))
        case OperationState.TIMED_OUT:
            message = f"the driver could not validate within {LOOK_SECONDS} s whether the change is compatible; it will be validated again"
            return _refusal(s, facts, Violation(Reason.EXECUTION_TIMEOUT, message))
        case _:
            return _until_answer(s)


def _refusal(s: Snapshot, facts: StreamFacts, why: Violation, error: StatementError | None = None) -> RunsOn:
    status = s.statement.status
    has_other_text = facts.change in (Change.TEXT, Change.START_FRESH)
    text = f" with the previous query (sqlHash {status.sql_hash[:12]})" if has_other_text and status.sql_hash else ""
    message = f"the change is not applied; the query continues{text or ' as before'}: {why.message}"
    return RunsOn(why.reason, message, refused=True, error=error)


def _until_answer(s: Snapshot) -> RunsOn:
    """Returns what holds until the driver has answered.

    That includes what the status says of this generation since before the operator started again.
    """
    status = s.statement.status
    stalled = find_condition(status.conditions, ConditionType.STALLED)
    is_current = status.phase is Phase.RUNNING and status.observed_generation == s.statement.metadata.generation
    if is_current and stalled is not None and stalled.status is ConditionStatus.TRUE:
        return RunsOn(Reason(stalled.reason), stalled.message, refused=True, error=status.error)
    if _driver(s) is None:
        return RunsOn(Reason.UPGRADING, "the spec changed; the driver that has the query must serve first")
    return RunsOn(Reason.UPGRADING, "the spec changed; the driver validates the change before the query is stopped")
