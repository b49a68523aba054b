"""What to do about a savepoint, from a snapshot. Pure: with `deletion` this is the whole life of a SqlSavepoint.

Invariants (each a property test): only legal transitions, and an end is final; the location never changes once it is
recorded, and is recorded with the intent before a driver is asked; a new attempt only when the one before is confirmed
over; at most `backoffLimit` + 1 attempts; each waiting decision names its wake-up.
"""

from __future__ import annotations

from datetime import timedelta
from typing import assert_never

from sparksql.api.reasons import Reason
from sparksql.api.savepoint import SavepointPhase as Phase
from sparksql.api.savepoint import SavepointSource
from sparksql.api.statement import SqlStatement
from sparksql.domain.conditions import ready_reason
from sparksql.domain.public_text import Message, Name, compose
from sparksql.domain.savepoint.deletion import deleting
from sparksql.domain.savepoint.locations import target
from sparksql.domain.savepoint.snapshot import CancelCopy, Completed, Decision, DeleteSelf, Failed, Running, Snapshot
from sparksql.domain.savepoint.steps import (
    FIRST_LOOK_SECONDS,
    POLL_SECONDS,
    QUICK_SECONDS,
    SLACK_SECONDS,
    UNREACHABLE_SECONDS,
    WAITING_SECONDS,
    attempt_failed,
    begin,
    current_id,
    end,
    has_state,
    in_progress,
    no_change,
    request,
    wait,
)
from sparksql.domain.statement.phases import is_ended
from sparksql.domain.statement.snapshot import Unobserved
from sparksql.domain.statement.stream.spec import is_stream
from sparksql.domain.violation import Violation

STATEMENT_SECONDS = 60.0  # since its creation: both may come in one `kubectl apply`, in any order


def decide(s: Snapshot) -> Decision:
    """Returns the decision for the savepoint of snapshot `s`."""
    if s.savepoint.metadata.is_deleting:
        return deleting(s)
    match s.savepoint.status.phase:
        case None | Phase.PENDING:
            return _pending(s)
        case Phase.IN_PROGRESS:
            return _in_progress(s)
        case Phase.COMPLETED | Phase.FAILED | Phase.ABANDONED:
            return _settled(s)
        case other:
            assert_never(other)


def _settled(s: Snapshot) -> Decision:
    if s.retention is None or s.retention.keep or s.used_by:
        return no_change(s, None)
    return no_change(s, WAITING_SECONDS, DeleteSelf())


def _pending(s: Snapshot) -> Decision:
    spec, status, name = s.savepoint.spec, s.savepoint.status, s.savepoint.spec.statement_ref.name
    never_seen = status.phase is None or ready_reason(status.conditions) == Reason.STATEMENT_NOT_FOUND
    if s.statement is None and never_seen:
        return _without_statement(s)
    gone = _gone(s)
    if s.statement is None or gone is not None:
        return end(
            s,
            Phase.ABANDONED,
            Reason.ABANDONED,
            gone or compose("statement {name} no longer exists", name=Name((name,))),
        )
    if not is_stream(s.statement.spec):
        message = compose(
            "spec.statementRef.name: statement {name} is not a streaming one; only those have a state to save",
            name=Name((name,)),
        )
        return end(s, Phase.FAILED, Reason.STATEMENT_NOT_STREAMING, message)
    if status.failures > spec.backoff_limit:
        attempts = compose("1 attempt" if status.failures == 1 else "{number} attempts", number=status.failures)
        message = compose(
            "gave up after {attempts}: spec.backoffLimit is {limit} now", attempts=attempts, limit=spec.backoff_limit
        )
        return end(s, Phase.FAILED, Reason.SAVEPOINT_FAILED, message)
    if status.next_attempt_time is not None and s.now < status.next_attempt_time:
        left = (status.next_attempt_time - s.now).total_seconds()
        return no_change(s, min(WAITING_SECONDS, left + SLACK_SECONDS))
    return _next_attempt(s, s.statement)


def _next_attempt(s: Snapshot, statement: SqlStatement) -> Decision:
    """Begin, as soon as there is a place, a state and a driver."""
    name = statement.metadata.name
    if s.storage is None:
        return wait(s, Reason.SESSION_NOT_READY, f"waits for the session of statement {name}, and its class")
    location = target(s.savepoint, s.storage)
    if isinstance(location, Violation):
        return end(s, Phase.FAILED, location.reason, location.message)
    awaited = [each.name for each in s.named if each.phase is None or not each.phase.is_terminal]
    if awaited:
        return wait(s, Reason.PENDING, f"waits for SqlSavepoint {awaited[0]}, whose name is in spec.sql")
    if _is_copied(s) and not has_state(statement):
        phase = statement.status.phase
        if is_ended(phase) and statement.spec.run_nonce == statement.status.observed_run_nonce:
            message = f"statement {name} has ended ({phase}) and has no state to save"
            return end(s, Phase.FAILED, Reason.SAVEPOINT_FAILED, message)
        return wait(s, Reason.PENDING, f"statement {name} has no state to save yet; waits for its first batch")
    if s.driver is None:
        return wait(s, Reason.SESSION_NOT_READY, f"waits for a driver of the session of statement {name}")
    if s.savepoint.spec.source is SavepointSource.QUERY and not s.driver.makes_states:
        message = (
            "spec.source: the session's driver is of an earlier version without source Query; restart the session "
            "(spec.restartNonce), then create the SqlSavepoint again"
        )
        return end(s, Phase.FAILED, Reason.NOT_IMPLEMENTED, message)
    return begin(s, s.driver, location)


