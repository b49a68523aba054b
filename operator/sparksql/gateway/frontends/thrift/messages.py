"""The messages of HiveServer2's TCLIService: the numbers that its clients know, and nothing that no client of ours reads.

Row sets are not declared here: `rowset` writes them straight from Arrow.
"""

# ruff: noqa: RUF009  `at` makes each field anew
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from sparksql.gateway.frontends.thrift.codec import (
    BINARY,
    BOOL,
    DOUBLE,
    I16,
    I32,
    I64,
    STRING,
    Struct,
    at,
    list_of,
    map_of,
)

NEWEST_PROTOCOL = 10  # HIVE_CLI_SERVICE_PROTOCOL_V11
FIRST_COLUMNAR_PROTOCOL = 5  # V6: columns with a null bitmap instead of rows


class StatusCode(IntEnum):
    SUCCESS = 0
    ERROR = 3


class OperationType(IntEnum):
    EXECUTE_STATEMENT = 0
    GET_TYPE_INFO = 1
    GET_CATALOGS = 2
    GET_SCHEMAS = 3
    GET_TABLES = 4
    GET_TABLE_TYPES = 5
    GET_COLUMNS = 6
    GET_FUNCTIONS = 7
    UNKNOWN = 8


class OperationState(IntEnum):
    INITIALIZED = 0
    RUNNING = 1
    FINISHED = 2
    CANCELED = 3
    CLOSED = 4
    ERROR = 5
    PENDING = 7
    TIMED_OUT = 8


class TypeId(IntEnum):
    BOOLEAN = 0
    TINYINT = 1
    SMALLINT = 2
    INT = 3
    BIGINT = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    TIMESTAMP = 8
    BINARY = 9
    ARRAY = 10
    MAP = 11
    STRUCT = 12
    DECIMAL = 15
    NULL = 16
    DATE = 17
    VARCHAR = 18
    CHAR = 19


class InfoType(IntEnum):
    SERVER_NAME = 13
    SEARCH_PATTERN_ESCAPE = 14
    DBMS_NAME = 17
    DBMS_VERSION = 18
    IDENTIFIER_QUOTE = 29
    MAX_COLUMN_NAME = 30
    MAX_SCHEMA_NAME = 32
    MAX_TABLE_NAME = 35


class FetchOrientation(IntEnum):
    NEXT = 0
    FIRST = 4


class FetchType(IntEnum):
    ROWS = 0
    LOG = 1


class ApplicationError(IntEnum):
    """Thrift's own errors: what no TStatus can say."""

    UNKNOWN_METHOD = 1
    INTERNAL_ERROR = 6
    PROTOCOL_ERROR = 7


@dataclass(frozen=True)
class ApplicationException(Struct):
    message: str = at(1, STRING)
    type: int = at(2, I32)


@dataclass(frozen=True)
class Status(Struct):
    code: int = at(1, I32, StatusCode.SUCCESS)
    sql_state: str | None = at(3, STRING)
    error_code: int | None = at(4, I32)
    error_message: str | None = at(5, STRING)


@dataclass(frozen=True)
class HandleIdentifier(Struct):
    guid: bytes = at(1, BINARY, b"")
    secret: bytes = at(2, BINARY, b"")


@dataclass(frozen=True)
class SessionHandle(Struct):
    identifier: HandleIdentifier = at(1, HandleIdentifier, HandleIdentifier())


@dataclass(frozen=True)
class OperationHandle(Struct):
    identifier: HandleIdentifier = at(1, HandleIdentifier, HandleIdentifier())
    type: int = at(2, I32, OperationType.UNKNOWN)
    has_result_set: bool = at(3, BOOL, True)


@dataclass(frozen=True)
class OpenSessionRequest(Struct):
    protocol: int = at(1, I32, 0)
    username: str = at(2, STRING, "")
    configuration: Mapping[str, str] = at(4, map_of(STRING, STRING))


@dataclass(frozen=True)
class OpenSessionResponse(Struct):
    status: Status = at(1, Status, Status())
    protocol: int = at(2, I32, 0)
    session: SessionHandle | None = at(3, SessionHandle)
    configuration: Mapping[str, str] | None = at(4, map_of(STRING, STRING))


@dataclass(frozen=True)
class SessionRequest(Struct):
    """Any request that is about a session, as far as they all are the same."""

    session: SessionHandle = at(1, SessionHandle, SessionHandle())


@dataclass(frozen=True)
class OperationRequest(Struct):
    """Any request that is about an operation, as far as they all are the same."""

    operation: OperationHandle = at(1, OperationHandle, OperationHandle())


@dataclass(frozen=True)
class StatusResponse(Struct):
    """Any answer that is a status and nothing more."""

    status: Status = at(1, Status, Status())


