"""Plans a batch of a streaming query as the query itself will, by Spark's class for that, which is no API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparksql.gateway.spark.scala import scala_object
from sparksql.gateway.spark.shapes import Jvm, JvmSession, LogicalPlan


@dataclass(frozen=True)
class Continued:
    """A checkpoint that the planned batch would go on from: its folder `state`, the number of that batch."""

    state: str
    batch: int


def planned_batch(
    jvm: Jvm, session: JvmSession, analysed: LogicalPlan, mode: Any, continued: Continued | None = None
) -> Any:
    """Returns the physical plan of a batch of an analysed query, `mode` being its OutputMode of the JVM.

    Reads and writes nothing; with `continued` Spark compares the state's schema there with the query's, and notes that of
    operators of which it finds none. Raises what Spark refuses; TypeError where another version wants other arguments.
    """
    execution = jvm.org.apache.spark.sql.execution
    runtime = execution.streaming.runtime
    offsets = scala_object(execution.streaming.checkpointing, "OffsetSeqMetadata")
    no_conf = scala_object(jvm.scala.collection.immutable, "Map").empty()
    new_id, new_map = jvm.java.util.UUID.randomUUID, jvm.scala.collection.mutable.HashMap
    return runtime.IncrementalExecution(
        session,
        analysed,
        mode,
        "<unknown>" if continued is None else continued.state,  # the former as for EXPLAIN
        new_id(),
        new_id(),
        0 if continued is None else continued.batch,
        jvm.scala.Option.apply(None),
        offsets.apply(0, 0, no_conf),
        scala_object(runtime, "NoOpWatermarkPropagator"),
        continued is not None,  # planning the first batch since a start looks at the checkpoint
        new_map(),
        new_map(),
        scala_object(execution, "CommandExecutionMode").SKIP(),
        False,
    ).executedPlan()


def plan_text(plan: Any) -> str:
    """Returns a physical plan as EXPLAIN shows it; of a streaming Dataset EXPLAIN itself plans another batch, in mode Append."""
    fields = int(getattr(plan, "treeString$default$3")())
    return f"== Physical Plan ==\n{plan.treeString(False, False, fields, False, False)}"


def output_mode(jvm: Jvm, name: str) -> Any:
    """Returns the OutputMode of a name such as `append`."""
    return getattr(jvm.org.apache.spark.sql.streaming.OutputMode, name.capitalize())()
