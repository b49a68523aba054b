"""What the gateway's view of an operation means for the statement's status."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from sparksql.api.reasons import Reason
from sparksql.api.statement import StatementError, StatementPhase, StatementProgress, StatementResult
from sparksql.domain.public_text import Message, Name, compose, error_summary, quote
from sparksql.domain.statement.snapshot import Settings
from sparksql.domain.statement.status import StatusUpdate
from sparksql.domain.violation import Violation
from sparksql.wire.control import OperationState, OperationView


@dataclass(frozen=True)
class End:
    """Says how an attempt has ended: the phase, reason and message that follow if nothing goes on."""

    phase: StatementPhase
    reason: Reason
    message: str


def end_of(view: OperationView, settings: Settings | Violation | None = None) -> End:
    """Returns the end that a terminal view means. A timeout before the start was the queue's, after it the execution's.

    `settings` are those of the statement, whose limits a timeout names.

    Raises:
        ValueError: the operation has not ended.
    """
    match view.state:
        case OperationState.FINISHED:
            return End(StatementPhase.FINISHED, Reason.FINISHED, "")
        case OperationState.CANCELED:
            return End(StatementPhase.CANCELED, Reason.CANCELED_BY_USER, compose("canceled"))
        case OperationState.CLOSED:
            return End(StatementPhase.CLOSED, Reason.SESSION_CLOSED, compose("the session was closed"))
        case OperationState.TIMED_OUT if view.start_time is None:
            return End(StatementPhase.TIMED_OUT, Reason.QUEUE_TIMEOUT, queue_timeout(settings))
        case OperationState.TIMED_OUT:
            message = compose("execution timeout: it ran longer than {limit}", limit=_execution_limit(settings))
            return End(StatementPhase.TIMED_OUT, Reason.EXECUTION_TIMEOUT, message)
        case OperationState.ERROR:
            reason = Reason(view.error.reason) if view.error else Reason.SQL_ERROR
            return End(
                StatementPhase.ERROR, reason, quote(view.error.message if view.error else "", error_summary(view.error))
            )
        case OperationState.PENDING | OperationState.RUNNING:
            raise ValueError(f"operation {view.operation_id} has not ended: {view.state}")
        case other:
            assert_never(other)


def queue_timeout(settings: Settings | Violation | None) -> Message:
    """Names the limit for the time in the queue that has passed."""
    seconds = settings.queue_seconds if isinstance(settings, Settings) else None
    limit = compose(" of {seconds} s", seconds=seconds) if seconds else compose("")
    return compose(
        "queue timeout: it waited longer than spec.timeouts.queueSeconds{limit}; raise that, or free its session",
        limit=limit,
    )


def _execution_limit(settings: Settings | Violation | None) -> Message:
    if not isinstance(settings, Settings) or not settings.execution_seconds:
        return compose("spec.timeouts.executionSeconds; raise that")
    return compose(
        "spec.timeouts.executionSeconds of {seconds} s; raise that, as far as class {name} allows",
        seconds=settings.execution_seconds,
        name=Name((settings.class_name,)),
    )


def view_update(view: OperationView) -> StatusUpdate:
    """Returns the status fields that come straight from the view."""
    fields: StatusUpdate = {"statement_type": view.statement_type, "read_only": view.read_only}
    if view.start_time is not None:
        fields["start_time"] = view.start_time
    if view.completion_time is not None:
        fields["completion_time"] = view.completion_time
    if view.progress is not None:
        fields["progress"] = StatementProgress.copy_of(view.progress)
    if view.result is not None:
        fields["result"] = StatementResult.copy_of(view.result)
    if view.error is not None:
        fields["error"] = StatementError.copy_of(view.error)
    return fields


def is_misfit(view: OperationView) -> bool:
    """Tells whether the driver has found that the state does not fit the text."""
    return view.state is OperationState.ERROR and end_of(view).reason is Reason.STATE_INCOMPATIBLE


def error_text(view: OperationView) -> Message:
    """Returns the error of a query for people: its condition and its message."""
    error = view.error
    parts = (error.condition, error.message) if error is not None else ()
    return quote(": ".join(part for part in parts if part) or "the query failed", error_summary(error))
