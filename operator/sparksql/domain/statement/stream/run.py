"""The life of a streaming statement from its hand-over on: it runs, fails, is started again, is suspended, resumes.

Pure.

Where it goes when nothing else stands against it: its session serves, spec and class allow it to start, and its driver
has found that a change fits, or cannot tell. The first row that fits counts; a test holds every combination against its
row.

- `change`: what the checkpoint or the query does not know of the spec; RestoreLater is a `startFrom` that is not complete
  yet.
- `at`: Initialized and Stopped are phases without a driver. All others are the driver's word on the attempt: Misfit is an
  Error StateIncompatible (Rewritable: the state can be rewritten, or computed anew), NeverRan the Error of a query that
  never ran, but for a failure of the environment (NewNeverRan: while the run has had a state before), Gone a driver that
  is gone, Forgotten and NotArrived an operation of phase Running or Pending that it does not know, Silent no answer.
- `savepoint`: phase of the final savepoint; None is one without a phase yet, Missing one that is not made yet. `-`: none
  is to be made, as upgradeMode is not Savepoint or nothing is committed. A change to StartFresh comes with upgradeMode
  Stateless.
- An Error CheckpointLost or SourceLost is Stopped, whatever the change.
- Restarting after a failure is Stopped, with the failure's reason, once the restarts in a row are used up that `restart.limit`
  and the class of the failure grant.
- `=` is as before; `|` separates alternatives; `*` is anything.

desiredState  change        at               savepoint                phase        reason               commands
------------  ------------  ---------------  -----------------------  -----------  -------------------  ---------------
*             *             Finished         *                        Finished     Finished             -
*             *             TimedOut         *                        TimedOut     ExecutionTimeout     -
*             *             NeverRan         *                        Error        SqlError             -
Canceled      *             Pending|Running  *                        =            Canceling            Cancel
Canceled      *             NotArrived       *                        =            =                    Cancel
Canceled      *             Silent           *                        =            =                    -
Canceled      *             *                *                        Canceled     CanceledByUser       -
Stopped       *             Pending|Running  *                        =            Canceling            Cancel
Stopped       *             NotArrived       *                        =            =                    Cancel
Stopped       *             Silent           *                        =            =                    -
Stopped       *             Stopped          *                        =            StoppedByUser        -
Stopped       StartFresh    *                *                        Stopped      StoppedByUser        -
Stopped       *             *                Missing                  =            TakingSavepoint      CreateSavepoint
Stopped       *             *                None|Pending|InProgress  =            TakingSavepoint      -
Stopped       *             *                *                        Stopped      StoppedByUser        -
Running       None          Initialized      *                        Pending      Submitted            Submit
Running       None          NotArrived       *                        =            =                    Submit
Running       *             NotArrived       *                        =            =                    Cancel
Running       None          Pending          *                        =            Submitted            -
Running       RestoreLater  Pending          *                        =            Submitted            -
Running       None          Running|Silent   *                        =            Running              -
Running       RestoreLater  Running|Silent   *                        =            Running              -
Running       *             Pending|Running  *                        =            Upgrading            Cancel
Running       *             Silent           *                        =            =                    -
Running       None          Stopped          *                        Initialized  Pending              -
Running       None          Rewritable       *                        Initialized  Upgrading            -
Running       None          Misfit           *                        Stopped      StateIncompatible    -
Running       None          NewNeverRan      *                        Stopped      SqlError             -
Running       None          Canceled         *                        Stopped      StoppedByUser        -
Running       None          *                *                        Initialized  Restarting           -
Running       StartFresh    *                *                        Initialized  Upgrading            -
Running       *             *                Missing                  =            TakingSavepoint      CreateSavepoint
Running       *             *                None|Pending|InProgress  =            TakingSavepoint      -
Running       *             *                Failed|Abandoned         Stopped      SavepointFailed      -
Running       RestoreLater  *                *                        =            WaitingForSavepoint  -
Running       *             *                *                        Initialized  Upgrading            -

Invariants (property tests): a new attempt only when the one before is confirmed over; restarts in a row are bounded and
wait longer each time, and no number of them ends a stream that has a checkpoint; a text goes on with the state of another
one only if a driver finds that it fits; a checkpoint is given up only for a savepoint that is complete, for a copy of it
whose state is made anew, or when it is asked for to begin without state; Stopped is no end.
"""

