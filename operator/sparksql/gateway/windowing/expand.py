"""Replaces the calls of a parsed query by their windows, innermost first.

The table of a call is analysed where it stands, with the WITHs around it, because its watermark and the type of its time column
are known only then. What is above stays parsed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.plans import nodes, rewritten
from sparksql.gateway.spark.scala import elements, simple_name
from sparksql.gateway.spark.shapes import JvmSession, LogicalPlan
from sparksql.gateway.sql.window_calls import told_plan
from sparksql.gateway.windowing.assign import timed, with_windows
from sparksql.gateway.windowing.bounds import stages
from sparksql.gateway.windowing.calls import Function, carried, read_call
from sparksql.gateway.windowing.dynamic import with_curves, with_steps
from sparksql.gateway.windowing.sessions import with_session_aggregations, with_sessions


def has_calls(plan: LogicalPlan) -> bool:
    """Returns whether a parsed statement has opened calls."""
    return any(carried(node) for node in nodes(told_plan(plan)))


class Expansion:
    """The windows of one statement. `resolved` makes a call's parsed table one that Spark can analyse."""

    def __init__(self, driver: SparkDriver, session: JvmSession, resolved: Callable[[Any], Any]) -> None:
        self._driver = driver
        self._session = session
        self._resolved = resolved

    def expanded(self, plan: LogicalPlan, around: tuple[Any, ...] = ()) -> Any:
        """Returns a parsed plan with windows for its opened calls; `around` are the relations of the WITHs it stands in.

        Raises PlacedError, or what Spark raises for a table that it cannot analyse.
        """
        return rewritten(self._driver.jvm, plan, lambda node: self._replaced(node, around))

    def _replaced(self, node: LogicalPlan, around: tuple[Any, ...]) -> Any | None:
        if simple_name(node) == "UnresolvedWith":
            return self._with(node, around)
        if carried(node):
            return self._windows(node, around)
        return None

    def _with(self, node: LogicalPlan, around: tuple[Any, ...]) -> Any:
        """Each relation of a WITH sees those before it."""
        jvm, to_seq = self._driver.jvm, self._driver.jvm.PythonUtils.toSeq
        done: list[Any] = []
        for relation in elements(node.cteRelations()):
            known = (*around, to_seq(list(done))) if done else around
            done.append(jvm.scala.Tuple3(relation._1(), self.expanded(relation._2(), known), relation._3()))
        child = self.expanded(node.child(), (*around, to_seq(done)))
        return node.copy(child, to_seq(done), node.allowRecursion())

    def _windows(self, carrier: LogicalPlan, around: tuple[Any, ...]) -> Any:
        jvm = self._driver.jvm
        call = read_call(jvm, carrier)
        table = self.expanded(carrier.child(), around)
        for relations in reversed(around):
            table = jvm.org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith(table, relations, False)
        plan = analysed(self._driver, self._session, self._resolved(table))
        plan = with_session_aggregations(jvm, plan)  # what is marked in them is known only then
        plan = with_curves(self._driver, self._session, plan)
        rows = timed(self._driver, self._session, call, plan)
        if call.function is Function.SESSION:
            return with_sessions(self._driver, self._session, rows)
        if call.gap is not None:
            return with_steps(self._driver, self._session, rows)
        return with_windows(self._driver, self._session, rows, stages(call, rows.windows.zone))


def analysed(driver: SparkDriver, session: JvmSession, plan: LogicalPlan) -> Any:
    """Returns a query's analysed plan without its WITHs: a reference to one has no meaning where it does not stand."""
    found = driver.of_rows(session, plan).queryExecution().analyzed()
    return driver.jvm.org.apache.spark.sql.catalyst.optimizer.InlineCTE(True, False).apply(found)
