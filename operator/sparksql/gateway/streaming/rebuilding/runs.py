"""Runs a batch of history to its end, of which nothing is reported: it belongs to another query than the statement's."""

from __future__ import annotations

from sparksql.gateway.operations.operation import Operation
from sparksql.gateway.spark.shapes import StreamingQuery
from sparksql.gateway.streaming.checkpoints.fence import CheckpointLease
from sparksql.gateway.streaming.progress import CHECK_MILLIS
from sparksql.gateway.streaming.stopping import stop
from sparksql.gateway.streaming.upsert.batch import UpsertBatches


def run_to_end(
    query: StreamingQuery, operation: Operation, lease: CheckpointLease, batches: UpsertBatches | None
) -> None:
    """Waits for the end of a started query. Raises what ends the operation, or what the query or its `batches` raise."""
    try:
        while not query.awaitTermination(CHECK_MILLIS):
            operation.check()
            lease.check()
    except Exception as failed:
        raise (batches.error if batches is not None else None) or failed from None
    finally:
        stop(query, at_once=lease.is_lost)
