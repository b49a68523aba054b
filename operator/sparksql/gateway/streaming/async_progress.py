"""Spark's `asyncProgressTrackingEnabled` of a writer: a batch does not wait for its files in the checkpoint.

By default Spark writes those of one batch a second then, and has the others in memory. Nothing here could live with that: a
savepoint of batch 7 lacks the offsets of batch 6, a stop repeats up to a second of records each time, and without the option
the query cannot go on, as Spark wants the offsets of two batches in a row. With an interval of 0 the files of every batch are
written, in order, by a thread beside the batches, which a stop waits for. What a driver that dies has not written is done
again: records come twice, which a topic's readers must bear anyway, and no other target may.
"""

from __future__ import annotations

from collections.abc import Mapping

from sparksql.api.execution import TriggerMode
from sparksql.gateway.spark.plans import nodes
from sparksql.gateway.spark.shapes import LogicalPlan
from sparksql.gateway.sql.errors import refusal
from sparksql.gateway.streaming.real_time import keeps_state
from sparksql.wire.control import ErrorReason

ENABLED, INTERVAL = "asyncProgressTrackingEnabled", "asyncProgressTrackingCheckpointIntervalMs"


def is_asked_for(options: Mapping[str, str]) -> bool:
    """Returns whether the options of a writer, the target's own or the text's, switch it on."""
    return _value(options, ENABLED, "false").lower() == "true"


def with_each_batch(options: Mapping[str, str]) -> dict[str, str]:
    """Returns options for the writer, by which the files of each batch are written."""
    return {**options, INTERVAL: "0"} if is_asked_for(options) else dict(options)


def check_async_progress(
    options: Mapping[str, str], trigger: TriggerMode, analysed: LogicalPlan, *, into_kafka: bool
) -> None:
    """Raises StatementError when a query cannot run so, or could not be stopped and resumed. Writes nothing."""
    if is_asked_for(options) and (problem := _problem(options, trigger, analysed, into_kafka)) is not None:
        raise refusal(ErrorReason.INVALID_SPEC, f"option {ENABLED} of the target {problem}")


def _problem(options: Mapping[str, str], trigger: TriggerMode, analysed: LogicalPlan, into_kafka: bool) -> str | None:
    if not into_kafka:
        return "requires a table USING kafka as the target: replayed batches would be duplicated in others"
    if _value(options, INTERVAL, "0") != "0":
        return f"goes with {INTERVAL} 0 alone: batches that are not recorded cannot be in a savepoint, and a stop repeats them"
    if trigger not in (TriggerMode.AUTO, TriggerMode.INTERVAL):
        return f"goes with spec.streaming.trigger.mode Auto or Interval, not {trigger}"
    if any(node.isStreaming() and keeps_state(node) for node in nodes(analysed)):
        return "goes with a query that keeps no state: this one aggregates, removes duplicates, has a LIMIT or joins streams"
    return None


def _value(options: Mapping[str, str], name: str, default: str) -> str:
    return next((value.strip() for key, value in options.items() if key.lower() == name.lower()), default)
