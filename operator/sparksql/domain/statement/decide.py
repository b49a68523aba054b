"""Decides what to do about a statement, from a snapshot.

Pure: with `waiting` and `handover` this is the life of a batch statement, with `stream.run` that of a streaming one.

Invariants (each a property test): only legal transitions; an ended phase stays until `runNonce` changes; an end after
the hand-over is decided only from the gateway's own word or from the confirmed end of its pod; nothing is submitted
whose intent (phase Pending, operation id, pod UID, boot id) is not in the status before; each waiting phase names its
wake-up.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from sparksql.api.reasons import Reason
from sparksql.api.statement import SqlStatementStatus
from sparksql.api.statement import StatementPhase as Phase
from sparksql.domain.event import Event
from sparksql.domain.public_text import compose
from sparksql.domain.statement.deadlines import cancellation_due
from sparksql.domain.statement.decision import (
    Cancel,
    Command,
    Decision,
    DeleteSelf,
    DeleteSession,
    NeedsInputs,
)
from sparksql.domain.statement.handover import handed_over
from sparksql.domain.statement.snapshot import Snapshot, Unobserved
from sparksql.domain.statement.status import with_phase
from sparksql.domain.statement.steps import WAITING_SECONDS, no_change
from sparksql.domain.statement.stream.compatibility import with_compatibility
from sparksql.domain.statement.stream.facts import stream_facts
from sparksql.domain.statement.stream.run import stopped
from sparksql.domain.statement.stream.savepoints import last_savepoint, savepoints_to_delete
from sparksql.domain.statement.waiting import initialized
from sparksql.wire.control import OperationView

FINALIZER_SECONDS = 15.0  # deadline of the contract for deleting a statement
AWAITED_SECONDS = 1.0  # wake-up of an ended statement that others still wait for


def decide(s: Snapshot) -> Decision | NeedsInputs:
    """Returns the decision about the statement of snapshot `s`, or that it cannot be made without inputs."""
    decision = _decide(s)
    if isinstance(decision, NeedsInputs):
        return decision
    if s.statement.metadata.deletion_timestamp is None:
        decision = with_compatibility(s, decision)
    streaming = decision.status.streaming
    if streaming is None:
        return decision
    known = decision.status.replace(streaming=streaming.replace(last_savepoint=last_savepoint(s)))
    return replace(decision, status=known)


def _decide(s: Snapshot) -> Decision | NeedsInputs:
    if s.statement.metadata.deletion_timestamp is not None:
        return _deleting(s)
    match s.statement.status.phase:
        case None:
            s = _new_run(s, run=1)
            return initialized(s, stream_facts(s))
        case Phase.FINISHED | Phase.CANCELED | Phase.CLOSED | Phase.ERROR | Phase.TIMED_OUT:
            return _ended(s)
        case Phase.INITIALIZED:
            return initialized(s, stream_facts(s))
        case Phase.PENDING | Phase.RUNNING:
            return handed_over(s, stream_facts(s))
        case Phase.STOPPED:
            return stopped(s, stream_facts(s))
        case other:
            assert_never(other)


def _new_run(s: Snapshot, run: int) -> Snapshot:
    """Returns the snapshot with a status as at the start of run `run`."""
    fresh = SqlStatementStatus(
        observed_generation=s.statement.metadata.generation,
        phase=Phase.INITIALIZED,
        run=run,
        attempt=1,
        observed_run_nonce=s.statement.spec.run_nonce,
        submitted_time=s.now,
        met_dependencies=s.statement.status.met_dependencies,
        conditions=s.statement.status.conditions,
    )
    return replace(s, statement=s.statement.replace(status=fresh))


def _ended(s: Snapshot) -> Decision:
    status, spec = s.statement.status, s.statement.spec
    if spec.run_nonce != status.observed_run_nonce:
        # Accepted first and handed over in the next pass: only then is it in the session's queue like all others.
        renewed = _new_run(s, run=status.run + 1).statement
        accepted = with_phase(renewed, s.now, Phase.INITIALIZED, Reason.PENDING, f"run {status.run + 1} is accepted")
        return Decision(accepted, requeue_after=0.0)
    commands: tuple[Command, ...] = (DeleteSession(),) if spec.session is not None else ()
    ttl = spec.ttl_seconds_after_finished
    if ttl is None or status.completion_time is None:
        return no_change(s, None, *commands)
    left = ttl - (s.now - status.completion_time).total_seconds()
    if left > 0:
        return no_change(s, left, *commands)
    if s.awaited:  # gone too early, it would be waited for again
        return no_change(s, AWAITED_SECONDS, *commands)
    return no_change(s, WAITING_SECONDS, *commands, DeleteSelf())


def _deleting(s: Snapshot) -> Decision:
    """Ends what runs, then lets go of the object; after the deadline lets go all the same."""
    metadata, status = s.statement.metadata, s.statement.status
    deleted = metadata.deletion_timestamp or s.now
    commands: tuple[Command, ...] = (DeleteSession(),) if s.statement.spec.session is not None else ()
    settled = status.phase not in (Phase.PENDING, Phase.RUNNING) or s.namespace_terminating
    match s.operation:
        case OperationView(state=state) if state.is_terminal:
            settled = True
        case Unobserved.DRIVER_GONE:
            settled = True
        case _:
            pass
    if settled:
        return Decision(status, (*commands, *savepoints_to_delete(s)), finalizer=False)
    left = FINALIZER_SECONDS - (s.now - deleted).total_seconds()
    if left <= 0:
        event = Event.of(
            "Warning",
            Reason.FINALIZER_DEADLINE,
            compose("deleted without the driver's word that the statement has ended"),
        )
        return Decision(status, (*commands, *savepoints_to_delete(s)), finalizer=False, events=(event,))
    request = cancellation_due(s)
    cancel: tuple[Command, ...] = (Cancel(status.operation_id, request),) if request and status.operation_id else ()
    return Decision(status, cancel, requeue_after=min(1.0, left))