@dataclass(frozen=True)
class OperationResponse(Struct):
    """The answer to each request that makes an operation."""

    status: Status = at(1, Status, Status())
    operation: OperationHandle | None = at(2, OperationHandle)


@dataclass(frozen=True)
class GetInfoRequest(SessionRequest):
    type: int = at(2, I32, 0)


@dataclass(frozen=True)
class InfoValue(Struct):
    text: str | None = at(1, STRING)
    length: int | None = at(6, I64)


@dataclass(frozen=True)
class GetInfoResponse(Struct):
    status: Status = at(1, Status, Status())
    value: InfoValue = at(2, InfoValue, InfoValue())


@dataclass(frozen=True)
class ExecuteStatementRequest(SessionRequest):
    statement: str = at(2, STRING, "")
    conf: Mapping[str, str] = at(3, map_of(STRING, STRING))
    run_async: bool = at(4, BOOL, False)
    timeout: int = at(5, I64, 0)


@dataclass(frozen=True)
class GetSchemasRequest(SessionRequest):
    catalog: str | None = at(2, STRING)
    schema: str | None = at(3, STRING)


@dataclass(frozen=True)
class GetTablesRequest(SessionRequest):
    catalog: str | None = at(2, STRING)
    schema: str | None = at(3, STRING)
    table: str | None = at(4, STRING)
    types: list[str] | None = at(5, list_of(STRING))


@dataclass(frozen=True)
class GetColumnsRequest(SessionRequest):
    catalog: str | None = at(2, STRING)
    schema: str | None = at(3, STRING)
    table: str | None = at(4, STRING)
    column: str | None = at(5, STRING)


@dataclass(frozen=True)
class GetFunctionsRequest(SessionRequest):
    catalog: str | None = at(2, STRING)
    schema: str | None = at(3, STRING)
    function: str | None = at(4, STRING)


@dataclass(frozen=True)
class ProgressUpdate(Struct):
    headers: list[str] = at(1, list_of(STRING))
    rows: list[list[str]] = at(2, list_of(list_of(STRING)))
    percentage: float = at(3, DOUBLE, 0.0)
    status: int = at(4, I32, 2)  # NOT_AVAILABLE
    footer: str = at(5, STRING, "")
    start: int = at(6, I64, 0)


@dataclass(frozen=True)
class GetOperationStatusRequest(OperationRequest):
    progress: bool = at(2, BOOL, False)


@dataclass(frozen=True)
class GetOperationStatusResponse(Struct):
    status: Status = at(1, Status, Status())
    state: int | None = at(2, I32)
    sql_state: str | None = at(3, STRING)
    error_code: int | None = at(4, I32)
    error_message: str | None = at(5, STRING)
    started: int | None = at(7, I64)
    completed: int | None = at(8, I64)
    has_result_set: bool | None = at(9, BOOL)
    progress: ProgressUpdate | None = at(10, ProgressUpdate)


@dataclass(frozen=True)
class QualifierValue(Struct):
    number: int | None = at(1, I32)


@dataclass(frozen=True)
class Qualifiers(Struct):
    values: Mapping[str, QualifierValue] = at(1, map_of(STRING, QualifierValue))


@dataclass(frozen=True)
class PrimitiveType(Struct):
    type: int = at(1, I32)
    qualifiers: Qualifiers | None = at(2, Qualifiers)


@dataclass(frozen=True)
class TypeEntry(Struct):
    primitive: PrimitiveType = at(1, PrimitiveType)


@dataclass(frozen=True)
class TypeDescription(Struct):
    types: list[TypeEntry] = at(1, list_of(TypeEntry))


@dataclass(frozen=True)
class ColumnDescription(Struct):
    name: str = at(1, STRING)
    type: TypeDescription = at(2, TypeDescription)
    position: int = at(3, I32)
    comment: str = at(4, STRING, "")


@dataclass(frozen=True)
class TableSchema(Struct):
    columns: list[ColumnDescription] = at(1, list_of(ColumnDescription))


@dataclass(frozen=True)
class GetResultSetMetadataResponse(Struct):
    status: Status = at(1, Status, Status())
    schema: TableSchema | None = at(2, TableSchema)


@dataclass(frozen=True)
class FetchResultsRequest(OperationRequest):
    orientation: int = at(2, I32, FetchOrientation.NEXT)
    max_rows: int = at(3, I64, 0)
    type: int = at(4, I16, FetchType.ROWS)


@dataclass(frozen=True)
class TextResponse(Struct):
    """GetLog and GetDelegationToken: a status and a text."""

    status: Status = at(1, Status, Status())
    text: str | None = at(2, STRING)


@dataclass(frozen=True)
class QueryIdResponse(Struct):
    query_id: str = at(1, STRING)
