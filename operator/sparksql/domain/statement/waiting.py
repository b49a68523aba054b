"""A statement that is Initialized: accepted, not yet handed to a driver. Pure.

`INITIALIZED`, at the end, is the order of the rules for what it waits for, and for what ends it there.
"""

from __future__ import annotations

from sparksql.api.conditions import ConditionType, find_condition
from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase
from sparksql.api.statement import StatementDesiredState as DesiredState
from sparksql.api.statement import StatementPhase as Phase
from sparksql.api.statement import StatementSession
from sparksql.domain.event import Event
from sparksql.domain.public_text import Name, compose, quote
from sparksql.domain.statement import dependencies
from sparksql.domain.statement.blockers import changed_text
from sparksql.domain.statement.chain import Chain, first_answer
from sparksql.domain.statement.comparison import dry_run_of, state_of
from sparksql.domain.statement.deadlines import HANDED_OVER_SECONDS, queue_left
from sparksql.domain.statement.decision import CreateSession, Decision, NeedsInputs, Submit
from sparksql.domain.statement.existing import listed, misspelt
from sparksql.domain.statement.identity import operation_id, sql_hash
from sparksql.domain.statement.snapshot import (
    Inputs,
    MissingReference,
    SessionFacts,
    Settings,
    Snapshot,
)
from sparksql.domain.statement.status import StatusUpdate, with_phase
from sparksql.domain.statement.steps import end, wait
from sparksql.domain.statement.stream.facts import StreamFacts, Waiting
from sparksql.domain.statement.stream.rules import restore_before_change, save_before_change, stop_with_savepoint
from sparksql.domain.statement.stream.status import next_start
from sparksql.domain.statement.stream.steps import change_message, give_up, refuse
from sparksql.domain.statement.submission import streaming_at_hand_over, submit_request
from sparksql.domain.violation import Violation

ANEW = "delete this statement and create it"  # spec.sessionRef and spec.dependsOn are immutable
SAVEPOINT_SECONDS = 5.0  # wake-up of one that waits for a savepoint, of which a change tells first
REFERENCE_GRACE_SECONDS = 60.0  # a ConfigMap or Secret applied beside the statement may come a little later


def initialized(s: Snapshot, facts: StreamFacts) -> Decision | NeedsInputs:
    """Decides about a statement that no driver has yet."""
    return first_answer(INITIALIZED, s, facts)


def cancel_on_request(s: Snapshot, facts: StreamFacts) -> Decision | None:
    """Ends a statement whose desiredState is not Running; a batch statement knows no other way to be stopped."""
    if s.statement.spec.desired_state is DesiredState.RUNNING:
        return None
    return end(s, Phase.CANCELED, Reason.CANCELED_BY_USER, compose("canceled before it was handed to a driver"))


def read_changed_text(s: Snapshot, facts: StreamFacts) -> NeedsInputs | None:
    """Has the text of a stream read that could go: another one in the ConfigMap is a change, which comes first."""
    if not facts.is_stream or s.inputs is not None:
        return None
    has_driver = s.session is not None and s.session.driver is not None
    return NeedsInputs() if has_driver and isinstance(s.dependencies, dependencies.Met) else None


def reject_unusable_spec(s: Snapshot, facts: StreamFacts) -> Decision | None:
    """Refuses a statement that its spec and its class do not allow to start."""
    return refuse(s, facts, facts.spec_blocker) if facts.spec_blocker is not None else None


def close_with_session(s: Snapshot, facts: StreamFacts) -> Decision | None:
    """Ends a statement whose session is closed, if it names that; one of its own is made again."""
    if s.session is None or not s.session.is_closing or s.statement.spec.session is not None:
        return None
    return end(
        s, Phase.CLOSED, Reason.SESSION_CLOSED, compose("session {name} is closed", name=Name((s.session.name,)))
    )