from __future__ import annotations

from dataclasses import replace

from sparksql.api.conditions import ConditionType, find_condition
from sparksql.api.reasons import Reason
from sparksql.api.statement import StatementDesiredState as DesiredState
from sparksql.api.statement import StatementPhase as Phase
from sparksql.api.streaming import OnIncompatible
from sparksql.domain.event import Event
from sparksql.domain.public_text import compose
from sparksql.domain.statement.chain import Chain, first_answer
from sparksql.domain.statement.deadlines import cancellation_due, is_closing
from sparksql.domain.statement.decision import Command, Decision, NeedsInputs
from sparksql.domain.statement.executors import awaited_executors, end_beside_executors
from sparksql.domain.statement.outcome import End, end_of, error_text, is_misfit, view_update
from sparksql.domain.statement.snapshot import Snapshot, Unobserved
from sparksql.domain.statement.status import with_phase
from sparksql.domain.statement.steps import (
    UNREACHABLE_SECONDS,
    end,
    follow_operation,
    is_running,
    new_attempt,
    no_change,
)
from sparksql.domain.statement.stream.changes import (
    ANSWER_SECONDS,
    UNCHANGED,
    RunsOn,
    next_question,
    runs_on,
    takes_in_change,
)
from sparksql.domain.statement.stream.compatibility import read_for_validation
from sparksql.domain.statement.stream.facts import StreamFacts
from sparksql.domain.statement.stream.health import progress_timeout_left
from sparksql.domain.statement.stream.rules import (
    refuse_blocked_start,
    restore_before_change,
    save_before_change,
    start_with_change,
    stop_with_savepoint,
)
from sparksql.domain.statement.stream.savepoints import Done, due_savepoint, final_savepoint, savepoint_warning
from sparksql.domain.statement.stream.session import session_loss
from sparksql.domain.statement.stream.spec import streaming_of
from sparksql.domain.statement.stream.status import StreamingUpdate, start_fresh, with_progress, with_rows_written
from sparksql.domain.statement.stream.steps import (
    change_message,
    restart,
    restarts_in_a_row,
    resume,
    rewrite,
    suspend,
    suspend_for_user,
)
from sparksql.domain.violation import Violation
from sparksql.wire.control import CancelRequest, OperationState, OperationView
from sparksql.wire.failure.classify import classify
from sparksql.wire.failure.kind import FailureKind

_LOST = frozenset({Reason.CHECKPOINT_LOST, Reason.SOURCE_LOST})


def follow(s: Snapshot, facts: StreamFacts) -> Decision | NeedsInputs:
    """Decides about a stream that a driver has, or has had: what it says of the query outlives the attempt."""
    match s.operation:
        case OperationView(state=OperationState.PENDING | OperationState.RUNNING) as view:
            return _in_progress(_with_view(s, view), facts, view)
        case OperationView() as view:
            s = _with_view(s, view)
        case _:
            pass
    return first_answer(ATTEMPT_OVER, _without_refusal(s), facts)


def out_of_reach(s: Snapshot, facts: StreamFacts) -> Decision:
    """Decides about a stream whose driver does not answer. It may run on, so only its health is looked at."""
    is_to_end = cancellation_due(s, takes_in_change=takes_in_change(s, facts)) is not None
    if s.statement.status.phase is not Phase.RUNNING or is_to_end:
        return no_change(s, UNREACHABLE_SECONDS)
    held = runs_on(s, facts) or UNCHANGED
    status = with_phase(s.statement, s.now, Phase.RUNNING, held.reason, held.message, stalled=held.refused)
    return Decision(status, requeue_after=UNREACHABLE_SECONDS)


