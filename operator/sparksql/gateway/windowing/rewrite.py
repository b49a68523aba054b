"""Makes a parsed query with window functions one that Spark runs: the entry of this package.

First calls of window table functions become windows, in the parsed plan; then, in the analysed one, aggregations by sessions,
aggregations made of panes, and in streams the first rows of windows and distinct counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.plans import nodes
from sparksql.gateway.spark.scala import elements, simple_name
from sparksql.gateway.spark.shapes import Dataset, Jvm, JvmSession, LogicalPlan
from sparksql.gateway.windowing.distinct import with_distinct_in_two_steps
from sparksql.gateway.windowing.duplicates import with_duplicates_removed
from sparksql.gateway.windowing.dynamic import with_curves
from sparksql.gateway.windowing.dynamic_stream import ready_state_store
from sparksql.gateway.windowing.enumerable import with_shared_values
from sparksql.gateway.windowing.expand import Expansion, analysed, has_calls
from sparksql.gateway.windowing.expressions import aggregations, is_column
from sparksql.gateway.windowing.marks import windows_of, without_marks
from sparksql.gateway.windowing.panes import with_panes
from sparksql.gateway.windowing.sessions import with_session_aggregations
from sparksql.gateway.windowing.top_n import with_top_n


def with_windows_called(
    driver: SparkDriver, session: JvmSession, query: LogicalPlan, resolved: Callable[[Any], Any]
) -> Any:
    """Returns a parsed query without its opened calls, analysed if it had any; `resolved` readies a parsed plan for analysis.

    Raises PlacedError, or what analysis raises.
    """
    if not has_calls(query):
        return query
    plan = resolved(Expansion(driver, session, resolved).expanded(query))
    return with_windows_aggregated(driver, session, analysed(driver, session, plan))


def with_windows_aggregated(driver: SparkDriver, session: JvmSession, plan: LogicalPlan) -> Any:
    """Returns an analysed query with its aggregations by sessions and until keys are silent, and in a batch made of panes.

    Raises PlacedError.
    """
    plan = with_curves(driver, session, with_session_aggregations(driver.jvm, plan))
    return plan if plan.isStreaming() else with_panes(driver, session, plan)


def for_table(jvm: Jvm, plan: LogicalPlan) -> Any:
    """Returns a batch query without marks: the catalog keeps the metadata of a table's columns."""
    return plan if plan.isStreaming() else without_marks(jvm, plan)


def for_stream(driver: SparkDriver, session: JvmSession, frame: Dataset, output_mode: str) -> Any:
    """Returns a streaming Dataset whose panes, first rows of windows and distinct counts are such as Spark can keep.

    Itself if it has none. Spark runs aggregations after one another in append mode alone. Raises PlacedError, and StatementError
    for a state store that the session may not have.
    """
    found = frame.queryExecution().analyzed()
    ready_state_store(session, found)
    if not any(_is_changed(node) for node in nodes(found)):
        return frame
    plan = driver.jvm.org.apache.spark.sql.catalyst.optimizer.InlineCTE(True, False).apply(found)
    if output_mode.lower() != "append":
        return driver.of_rows(session, with_duplicates_removed(driver.jvm, plan))
    plan = with_top_n(driver, session, with_panes(driver, session, plan))
    plan = with_distinct_in_two_steps(driver.jvm, with_shared_values(driver, session, plan))
    return driver.of_rows(session, plan)


def _is_changed(node: LogicalPlan) -> bool:
    match simple_name(node):
        case "Window":
            return bool(node.isStreaming())
        case "Aggregate" if node.isStreaming():
            calls = [call for result in elements(node.aggregateExpressions()) for call in aggregations(result)]
            return any(call.isDistinct() for call in calls) or any(
                windows_of(key) is not None for key in elements(node.groupingExpressions()) if is_column(key)
            )
        case _:
            return False