def apply_spec_change(s: Snapshot, facts: StreamFacts) -> Decision | None:
    """Takes in what has changed of a stream that waits for its next attempt, which then waits no longer."""
    if facts.change is None:
        return None
    message = change_message(facts.change)
    fields: StatusUpdate = {"next_attempt_time": None, **next_start(s.statement, facts)}
    status = with_phase(s.statement, s.now, Phase.INITIALIZED, Reason.UPGRADING, message, **fields)
    return Decision(status, events=(Event.of("Normal", Reason.UPGRADING, message),), requeue_after=0.0)


def wait_for_savepoint(s: Snapshot, facts: StreamFacts) -> Decision | None:
    """Waits until the savepoint is complete that the first checkpoint begins with."""
    match facts.restore_source:
        case Violation() as violation:
            return refuse(s, facts, violation)
        case Waiting(message):
            return wait(s, Reason.WAITING_FOR_SAVEPOINT, message, wake=SAVEPOINT_SECONDS)
        case _:
            return None


def reject_full_queue(s: Snapshot, facts: StreamFacts) -> Decision | None:
    """Ends a statement that the session's queue has no room for."""
    if not s.queue_full:
        return None
    message = compose(
        "the session's queue is full (maxQueuedStatements); raise it, or apply fewer statements at a time"
    )
    return end(s, Phase.ERROR, Reason.LIMIT_EXCEEDED, message)


def reject_failed_dependency(s: Snapshot, facts: StreamFacts) -> Decision | None:
    """Ends a statement whose dependencies can no longer be met: one has not finished well, or they are a cycle."""
    match s.dependencies:
        case dependencies.Cycle(path):
            remedy = "delete one of these statements and create it without its dependency"
            cycle = " -> ".join(path)
            shown = compose("spec.dependsOn is a cycle of {names}; see status", names=Name(path)).public
            return end(
                s, Phase.ERROR, Reason.DEPENDENCY_CYCLE, quote(f"spec.dependsOn is a cycle: {cycle}; {remedy}", shown)
            )
        case dependencies.Failed(name, phase):
            remedy = f"run it again, and then this statement (spec.runNonce), or {ANEW} without it"
            return end(
                s,
                Phase.ERROR,
                Reason.DEPENDENCY_FAILED,
                compose(
                    "spec.dependsOn: {name} ended in {phase}; {remedy}",
                    name=Name((name,)),
                    phase=phase,
                    remedy=compose(remedy),
                ),
            )
        case _:
            return None


def wait_for_dependencies(s: Snapshot, facts: StreamFacts) -> Decision | None:
    """Waits until all that the statement depends on has finished. The status keeps what has."""
    if not isinstance(s.dependencies, dependencies.Unmet):
        return None
    message = f"spec.dependsOn: waits for {_awaited(s, s.dependencies)}"
    return wait(s, Reason.WAITING_FOR_DEPENDENCIES, message, met_dependencies=s.dependencies.met)


def wait_for_backoff(s: Snapshot, facts: StreamFacts) -> Decision | None:
    """Waits until the back-off of the last attempt has passed."""
    due = s.statement.status.next_attempt_time
    if due is None or due <= s.now:
        return None
    reason, message = _backoff_reason(s, facts)
    return wait(s, reason, message, wake=(due - s.now).total_seconds(), met_dependencies=_met(s))


def wait_for_driver(s: Snapshot, facts: StreamFacts) -> Decision | None:
    """Waits until the session has a driver that takes statements."""
    if s.session is not None and s.session.driver is not None:
        return None
    if s.statement.spec.session is not None:
        return _wait_for_own_session(s, facts)
    if s.session is None:
        return wait(s, Reason.SESSION_NOT_READY, _missing_session(s), met_dependencies=_met(s))
    return _wait_for_session(s, s.session)


def wait_for_class(s: Snapshot, facts: StreamFacts) -> Decision | None:
    """Waits until the statement's settings are known, which takes the session's class."""
    if isinstance(s.settings, Settings):
        return None
    name = s.session.name if s.session is not None else ""
    message = f"the SqlSessionClass of session {name} does not exist; create it again, or have another one in the session's spec.className"
    return wait(s, Reason.SESSION_NOT_READY, message, met_dependencies=_met(s))