def stopped(s: Snapshot, facts: StreamFacts) -> Decision | NeedsInputs:
    """Decides about a stream that is Stopped: because the user asked for it, or stalled."""
    return first_answer(SUSPENDED, s, facts)


# --- a query that starts or runs


def _in_progress(s: Snapshot, facts: StreamFacts, view: OperationView) -> Decision:
    hold = runs_on(s, facts)
    held, running = hold or UNCHANGED, is_running(s, view)
    cancellation = cancellation_due(s, takes_in_change=facts.change is not None and hold is None)
    runs = running and cancellation is None
    refusal = held if runs and held.refused else None
    savepoint, due = due_savepoint(s) if runs else (None, None)
    update: StreamingUpdate = {
        "restarts": restarts_in_a_row(s, s.now),
        "next_savepoint_time": due,
        "message": savepoint_warning(s, facts),
    }
    decision = follow_operation(
        s,
        view,
        cancellation,
        *_running_condition(s, facts, cancellation, held, running),
        stalled=refusal is not None,
        streaming=streaming_of(s.statement).replace(**update),
        error=refusal.error if refusal is not None else None,
    )
    question = next_question(s, facts) if cancellation is None else None
    commands: tuple[Command | None, ...] = (*decision.commands, question, savepoint)
    left = progress_timeout_left(s.statement.spec, decision.status, s.now)
    wakes = (
        decision.requeue_after,
        ANSWER_SECONDS if question is not None else None,
        (due - s.now).total_seconds() + 0.05 if due is not None and due > s.now else None,
        left + 0.05 if left else None,
    )
    return replace(
        decision,
        commands=tuple(command for command in commands if command is not None),
        events=_refusal_events(s, refusal) or decision.events,
        requeue_after=min(wake for wake in wakes if wake is not None),
    )


def _running_condition(
    s: Snapshot, facts: StreamFacts, cancellation: CancelRequest | None, held: RunsOn, running: bool
) -> tuple[Reason, str]:
    """Returns reason and message of a stream that is being ended, that runs, or that the driver starts."""
    if cancellation is None:
        return (
            (held.reason, held.message or awaited_executors(s)) if running else (Reason.SUBMITTED, _starting_message(s))
        )
    if cancellation.outcome is OperationState.CANCELED and s.statement.spec.desired_state is DesiredState.RUNNING:
        return Reason.UPGRADING, f"stops first: {change_message(facts.change)}"
    return Reason.CANCELING, f"is being ended: {cancellation.reason}"


def _starting_message(s: Snapshot) -> str:
    driver, streaming = s.session.driver if s.session is not None else None, streaming_of(s.statement)
    if streaming.rewritten_from is not None and streaming.committed_batch_id is None:
        return f"the driver rebuilds its state from {streaming.rewritten_from}, and starts it then"
    if driver is None or not driver.unconfirmed or streaming.query_id is None:
        return "the driver starts it"
    return "the driver starts it, after half a minute if the driver before it, whose end was not seen, may still write"


def _refusal_events(s: Snapshot, refusal: RunsOn | None) -> tuple[Event, ...]:
    """Returns the Event that a change is not taken in, unless the status says so already."""
    stalled = find_condition(s.statement.status.conditions, ConditionType.STALLED)
    if refusal is None or (stalled is not None and stalled.message == refusal.message):
        return ()
    return (Event.of("Warning", refusal.reason, refusal.message),)


def _with_view(s: Snapshot, view: OperationView) -> Snapshot:
    """Returns the snapshot with what the view says of the query, which outlives the attempt."""
    status = s.statement.status
    progress = view.progress.stream if view.progress is not None else None
    known = status.replace(
        statement_type=view.statement_type or status.statement_type,
        read_only=view.read_only,
        start_time=view.start_time or status.start_time,
        streaming=with_progress(streaming_of(s.statement), progress),
        result=with_rows_written(status, progress),
    )
    return replace(s, statement=s.statement.replace(status=known))


