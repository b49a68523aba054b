"""What Spark's real-time mode runs: from Kafka to Kafka, in mode Update, without state. Anything else is refused here.

Spark itself refuses most of it when the first batch is planned, which to the operator is the failure of a query that runs: it
would be tried again and again. Measured with Spark 4.1.4, whose list of sinks is Kafka, foreach and console.
"""

from __future__ import annotations

from sparksql.api.execution import OutputMode, TriggerMode
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.plans import nodes
from sparksql.gateway.spark.scala import elements, simple_name
from sparksql.gateway.spark.shapes import JvmSession, LogicalPlan
from sparksql.gateway.sql.errors import refusal
from sparksql.gateway.streaming.insert import ParsedInsert
from sparksql.gateway.streaming.kafka.options import is_kafka
from sparksql.gateway.streaming.kafka.sink import topic_of
from sparksql.wire.control import ErrorReason, StreamOptions

_STATEFUL = frozenset(
    {
        "Aggregate",
        "Distinct",
        "Deduplicate",
        "DeduplicateWithinWatermark",
        "FlatMapGroupsWithState",
        "GlobalLimit",
        "TransformWithState",
        "TransformWithStateInPySpark",
    }
)


def check_real_time(
    driver: SparkDriver, session: JvmSession, parsed: ParsedInsert, analysed: LogicalPlan, options: StreamOptions
) -> None:
    """Raises StatementError when the trigger is RealTime and the query cannot run so. Writes nothing."""
    if options.trigger is not TriggerMode.REAL_TIME:
        return
    problem = _of_options(options) or _of_query(analysed)
    if problem is None and topic_of(driver, session, parsed.insert) is None:
        problem = "writes Kafka alone, and the target is no table USING kafka"
    if problem is not None:
        message = (
            f"spec.streaming.trigger.mode: RealTime {problem}. Where that cannot be, use mode Interval; with intervalMillis: 0 "
            "each batch begins when the one before is done"
        )
        raise refusal(ErrorReason.INVALID_SPEC, message)


def _of_options(options: StreamOptions) -> str | None:
    if options.upsert is not None:
        return "cannot merge: leave spec.streaming.upsert out"
    if options.output_mode is not OutputMode.UPDATE:
        return f"needs spec.streaming.outputMode: Update, not {options.output_mode}"
    return None


def _of_query(analysed: LogicalPlan) -> str | None:
    for node in nodes(analysed):
        if not node.isStreaming():
            continue
        if not elements(node.children()) and not _is_kafka(node):
            return "reads Kafka alone, and a STREAM of the query is something else"
        if keeps_state(node):
            return "keeps no state, and the query aggregates, removes duplicates or joins streams"
    return None


def keeps_state(node: LogicalPlan) -> bool:
    """Returns whether a streaming node of an analysed plan keeps state."""
    return simple_name(node) in _STATEFUL or _joins_streams(node)


def _is_kafka(leaf: LogicalPlan) -> bool:
    return simple_name(leaf) == "StreamingRelationV2" and is_kafka(str(leaf.sourceName()))


def _joins_streams(node: LogicalPlan) -> bool:
    return simple_name(node) == "Join" and bool(node.left().isStreaming() and node.right().isStreaming())
