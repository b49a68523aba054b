"""An INSERT from a STREAM: its target, and its query in the target's shape.

Spark refuses to execute such an INSERT, and `DataStreamWriter.toTable` matches columns by name only: it ignores column lists
and PARTITION, and file tables get NULL for what does not match, without an error. So the query is projected here, by the same
resolver and store-assignment checks that Spark's analyzer applies to a batch INSERT.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparksql.gateway.errors import StatementError, refusal
from sparksql.gateway.scala import elements, option, scala_object, simple_name
from sparksql.gateway.spark import SparkDriver
from sparksql.gateway.streaming.sinks import Sink, sink_of
from sparksql.wire.control import ErrorReason, OperationError

_INTERNAL_OPTION = "__"  # Spark's own marks among the options of a relation


@dataclass(frozen=True)
class ParsedInsert:
    """The INSERT of a parsed statement. `query` has the statement's WITH, if there is one."""

    insert: Any
    query: Any

    @property
    def target(self) -> tuple[str, ...]:
        return tuple(str(part) for part in elements(self.insert.table().multipartIdentifier()))

    @property
    def name(self) -> str:
        """The target's name as SQL text."""
        return ".".join(f"`{part.replace('`', '``')}`" for part in self.target)

    @property
    def is_plain(self) -> bool:
        """Whether the text says nothing of how columns meet the target's."""
        return bool(self.insert.userSpecifiedCols().isEmpty() and self.insert.partitionSpec().isEmpty())

    @property
    def options(self) -> Mapping[str, str]:
        """Options that the text gives the target: `INSERT INTO t WITH (...)`."""
        given = self.insert.table().options().asCaseSensitiveMap()
        return {str(key): str(given[key]) for key in given if not str(key).startswith(_INTERNAL_OPTION)}


@dataclass(frozen=True)
class StreamInsert:
    """What a query is started from: where it writes, and a streaming Dataset with the target's columns."""

    sink: Sink
    frame: Any


def parsed_insert(jvm: Any, plan: Any) -> ParsedInsert:
    """The INSERT of a parsed plan. Raises StatementError for what cannot be run as a stream."""
    match simple_name(plan):
        case "InsertIntoStatement":
            parsed = ParsedInsert(plan, plan.query())
        case "UnresolvedWith" if simple_name(plan.child()) == "InsertIntoStatement":
            insert = plan.child()
            parsed = ParsedInsert(insert, plan.withNewChildren(jvm.PythonUtils.toSeq([insert.query()])))
        case "CreateTableAsSelect" | "ReplaceTableAsSelect":
            raise ctas_of_stream()
        case "OverwriteByExpression":
            raise _invalid("INSERT ... REPLACE WHERE cannot read a STREAM: use INSERT INTO")
        case _:
            raise _invalid(
                "with spec.streaming the text, or the last statement of a script, must be one "
                "INSERT INTO <table> SELECT ... FROM STREAM <table>"
            )
    if parsed.insert.overwrite():
        raise _invalid(
            "INSERT OVERWRITE cannot read a STREAM: use INSERT INTO, and spec.streaming.outputMode Complete to rewrite "
            "the whole result with each batch"
        )
    if simple_name(parsed.insert.table()) != "UnresolvedRelation":
        raise _invalid("the target of a stream must be a plain table name, not IDENTIFIER(...)")
    return parsed


def resolve(driver: SparkDriver, session: Any, parsed: ParsedInsert, frame: Any) -> StreamInsert:
    """The INSERT of an analysed query `frame`, its columns brought into the target's order and types."""
    table = session.table(parsed.name).logicalPlan()
    sink = sink_of(table, ".".join(parsed.target))
    resolver = scala_object(driver.jvm.org.apache.spark.sql.catalyst.analysis, "TableOutputResolver")
    aligned = resolver.resolveOutputColumns(
        ".".join(parsed.target),
        table.output(),
        _named(driver.jvm, parsed.insert, frame, table).logicalPlan(),
        True,
        session.sessionState().conf(),
        True,
    )
    return StreamInsert(sink, driver.of_rows(session, aligned))


def _named(jvm: Any, insert: Any, frame: Any, table: Any) -> Any:
    """The query with the target's column names: as the text lists them, by position, or as they are (BY NAME)."""
    types = {str(column.name()).lower(): column.dataType() for column in elements(table.output())}
    spec = insert.partitionSpec()
    fixed = {str(pair._1()): option(pair._2()) for pair in elements(spec)}
    fixed = {name: value for name, value in fixed.items() if value is not None}
    for name in fixed:
        if name.lower() not in types:
            raise _no_column(name)
    if not insert.byName():
        listed = [str(name) for name in elements(insert.userSpecifiedCols())]
        static = {name.lower() for name in fixed}
        names = listed or [
            str(column.name()) for column in elements(table.output()) if str(column.name()).lower() not in static
        ]
        _check_count(names, [str(name) for name in frame.columns()])
        frame = frame.toDF(jvm.PythonUtils.toSeq(names))
    for name, value in fixed.items():
        literal = jvm.org.apache.spark.sql.functions.lit(str(value)).cast(types[name.lower()])
        frame = frame.withColumn(name, literal)
    return frame


def _check_count(expected: list[str], given: list[str]) -> None:
    if len(expected) == len(given):
        return
    kind, how = ("NOT_ENOUGH", "not enough") if len(given) < len(expected) else ("TOO_MANY", "too many")
    message = (
        f"Cannot write: {how} data columns: the target takes {', '.join(expected)}; the query gives {', '.join(given)}."
    )
    error = OperationError(
        condition=f"INSERT_COLUMN_ARITY_MISMATCH.{kind}_DATA_COLUMNS", sql_state="21S01", message=message
    )
    raise StatementError(error)


def _no_column(name: str) -> StatementError:
    message = f"PARTITION names {name}, which is not a column of the target."
    return StatementError(OperationError(condition="NON_PARTITION_COLUMN", sql_state="42000", message=message))


def ctas_of_stream() -> StatementError:
    """The refusal of a CREATE TABLE AS SELECT from a STREAM, of which analysis says nothing."""
    return _invalid(
        "CREATE TABLE AS SELECT cannot read a STREAM: create the table first, then INSERT INTO it with spec.streaming"
    )


def _invalid(message: str) -> StatementError:
    return refusal(ErrorReason.INVALID_SPEC, message)