def _without_refusal(s: Snapshot) -> Snapshot:
    """Returns the snapshot without why a change was refused while the query ran."""
    if s.statement.status.phase is not Phase.RUNNING:
        return s
    return replace(s, statement=s.statement.replace(status=s.statement.status.replace(error=None)))


# --- rules of an attempt that is over


def end_with_query(s: Snapshot, facts: StreamFacts) -> Decision | None:
    """Ends a stream whose query has finished, or never ran in this run of the statement.

    A wrong text does not heal.
    """
    match s.operation:
        case OperationView(state=OperationState.FINISHED | OperationState.TIMED_OUT) as view:
            pass
        case OperationView() as view if _never_ran(s, view) and streaming_of(s.statement).upgrades == 0:
            pass
        case _:
            return None
    outcome = end_beside_executors(s, view)
    return end(s, outcome.phase, outcome.reason, outcome.message, **view_update(view))


def cancel_on_request(s: Snapshot, facts: StreamFacts) -> Decision | None:
    """Ends a stream of desiredState Canceled."""
    if s.statement.spec.desired_state is not DesiredState.CANCELED:
        return None
    return end(s, Phase.CANCELED, Reason.CANCELED_BY_USER, compose("canceled"))


def close_with_session(s: Snapshot, facts: StreamFacts) -> Decision | None:
    """Ends a stream whose session is gone or going."""
    return end(s, Phase.CLOSED, Reason.SESSION_CLOSED, compose("its session is closed")) if is_closing(s) else None


def park_lost_rows(s: Snapshot, facts: StreamFacts) -> Decision | None:
    """Parks a stream whose checkpoint is not the one that its query has written, or whose source has lost rows.

    Another start would find the same, or leave rows out.
    """
    match s.operation:
        case OperationView(state=OperationState.ERROR) as view if end_of(view).reason in _LOST:
            return _stall(s, facts, view)
        case _:
            return None


def follow_misfit(s: Snapshot, facts: StreamFacts) -> Decision | None:
    """Starts with its state made anew or without state, or stalls, a stream whose state does not fit its text.

    The driver has found that, and has written nothing.
    """
    if not isinstance(s.operation, OperationView) or not is_misfit(s.operation):
        return None
    spec, outcome = s.statement.spec.streaming, end_of(s.operation)
    if s.operation.error is not None and s.operation.error.rewritable:
        return rewrite(s, outcome)
    if spec is not None and spec.on_incompatible is OnIncompatible.START_FRESH:
        message, failed = (
            compose("starts without state: {cause}", cause=outcome.message),
            s.statement.status.failed_attempts,
        )
        return new_attempt(s, outcome.reason, message, delay=0.0, failed=failed, **start_fresh(s.statement))
    return _stall(s, facts, s.operation)


def stall_unrunnable(s: Snapshot, facts: StreamFacts) -> Decision | None:
    """Stalls a stream whose query never ran, which does not heal.

    The run has had a state before, which waits for a person.
    """
    if not isinstance(s.operation, OperationView) or not _never_ran(s, s.operation):
        return None
    return _stall(s, facts, s.operation)


def suspend_canceled(s: Snapshot, facts: StreamFacts) -> Decision | None:
    """Suspends a stream that was ended for a user who asks for that no more."""
    match s.operation:
        case OperationView(state=OperationState.CANCELED):
            return suspend_for_user(s, facts, final_savepoint(s, facts))
        case _:
            return None


def resume_after_shutdown(s: Snapshot, facts: StreamFacts) -> Decision | None:
    """Resumes a stream whose driver was shut down, which counts as no failure."""
    match s.operation:
        case OperationView(state=OperationState.CLOSED) as view:
            message = compose("the driver was shut down; the query continues from its checkpoint in the next driver")
            restarts = restarts_in_a_row(s, view.completion_time or s.now)
            return resume(s, facts, Reason.RESTARTING, message, restarts=restarts)
        case _:
            return None


