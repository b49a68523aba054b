"""Errors as Connect's clients understand them: a gRPC status whose details carry Spark's condition and SQLSTATE."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from sparksql.gateway.sessions.model import ClientError, Problem
from sparksql.gateway.sql.errors import Thrown, bounded, clean_message, describe
from sparksql.gateway.sql.script import Fragment
from sparksql.protocols.budget import OverBudgetError
from sparksql.wire.control import ErrorReason, OperationError

DETAILS_KEY = "grpc-status-details-bin"
CANCELED = "OPERATION_CANCELED"
SESSION_CLOSED = "INVALID_HANDLE.SESSION_CLOSED"
SESSION_NOT_FOUND = "INVALID_HANDLE.SESSION_NOT_FOUND"
_SQL_STATES = {  # of Spark's error-conditions.json
    CANCELED: "HY008",
    SESSION_CLOSED: "HY000",
    SESSION_NOT_FOUND: "HY000",
    "INVALID_HANDLE.FORMAT": "HY000",
}
_SPARK_EXCEPTION = "org.apache.spark.SparkException"
_PARSE_EXCEPTION = "org.apache.spark.sql.catalyst.parser.ParseException"
_NOT_PERMITTED = "42501"  # SQL:2023 insufficient privilege
_PROBLEMS = {
    Problem.NOT_READY: grpc.StatusCode.UNAVAILABLE,  # clients try again by themselves
    Problem.TOO_MANY_SESSIONS: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Problem.TOO_MANY_OPERATIONS: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Problem.QUEUE_FULL: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Problem.NOT_ALLOWED: grpc.StatusCode.PERMISSION_DENIED,
}

Metadata = tuple[tuple[str, str | bytes], ...]


class ConnectError(Exception):
    """An RPC that the gateway itself ends with an error; the message is for people."""

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        *,
        condition: str | None = None,
        sql_state: str | None = None,
        java_class: str = _SPARK_EXCEPTION,
    ) -> None:
        super().__init__(message if condition is None or message.startswith("[") else f"[{condition}] {message}")
        self.code = code
        self.condition = condition
        self.sql_state = sql_state or _SQL_STATES.get(condition or "")
        self.java_class = java_class

    def details(self) -> bytes:
        """Returns the packed `google.rpc.Status` from which Spark's clients make their exception."""
        metadata = {"classes": json.dumps([self.java_class]), "messageParameters": "{}"}
        if self.condition is not None:
            metadata["errorClass"] = self.condition
        if self.sql_state is not None:
            metadata["sqlState"] = self.sql_state
        info = error_details_pb2.ErrorInfo(reason=self.java_class, domain="org.apache.spark", metadata=metadata)
        status = status_pb2.Status(code=self.code.value[0], message=str(self))
        status.details.add().Pack(info)
        packed: bytes = status.SerializeToString()
        return packed


def not_permitted(message: str) -> ConnectError:
    """Returns the error for what the policy does not give."""
    return ConnectError(grpc.StatusCode.PERMISSION_DENIED, message, sql_state=_NOT_PERMITTED)


def malformed(message: str) -> ConnectError:
    """Returns the error for a request that says what it may not."""
    return ConnectError(grpc.StatusCode.INVALID_ARGUMENT, message)


def unavailable(message: str) -> ConnectError:
    """Returns the error for a request that the client may send again."""
    return ConnectError(grpc.StatusCode.UNAVAILABLE, message)


def over_budget(error: OverBudgetError) -> ConnectError:
    """Returns the error for a bound of the driver that the client has met."""
    return ConnectError(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))


def bad_handle(handle: str) -> ConnectError:
    """Returns the error for a handle that is no UUID, in Spark's words."""
    message = f"The handle {handle[:64]} is invalid. Handle must be an UUID string of the format '00112233-4455-6677-8899-aabbccddeeff'"
    return ConnectError(grpc.StatusCode.INVALID_ARGUMENT, message, condition="INVALID_HANDLE.FORMAT")


def session_closed(session_id: str) -> ConnectError:
    """Returns the error for a session that is closed, in Spark's words."""
    message = f"The handle {session_id} is invalid. Session was closed."
    return ConnectError(grpc.StatusCode.FAILED_PRECONDITION, message, condition=SESSION_CLOSED)


def session_not_found(session_id: str) -> ConnectError:
    """Returns the error for a session that nobody has opened, in Spark's words."""
    message = f"The handle {session_id} is invalid. Session not found."
    return ConnectError(grpc.StatusCode.FAILED_PRECONDITION, message, condition=SESSION_NOT_FOUND)


def stopped(reason: str) -> ConnectError:
    """Returns the error of a statement that did not come to its end because somebody, or a limit, stopped it."""
    return ConnectError(grpc.StatusCode.CANCELLED, f"The statement was stopped: {reason}", condition=CANCELED)


def refused_by_service(error: ClientError) -> ConnectError:
    """Returns the error for what the session service refuses."""
    return ConnectError(_PROBLEMS.get(error.problem, grpc.StatusCode.INVALID_ARGUMENT), str(error))


def refused_statement(error: OperationError) -> ConnectError:
    """Returns the error of a statement whose text is not allowed, or that Spark's parser refuses."""
    error = bounded(error)
    if error.reason is not ErrorReason.SQL_ERROR:
        return ConnectError(
            grpc.StatusCode.PERMISSION_DENIED, error.message, condition=error.condition, sql_state=error.sql_state
        )
    if error.condition is None:
        return not_permitted(error.message)
    return ConnectError(
        grpc.StatusCode.INVALID_ARGUMENT,
        error.message,
        condition=error.condition,
        sql_state=error.sql_state,
        java_class=_PARSE_EXCEPTION,
    )


def of_jvm(types: Sequence[str], message: str) -> OperationError | None:
    """Returns the error for an error of the JVM, by its type and its supertypes; None for one that has no condition."""
    thrown = Thrown(types[0].rpartition(".")[2], message, types=tuple(types))
    error = bounded(describe([thrown], Fragment("", 0), ""))
    return None if error.condition is None else error


def failed_in_jvm(error: OperationError) -> ConnectError:
    """Returns the error of an RPC that an error of the JVM has ended."""
    is_too_deep = error.reason is ErrorReason.LIMIT_EXCEEDED
    code = grpc.StatusCode.INVALID_ARGUMENT if is_too_deep else grpc.StatusCode.INTERNAL
    return ConnectError(code, error.message, condition=error.condition, sql_state=error.sql_state)


@dataclass(frozen=True)
class Told:
    """Holds what a status says; only one that Spark made of an exception has details."""

    message: str
    has_details: bool = False
    condition: str | None = None
    sql_state: str | None = None

    def operation_error(self) -> OperationError:
        """Returns the error of the operation that ended so."""
        message = clean_message(self.message)
        return OperationError(condition=self.condition, sql_state=self.sql_state, message=message)


def told_by(details: str | None, trailing: Sequence[tuple[str, str | bytes]]) -> Told:
    """Returns condition and SQLSTATE of a status that Spark ended an RPC with."""
    packed = next((value for key, value in trailing if key == DETAILS_KEY), b"")
    try:
        status = status_pb2.Status.FromString(packed if isinstance(packed, bytes) else packed.encode())
    except DecodeError:
        return Told(details or "")
    info = error_details_pb2.ErrorInfo()
    for detail in status.details:
        if detail.Is(info.DESCRIPTOR) and detail.Unpack(info):
            told = info.metadata
            return Told(status.message or details or "", True, told.get("errorClass"), told.get("sqlState"))
    return Told(details or "")
