"""How HiveServer2's clients are told that something went wrong: a status with message, SQLSTATE and code. Pure.

They show the message and little else, so it says all: Spark's condition, the place in the statement, the SQLSTATE.
"""

from __future__ import annotations

from sparksql.gateway.sessions.model import ClientError, OperationInfo, OperationStatus, Problem
from sparksql.gateway.sql.conditions import condition_for
from sparksql.protocols.hiveserver2.messages import TOperationState, TStatus, TStatusCode
from sparksql.wire.control import OperationError

GENERAL_ERROR = "HY000"
CANCELED = "HY008"
TIMED_OUT = "HYT00"
NOT_SUPPORTED = "0A000"
FETCH_OUT_OF_RANGE = "HY106"
_SQL_STATES = {
    Problem.NOT_READY: "08001",
    Problem.TOO_MANY_SESSIONS: "08004",
    Problem.TOO_MANY_OPERATIONS: "54000",
    Problem.QUEUE_FULL: "53000",
    Problem.UNKNOWN_SESSION: "08003",
    Problem.NOT_ALLOWED: "42501",
}
_STATES = {
    OperationStatus.INITIALIZED: TOperationState.INITIALIZED_STATE,
    OperationStatus.PENDING: TOperationState.PENDING_STATE,
    OperationStatus.RUNNING: TOperationState.RUNNING_STATE,
    OperationStatus.FINISHED: TOperationState.FINISHED_STATE,
    OperationStatus.CANCELED: TOperationState.CANCELED_STATE,
    OperationStatus.CLOSED: TOperationState.CLOSED_STATE,
    OperationStatus.ERROR: TOperationState.ERROR_STATE,
    OperationStatus.TIMEOUT: TOperationState.TIMEDOUT_STATE,
}


class ThriftError(Exception):
    """A call that is refused; carries the status that the client gets."""

    def __init__(self, status: TStatus) -> None:
        super().__init__(status.error_message)
        self.status = status


def state_of(status: OperationStatus) -> TOperationState:
    """Returns Hive's state of an operation."""
    return _STATES[status]


def refusal(message: str, sql_state: str = GENERAL_ERROR) -> TStatus:
    """Returns the status of a call that failed."""
    return TStatus(TStatusCode.ERROR_STATUS, sql_state, 0, message)


def client_refusal(error: ClientError) -> TStatus:
    """Returns the status for what the session service refuses.

    The first words of unknown handles are those by which clients notice that they must connect again.
    """
    match error.problem:
        case Problem.UNKNOWN_SESSION:
            message = f"Invalid SessionHandle: {error}"
        case Problem.UNKNOWN_OPERATION:
            message = f"Invalid OperationHandle: {error}"
        case _:
            message = str(error)
    return refusal(message, _SQL_STATES.get(error.problem, GENERAL_ERROR))


def statement_failure(view: OperationInfo) -> TStatus:
    """Returns the status that says why an operation has ended other than well."""
    match view.status:
        case OperationStatus.CANCELED | OperationStatus.CLOSED:
            told, sql_state = "the statement was cancelled", CANCELED
        case OperationStatus.TIMEOUT:
            told, sql_state = "the statement ran into its time limit", TIMED_OUT
        case _:
            told, sql_state = "the statement failed", GENERAL_ERROR
    if view.error is None:
        return refusal(told, sql_state)
    known = view.error.sql_state or condition_for(view.error.reason).sql_state
    return refusal(error_text(view.error) or told, known)


def error_text(error: OperationError) -> str:
    """Returns all of an error in one text, e.g. `[TABLE_OR_VIEW_NOT_FOUND] ... SQLSTATE: 42P01 (line 1, position 15)`."""
    text = error.message
    if error.condition and f"[{error.condition}" not in text:
        text = f"[{error.condition}] {text}"
    if error.sql_state and f"SQLSTATE: {error.sql_state}" not in text:
        text = f"{text} SQLSTATE: {error.sql_state}"
    if error.line is not None:
        text = f"{text} (line {error.line}, position {error.position})"
    return text
