"""What travels over the REST API, exactly as released: camelCase, and no key that a released client does not know.

Released clients refuse an error body or a column with a key too many, and `null` where a key should be absent, so answers
are written with the keys that were set and no others. Requests are read as generously as the released server reads them:
unknown keys are ignored, numbers and booleans become text where text is meant, an absent body is one without keys.
"""

from __future__ import annotations

import json
import math
import re
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

MAX_JARS = 32  # of one request; each is a statement
MAX_LENGTH = 2**31 - 1  # of a VARCHAR or VARBINARY without a length of its own
_LONG = range(-(2**63), 2**63)
_INT = range(-(2**31), 2**31)


class RestModel(BaseModel):
    """Reads and writes JSON with the field names of the released server."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")

    def to_json(self) -> str:
        """Returns the model as the released server writes it: camelCase, without fields that are None."""
        return self.model_dump_json(by_alias=True, exclude_unset=True)


class _Number(str):
    """A number of a JSON text, spelled as it was sent."""


class BadBodyError(Exception):
    """A body that cannot be read as what the route takes; the message says why."""


def _text(value: object) -> object:
    match value:
        case bool():
            return str(value).lower()
        case str():
            value.encode()  # a lone surrogate is no text: UnicodeEncodeError is a ValueError
            return str(value)
        case _:
            return value


def _whole(value: object, allowed: range) -> object:
    match value:
        case None | "":
            return None
        case str() if re.fullmatch(r"-?\d{1,19}", value, re.ASCII):
            number = int(value)
        case _Number() if math.isfinite(float(value)):
            number = int(float(value))
        case bool() | str() | list() | dict():
            raise ValueError("a whole number is meant")
        case _:
            return value
    if number not in allowed:
        raise ValueError(f"the number must lie between {allowed.start} and {allowed.stop - 1}")
    return number


Text = Annotated[str, BeforeValidator(_text)]
# The bounds stand next to `int`, since beyond a validator they would not reach the OpenAPI document.
Int = Annotated[int, Field(ge=_INT.start, lt=_INT.stop), BeforeValidator(lambda value: _whole(value, _INT))]
OptionalLong = Annotated[
    Annotated[int, Field(ge=_LONG.start, lt=_LONG.stop)] | None, BeforeValidator(lambda value: _whole(value, _LONG))
]
TextMap = dict[Text, Text | None]


class OpenSessionRequest(RestModel):
    """`jars` is FLIP-91's and not the released API's: since version 4 they are added before the session is handed out."""

    session_name: Text | None = None
    properties: TextMap | None = None
    jars: Annotated[list[Text], Field(max_length=MAX_JARS)] | None = None


class ConfigureSessionRequest(RestModel):
    statement: Text | None = Field(default=None, repr=False)
    execution_timeout: OptionalLong = None


class CompleteStatementRequest(RestModel):
    """`position` counts characters from the start of the statement."""

    statement: Text | None = Field(default=None, repr=False)
    position: Int


class ExecuteStatementRequest(RestModel):
    """`execution_timeout` in ms, 0 or less for none. `execution_config` holds for this statement alone."""

    statement: Text | None = Field(default=None, repr=False)
    execution_timeout: OptionalLong = None
    execution_config: TextMap | None = Field(default=None, repr=False)


class DeployScriptRequest(RestModel):
    script: Text | None = None
    script_uri: Text | None = None
    execution_config: TextMap | None = Field(default=None, repr=False)


class InfoResponse(RestModel):
    product_name: str
    version: str


class ApiVersionsResponse(RestModel):
    versions: list[str]


class OpenSessionResponse(RestModel):
    session_handle: str = Field(json_schema_extra={"format": "uuid"})


class SessionResponse(RestModel):
    properties: dict[str, str]


class EmptyResponse(RestModel):
    """`{}`"""  # noqa: D400 - a description in the OpenAPI document, where it is the very body


class CompleteStatementResponse(RestModel):
    candidates: list[str]


class ExecuteStatementResponse(RestModel):
    operation_handle: str = Field(json_schema_extra={"format": "uuid"})


class DeployScriptResponse(RestModel):
    """The released server names the cluster that runs the script; here it is the operation that does."""

    cluster_id: str = Field(alias="clusterID")


class StatusResponse(RestModel):
    status: str


class ErrorResponse(RestModel):
    errors: list[str]


class TypeRoot(StrEnum):
    """Roots of logical types, as far as Spark has values of them."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INTEGER = "INTEGER"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    VARBINARY = "VARBINARY"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP_WITHOUT_TIME_ZONE"
    TIMESTAMP_LTZ = "TIMESTAMP_WITH_LOCAL_TIME_ZONE"
    ARRAY = "ARRAY"
    MAP = "MAP"
    ROW = "ROW"


