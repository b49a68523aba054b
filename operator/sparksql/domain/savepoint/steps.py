"""The steps that decisions about a savepoint are made of: no change, wait, begin, in progress, try again, end. Pure."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Unpack, assert_never

from sparksql.api.reasons import Reason
from sparksql.api.savepoint import SavepointPhase as Phase
from sparksql.api.savepoint import SavepointSource, SqlSavepoint
from sparksql.api.statement import SqlStatement
from sparksql.domain.backoff import exponential
from sparksql.domain.event import Event
from sparksql.domain.public_text import compose
from sparksql.domain.savepoint.snapshot import (
    Attempt,
    Command,
    Decision,
    Snapshot,
    StartCopy,
    StartQuery,
    VerifyExisting,
)
from sparksql.domain.savepoint.status import StatusUpdate, restated, with_phase
from sparksql.domain.statement.identity import OPERATION_NAMESPACE
from sparksql.domain.statement.snapshot import Driver
from sparksql.domain.statement.stream.spec import streaming_of
from sparksql.domain.statement.submission import place_of
from sparksql.wire.savepoints import StateQuery

WAITING_SECONDS = 60.0  # wake-up of a savepoint that waits for an event
FIRST_LOOK_SECONDS = 0.3  # of one that has begun within QUICK_SECONDS: most copies are small
QUICK_SECONDS = 4.0
POLL_SECONDS = 1.0  # of one that is being copied for longer
UNREACHABLE_SECONDS = 2.0  # of one whose driver does not answer now, or was told to end it
FIRST_BACKOFF_SECONDS = 10.0  # after the first failure; it doubles
MAX_BACKOFF_SECONDS = 300.0
SLACK_SECONDS = 0.05  # a wake-up for a deadline comes after it


def copy_id(uid: str, failures: int) -> str:
    """Returns the identity of the attempt that follows `failures` failed ones: the same attempt always has the same."""
    return str(uuid.uuid5(OPERATION_NAMESPACE, f"{uid}/copy/{failures + 1}"))


def current_id(savepoint: SqlSavepoint) -> str:
    """Returns the identity of the present attempt, or of the one that comes next."""
    return copy_id(savepoint.metadata.uid, savepoint.status.failures)


def no_change(s: Snapshot, wake: float | None, *commands: Command) -> Decision:
    """Keeps the phase; nothing but the commands happens."""
    return Decision(restated(s), commands, s.attempt, requeue_after=wake)


def wait(s: Snapshot, reason: Reason, message: str, wake: float = WAITING_SECONDS) -> Decision:
    """Waits in Pending for `reason`, and looks again after `wake` seconds."""
    return Decision(with_phase(s, Phase.PENDING, reason, message), attempt=s.attempt, requeue_after=wake)


def in_progress(s: Snapshot, reason: Reason, message: str, wake: float, *commands: Command) -> Decision:
    """Stays InProgress, with what there is to say of it now, and looks again after `wake` seconds."""
    return Decision(with_phase(s, Phase.IN_PROGRESS, reason, message), commands, s.attempt, requeue_after=wake)


def has_state(statement: SqlStatement) -> bool:
    """Tells whether there is a checkpoint with at least one batch in it."""
    streaming = streaming_of(statement)
    return streaming.checkpoint_location is not None and streaming.committed_batch_id is not None


def request(s: Snapshot, driver: Driver, location: str) -> StartCopy | StartQuery | VerifyExisting | None:
    """Returns what the driver is asked for in the current attempt; None if there is nothing to copy."""
    id_, uid = current_id(s.savepoint), s.savepoint.metadata.uid
    checkpoint = streaming_of(s.statement).checkpoint_location if s.statement is not None else None
    sql_hash = s.statement.status.sql_hash if s.statement is not None else None
    match s.savepoint.spec.source:
        case SavepointSource.EXISTING:
            return VerifyExisting(id_, driver, location)
        case SavepointSource.COPY:
            return StartCopy(id_, driver, checkpoint, location, uid, sql_hash) if checkpoint is not None else None
        case SavepointSource.QUERY:
            copied = checkpoint if s.statement is not None and has_state(s.statement) else None
            return StartQuery(id_, driver, copied, location, uid, _query(s), sql_hash)
        case other:
            assert_never(other)


def _query(s: Snapshot) -> StateQuery:
    spec = s.savepoint.spec
    assert spec.sql is not None
    known = tuple(map(place_of, s.named))
    return StateQuery(sql=spec.sql, statement=spec.statement_ref.name, operator=spec.operator, savepoints=known)


def begin(s: Snapshot, driver: Driver, location: str) -> Decision:
    """Begins the next attempt: its intent is in the status before the driver is asked."""
    asked = request(s, driver, location)
    assert asked is not None and s.statement is not None and s.storage is not None
    number = s.savepoint.status.failures + 1
    is_copy = isinstance(asked, StartCopy)  # what lies there already may be of another text
    status = with_phase(
        s,
        Phase.IN_PROGRESS,
        Reason.IN_PROGRESS,
        f"attempt {number} runs",
        location=location,
        start_time=s.now,
        next_attempt_time=None,
        query_id=streaming_of(s.statement).query_id if is_copy else None,
        sql_hash=s.statement.status.sql_hash if is_copy else None,
    )
    event = Event.of("Normal", Reason.IN_PROGRESS, compose("attempt {number} begins", number=number))
    attempt = Attempt(driver, s.statement.metadata.uid, s.storage.class_name, s.storage.service_account)
    return Decision(status, (asked,), attempt, events=(event,), requeue_after=FIRST_LOOK_SECONDS)


def end(s: Snapshot, phase: Phase, reason: Reason, message: str, **update: Unpack[StatusUpdate]) -> Decision:
    """Ends in a final phase, with an Event."""
    event = Event.of("Normal" if phase is Phase.COMPLETED else "Warning", reason, message)
    return Decision(with_phase(s, phase, reason, message, **update), events=(event,))


def attempt_failed(s: Snapshot, reason: Reason, message: str) -> Decision:
    """Ends an attempt: the next one after its back-off, or none if that was the last."""
    spec, failures = s.savepoint.spec, s.savepoint.status.failures + 1
    if failures > spec.backoff_limit:
        gave_up = compose(
            "gave up after 1 attempt" if failures == 1 else "gave up after {number} attempts", number=failures
        )
        notice = compose("{gave_up}: {cause}", gave_up=gave_up, cause=message)
        return end(s, Phase.FAILED, Reason.SAVEPOINT_FAILED, notice, failures=failures)
    delay = exponential(failures, FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS)
    notice = compose(
        "attempt {number} of {limit} in {delay:g} s: {cause}",
        number=failures + 1,
        limit=spec.backoff_limit + 1,
        delay=delay,
        cause=message,
    )
    due = s.now + timedelta(seconds=delay)
    status = with_phase(s, Phase.PENDING, reason, notice, failures=failures, next_attempt_time=due)
    return Decision(status, attempt=s.attempt, events=(Event.of("Warning", reason, notice),), requeue_after=delay)
