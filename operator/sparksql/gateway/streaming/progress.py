"""How a streaming query is doing, from what Spark reports of its last batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from sparksql.gateway.operations.operation import Operation
from sparksql.gateway.spark.shapes import StreamingQuery
from sparksql.wire.control import StreamProgress

CHECK_MILLIS = 100  # a stop begins so late at most
CHECKS_A_REPORT = 5


def watch(operation: Operation, query: StreamingQuery, check: Callable[[], None]) -> None:
    """Reports of a query until it has ended. Raises what the query, the operation or `check` raises."""
    checks = 0
    while not query.awaitTermination(CHECK_MILLIS):
        operation.check()
        check()
        checks += 1
        if operation.stream is None or checks % CHECKS_A_REPORT == 0:
            _report(operation, query)
    _report(operation, query)


def _report(operation: Operation, query: StreamingQuery) -> None:
    if operation.stream is None and not is_initialised(query):
        return
    operation.stream = read_stream(query)
    operation.started()


def is_initialised(query: StreamingQuery) -> bool:
    """Returns whether a query has its sources, which it looks for data in; also of one that has failed since.

    Its sources are the last that Spark makes before it looks for data; a failed query keeps them (Spark 4.1.4).
    """
    return not query.streamingQuery().uniqueSources().isEmpty()


def read_stream(query: StreamingQuery) -> StreamProgress:
    """Returns the progress of a JVM StreamingQuery."""
    last = query.lastProgress()
    report = {} if last is None else json.loads(last.json())
    return stream_progress(str(query.id()), str(query.runId()), report)


def stream_progress(query_id: str, run_id: str, report: Mapping[str, Any]) -> StreamProgress:
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
        lag=lag(report.get("sources", ())),
        state_rows=sum(int(o.get("numRowsTotal", 0)) for o in operators) if operators else None,
        state_bytes=sum(int(o.get("memoryUsedBytes", 0)) for o in operators) if operators else None,
    )


def _rate(value: float | None) -> str | None:
    """A decimal number without exponent, as the resource shows it."""
    return None if value is None else f"{max(0.0, float(value)):.1f}"


def lag(sources: Any) -> int | None:
    """Returns what waits at the sources that tell: Kafka by its offsets, others by the number of files outstanding."""
    counts: list[int] = []
    for source in sources:
        end, latest = source.get("endOffset"), source.get("latestOffset")
        if _is_kafka(end) and _is_kafka(latest):
            counts.extend(
                max(0, offset - end.get(topic, {}).get(partition, 0))
                for topic, partitions in latest.items()
                for partition, offset in partitions.items()
            )
        elif (files := source.get("metrics", {}).get("numFilesOutstanding")) is not None:
            counts.append(int(files))
    return sum(counts) if counts else None


def _is_kafka(offsets: Any) -> bool:
    """Whether offsets have Kafka's form, topic -> partition -> offset."""
    return isinstance(offsets, dict) and all(
        isinstance(partitions, dict) and all(isinstance(offset, int) for offset in partitions.values())
        for partitions in offsets.values()
    )