class RowField(RestModel):
    name: str
    field_type: LogicalType


class LogicalType(RestModel):
    """The type of a column or of a part of one. Which keys are there depends on `type`."""

    type: TypeRoot
    nullable: bool
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    element_type: LogicalType | None = None
    key_type: LogicalType | None = None
    value_type: LogicalType | None = None
    row_fields: list[RowField] | None = Field(default=None, alias="fields")


class ColumnInfo(RestModel):
    name: str
    logical_type: LogicalType
    comment: str | None


class SessionEntry(RestModel):
    session_handle: str = Field(json_schema_extra={"format": "uuid"})
    session_name: str
    protocol: str
    open_time: datetime
    last_used_time: datetime
    operations: int


class SessionsResponse(RestModel):
    sessions: list[SessionEntry]


class CatalogsResponse(RestModel):
    """`current_catalog` and `current_database` are those that names without one mean."""

    catalogs: list[str]
    current_catalog: str
    current_database: str


class DatabasesResponse(RestModel):
    databases: list[str]


class TableKind(StrEnum):
    TABLE = "TABLE"
    VIEW = "VIEW"


class TableEntry(RestModel):
    name: str
    kind: TableKind
    comment: str


class TablesResponse(RestModel):
    tables: list[TableEntry]


class TableResponse(RestModel):
    """A table that cannot be read by now has no columns."""

    name: str
    kind: TableKind
    comment: str
    columns: list[ColumnInfo]


class FunctionEntry(RestModel):
    """A function; `class_name` is empty where the catalog does not tell it."""

    name: str
    class_name: str


class FunctionsResponse(RestModel):
    functions: list[FunctionEntry]


class RowFormat(StrEnum):
    """Names the formats in which rows are written. ARROW is an addition of this gateway: the page is an Arrow IPC stream."""

    JSON = "JSON"
    PLAIN_TEXT = "PLAIN_TEXT"
    ARROW = "ARROW"


class ResultType(StrEnum):
    NOT_READY = "NOT_READY"
    PAYLOAD = "PAYLOAD"
    EOS = "EOS"


class ResultKind(StrEnum):
    SUCCESS = "SUCCESS"
    SUCCESS_WITH_CONTENT = "SUCCESS_WITH_CONTENT"


class RowKind(StrEnum):
    INSERT = "INSERT"


class RowData(RestModel):
    kind: RowKind
    fields_: list[Any] = Field(alias="fields")


class ResultInfo(RestModel):
    columns: list[ColumnInfo]
    row_format: RowFormat
    data: list[RowData]


class FetchResultsResponse(RestModel):
    """A page. `next_result_uri` is absent after the last one; everything but it and `result_type` is absent in NOT_READY."""

    result_type: ResultType
    is_query_result: bool | None = None
    job_id: str | None = Field(default=None, alias="jobID", pattern="^[0-9a-f]{32}$")
    result_kind: ResultKind | None = None
    results: ResultInfo | None = None
    next_result_uri: str | None = None


Request = TypeVar("Request", bound=RestModel)


def read_body(model: type[Request], body: bytes) -> Request:
    """Reads a request's body as its model. Raises BadBodyError."""
    try:
        text = body.decode()
        value = json.loads(text, parse_int=_Number, parse_float=_Number, parse_constant=_no_constant) if text else {}
        return model.model_validate(value, by_alias=True, by_name=False)
    except ValidationError as invalid:
        first = invalid.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the body"
        raise BadBodyError(f"{place}: {first['msg'].removeprefix('Value error, ')}") from invalid
    except (ValueError, RecursionError) as malformed:
        raise BadBodyError(f"the body is no JSON: {type(malformed).__name__}") from malformed


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")
