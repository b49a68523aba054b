"""What the frontends (REST, Thrift, Connect) and the session manager tell each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sparksql.wire import front
from sparksql.wire.control import AnyClientProtocol, Column, OperationError


class OperationStatus(StrEnum):
    """FLIP-91 operation states as clients see them on the wire."""

    INITIALIZED = "INITIALIZED"
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELED = "CANCELED"
    CLOSED = "CLOSED"
    ERROR = "ERROR"
    TIMEOUT = "TIMEOUT"

    @property
    def is_terminal(self) -> bool:
        """Returns whether no other status follows."""
        return self not in (OperationStatus.INITIALIZED, OperationStatus.PENDING, OperationStatus.RUNNING)


class Problem(StrEnum):
    """Names the reasons for which a client's request is refused."""

    NOT_READY = "NotReady"  # Spark is starting, or the gateway drains
    TOO_MANY_SESSIONS = "TooManySessions"
    TOO_MANY_OPERATIONS = "TooManyOperations"
    QUEUE_FULL = "QueueFull"
    UNKNOWN_SESSION = front.UNKNOWN_SESSION
    UNKNOWN_OPERATION = front.UNKNOWN_OPERATION
    ILLEGAL_TRANSITION = "IllegalTransition"
    NOT_ALLOWED = "NotAllowed"
    INVALID = "Invalid"
    NO_RESULT = "NoResult"


class ClientError(Exception):
    """A request that is refused; the message is for people and names what to do."""

    def __init__(self, problem: Problem, message: str) -> None:
        super().__init__(message)
        self.problem = problem


@dataclass(frozen=True)
class OperationInfo:
    """Describes an operation of a client at one moment.

    `is_query` tells a plain query (SELECT, VALUES, WITH, TABLE) from SHOW, DDL and the like. `columns` and `row_count`
    are there once it is FINISHED; `has_effect_only` tells that it has no columns at all. `unbounded` tells that it runs, without
    end, and that its rows are given as they come: then its columns are there, too. `is_changelog` tells that these rows are of
    several kinds.
    """

    handle: str
    session: str
    status: OperationStatus
    statement_type: str | None = None
    is_query: bool = False
    is_insert: bool = False
    columns: tuple[Column, ...] = ()
    row_count: int = 0
    unbounded: bool = False
    is_changelog: bool = False
    error: OperationError | None = None
    submitted: datetime | None = None
    started: datetime | None = None
    completed: datetime | None = None


@dataclass(frozen=True)
class SessionInfo:
    """A client's session. `properties` are those it was opened with and has SET since."""

    handle: str
    protocol: AnyClientProtocol
    name: str
    opened: datetime
    properties: Mapping[str, str]
