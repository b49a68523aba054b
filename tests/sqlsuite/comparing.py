"""What a protocol gives for a statement against what the golden file has. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from tests.sqlsuite.golden import Failure, Result, Rows
from tests.sqlsuite.masking import Masks
from tests.sqlsuite.printing import shown, utf16
from tests.sqlsuite.types import Type, UnreadableError, column_types

_NO_COLUMNS = "struct<>"
_DESCRIBED = "struct<col_name:string,data_type:string,comment:string>"
_TABLES = "struct<namespace:string,tableName:string,isTemporary:boolean>"
_VIEWS = "struct<namespace:string,viewName:string,isTemporary:boolean>"
_WIDTH = 20  # of a column of DESCRIBE


class ProtocolName(StrEnum):
    """The protocols that the suite goes through."""

    REST = "rest"
    CONTROL = "control"
    THRIFT = "thrift"
    CONNECT = "connect"


class Kind(StrEnum):
    """In what a statement differs."""

    COLUMNS = "columns"
    TYPES = "types"
    ROWS = "rows"
    CONDITION = "condition"
    SQL_STATE = "sqlState"
    MESSAGE = "message"
    FAILED = "failed"
    SUCCEEDED = "succeeded"
    LOST = "lost"  # the driver, or its answer


@dataclass(frozen=True)
class Answer:
    """Columns as the protocol describes them, by name and type, and rows of the protocol's values."""

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Error:
    """What a statement ended in. `reason` is the gateway's own, where the protocol shows it."""

    condition: str | None
    sql_state: str | None
    message: str
    reason: str | None = None


Outcome = Answer | Error


@dataclass(frozen=True)
class Difference:
    """A statement, by its number in its file from 1 on, or 0 for the file's settings."""

    number: int
    kind: Kind
    sql: str
    expected: str
    actual: str

    @property
    def shown(self) -> str:
        """Returns the statement, what was expected and what came, as text."""
        return (
            f"statement {self.number} differs in its {self.kind}:\n{self.sql}\n"
            f"--- expected\n{self.expected}\n--- came\n{self.actual}"
        )


class Reading(Protocol):
    """How a protocol writes types and values."""

    def type_of(self, kind: Type) -> str:
        """Returns how the protocol describes a column of this type."""

    def value(self, raw: Any, kind: Type) -> Any:
        """Returns the value that was carried, as `printing.shown` takes it."""


@dataclass(frozen=True)
class Surroundings:
    """What a run is compared with regard to: how its session shows binaries, and the folders of its tables."""

    binary_style: str
    masks: Masks


def difference(
    number: int, sql: str, expected: Sequence[Result], outcome: Outcome, reading: Reading, surroundings: Surroundings
) -> Difference | None:
    """Returns in what an outcome differs from the first of the results, None if it is as one of them says."""
    found = [_difference(each, outcome, reading, surroundings) for each in expected]
    if None in found:
        return None
    kind, wanted, actual = found[0]  # type: ignore[misc]
    return Difference(number, kind, sql, wanted, actual)


def _difference(
    expected: Result, outcome: Outcome, reading: Reading, surroundings: Surroundings
) -> tuple[Kind, str, str] | None:
    match expected, outcome:
        case Rows(), Error() as error:
            return Kind.FAILED, _short(expected), _told(error)
        case Failure(), Answer() as answer:
            return Kind.SUCCEEDED, _short(expected), str(answer.columns)
        case Failure() as failure, Error() as error:
            return _between_failures(failure, error, surroundings.masks)
        case Rows() as rows, Answer() as answer:
            return _between_rows(rows, answer, reading, surroundings)
    raise AssertionError(outcome)


def _between_failures(failure: Failure, error: Error, masks: Masks) -> tuple[Kind, str, str] | None:
    if failure.condition is None:
        said = failure.message.partition("\n")[0]
        return None if said in masks.masked(error.message) else (Kind.MESSAGE, _short(failure), _told(error))
    if failure.condition != error.condition:
        return Kind.CONDITION, _short(failure), _told(error)
    if failure.sql_state != error.sql_state:
        return Kind.SQL_STATE, str(failure.sql_state), str(error.sql_state)
    return None


def _between_rows(
    rows: Rows, answer: Answer, reading: Reading, surroundings: Surroundings
) -> tuple[Kind, str, str] | None:
    names = [name for name, _ in answer.columns]
    try:
        types = column_types(rows.schema, names)
    except UnreadableError:
        return Kind.COLUMNS, rows.schema, str(answer.columns)
    wanted = [reading.type_of(kind) for kind in types]
    told = [kind for _, kind in answer.columns]
    if wanted != told:
        return Kind.TYPES, str(wanted), str(told)
    lines = [surroundings.masks.masked(line) for line in _lines(rows.schema, types, answer, reading, surroundings)]
    texts = ["\n".join(each).rstrip() for each in (lines, sorted(lines, key=utf16))]
    return None if rows.output in texts else (Kind.ROWS, rows.output, texts[0])


def _lines(
    schema: str, types: Sequence[Type], answer: Answer, reading: Reading, surroundings: Surroundings
) -> Iterable[str]:
    for row in answer.rows:
        values = (reading.value(raw, kind) for raw, kind in zip(row, types, strict=True))
        cells = [shown(v, kind, surroundings.binary_style) for v, kind in zip(values, types, strict=True)]
        if schema == _DESCRIBED:
            cells = [("" if raw is None else cell).ljust(_WIDTH) for raw, cell in zip(row, cells, strict=True)]
        elif schema in (_TABLES, _VIEWS):
            cells = cells[1:2]
        yield "\t".join(cells)


def _short(result: Result) -> str:
    match result:
        case Rows(schema, output):
            return f"{schema}\n{output}"
        case Failure(exception, condition, sql_state, message):
            return f"{condition} {sql_state}" if condition else f"{exception}: {message}"


def _told(error: Error) -> str:
    return f"{error.condition} {error.sql_state} {error.reason or ''}: {error.message}"
