"""An INSERT from a STREAM: its target, and its query in the target's shape.

Spark refuses to execute such an INSERT, and `DataStreamWriter.toTable` matches columns by name only: it ignores column lists
and PARTITION, and file tables get NULL for what does not match, without an error. So the query is projected here (`columns`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.scala import elements, simple_name
from sparksql.gateway.spark.shapes import Dataset, Jvm, JvmSession, LogicalPlan
from sparksql.gateway.sql.errors import StatementError, refusal
from sparksql.gateway.sql.relations import given_options
from sparksql.gateway.streaming.columns import aligned
from sparksql.gateway.streaming.kafka.sink import topic_of
from sparksql.gateway.streaming.sinks import Sink, sink_of
from sparksql.wire.control import ErrorReason


@dataclass(frozen=True)
class ParsedInsert:
    """The INSERT of a parsed statement. `query` has the statement's WITH, if there is one."""

    insert: LogicalPlan
    query: LogicalPlan = field(repr=False)

    @cached_property
    def target(self) -> tuple[str, ...]:
        """Returns the parts of the target's name."""
        return tuple(str(part) for part in elements(self.insert.table().multipartIdentifier()))

    @property
    def name(self) -> str:
        """Returns the target's name as SQL text."""
        return ".".join(f"`{part.replace('`', '``')}`" for part in self.target)

    @property
    def is_plain(self) -> bool:
        """Returns whether the text says nothing of how columns meet the target's."""
        return bool(self.insert.userSpecifiedCols().isEmpty() and self.insert.partitionSpec().isEmpty())

    @property
    def options(self) -> Mapping[str, str]:
        """Returns the options that the text gives the target: `INSERT INTO t WITH (...)`."""
        return given_options(self.insert.table())


@dataclass(frozen=True)
class StreamInsert:
    """Holds what a query is started from: where it writes, and a streaming Dataset with the target's columns."""

    sink: Sink
    frame: Dataset


def parsed_insert(jvm: Jvm, plan: LogicalPlan) -> ParsedInsert:
    """Returns the INSERT of a parsed plan. Raises StatementError for what cannot be run as a stream."""
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


def resolve_insert(driver: SparkDriver, session: JvmSession, parsed: ParsedInsert, frame: Dataset) -> StreamInsert:
    """Returns the INSERT of an analysed query `frame`, its columns brought into the target's order and types."""
    topic = topic_of(driver, session, parsed.insert)
    if topic is not None:
        return StreamInsert(Sink(), topic.stream(frame))
    name = ".".join(parsed.target)
    table = session.table(parsed.name).logicalPlan()
    return StreamInsert(sink_of(table, name), aligned(driver, session, parsed.insert, name, frame, table))


def ctas_of_stream(views: Sequence[str] = ()) -> StatementError:
    """Returns the refusal of a CREATE TABLE AS SELECT from a STREAM, in `views` if any, of which analysis says nothing."""
    where = f", as the view {views[0]} does" if views else ""
    return _invalid(
        f"CREATE TABLE AS SELECT cannot read a STREAM{where}: create the table first, then INSERT INTO it with spec.streaming"
    )


def _invalid(message: str) -> StatementError:
    return refusal(ErrorReason.INVALID_SPEC, message)
