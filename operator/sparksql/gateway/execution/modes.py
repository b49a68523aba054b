"""Preview, Explain and Validate: looking at a statement without its effect.

Preview runs the query of an INSERT or CREATE TABLE AS SELECT and leaves the sink alone; Explain and Validate parse, analyse
and (Explain) plan with the execution of commands switched off, since Spark otherwise executes a command by looking at it.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sparksql.gateway.execution.explained import explained
from sparksql.gateway.results.collector import Collector
from sparksql.gateway.results.store import EMPTY, StoredResult
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.plans import nodes
from sparksql.gateway.spark.scala import simple_name
from sparksql.gateway.spark.shapes import Jvm, JvmSession, LogicalPlan
from sparksql.gateway.sql.errors import refusal
from sparksql.gateway.sql.masking import Masker
from sparksql.gateway.streaming import batch_plan
from sparksql.gateway.streaming.planned import PlannedStream
from sparksql.wire.control import Column, ErrorReason

_PLAN_COLUMN = Column(name="plan", type="string")


def preview_query(jvm: Jvm, plan: LogicalPlan) -> Any:
    """Returns the query of a parsed statement. Raises StatementError for one that has not exactly one."""
    match simple_name(plan):
        case "InsertIntoStatement" | "OverwriteByExpression" | "CreateTableAsSelect" | "ReplaceTableAsSelect":
            return plan.query()
        case "InsertIntoDir":
            return plan.child()
        case "UnresolvedWith":
            child = plan.child()
            query = preview_query(jvm, child)
            return plan if query.equals(child) else plan.withNewChildren(jvm.PythonUtils.toSeq([query]))
        case "Union" if _writes(plan):
            raise refusal(ErrorReason.INVALID_SPEC, "mode Preview supports an INSERT with one target")
        case _:
            return plan


def explain(driver: SparkDriver, session: JvmSession, plan: LogicalPlan, masker: Masker) -> StoredResult:
    """Returns the physical plan as one row of text, without secrets and in the words of its reader."""
    execution = driver.analyse(session, plan)
    mode = driver.jvm.org.apache.spark.sql.execution.ExplainMode.fromString("simple")
    return _plan_row(explained(str(execution.explainString(mode)), execution.analyzed(), masker))


def explain_stream(driver: SparkDriver, session: JvmSession, planned: PlannedStream, masker: Masker) -> StoredResult:
    """Returns the physical plan of a batch of a query that could start, as one row of text. Raises what Spark refuses."""
    mode = batch_plan.output_mode(driver.jvm, planned.options.output_mode)
    batch = batch_plan.planned_batch(driver.jvm, session, planned.analysed, mode)
    text = explained(batch_plan.plan_text(batch), planned.analysed, masker)
    if planned.upsert is not None:
        text = f"{text}\n== Each Batch ==\n{masker.mask(planned.upsert.described())}\n"
    return _plan_row(text)


def _plan_row(text: str) -> StoredResult:
    table = pa.table({"plan": [text]})
    return StoredResult(columns=(_PLAN_COLUMN,), row_count=1, truncated=False, bytes=table.nbytes, table=table)


def validate(driver: SparkDriver, session: JvmSession, plan: LogicalPlan) -> StoredResult:
    """Returns the columns that a query would have, and no rows."""
    execution = driver.analyse(session, plan)
    columns = Collector(driver.jvm, session).columns(execution.analyzed().schema())
    return StoredResult(columns=columns, row_count=0, truncated=False, bytes=0) if columns else EMPTY


def _writes(plan: LogicalPlan) -> bool:
    return any(simple_name(node) == "InsertIntoStatement" for node in nodes(plan))
