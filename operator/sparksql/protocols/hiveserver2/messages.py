"""The messages of HiveServer2's TCLIService, by the names and numbers of Hive's IDL: of each, what clients of ours send or read.

A field is named as there, in Python's spelling. The classes without a `T` stand for several messages that are alike in what is
read or written of them. Row sets are not declared here: `rowset` writes them straight from Arrow.
"""

# ruff: noqa: RUF009  `at` makes each field anew
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from sparksql.protocols.hiveserver2.codec import (
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


class TStatusCode(IntEnum):
    SUCCESS_STATUS = 0
    ERROR_STATUS = 3


class TOperationType(IntEnum):
    EXECUTE_STATEMENT = 0
    GET_TYPE_INFO = 1
    GET_CATALOGS = 2
    GET_SCHEMAS = 3
    GET_TABLES = 4
    GET_TABLE_TYPES = 5
    GET_COLUMNS = 6
    GET_FUNCTIONS = 7
    UNKNOWN = 8


class TOperationState(IntEnum):
    INITIALIZED_STATE = 0
    RUNNING_STATE = 1
    FINISHED_STATE = 2
    CANCELED_STATE = 3
    CLOSED_STATE = 4
    ERROR_STATE = 5
    PENDING_STATE = 7
    TIMEDOUT_STATE = 8


class TTypeId(IntEnum):
    BOOLEAN_TYPE = 0
    TINYINT_TYPE = 1
    SMALLINT_TYPE = 2
    INT_TYPE = 3
    BIGINT_TYPE = 4
    FLOAT_TYPE = 5
    DOUBLE_TYPE = 6
    STRING_TYPE = 7
    TIMESTAMP_TYPE = 8
    BINARY_TYPE = 9
    ARRAY_TYPE = 10
    MAP_TYPE = 11
    STRUCT_TYPE = 12
    DECIMAL_TYPE = 15
    NULL_TYPE = 16
    DATE_TYPE = 17
    VARCHAR_TYPE = 18
    CHAR_TYPE = 19


class TGetInfoType(IntEnum):
    CLI_SERVER_NAME = 13
    CLI_SEARCH_PATTERN_ESCAPE = 14
    CLI_DBMS_NAME = 17
    CLI_DBMS_VER = 18
    CLI_IDENTIFIER_QUOTE_CHAR = 29
    CLI_MAX_COLUMN_NAME_LEN = 30
    CLI_MAX_SCHEMA_NAME_LEN = 32
    CLI_MAX_TABLE_NAME_LEN = 35


class TFetchOrientation(IntEnum):
    FETCH_NEXT = 0
    FETCH_FIRST = 4


class FetchType(IntEnum):
    ROWS = 0
    LOG = 1


class ApplicationError(IntEnum):
    """Types of Thrift's own TApplicationException: what no TStatus can say."""

    UNKNOWN_METHOD = 1
    INTERNAL_ERROR = 6
    PROTOCOL_ERROR = 7


@dataclass(frozen=True)
class TApplicationException(Struct):
    message: str = at(1, STRING)
    type: int = at(2, I32)


@dataclass(frozen=True)
class TStatus(Struct):
    status_code: int = at(1, I32, TStatusCode.SUCCESS_STATUS)
    sql_state: str | None = at(3, STRING)
    error_code: int | None = at(4, I32)
    error_message: str | None = at(5, STRING)


@dataclass(frozen=True)
class THandleIdentifier(Struct):
    guid: bytes = at(1, BINARY, b"")
    secret: bytes = at(2, BINARY, b"")


@dataclass(frozen=True)
class TSessionHandle(Struct):
    session_id: THandleIdentifier = at(1, THandleIdentifier, THandleIdentifier())


@dataclass(frozen=True)
class TOperationHandle(Struct):
    operation_id: THandleIdentifier = at(1, THandleIdentifier, THandleIdentifier())
    operation_type: int = at(2, I32, TOperationType.UNKNOWN)
    has_result_set: bool = at(3, BOOL, True)


@dataclass(frozen=True)
class TOpenSessionReq(Struct):
    client_protocol: int = at(1, I32, 0)
    username: str = at(2, STRING, "")
    configuration: Mapping[str, str] = at(4, map_of(STRING, STRING))


@dataclass(frozen=True)
class TOpenSessionResp(Struct):
    status: TStatus = at(1, TStatus, TStatus())
    server_protocol_version: int = at(2, I32, 0)
    session_handle: TSessionHandle | None = at(3, TSessionHandle)
    configuration: Mapping[str, str] | None = at(4, map_of(STRING, STRING))


@dataclass(frozen=True)
class SessionRequest(Struct):
    """Holds the session that every request about one begins with.

    Nothing else is read of TCloseSessionReq, TSetClientInfoReq, TGetTypeInfoReq, TGetCatalogsReq, TGetTableTypesReq,
    TGetPrimaryKeysReq, TGetCrossReferenceReq and the three about delegation tokens.
    """

    session_handle: TSessionHandle = at(1, TSessionHandle, TSessionHandle())


@dataclass(frozen=True)
class OperationRequest(Struct):
    """Holds the operation that every request about one begins with.

    Nothing else is read of TCancelOperationReq, TCloseOperationReq, TGetQueryIdReq and TGetResultSetMetadataReq.
    """

    operation_handle: TOperationHandle = at(1, TOperationHandle, TOperationHandle())


@dataclass(frozen=True)
class StatusResponse(Struct):
    """Any answer that is a status and nothing more, such as TCloseSessionResp; and what is left of others for a refusal."""

    status: TStatus = at(1, TStatus, TStatus())


@dataclass(frozen=True)
class OperationResponse(Struct):
    """The answer to each request that makes an operation: TExecuteStatementResp, TGetTypeInfoResp and their like."""

    status: TStatus = at(1, TStatus, TStatus())
    operation_handle: TOperationHandle | None = at(2, TOperationHandle)


@dataclass(frozen=True)
class TGetInfoReq(SessionRequest):
    info_type: int = at(2, I32, 0)


@dataclass(frozen=True)
class TGetInfoValue(Struct):
    string_value: str | None = at(1, STRING)
    len_value: int | None = at(6, I64)


@dataclass(frozen=True)
class TGetInfoResp(Struct):
    status: TStatus = at(1, TStatus, TStatus())
    info_value: TGetInfoValue = at(2, TGetInfoValue, TGetInfoValue())


@dataclass(frozen=True)
class TExecuteStatementReq(SessionRequest):
    statement: str = at(2, STRING, "")
    conf_overlay: Mapping[str, str] = at(3, map_of(STRING, STRING))
    run_async: bool = at(4, BOOL, False)
    query_timeout: int = at(5, I64, 0)


@dataclass(frozen=True)
class TGetSchemasReq(SessionRequest):
    catalog_name: str | None = at(2, STRING)
    schema_name: str | None = at(3, STRING)


@dataclass(frozen=True)
class TGetTablesReq(SessionRequest):
    catalog_name: str | None = at(2, STRING)
    schema_name: str | None = at(3, STRING)
    table_name: str | None = at(4, STRING)
    table_types: list[str] | None = at(5, list_of(STRING))


@dataclass(frozen=True)
class TGetColumnsReq(SessionRequest):
    catalog_name: str | None = at(2, STRING)
    schema_name: str | None = at(3, STRING)
    table_name: str | None = at(4, STRING)
    column_name: str | None = at(5, STRING)


@dataclass(frozen=True)
class TGetFunctionsReq(SessionRequest):
    catalog_name: str | None = at(2, STRING)
    schema_name: str | None = at(3, STRING)
    function_name: str | None = at(4, STRING)


@dataclass(frozen=True)
class TProgressUpdateResp(Struct):
    header_names: list[str] = at(1, list_of(STRING))
    rows: list[list[str]] = at(2, list_of(list_of(STRING)))
    progressed_percentage: float = at(3, DOUBLE, 0.0)
    status: int = at(4, I32, 2)  # NOT_AVAILABLE
    footer_summary: str = at(5, STRING, "")
    start_time: int = at(6, I64, 0)


@dataclass(frozen=True)
class TGetOperationStatusReq(OperationRequest):
    get_progress_update: bool = at(2, BOOL, False)


@dataclass(frozen=True)
class TGetOperationStatusResp(Struct):
    status: TStatus = at(1, TStatus, TStatus())
    operation_state: int | None = at(2, I32)
    sql_state: str | None = at(3, STRING)
    error_code: int | None = at(4, I32)
    error_message: str | None = at(5, STRING)
    operation_started: int | None = at(7, I64)
    operation_completed: int | None = at(8, I64)
    has_result_set: bool | None = at(9, BOOL)
    progress_update_response: TProgressUpdateResp | None = at(10, TProgressUpdateResp)


@dataclass(frozen=True)
class TTypeQualifierValue(Struct):
    i32_value: int | None = at(1, I32)


@dataclass(frozen=True)
class TTypeQualifiers(Struct):
    qualifiers: Mapping[str, TTypeQualifierValue] = at(1, map_of(STRING, TTypeQualifierValue))


@dataclass(frozen=True)
class TPrimitiveTypeEntry(Struct):
    type: int = at(1, I32)
    type_qualifiers: TTypeQualifiers | None = at(2, TTypeQualifiers)


@dataclass(frozen=True)
class TTypeEntry(Struct):
    primitive_entry: TPrimitiveTypeEntry = at(1, TPrimitiveTypeEntry)


@dataclass(frozen=True)
class TTypeDesc(Struct):
    types: list[TTypeEntry] = at(1, list_of(TTypeEntry))


@dataclass(frozen=True)
class TColumnDesc(Struct):
    column_name: str = at(1, STRING)
    type_desc: TTypeDesc = at(2, TTypeDesc)
    position: int = at(3, I32)
    comment: str = at(4, STRING, "")


@dataclass(frozen=True)
class TTableSchema(Struct):
    columns: list[TColumnDesc] = at(1, list_of(TColumnDesc))


@dataclass(frozen=True)
class TGetResultSetMetadataResp(Struct):
    status: TStatus = at(1, TStatus, TStatus())
    schema: TTableSchema | None = at(2, TTableSchema)


@dataclass(frozen=True)
class TFetchResultsReq(OperationRequest):
    orientation: int = at(2, I32, TFetchOrientation.FETCH_NEXT)
    max_rows: int = at(3, I64, 0)
    fetch_type: int = at(4, I16, FetchType.ROWS)


@dataclass(frozen=True)
class TGetDelegationTokenResp(Struct):
    status: TStatus = at(1, TStatus, TStatus())
    delegation_token: str | None = at(2, STRING)


@dataclass(frozen=True)
class TGetLogResp(Struct):
    """Answers the one call that Hive's IDL has no more.

    Impala's IDL has it, and clients made from that one use it.
    """

    status: TStatus = at(1, TStatus, TStatus())
    log: str | None = at(2, STRING)


@dataclass(frozen=True)
class TGetQueryIdResp(Struct):
    query_id: str = at(1, STRING)