def wait_for_turn(s: Snapshot, facts: StreamFacts) -> Decision | None:
    """Waits while others come first in the session's queue."""
    if s.turn.granted:
        return None
    name = s.session.name if s.session is not None else ""
    message = f"{s.turn.ahead} statements ahead in session {name}"
    return wait(s, Reason.QUEUED_BEHIND_STATEMENTS, message, met_dependencies=_met(s))


def wait_for_state(s: Snapshot, facts: StreamFacts) -> Decision | None:
    """Waits until the state is there that the text is to be compared with (`validateAgainst`).

    Ends a statement whose query the driver cannot validate or explain.
    """
    for found in (state_of(s), dry_run_of(s)):
        if isinstance(found, Violation | MissingReference):
            return _reject_or_wait(s, facts, found)
    return None


def wait_for_references(s: Snapshot, facts: StreamFacts) -> Decision | NeedsInputs | None:
    """Has text and parameters read from ConfigMaps and Secrets, and waits for what is missing."""
    if s.inputs is None:
        return NeedsInputs()
    return None if isinstance(s.inputs, Inputs) else _reject_or_wait(s, facts, s.inputs)


def reject_changed_text(s: Snapshot, facts: StreamFacts) -> Decision | None:
    """Ends a statement whose text is another one than that of the run's first attempt."""
    changed = changed_text(s)
    return end(s, Phase.ERROR, changed.reason, changed.message) if changed is not None else None


def submit(s: Snapshot, facts: StreamFacts) -> Decision:
    """Records the intent; the submit that goes with it is sent only after the status is written."""
    session, settings, inputs = s.session, s.settings, s.inputs
    assert session is not None and session.driver is not None
    assert isinstance(settings, Settings) and isinstance(inputs, Inputs)
    driver, status = session.driver, s.statement.status
    operation = operation_id(s.statement.metadata.uid, status.run, status.attempt)
    update: StatusUpdate = {
        "operation_id": operation,
        "session": StatementSession(
            name=session.name, pod_name=driver.pod_name, pod_uid=driver.pod_uid, boot_id=driver.boot_id
        ),
        "sql_hash": sql_hash(inputs.sql),
        "met_dependencies": _met(s),
        "next_attempt_time": None,
    }
    streaming = None
    if facts.is_stream:
        source = facts.restore_source if isinstance(facts.restore_source, str) else None
        update["streaming"] = streaming = streaming_at_hand_over(s, settings, source)
    message = f"handed to driver {driver.pod_name}"
    pending = with_phase(s.statement, s.now, Phase.PENDING, Reason.SUBMITTED, message, **update)
    request = submit_request(s, driver.boot_id, settings, inputs, streaming)
    return Decision(pending, (Submit(operation, request),), requeue_after=queue_left(s) or HANDED_OVER_SECONDS)


INITIALIZED: Chain = (
    stop_with_savepoint,  # a stream's desiredState Stopped, after the final savepoint
    cancel_on_request,  # desiredState Canceled
    read_changed_text,  # of a stream that could go
    reject_unusable_spec,  # conf and limits; a stream's schedule and checkpoint root
    close_with_session,
    save_before_change,  # a stream's final savepoint
    restore_before_change,  # startFrom, for a new restoreNonce
    apply_spec_change,  # restoreNonce, text, settings of a stream
    wait_for_savepoint,  # startFrom
    reject_full_queue,  # maxQueuedStatements
    reject_failed_dependency,  # dependsOn
    wait_for_dependencies,  # dependsOn
    wait_for_backoff,  # retry, restart
    wait_for_driver,  # sessionRef, session
    wait_for_class,  # the session's class
    wait_for_turn,  # priority, maxConcurrentStatements
    wait_for_state,  # validateAgainst
    wait_for_references,  # ConfigMap, Secret
    reject_changed_text,  # sqlFrom, of a further attempt
    submit,
)


def _met(s: Snapshot) -> tuple[str, ...]:
    """Returns the met dependencies that the status keeps, once all of them are."""
    return s.dependencies.names if isinstance(s.dependencies, dependencies.Met) else ()