def restart_after_failure(s: Snapshot, facts: StreamFacts) -> Decision:
    """Restarts a stream whose query has failed, or whose driver is confirmed gone or has forgotten it.

    What the query committed is in the checkpoint.
    """
    match s.operation:
        case OperationView() as view:
            return restart(s, facts, end_beside_executors(s, view), error_text(view), view)
        case Unobserved.UNKNOWN:
            what = compose("the driver no longer has the statement")
        case _:
            what = compose("the driver no longer exists")
    return restart(s, facts, End(Phase.ERROR, Reason.SESSION_LOST, what), what)


def _stall(s: Snapshot, facts: StreamFacts, view: OperationView) -> Decision:
    outcome = end_of(view)
    why = Violation(outcome.reason, outcome.message)
    return suspend(s, facts, why, stalled=True, error=view_update(view).get("error"))


def _never_ran(s: Snapshot, view: OperationView) -> bool:
    """Tells whether a query failed before it ever ran, for a cause that another try does not heal.

    Only the environment heals: what is not there for a query that never ran, it names wrongly.
    """
    if view.state is not OperationState.ERROR or streaming_of(s.statement).query_id is not None:
        return False
    is_parked = is_misfit(view) or end_of(view).reason in _LOST
    return not is_parked and classify(view.error).kind is not FailureKind.ENVIRONMENT


ATTEMPT_OVER: Chain = (
    end_with_query,  # Finished, TimedOut, or an Error before it ever ran
    cancel_on_request,  # desiredState Canceled
    close_with_session,
    stop_with_savepoint,  # desiredState Stopped, after the final savepoint
    save_before_change,  # the final savepoint
    restore_before_change,  # startFrom, for a new restoreNonce
    refuse_blocked_start,  # settings, schedule, checkpoint root, text, startFrom
    start_with_change,  # restoreNonce, text, settings
    park_lost_rows,  # Error CheckpointLost or SourceLost
    follow_misfit,  # Error StateIncompatible
    stall_unrunnable,  # Error of a query that never ran
    suspend_canceled,  # Canceled
    resume_after_shutdown,  # Closed
    restart_after_failure,  # Error, or its driver is gone
)


# --- rules of one that is suspended


def read_inputs(s: Snapshot, facts: StreamFacts) -> NeedsInputs | None:
    """Has the text of a stream read that is to run: another one is a change."""
    is_unread = s.inputs is None and s.statement.spec.desired_state is DesiredState.RUNNING
    return NeedsInputs() if is_unread else None


def close_with_lost_session(s: Snapshot, facts: StreamFacts) -> Decision | None:
    """Ends a stream whose session is closed under it for good."""
    loss = session_loss(s, facts)
    return end(s, Phase.CLOSED, Reason.SESSION_CLOSED, loss) if loss is not None else None


def stay_stopped(s: Snapshot, facts: StreamFacts) -> Decision | None:
    """Keeps a stream of desiredState Stopped suspended: its final savepoint was over before."""
    if s.statement.spec.desired_state is not DesiredState.STOPPED:
        return None
    return suspend_for_user(s, facts, Done())


def resume_on_request(s: Snapshot, facts: StreamFacts) -> Decision:
    """Resumes a stream of desiredState Running."""
    return resume(
        s, facts, Reason.PENDING, compose("attempt {number} is accepted", number=s.statement.status.attempt + 1)
    )


SUSPENDED: Chain = (
    read_inputs,  # of one that is to run
    read_for_validation,  # of one whose spec a driver is to validate
    close_with_lost_session,
    cancel_on_request,  # desiredState Canceled
    stay_stopped,  # desiredState Stopped
    save_before_change,  # the final savepoint
    restore_before_change,  # startFrom, for a new restoreNonce
    refuse_blocked_start,  # what a driver has said of this text, settings, schedule, checkpoint root, text, startFrom
    start_with_change,  # restoreNonce, text, settings
    resume_on_request,  # desiredState Running
)