def _is_copied(s: Snapshot) -> bool:
    """Whether the checkpoint of the statement is what the savepoint is made of."""
    match s.savepoint.spec.source:
        case SavepointSource.COPY:
            return True
        case SavepointSource.EXISTING:
            return False
        case SavepointSource.QUERY:
            return all(each.statement != s.savepoint.spec.statement_ref.name for each in s.named)
        case other:
            assert_never(other)


def _without_statement(s: Snapshot) -> Decision:
    name, created = s.savepoint.spec.statement_ref.name, s.savepoint.metadata.creation_timestamp or s.now
    message = compose("spec.statementRef.name: there is no SqlStatement {name}", name=Name((name,)))
    left = STATEMENT_SECONDS - (s.now - created).total_seconds()
    if left <= 0:
        return end(
            s,
            Phase.FAILED,
            Reason.STATEMENT_NOT_FOUND,
            compose("{message}; create it, then a new SqlSavepoint", message=message),
        )
    return wait(s, Reason.STATEMENT_NOT_FOUND, message, wake=min(WAITING_SECONDS, left + SLACK_SECONDS))


def _gone(s: Snapshot) -> Message | None:
    """How its statement has gone, if it has; another one of the same name is no substitute for it."""
    name = Name((s.savepoint.spec.statement_ref.name,))
    if s.statement is None:
        return compose("statement {name} was deleted before the savepoint was complete", name=name)
    if s.statement.metadata.is_deleting:
        return compose("statement {name} is being deleted before the savepoint was complete", name=name)
    if s.attempt is not None and s.attempt.statement_uid != s.statement.metadata.uid:
        return compose("statement {name} was deleted and created again before the savepoint was complete", name=name)
    return None


def _in_progress(s: Snapshot) -> Decision:
    match s.observation:
        case Completed() as completed:
            return _complete(s, completed)
        case Failed(message, final):
            return _over(s, message, final)
        case Unobserved.DRIVER_GONE:
            return _over(s, compose("the driver went away during the attempt"))
        case Running() | Unobserved.UNKNOWN | Unobserved.UNREACHABLE | None:
            return _under_way(s)
        case other:
            assert_never(other)


def _complete(s: Snapshot, completed: Completed) -> Decision:
    return end(
        s,
        Phase.COMPLETED,
        Reason.COMPLETED,
        compose(
            "complete up to batch {batch}: {files} files, {size} bytes",
            batch=completed.batch_id,
            files=completed.file_count,
            size=completed.size_bytes,
        ),
        batch_id=completed.batch_id,
        query_id=completed.query_id,
        spark_version=completed.spark_version,
        size_bytes=completed.size_bytes,
        file_count=completed.file_count,
        sql_hash=completed.sql_hash or s.savepoint.status.sql_hash,
    )


def _over(s: Snapshot, message: str, final: Reason | None = None) -> Decision:
    """The attempt has ended without a savepoint, confirmed by the driver or by its end."""
    gone = _gone(s)
    if gone is not None:
        return end(s, Phase.ABANDONED, Reason.ABANDONED, gone)
    if final is not None:
        return end(s, Phase.FAILED, final, message, failures=s.savepoint.status.failures + 1)
    if _has_timed_out(s):
        return attempt_failed(s, Reason.SAVEPOINT_TIMEOUT, _timeout(s))
    return attempt_failed(s, Reason.RETRYING, message)


def _has_timed_out(s: Snapshot) -> bool:
    """Whether it was cancelled for its timeout; that was written down before the driver was told."""
    return ready_reason(s.savepoint.status.conditions) == Reason.SAVEPOINT_TIMEOUT


def _timeout(s: Snapshot) -> Message:
    return compose("exceeded spec.timeoutSeconds ({limit})", limit=s.savepoint.spec.timeout_seconds)


def _under_way(s: Snapshot) -> Decision:
    attempt, status = s.attempt, s.savepoint.status
    if attempt is None or status.location is None:  # they are written with the phase: nobody can have been asked
        return _over(s, "no driver was requested to take it")
    again = request(s, attempt.driver, status.location)
    begun = status.start_time or s.now
    left = s.savepoint.spec.timeout_seconds - (s.now - begun).total_seconds()
    gone = _gone(s)
    lost = s.observation is Unobserved.UNKNOWN and again is None
    if gone is not None or lost:
        message = gone or "there is no checkpoint to copy any more"
        cancel = CancelCopy(current_id(s.savepoint), attempt.driver, message)
        return in_progress(s, Reason.CANCELING, f"is being ended: {message}", UNREACHABLE_SECONDS, cancel)
    if left <= 0 or _has_timed_out(s):
        cancel = CancelCopy(current_id(s.savepoint), attempt.driver, _timeout(s))
        told = f"is being ended: {_timeout(s)}"
        return in_progress(s, Reason.SAVEPOINT_TIMEOUT, told, UNREACHABLE_SECONDS, cancel)
    message = f"attempt {status.failures + 1} runs"
    if isinstance(s.observation, Running):
        wake = FIRST_LOOK_SECONDS if s.now - begun < timedelta(seconds=QUICK_SECONDS) else POLL_SECONDS
        return in_progress(s, Reason.IN_PROGRESS, message, min(wake, left + SLACK_SECONDS))
    # The driver that answers and does not know it has not heard of it yet: it keeps each id for its whole life.
    commands = (again,) if s.observation is Unobserved.UNKNOWN and again is not None else ()
    return in_progress(s, Reason.IN_PROGRESS, message, min(UNREACHABLE_SECONDS, left + SLACK_SECONDS), *commands)