def _awaited(s: Snapshot, unmet: dependencies.Unmet) -> str:
    """Returns what is waited for, and for what does not exist the remedy, with a name that it may be a misspelling of."""
    if not unmet.missing:
        return ", ".join(unmet.open)
    names = ", ".join((*unmet.open, *(f"{name} (does not exist)" for name in unmet.missing)))
    similar = ((name, misspelt(name, s.statements)) for name in unmet.missing)
    meant = " and ".join(f"{other} for {name}" for name, other in similar if other is not None)
    question = f"; did you mean {meant}?" if meant else ";"
    return f"{names}{question} create what does not exist, or {ANEW} with another list"


def _missing_session(s: Snapshot) -> str:
    """Returns which session does not exist, which ones do, and what to do."""
    ref = s.statement.spec.session_ref
    assert ref is not None  # one without it owns its session
    there = listed(ref.name, s.sessions)
    return f"spec.sessionRef.name: SqlSession {ref.name} does not exist in this namespace {there}; create it, or {ANEW} with another one"


def _backoff_reason(s: Snapshot, facts: StreamFacts) -> tuple[Reason, str]:
    """Returns reason and message of a back-off.

    A stream goes on saying why it was restarted; `error` belongs to the attempt that failed, which is over.
    """
    ready = find_condition(s.statement.status.conditions, ConditionType.READY)
    if facts.is_stream and ready is not None and ready.reason == Reason.RESTARTING:
        return Reason.RESTARTING, ready.message
    return Reason.RETRYING, "waits before the next attempt"


def _wait_for_own_session(s: Snapshot, facts: StreamFacts) -> Decision:
    session = s.session
    if session is None or session.deleting:
        commands = (CreateSession(),) if session is None else ()
        message = (
            "its own session is being made"
            if session is None
            else f"waits until session {session.name}, its previous one, no longer exists"
        )
        return wait(s, Reason.SESSION_NOT_READY, message, *commands, met_dependencies=_met(s))
    if session.problem is not None:
        reason, message = session.problem
        why = Violation(
            _own_session_failure(reason),
            compose("its own session cannot start: {reason}: {words}", reason=reason, words=message),
        )
        return give_up(s, facts, why)
    if session.phase is SessionPhase.CLOSED:
        return end(s, Phase.CLOSED, Reason.SESSION_CLOSED, compose("its own session was closed"))
    return _wait_for_session(s, session)


def _own_session_failure(reason: Reason) -> Reason:
    """Returns the reason of a statement whose own session has stalled for `reason`."""
    match reason:
        case Reason.NOT_ALLOWED | Reason.LIMIT_EXCEEDED:
            return reason
        case Reason.CLASS_NOT_FOUND | Reason.INIT_FAILED:
            return Reason.INVALID_SPEC
        case _:
            return Reason.SESSION_LOST


def _wait_for_session(s: Snapshot, session: SessionFacts) -> Decision:
    if session.queue is not None:
        message = f"session {session.name}: {session.queue}"
        return wait(s, Reason.WAITING_IN_QUEUE, message, met_dependencies=_met(s))
    message = f"session {session.name} is {session.phase or 'new'}"
    if session.problem is not None:
        reason, cause = session.problem
        message = f"{message}: {reason}: {cause}"
    if session.incompatibility is not None:
        message = f"session {session.name}: {session.incompatibility}"
    return wait(s, Reason.SESSION_NOT_READY, message, met_dependencies=_met(s))


def _reject_or_wait(s: Snapshot, facts: StreamFacts, missing: Violation | MissingReference) -> Decision:
    """Waits for a reference, which may come a little later; after that it is an error."""
    if isinstance(missing, Violation):
        return refuse(s, facts, missing)
    since = s.statement.status.submitted_time or s.now
    if (s.now - since).total_seconds() > REFERENCE_GRACE_SECONDS:
        return refuse(s, facts, Violation(Reason.INVALID_SPEC, missing.message))
    return wait(s, Reason.WAITING_FOR_SOURCE, missing.message, wake=2.0, met_dependencies=_met(s))
