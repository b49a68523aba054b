"""What a streaming query would give now: its rows go into memory, with a checkpoint that is thrown away.

Of tables of files, Iceberg and Delta it reads what is there, and ends. Kafka and `rate` have no end, so it shows what they give
as it comes, until there are rows enough or its time is over.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sparksql.gateway.operations.manager import PREVIEW_SECONDS
from sparksql.gateway.operations.operation import Operation
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.spark.plans import nodes
from sparksql.gateway.spark.scala import simple_name
from sparksql.gateway.spark.shapes import Dataset, Jvm, JvmSession, StreamingQuery
from sparksql.gateway.sql.script import Fragment
from sparksql.gateway.streaming import unsupported
from sparksql.gateway.streaming.stopping import bound_rounds, stop
from sparksql.gateway.streaming.without_sink import shown

_POLL_MILLIS = 200
_INTERVAL_MILLIS = 500  # between two batches of a source without end
# How much longer than its limit of time a preview with rows may take: to stop its query, in a few rounds, and to read them. Less
# than the 30 s after which the operator has it cancelled.
_ENDING_SECONDS = 20.0
# An aggregation shows its state so far in complete mode; Spark refuses that mode for a query without one.
_MODES = ("Complete", "Append")


@dataclass(frozen=True)
class Previewed:
    """A Dataset of the rows that were seen, and whether more could have come."""

    frame: Dataset
    is_cut: bool


@contextmanager
def previewed(
    driver: SparkDriver,
    files: HadoopFiles,
    operation: Operation,
    fragment: Fragment,
    frame: Dataset,
    rows: int,
    folder: str,
    show: Callable[[Any, int], None],
) -> Iterator[Previewed]:
    """Yields the first `rows` rows of a streaming Dataset, while the context lasts.

    `folder` is made and removed. `show` is called with a Dataset of the rows so far and their number, whenever that has
    changed. Raises OperationCancelledError, StatementError, or what Spark throws.
    """
    view, session = f"__sparksql_preview_{uuid.uuid4().hex}", frame.sparkSession()
    bound_rounds(session)
    place = (fragment, operation.request.sql)
    mode, limited = shown(driver, session, frame, _MODES, place, lambda ready: ready.limit(rows))
    with unsupported.start_allowed(session, limited.queryExecution().analyzed()):
        query = _start(driver.jvm, limited, mode, _is_endless(frame), view, folder)
    try:
        is_cut = _watch(operation, query, session, view, rows, show)
        stop(query, at_once=True)
        yield Previewed(session.table(view), is_cut)
    finally:
        stop(query, at_once=True)
        session.catalog().dropTempView(view)
        files.delete(folder)


def _watch(
    operation: Operation,
    query: StreamingQuery,
    session: JvmSession,
    view: str,
    rows: int,
    show: Callable[[Any, int], None],
) -> bool:
    """Until the query has ended, or has rows enough, or some rows and no time left; whether it is over before its end."""
    until = time.monotonic() + (operation.request.execution_seconds or PREVIEW_SECONDS)
    seen = 0
    while not query.awaitTermination(_POLL_MILLIS):
        operation.check()
        found = session.table(view)
        count = int(found.queryExecution().analyzed().collectLeaves().head().sink().allData().size())
        if count >= rows:
            return True
        if count != seen:
            seen = count
            operation.grace_seconds = (
                _ENDING_SECONDS  # from here on its time ends it, not the limit of time for all statements
            )
            show(found, count)
        if seen and time.monotonic() >= until:
            return True
    return False


def _is_endless(frame: Dataset) -> bool:
    """Whether one of the sources is neither a table of files nor one of Iceberg or Delta."""
    leaves = (node for node in nodes(frame.queryExecution().analyzed()) if simple_name(node) == "StreamingRelationV2")
    return any("iceberg" not in str(leaf.table().getClass().getName()) for leaf in leaves)


def _start(jvm: Jvm, frame: Dataset, mode: str, endless: bool, view: str, folder: str) -> Any:
    triggers = jvm.org.apache.spark.sql.streaming.Trigger
    writer = frame.writeStream().format("memory").queryName(view).outputMode(mode.lower())
    writer = writer.option("checkpointLocation", f"{folder}/{mode.lower()}")
    return writer.trigger(triggers.ProcessingTime(_INTERVAL_MILLIS) if endless else triggers.AvailableNow()).start()
