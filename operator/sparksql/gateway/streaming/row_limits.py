"""Bounds batches of tables of files and of Delta by rows; Spark itself bounds theirs by files and bytes alone.

The leaf of such a table, in the plan that is started and in no other, names a source of the session's own jar instead of the
table's format. It asks Spark's source for one file after the other, and takes no more of them than the limit allows. So what the
checkpoint says is as ever: a query goes on from it with a limit, with another one, or without.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.names import JvmNames
from sparksql.gateway.spark.plans import nodes, rewritten
from sparksql.gateway.spark.scala import fields, simple_name
from sparksql.gateway.spark.shapes import Jvm, LogicalPlan
from sparksql.gateway.sql.errors import refusal
from sparksql.gateway.streaming.kafka.sink import RecordStream
from sparksql.gateway.streaming.state.read_options import of_scala
from sparksql.gateway.streaming.state.source_identity import first_column
from sparksql.wire.control import ErrorReason, StreamOptions

_PROVIDER, _OPTIONS = 1, 6  # among the fields of Spark's DataSource; how many come after them hangs on Spark's version
_SOURCE = 0  # among those of StreamingRelation
_FILES, _BYTES = "maxfilespertrigger", "maxbytespertrigger"  # options of sources of files and of Delta, in lower case
_NO_LIMIT = 2**31 - 1


def check_row_limit(jvm: Jvm, analysed: LogicalPlan, options: StreamOptions) -> None:
    """Refuses a limit of rows that a source of files cannot keep. Raises StatementError."""
    if not options.max_rows_per_trigger:
        return
    leaves = [node for node in nodes(analysed) if _is_bounded(node)]
    if leaves and isinstance(jvm.dev.sparksql.streaming.RowLimit, JvmNames):
        message = (
            "spec.streaming.trigger.maxRowsPerTrigger, or rows of MINI_BATCH: the session's own jar, which bounds the batches of a "
            "table of files, is not on its class path; use the session's image, or maxFilesPerTrigger"
        )
        raise refusal(ErrorReason.INVALID_SPEC, message)
    for leaf in leaves:
        if _BYTES in _given(leaf.dataSource()):
            message = (
                f"spec.streaming.trigger.maxRowsPerTrigger, or rows of MINI_BATCH: STREAM {leaf.sourceName()} has the option "
                "'maxBytesPerTrigger' as well; give one of the two"
            )
            raise refusal(ErrorReason.INVALID_SPEC, message)


def with_row_limit(driver: SparkDriver, frame: Any, options: StreamOptions) -> Any:
    """Returns the rows or records of a stream as they are to be started: with its sources of files bounded by rows."""
    if not options.max_rows_per_trigger:
        return frame
    if isinstance(frame, RecordStream):
        return replace(frame, records=with_row_limit(driver, frame.records, options))
    own = driver.jvm.dev.sparksql.streaming.RowLimit
    bounded: dict[int, Any] = {}  # what is read twice under one name is one source

    def replaced(node: LogicalPlan) -> Any | None:
        if not _is_bounded(node):
            return None
        column = first_column(node)
        if column not in bounded:
            table, leaf = node.dataSource(), list(fields(node))
            files = int(_given(table).get(_FILES, _NO_LIMIT))
            parts = list(fields(table))
            held = own.hold(table, options.max_rows_per_trigger, files)
            parts[_PROVIDER], parts[_OPTIONS] = own.PROVIDER, parts[_OPTIONS].updated(own.OPTION, held)
            leaf[_SOURCE] = table.copy(*parts)
            bounded[column] = node.copy(*leaf)
        return bounded[column]

    plan = frame.queryExecution().analyzed()
    limited = rewritten(driver.jvm, plan, replaced)
    return frame if limited is plan else driver.of_rows(frame.sparkSession(), limited)


def _is_bounded(node: LogicalPlan) -> bool:
    """Tells whether a node is a STREAM of a table of files or of Delta: what else Spark reads in this way is no table."""
    return simple_name(node) == "StreamingRelation"


def _given(table: Any) -> dict[str, str]:
    """The options of a DataSource, with names in lower case."""
    return {key.lower(): value for key, value in of_scala(table.options()).items()}
