"""The life of a streaming statement from its hand-over on: it runs, fails, is started again, stops, goes on. Pure.

Invariants (property tests): a new attempt only when the one before is confirmed over; restarts in a row are bounded and
wait longer each time; a text goes on with the state of another one only if a driver finds that it fits; a checkpoint is
given up only for a savepoint that is complete, or when it is asked for to begin without state; Stopped is no end.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, assert_never

from sparksql.api.conditions import ConditionType, find_condition
from sparksql.api.reasons import Reason
from sparksql.api.statement import StatementDesiredState as DesiredState
from sparksql.api.statement import StatementError
from sparksql.api.statement import StatementPhase as Phase
from sparksql.api.streaming import OnIncompatible
from sparksql.domain.backoff import exponential
from sparksql.domain.event import Event
from sparksql.domain.statement.deadlines import is_closing, next_limit, wish
from sparksql.domain.statement.decision import Cancel, Command, CreateSavepoint, Decision, NeedsInputs
from sparksql.domain.statement.outcome import End, end_of, is_of_the_text, seen, told
from sparksql.domain.statement.snapshot import Snapshot
from sparksql.domain.statement.status import advance
from sparksql.domain.statement.steps import (
    MAX_RETRY_BACKOFF_SECONDS,
    UNREACHABLE_SECONDS,
    WAITING_SECONDS,
    end,
    new_attempt,
    stay,
)
from sparksql.domain.statement.stream.changes import ANSWER_SECONDS, UNCHANGED, RunsOn, asking, runs_on
from sparksql.domain.statement.stream.health import patience_left
from sparksql.domain.statement.stream.lag import lag_trend
from sparksql.domain.statement.stream.savepoints import Awaited, aside, before_rest, origin, periodic, unrestorable
from sparksql.domain.statement.stream.session import at_rest_commands, closed_under_it, own_session
from sparksql.domain.statement.stream.spec import (
    Change,
    at_rest,
    begun_anew,
    change,
    drivers_word,
    has_checkpoint,
    observed,
    obstacle,
    renewal,
    streaming_of,
    unreadable,
)
from sparksql.domain.violation import Violation
from sparksql.wire.control import CancelRequest, OperationState, OperationView

TEXT_TRIES = 2  # restarts after an error of the text: a table may be missing for a moment, a wrong word does not heal


def follow(s: Snapshot, view: OperationView) -> Decision:
    """The decision for one in the hands of a driver that says `view`."""
    s = _absorbed(s, view)
    if view.state.is_terminal:
        s = _forgetting(s)
    match view.state:
        case OperationState.PENDING | OperationState.RUNNING:
            return _in_progress(s, view)
        case OperationState.FINISHED | OperationState.TIMED_OUT:
            return _end(s, view)
        case OperationState.ERROR if end_of(view).reason is Reason.STATE_INCOMPATIBLE:
            return _as_wished(s) or _unfit(s, view)
        case OperationState.ERROR if streaming_of(s.statement).query_id is None:
            return _never_ran(s, view)
        case OperationState.ERROR:
            return _as_wished(s) or _restart(s, end_of(view), told(view), view)
        case OperationState.CLOSED:
            message = "the driver was shut down; it goes on from its checkpoint with the next one"
            count = _restarts(s, view.completion_time or s.now)
            return _as_wished(s) or _go_on(s, Reason.RESTARTING, message, restarts=count)
        case OperationState.CANCELED:
            return _as_wished(s) or stop(s)
        case other:
            assert_never(other)


def driver_gone(s: Snapshot, what: str) -> Decision:
    """Its driver is confirmed gone, or has forgotten it: what it committed is in the checkpoint."""
    s = _forgetting(s)
    return _as_wished(s) or _restart(s, End(Phase.ERROR, Reason.SESSION_LOST, what), what)


def out_of_reach(s: Snapshot) -> Decision:
    """Nobody answers. It may run on, so only its health is looked at."""
    if s.statement.status.phase is not Phase.RUNNING or wish(s) is not None:
        return stay(s, UNREACHABLE_SECONDS)
    held = runs_on(s) or UNCHANGED
    status = advance(s.statement, s.now, Phase.RUNNING, held.reason, held.message, parked=held.refused)
    return Decision(status, requeue_after=UNREACHABLE_SECONDS)


def stopped(s: Snapshot) -> Decision | NeedsInputs:
    """The decision for one that is Stopped: by wish, or parked."""
    if s.inputs is None and s.statement.spec.desired_state is DesiredState.RUNNING:
        return NeedsInputs()
    closed = closed_under_it(s)
    if closed is not None:
        return end(s, Phase.CLOSED, Reason.SESSION_CLOSED, closed)
    match s.statement.spec.desired_state:
        case DesiredState.CANCELED:
            return end(s, Phase.CANCELED, Reason.CANCELED_BY_USER, "canceled")
        case DesiredState.STOPPED:
            return stop(s)
        case DesiredState.RUNNING if change(s) is not None:
            return _saved_first(s) or _go_on(s, *_news(s))
        case DesiredState.RUNNING:
            return _go_on(s, Reason.PENDING, f"attempt {s.statement.status.attempt + 1} is accepted")
        case other:
            assert_never(other)


def come_to_rest(s: Snapshot) -> Decision:
    """Stopped by wish, after the savepoint that belongs to it."""
    return _saved_first(s) or stop(s)


def stop(s: Snapshot) -> Decision:
    """Stopped by wish. If that is no longer the wish, it goes on in the next pass."""
    lacking = before_rest(s) if s.statement.status.phase is not Phase.STOPPED else None
    without = f", without a savepoint: {lacking.message}" if isinstance(lacking, Violation) else ""
    message = f"stopped by the user{without}; desiredState Running resumes it"
    return _rest(s, Violation(Reason.STOPPED_BY_USER, message), parked=False)


def refuse(s: Snapshot, violation: Violation) -> Decision:
    """It may not start: that ends it, unless there is a state to lose, which then waits for a person."""
    if has_checkpoint(s.statement) or streaming_of(s.statement).upgrades:
        return _rest(s, violation, parked=True)
    return end(s, Phase.ERROR, violation.reason, violation.message)


def renew(s: Snapshot) -> Decision:
    """One that waits for its next attempt takes in what has changed, and waits no longer."""
    first = _saved_first(s)
    if first is not None:
        return first
    reason, message = _news(s)
    status = advance(s.statement, s.now, Phase.INITIALIZED, reason, message, next_attempt_time=None, **_renewal(s))
    return Decision(status, events=(Event("Normal", reason, message),), requeue_after=0.0)


def _saved_first(s: Snapshot) -> Decision | None:
    """What keeps a query that is over from resting, or from going on with a change: its savepoint, then the one that it is to
    go back to; None if nothing does."""
    match before_rest(s):
        case None:
            return _origin_first(s)
        case Violation() as lacking if s.statement.spec.desired_state is DesiredState.RUNNING:
            remedy = "delete that SqlSavepoint for another try, or set upgradeMode: LastState"
            return _rest(s, Violation(lacking.reason, f"{lacking.message}; {remedy}"), parked=True)
        case Violation():
            return None
        case Awaited(message):
            return _held(s, Reason.TAKING_SAVEPOINT, message)
        case CreateSavepoint(name) as command:
            return _held(s, Reason.TAKING_SAVEPOINT, f"savepoint {name} is to be taken", command)
        case other:
            assert_never(other)


def _origin_first(s: Snapshot) -> Decision | None:
    """The checkpoint is given up only for a savepoint that is complete."""
    if s.statement.spec.desired_state is not DesiredState.RUNNING or change(s) is not Change.RESTORE:
        return None
    match origin(s):
        case Violation() as violation:
            return refuse(s, violation)
        case Awaited(message):
            return _held(s, Reason.WAITING_FOR_SAVEPOINT, message)
        case _:
            return None


def _held(s: Snapshot, reason: Reason, message: str, *commands: Command) -> Decision:
    """It waits where it is; why a driver refused it, if one did, is no reason to rest any more."""
    phase = s.statement.status.phase or Phase.INITIALIZED
    streaming = at_rest(streaming_of(s.statement))
    status = advance(s.statement, s.now, phase, reason, message, error=None, streaming=streaming)
    return Decision(status, (*own_session(s), *commands), requeue_after=UNREACHABLE_SECONDS)


def _renewal(s: Snapshot) -> dict[str, Any]:
    begins_with = origin(s)
    return renewal(s, begins_with if isinstance(begins_with, str) else None)


def _unfit(s: Snapshot, view: OperationView) -> Decision:
    """The driver has found that the state does not fit the text; nothing was written."""
    spec, outcome = s.statement.spec.streaming, end_of(view)
    if spec is not None and spec.on_incompatible is OnIncompatible.START_FRESH:
        message = f"begins without state: {outcome.message}"
        failed = s.statement.status.failed_attempts
        return new_attempt(s, outcome.reason, message, delay=0.0, failed=failed, **begun_anew(s.statement))
    return _rest(s, Violation(outcome.reason, outcome.message), parked=True, error=seen(view)["error"])


def _never_ran(s: Snapshot, view: OperationView) -> Decision:
    """A wrong text does not heal. That ends the statement, unless the run has had a state before, which then waits."""
    if streaming_of(s.statement).upgrades == 0:
        return _end(s, view)
    outcome = end_of(view)
    return _as_wished(s) or _rest(
        s, Violation(outcome.reason, outcome.message), parked=True, error=seen(view).get("error")
    )


def _rest(s: Snapshot, why: Violation, *, parked: bool, error: StatementError | None = None) -> Decision:
    before = s.statement.status
    ready = find_condition(before.conditions, ConditionType.READY)
    is_news = before.phase is not Phase.STOPPED or ready is None or ready.reason != why.reason
    status = advance(
        s.statement,
        s.now,
        Phase.STOPPED,
        why.reason,
        why.message,
        parked=parked,
        start_time=None,
        progress=None,
        error=error or (before.error if parked and drivers_word(s.statement) == why else None),
        next_attempt_time=None,
        streaming=at_rest(streaming_of(s.statement), restarts=0),
    )
    events = (Event("Warning" if parked else "Normal", why.reason, why.message),) if is_news else ()
    goes_on = not parked and s.statement.spec.desired_state is DesiredState.RUNNING
    commands = () if goes_on else at_rest_commands(s)
    return Decision(status, commands, events=events, requeue_after=0.0 if goes_on else WAITING_SECONDS)


def _absorbed(s: Snapshot, view: OperationView) -> Snapshot:
    """The snapshot with what the view says of the query, which outlives the attempt."""
    status, before = s.statement.status, streaming_of(s.statement)
    stream = view.progress.stream if view.progress is not None else None
    known = status.replace(
        statement_type=view.statement_type or status.statement_type,
        read_only=view.read_only,
        start_time=view.start_time or status.start_time,
        streaming=observed(before, stream).replace(lag_trend=lag_trend(before, stream)),
    )
    return replace(s, statement=s.statement.replace(status=known))


def _forgetting(s: Snapshot) -> Snapshot:
    """The snapshot without why a change was refused while the query ran."""
    if s.statement.status.phase is not Phase.RUNNING:
        return s
    return replace(s, statement=s.statement.replace(status=s.statement.status.replace(error=None)))


def _in_progress(s: Snapshot, view: OperationView) -> Decision:
    status = s.statement.status
    running = view.state is OperationState.RUNNING or status.phase is Phase.RUNNING
    wanted = wish(s)
    held = runs_on(s) or UNCHANGED
    phase = Phase.RUNNING if running else Phase.PENDING
    reason, message = _course(s, wanted, held, running)
    refused = running and wanted is None and held.refused
    command, due = periodic(s) if running and wanted is None else (None, None)
    fields = {"restarts": _restarts(s, s.now), "next_savepoint_time": due, "message": aside(s)}
    updates = {"streaming": streaming_of(s.statement).replace(**fields), "error": held.error if refused else None}
    following = advance(s.statement, s.now, phase, reason, message, parked=refused, **{**seen(view), **updates})
    question = asking(s) if wanted is None else None
    commands = (Cancel(view.operation_id, wanted) if wanted is not None else None, question, command)
    wakes = [UNREACHABLE_SECONDS if wanted is not None else next_limit(s)]
    if question is not None:
        wakes.append(ANSWER_SECONDS)
    if due is not None and due > s.now:
        wakes.append((due - s.now).total_seconds() + 0.05)
    left = patience_left(s.statement.spec, following, s.now)
    if left:
        wakes.append(left + 0.05)
    return Decision(
        following,
        tuple(each for each in commands if each is not None),
        events=_news_of(s, held if refused else None, running),
        requeue_after=min(wakes),
    )


def _news_of(s: Snapshot, refused: RunsOn | None, running: bool) -> tuple[Event, ...]:
    """That it begins to run, or that a change is not taken in."""
    status = s.statement.status
    stalled = find_condition(status.conditions, ConditionType.STALLED)
    if refused is not None and (stalled is None or stalled.message != refused.message):
        return (Event("Warning", refused.reason, refused.message),)
    if running and status.phase is Phase.PENDING:
        return (Event("Normal", Reason.RUNNING, f"attempt {status.attempt} runs"),)
    return ()


def _course(s: Snapshot, wanted: CancelRequest | None, held: RunsOn, running: bool) -> tuple[Reason, str]:
    if wanted is None:
        return (held.reason, held.message) if running else (Reason.SUBMITTED, _starting(s))
    if wanted.outcome is OperationState.CANCELED and s.statement.spec.desired_state is DesiredState.RUNNING:
        return Reason.UPGRADING, f"stops first: {_news(s)[1]}"
    return Reason.CANCELING, f"is being ended: {wanted.reason}"


def _starting(s: Snapshot) -> str:
    driver = s.session.driver if s.session is not None else None
    if driver is None or not driver.unconfirmed or streaming_of(s.statement).query_id is None:
        return "the driver starts it"
    return "the driver starts it, after half a minute if the driver before it, whose end was not seen, may still write"


def _as_wished(s: Snapshot) -> Decision | None:
    """What the user or the session wants of an attempt that is over, however it ended; None: that it runs as before."""
    wanted = s.statement.spec.desired_state
    if wanted is DesiredState.CANCELED:
        return end(s, Phase.CANCELED, Reason.CANCELED_BY_USER, "canceled")
    if is_closing(s):
        return end(s, Phase.CLOSED, Reason.SESSION_CLOSED, "its session is closed")
    if wanted is DesiredState.STOPPED:
        return come_to_rest(s)
    if change(s) is not None:
        return _saved_first(s) or _go_on(s, *_news(s))
    if obstacle(s) is not None or unreadable(s) is not None:
        return _go_on(s, *_news(s))
    return None


def _news(s: Snapshot) -> tuple[Reason, str]:
    match change(s):
        case Change.RESTORE:
            return Reason.UPGRADING, "restoreNonce changed, it begins again with the savepoint of startFrom"
        case Change.ANEW:
            return Reason.UPGRADING, "the text changed, it begins without state"
        case Change.TEXT:
            return Reason.UPGRADING, "the text changed, it goes on from its checkpoint if the state fits"
        case Change.SETTINGS | None:
            return Reason.UPGRADING, "the spec changed, it goes on from its checkpoint"


def _go_on(s: Snapshot, reason: Reason, message: str, *, restarts: int = 0) -> Decision:
    """The next attempt at once, unless something stands against it; one that takes in a change begins its count anew."""
    hindrance = obstacle(s) or unreadable(s) or unrestorable(s)
    if hindrance is not None:
        return refuse(s, hindrance)
    updates = _renewal(s)
    if change(s) is not None:
        reason, message = _news(s)
    else:
        updates["streaming"] = updates["streaming"].replace(restarts=restarts)
    failed = s.statement.status.failed_attempts
    return new_attempt(s, reason, message, delay=0.0, failed=failed, type_="Normal", **updates)


def _restarts(s: Snapshot, until: datetime) -> int:
    """Restarts in a row; an attempt that ran long enough until then made them forgotten."""
    streaming, started = s.statement.spec.streaming, s.statement.status.start_time
    assert streaming is not None
    if started is not None and (until - started).total_seconds() >= streaming.restart.reset_after_seconds:
        return 0
    return streaming_of(s.statement).restarts


def _restart(s: Snapshot, failure: End, what: str, view: OperationView | None = None) -> Decision:
    """The next attempt from the checkpoint after its back-off, as often as `restart.limit` grants."""
    spec, status = s.statement.spec.streaming, s.statement.status
    assert spec is not None
    ended = (view.completion_time if view is not None else None) or s.now
    count = _restarts(s, ended) + 1
    if view is not None and count > TEXT_TRIES and is_of_the_text(view):
        return _rest(s, Violation(failure.reason, failure.message), parked=True, error=seen(view).get("error"))
    if count > spec.restart.limit:
        message = f"gave up after {count - 1} restarts: {failure.message}"
        known = {} if view is None else seen(view)
        return end(s, failure.phase, failure.reason, message, **known)
    delay = exponential(count, spec.restart.backoff_seconds, MAX_RETRY_BACKOFF_SECONDS)
    due = s.now + timedelta(seconds=delay) if delay else None
    streaming = at_rest(streaming_of(s.statement), restarts=count, next_restart_time=due)
    message = f"restart {count} of {spec.restart.limit} in {delay:g} s: {what}"
    return new_attempt(s, Reason.RESTARTING, message, delay=delay, failed=status.failed_attempts, streaming=streaming)


def _end(s: Snapshot, view: OperationView) -> Decision:
    outcome = end_of(view)
    return end(s, outcome.phase, outcome.reason, outcome.message, **seen(view))
