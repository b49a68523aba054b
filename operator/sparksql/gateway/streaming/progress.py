"""How a streaming query is doing, from what Spark reports of its last batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sparksql.gateway.operations.operation import Operation
from sparksql.gateway.spark.shapes import StreamingQuery
from sparksql.gateway.streaming.lag import Lag
from sparksql.gateway.streaming.written import RowCount
from sparksql.wire.control import StreamProgress

CHECK_MILLIS = 100  # a stop begins so late at most
CHECKS_A_REPORT = 5


@dataclass(frozen=True)
class Watched:
    """Holds what one run of a query is known by: the query, what waits in its sources, what it has written."""

    query: StreamingQuery
    lag: Lag
    written: RowCount

    def read(self, *, has_ended: bool) -> StreamProgress:
        """Returns the progress of the query; of one that has ended with the lag that was seen last."""
        query, last = self.query, self.query.lastProgress()
        report = {} if last is None else json.loads(last.json())
        waiting = self.lag.of(report, look=not has_ended) if report else None
        progress = stream_progress(str(query.id()), str(query.runId()), report, waiting)
        return progress.model_copy(update={"rows_written": self.written.of(query)})


def watch(operation: Operation, watched: Watched, check: Callable[[], None]) -> None:
    """Reports of a query until it has ended. Raises what the query, the operation or `check` raises."""
    checks = 0
    while not watched.query.awaitTermination(CHECK_MILLIS):
        operation.check()
        check()
        checks += 1
        if operation.stream is None or checks % CHECKS_A_REPORT == 0:
            _report(operation, watched)
    _report(operation, watched, has_ended=True)


def _report(operation: Operation, watched: Watched, *, has_ended: bool = False) -> None:
    if operation.stream is None and not is_initialised(watched.query):
        return
    operation.stream = watched.read(has_ended=has_ended)
    operation.started()


def is_initialised(query: StreamingQuery) -> bool:
    """Returns whether a query has its sources, which it looks for data in; also of one that has failed since.

    Its sources are the last that Spark makes before it looks for data; a failed query keeps them (Spark 4.1.4).
    """
    return not query.streamingQuery().uniqueSources().isEmpty()


def stream_progress(query_id: str, run_id: str, report: Mapping[str, Any], lag: int | None = None) -> StreamProgress:
    """Returns the progress from Spark's StreamingQueryProgress JSON, empty before the first one.

    A report with `addBatch` among its durations is of a batch that is committed; any other is of a trigger without new data
    and names the batch that comes next.
    """
    if not report:
        return StreamProgress(query_id=query_id, run_id=run_id)
    number, is_batch = int(report["batchId"]), "addBatch" in report.get("durationMs", {})
    committed = number if is_batch else number - 1
    operators = report.get("stateOperators", ())
    return StreamProgress(
        query_id=query_id,
        run_id=run_id,
        batch_id=committed + 1,
        committed_batch_id=committed if committed >= 0 else None,
        input_rows_per_second=_rate(report.get("inputRowsPerSecond")),
        processed_rows_per_second=_rate(report.get("processedRowsPerSecond")),
        watermark=report.get("eventTime", {}).get("watermark"),
        last_progress_time=datetime.fromisoformat(report["timestamp"]),
        lag=lag,
        state_rows=sum(int(o.get("numRowsTotal", 0)) for o in operators) if operators else None,
        state_bytes=sum(int(o.get("memoryUsedBytes", 0)) for o in operators) if operators else None,
    )


def _rate(value: float | None) -> str | None:
    """A decimal number without exponent, as the resource shows it."""
    return None if value is None else f"{max(0.0, float(value)):.1f}"
