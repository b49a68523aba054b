"""Makes lookups of joins: the STREAM's rows go through `JdbcLookup` or `AsOfLookup`, of the session's own jar, on the executors.

What comes out has the columns of the join under Spark's ids of them, so that what is above it in the plan stays as it is. Only
the columns that are needed there go through.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparksql.api.execution import Lookup, TriggerMode
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.names import JvmNames
from sparksql.gateway.spark.plans import children, nodes
from sparksql.gateway.spark.scala import elements, simple_name
from sparksql.gateway.spark.shapes import Dataset, JvmSession, LogicalPlan
from sparksql.gateway.sql.errors import refusal
from sparksql.gateway.streaming.lookups.tables import LookupJoin, lookup_joins, refused
from sparksql.gateway.windowing.expressions import column_id, project
from sparksql.gateway.windowing.marks import alias
from sparksql.wire.control import ErrorReason, StreamOptions

# Nodes that need of their child what is needed above them and what they read; Project and Aggregate need what they read alone.
_PASSING = frozenset({"EventTimeWatermark", "Filter", "Join", "ResolvedHint", "SubqueryAlias"})
_CHOOSING = frozenset({"Aggregate", "Project"})


def with_lookups(
    driver: SparkDriver, session: JvmSession, frame: Dataset, options: StreamOptions, versions: int
) -> Any:
    """Returns a streaming Dataset whose joins are the lookups that `options` ask for, and `versions` AS OF; itself without any.

    Asks the databases. Raises StatementError for what cannot be a lookup, or what the JVM throws when a database does not answer.
    """
    if not options.lookups and not versions:
        return frame
    if options.trigger is TriggerMode.REAL_TIME:
        raise refusal(
            ErrorReason.INVALID_SPEC,
            "lookups are made batch by batch, and spec.streaming.trigger.mode: RealTime has none: use mode Interval",
        )
    plan = frame.queryExecution().analyzed()
    if any(simple_name(node) == "WithCTE" for node in nodes(plan)):
        plan = driver.jvm.org.apache.spark.sql.catalyst.optimizer.InlineCTE(True, False).apply(plan)
    parser = session.sessionState().sqlParser()
    named: dict[tuple[str, ...], Lookup] = {}
    for lookup in options.lookups:
        parts = elements(parser.parseMultipartIdentifier(lookup.table))
        named[tuple(str(part).lower() for part in parts)] = lookup
    joins = lookup_joins(driver.jvm, plan, named, versions)
    rewriter = _Rewriter(driver, session, joins)
    return driver.of_rows(session, rewriter.rewritten(plan, plan.outputSet()))


class _Rewriter:
    """Rewrites the joins of one plan. What a node's output is needed for is an AttributeSet."""

    def __init__(self, driver: SparkDriver, session: JvmSession, joins: Sequence[LookupJoin]) -> None:
        self._driver = driver
        self._jvm = driver.jvm
        self._session = session
        self._joins = joins

    def rewritten(self, plan: LogicalPlan, needed: Any) -> Any:
        found = next((each for each in self._joins if each.join is plan), None)
        if found is not None:
            return self._lookup(found, needed)
        kind = simple_name(plan)
        before = children(plan)
        after = []
        for child in before:
            if kind in _CHOOSING:
                below = plan.references()
            else:
                below = _both(needed, plan.references()) if kind in _PASSING else child.outputSet()
            after.append(self.rewritten(child, below))
        if all(new is old for new, old in zip(after, before, strict=True)):
            return plan
        return plan.withNewChildren(self._jvm.PythonUtils.toSeq(after))

    def _lookup(self, join: LookupJoin, needed: Any) -> Any:
        jvm = self._jvm
        if join.rest is not None:
            needed = _both(needed, join.rest.references())
        below = needed
        for value, _ in join.keys:
            below = _both(below, value.references())
        if join.time is not None:
            below = _both(below, join.time.references())
        stream = self.rewritten(join.stream, below)
        kept = [column for column in elements(join.stream.output()) if needed.contains(column)]
        made = [
            (column, join.table.output[int(column.exprId().id())])
            for column in elements(join.join.output())
            if int(column.exprId().id()) in join.table.output and needed.contains(column)
        ]
        read = self._read(join, [value for _, value in made])
        rows = self._looked_up(join, stream, kept, read)
        found = elements(rows.output())
        # Back under their own ids, and with what Spark notes at them: the mark of a watermark.
        columns = [
            alias(jvm, value, str(column.name()), like=column, told=column.metadata())
            for column, value in zip([*kept, *read], found, strict=True)
        ]
        plan = project(jvm, columns, rows)
        if any(column_id(value) != int(column.exprId().id()) for column, value in made):
            own = [alias(jvm, value, str(column.name()), like=column, told=column.metadata()) for column, value in made]
            plan = project(jvm, [*kept, *own], plan)
        if join.rest is not None:
            plan = jvm.org.apache.spark.sql.catalyst.plans.logical.Filter(join.rest, plan)
        return plan

    def _read(self, join: LookupJoin, values: Sequence[Any]) -> list[Any]:
        """The columns of the table that are read: those that the values are made of, and the keys."""
        wanted = {int(column.exprId().id()) for _, column in join.keys}
        for value in values:
            wanted |= {int(column.exprId().id()) for column in elements(value.references().toSeq())}
        return [column for number, column in join.table.columns.items() if number in wanted]

    def _looked_up(self, join: LookupJoin, stream: LogicalPlan, kept: Sequence[Any], read: Sequence[Any]) -> Any:
        """The plan of rows with the STREAM's kept columns and those that are read, under new names and ids."""
        jvm = self._jvm
        inputs = [alias(jvm, column, f"s{index}") for index, column in enumerate(kept)]
        inputs += [alias(jvm, value, f"k{index}") for index, (value, _) in enumerate(join.keys)]
        if join.time is not None:
            inputs.append(alias(jvm, join.time, "time"))
        frame = self._driver.of_rows(self._session, project(jvm, inputs, stream))
        schema = jvm.org.apache.spark.sql.types.StructType()
        for index, column in enumerate(kept):
            schema = schema.add(f"s{index}", column.dataType(), column.nullable())
        for index, column in enumerate(read):
            schema = schema.add(f"t{index}", column.dataType(), join.is_outer or column.nullable())
        own = jvm.dev.sparksql.lookups
        if isinstance(own.JdbcLookup, JvmNames):
            raise refused(join.lookup.table, "the session's own jar is not on its class path: use the session's image")
        table, chunk = self._table(join, read), join.lookup.rows
        if join.time is None:
            lookup = own.JdbcLookup(table, len(kept), chunk, join.lookup.ttl_seconds, join.is_outer)
        else:
            lookup = own.AsOfLookup(table, len(kept), chunk, join.is_outer)
        return frame.mapPartitions(lookup, jvm.org.apache.spark.sql.Encoders.row(schema)).logicalPlan()

    def _table(self, join: LookupJoin, read: Sequence[Any]) -> Any:
        jvm = self._jvm
        columns = jvm.org.apache.spark.sql.types.StructType()
        for column in read:
            columns = columns.add(column.name(), column.dataType(), True, column.metadata())
        places = {int(column.exprId().id()): index for index, column in enumerate(read)}
        keys = jvm.java.util.ArrayList()
        for _, column in join.keys:
            keys.add(places[int(column.exprId().id())])
        own = jvm.dev.sparksql.lookups
        kind = own.LookupTable if join.time is None else own.AsOfTable
        return kind.of(join.table.source, join.lookup.table, columns, keys)


def _both(one: Any, other: Any) -> Any:
    return getattr(one, "$plus$plus")(other)
