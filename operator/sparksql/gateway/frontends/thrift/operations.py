"""What the frontend knows of its clients' sessions and operations, beside what the session service knows.

A handle on the wire is the service's UUID and a secret of its own. A statement's rows are the service's, page by page; a
listing of the catalog is a table of the frontend's own. Each operation has one cursor.
"""

from __future__ import annotations

import hmac
import secrets
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from sparksql.gateway.frontends.thrift.listings import Listing
from sparksql.gateway.frontends.thrift.types import HiveType, hive_type
from sparksql.gateway.results.changes import KIND_COLUMN
from sparksql.gateway.sessions.model import ClientError, OperationInfo, Problem
from sparksql.protocols.hiveserver2.messages import (
    TColumnDesc,
    THandleIdentifier,
    TOperationHandle,
    TOperationType,
    TPrimitiveTypeEntry,
    TSessionHandle,
    TTableSchema,
    TTypeDesc,
    TTypeEntry,
    TTypeQualifiers,
    TTypeQualifierValue,
)


@dataclass(frozen=True)
class ResultColumn:
    """Describes a column of a result as clients see it."""

    name: str
    type: HiveType
    comment: str = ""


_KIND = ResultColumn(KIND_COLUMN, hive_type("string"))
# What Spark's own Thrift server shows for a statement without columns; JDBC cannot ask for rows that have none.
_NO_COLUMNS = (ResultColumn("Result", hive_type("string")),)


@dataclass
class ThriftOperation:
    """A statement (`listing` is None) or a listing. FETCH_NEXT begins with row `next_row`, counted from 0.

    Of a query without end `next_page` is the token of what comes next, and `unread` what its client has yet to take.
    """

    handle: str
    session: ThriftSession
    type: TOperationType
    listing: Listing | None = None
    next_row: int = 0
    next_page: int = 0
    unread: pa.Table | None = None
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(16), repr=False)

    @property
    def on_wire(self) -> TOperationHandle:
        """Returns the handle that the client gets, with its secret."""
        return TOperationHandle(THandleIdentifier(uuid.UUID(self.handle).bytes, self.secret), self.type)


@dataclass
class ThriftSession:
    """A session by its handle of the service. `protocol` is the version that client and server share."""

    handle: str
    protocol: int
    operations: dict[str, ThriftOperation] = field(default_factory=dict)
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(16), repr=False)

    @property
    def on_wire(self) -> TSessionHandle:
        """Returns the handle that the client gets, with its secret."""
        return TSessionHandle(THandleIdentifier(uuid.UUID(self.handle).bytes, self.secret))


class Handles:
    """Sessions and operations of all connections, by what clients hold of them.

    A client may use a handle on any connection; a session ends with the connection that opened it.
    """

    def __init__(self) -> None:
        self._sessions: dict[str, ThriftSession] = {}
        self._operations: dict[str, ThriftOperation] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def add_session(self, session: ThriftSession) -> None:
        """Adds a session that was opened."""
        self._sessions[session.handle] = session

    def drop_session(self, handle: str) -> None:
        """Forgets a session and its operations; unknown ones are forgotten already."""
        session = self._sessions.pop(handle, None)
        for operation in () if session is None else session.operations:
            self._operations.pop(operation, None)

    def session(self, handle: TSessionHandle) -> ThriftSession:
        """Returns the session of a handle, whose secret must be right. Raises ClientError UNKNOWN_SESSION."""
        key = _key(handle.session_id)
        found = self._sessions.get(key)
        if found is None or not hmac.compare_digest(found.secret, handle.session_id.secret):
            raise ClientError(Problem.UNKNOWN_SESSION, f"session {key} does not exist or has expired")
        return found

    def add_operation(self, operation: ThriftOperation) -> None:
        """Adds an operation to those of its session."""
        operation.session.operations[operation.handle] = operation
        self._operations[operation.handle] = operation

    def drop_operation(self, operation: ThriftOperation) -> None:
        """Forgets an operation; unknown ones are forgotten already."""
        operation.session.operations.pop(operation.handle, None)
        self._operations.pop(operation.handle, None)

    def operation(self, handle: TOperationHandle) -> ThriftOperation:
        """Returns the operation of a handle, whose secret must be right. Raises ClientError UNKNOWN_OPERATION."""
        key = _key(handle.operation_id)
        found = self._operations.get(key)
        if found is None or not hmac.compare_digest(found.secret, handle.operation_id.secret):
            raise ClientError(Problem.UNKNOWN_OPERATION, f"operation {key} does not exist or has been closed")
        return found


def statement_columns(view: OperationInfo) -> tuple[ResultColumn, ...]:
    """Returns the columns of a statement whose rows can be fetched; of a changelog the first is the row's kind."""
    columns = tuple(ResultColumn(column.name, hive_type(column.type)) for column in view.columns) or _NO_COLUMNS
    return (_KIND, *columns) if view.is_changelog else columns


def listing_columns(listing: Listing) -> tuple[ResultColumn, ...]:
    """Returns a listing's columns as clients see them."""
    return tuple(ResultColumn(column.name, hive_type(column.type), column.comment) for column in listing.columns)


def schema_of(columns: Sequence[ResultColumn]) -> TTableSchema:
    """Returns the schema of these columns; their positions count from 1."""
    return TTableSchema(
        [
            TColumnDesc(column.name, TTypeDesc([TTypeEntry(_primitive(column.type))]), position, column.comment)
            for position, column in enumerate(columns, start=1)
        ]
    )


def no_rows(columns: Sequence[ResultColumn]) -> pa.Table:
    """Returns an empty table in as many columns; `rowset` gives them their types."""
    empty = pa.nulls(0)
    return pa.Table.from_arrays([empty] * len(columns), names=[str(number) for number in range(len(columns))])


def _primitive(kind: HiveType) -> TPrimitiveTypeEntry:
    values = {name: TTypeQualifierValue(number) for name, number in kind.qualifiers.items()}
    return TPrimitiveTypeEntry(kind.id, TTypeQualifiers(values) if values else None)


def _key(identifier: THandleIdentifier) -> str:
    return str(uuid.UUID(bytes=identifier.guid)) if len(identifier.guid) == 16 else identifier.guid[:32].hex()
