"""The steps that decisions about a streaming statement are made of: hold, suspend, refuse, resume, restart. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import assert_never

from sparksql.api.reasons import Reason
from sparksql.api.statement import StatementDesiredState as DesiredState
from sparksql.api.statement import StatementError
from sparksql.api.statement import StatementPhase as Phase
from sparksql.domain.backoff import exponential
from sparksql.domain.conditions import ready_reason
from sparksql.domain.event import Event
from sparksql.domain.public_text import Message, OwnLocation, compose
from sparksql.domain.statement.decision import Command, Decision
from sparksql.domain.statement.outcome import End, view_update
from sparksql.domain.statement.snapshot import Snapshot
from sparksql.domain.statement.status import StatusUpdate, with_phase
from sparksql.domain.statement.steps import (
    MAX_RETRY_BACKOFF_SECONDS,
    UNREACHABLE_SECONDS,
    WAITING_SECONDS,
    end,
    new_attempt,
)
from sparksql.domain.statement.stream.facts import Change, StreamFacts
from sparksql.domain.statement.stream.savepoints import Failed, SavepointStep
from sparksql.domain.statement.stream.session import own_session_commands, suspended_session_commands
from sparksql.domain.statement.stream.spec import has_checkpoint, streaming_of
from sparksql.domain.statement.stream.status import next_start, start_rewritten, suspended
from sparksql.domain.violation import Violation
from sparksql.wire.control import OperationView
from sparksql.wire.failure.classify import classify
from sparksql.wire.failure.kind import FailureKind, Verdict, environment
from sparksql.wire.failure.sql_states import KAFKA_DATA_LOSS, main_condition

CONTINUE = "set desiredState to Stopped and then to Running, or change the spec, to go on from the checkpoint"
# For drivers of earlier versions, which report lost records as an SqlError. Others report SourceLost, with its remedy.
LOSS = (
    "to continue without the lost records, set option failOnDataLoss of the Kafka source to 'false', in the text or by "
    "ALTER TABLE"
)
# Restarts after an error of the statement: a table may be altered right now, a wrong word does not heal.
WRONG_TRIES = 2
# And after a failure of an unknown class, where `restart.limit` grants more for outages.
UNKNOWN_TRIES = 10


def hold(s: Snapshot, reason: Reason, message: str, *commands: Command) -> Decision:
    """Waits in the present phase; an earlier refusal by a driver is no reason to be suspended any more."""
    phase = s.statement.status.phase or Phase.INITIALIZED
    streaming = suspended(streaming_of(s.statement))
    status = with_phase(s.statement, s.now, phase, reason, message, error=None, streaming=streaming)
    return Decision(status, (*own_session_commands(s), *commands), requeue_after=UNREACHABLE_SECONDS)


def suspend(
    s: Snapshot, facts: StreamFacts, why: Violation, *, stalled: bool, error: StatementError | None = None
) -> Decision:
    """Enters Stopped, or stays there: `stalled` until a person acts, else because the user asks for it.

    A stream that the user does not want suspended any more resumes in the next pass.
    """
    before = s.statement.status
    is_news = before.phase is not Phase.STOPPED or ready_reason(before.conditions) != why.reason
    status = with_phase(
        s.statement,
        s.now,
        Phase.STOPPED,
        why.reason,
        why.message,
        stalled=stalled,
        start_time=None,
        progress=None,
        error=error or (before.error if stalled and facts.driver_rejection == why else None),
        next_attempt_time=None,
        streaming=suspended(streaming_of(s.statement), restarts=0),
    )
    events = (Event.of("Warning" if stalled else "Normal", why.reason, why.message),) if is_news else ()
    resumes = not stalled and s.statement.spec.desired_state is DesiredState.RUNNING
    commands = () if resumes else suspended_session_commands(s)
    return Decision(status, commands, events=events, requeue_after=0.0 if resumes else WAITING_SECONDS)


def suspend_for_user(s: Snapshot, facts: StreamFacts, savepoint: SavepointStep) -> Decision:
    """Enters Stopped because the user asks for it, and says why there is no savepoint if that has failed."""
    without = compose("")
    if isinstance(savepoint, Failed):
        without = compose(", without a savepoint: {cause}", cause=savepoint.message)
    message = compose("stopped by the user{without}; desiredState Running resumes it", without=without)
    return suspend(s, facts, Violation(Reason.STOPPED_BY_USER, message), stalled=False)


def refuse(s: Snapshot, facts: StreamFacts, violation: Violation) -> Decision:
    """Ends a statement that may not start, unless there is a state to lose, which then waits for a person."""
    if has_checkpoint(s.statement) or streaming_of(s.statement).upgrades:
        return suspend(s, facts, violation, stalled=True)
    return end(s, Phase.ERROR, violation.reason, violation.message)


def give_up(s: Snapshot, facts: StreamFacts, why: Violation) -> Decision:
    """Ends a statement that does not come to a driver that takes it, unless there is a state to lose, which waits for a person.

    The error is kept: without it the stream would resume by itself.
    """
    if not has_checkpoint(s.statement) and not streaming_of(s.statement).upgrades:
        return end(s, Phase.ERROR, why.reason, why.message)
    parked = Violation(why.reason, compose("{cause}; {remedy}", cause=why.message, remedy=compose(CONTINUE)))
    return suspend(s, facts, parked, stalled=True, error=StatementError(message=why.message))


def resume(s: Snapshot, facts: StreamFacts, reason: Reason, message: str, *, restarts: int = 0) -> Decision:
    """Begins the next attempt at once, with what has changed; `restarts` goes on counting if nothing has."""
    failed = s.statement.status.failed_attempts
    update = next_start(s.statement, facts, restarts=restarts)
    return new_attempt(s, reason, message, delay=0.0, failed=failed, type_="Normal", **update)


def rewrite(s: Snapshot, misfit: End) -> Decision:
    """Begins the next attempt at once, in another checkpoint, for which the driver makes the state of this one anew."""
    checkpoint = OwnLocation(streaming_of(s.statement).checkpoint_location or "")
    kept = compose("the previous checkpoint remains in {location}", location=checkpoint)
    failed, update = s.statement.status.failed_attempts, start_rewritten(s.statement)
    message = compose("{cause}; {kept}", cause=misfit.message, kept=kept)
    return new_attempt(s, Reason.UPGRADING, message, delay=0.0, failed=failed, type_="Normal", **update)


def restart(s: Snapshot, facts: StreamFacts, failure: End, what: str, view: OperationView | None = None) -> Decision:
    """Begins the next attempt from the checkpoint after its back-off.

    `restart.limit` and the class of the failure grant a number of restarts. A stream that has used them up is parked if it
    has a checkpoint: an end would give up its state. Without a view its driver is lost, which is the environment's failure.
    """
    spec, status = s.statement.spec.streaming, s.statement.status
    assert spec is not None
    known: StatusUpdate = {} if view is None else view_update(view)
    verdict = environment("its driver is lost") if view is None else classify(view.error)
    limit = _granted(verdict.kind, spec.restart.limit)
    count = restarts_in_a_row(s, (view.completion_time if view is not None else None) or s.now) + 1
    if count > limit:
        return _out_of_restarts(s, facts, failure, verdict, limit, known)
    delay = exponential(count, spec.restart.backoff_seconds, MAX_RETRY_BACKOFF_SECONDS)
    due = s.now + timedelta(seconds=delay) if delay else None
    streaming = suspended(streaming_of(s.statement), restarts=count, next_restart_time=due)
    message = compose(
        "restart {number} of {limit} in {delay:g} s: {what}", number=count, limit=limit, delay=delay, what=what
    )
    return new_attempt(s, Reason.RESTARTING, message, delay=delay, failed=status.failed_attempts, streaming=streaming)


def _granted(kind: FailureKind, limit: int) -> int:
    """Returns how many restarts in a row a failure of a class has, of the `limit` that the user grants."""
    match kind:
        case FailureKind.STATEMENT:
            return min(limit, WRONG_TRIES)
        case FailureKind.ENVIRONMENT:
            return limit
        case FailureKind.UNKNOWN:
            return min(limit, UNKNOWN_TRIES)
        case other:
            assert_never(other)


def _out_of_restarts(
    s: Snapshot, facts: StreamFacts, failure: End, verdict: Verdict, limit: int, known: StatusUpdate
) -> Decision:
    """Parks a stream whose restarts are used up, or ends one that has no checkpoint.

    The error is kept also if no driver reported one: without it the stream would resume by itself.
    """
    is_wrong = verdict.kind is FailureKind.STATEMENT
    message = failure.message
    if not is_wrong:
        message = compose("failed after {limit} restarts in a row: {cause}", limit=limit, cause=failure.message)
    if not has_checkpoint(s.statement):
        return end(s, failure.phase, failure.reason, message, **known)
    error = known.get("error") or StatementError(message=failure.message)
    is_lost = main_condition(error.condition) == KAFKA_DATA_LOSS
    remedy = (
        compose("{loss}; then {go_on}", loss=compose(LOSS), go_on=compose(CONTINUE)) if is_lost else compose(CONTINUE)
    )
    return suspend(
        s,
        facts,
        Violation(failure.reason, compose("{cause}; {remedy}", cause=message, remedy=remedy)),
        stalled=True,
        error=error,
    )


def restarts_in_a_row(s: Snapshot, until: datetime) -> int:
    """Returns how often the query was restarted in a row.

    An attempt that ran long enough makes earlier restarts forgotten.
    """
    streaming, started = s.statement.spec.streaming, s.statement.status.start_time
    assert streaming is not None
    if started is not None and (until - started).total_seconds() >= streaming.restart.reset_after_seconds:
        return 0
    return streaming_of(s.statement).restarts


def change_message(change: Change | None) -> Message:
    """Returns what is told of a change that is taken in, under the reason Upgrading."""
    match change:
        case Change.RESTORE:
            return compose("restoreNonce changed, it restarts from the savepoint of startFrom")
        case Change.START_FRESH:
            return compose("the query changed, it starts without state")
        case Change.TEXT:
            return compose("the query changed, it continues from its checkpoint if the state is compatible")
        case Change.SETTINGS | None:
            return compose("the spec changed, it continues from its checkpoint")
