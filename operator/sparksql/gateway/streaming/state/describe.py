"""Reads what a streaming query keeps in its state, and what that means, from its plan. For `compatibility`.

The plan is optimised as Spark does it for a batch, because only then it shows what the state holds: columns that nobody needs
are gone, WHERE has become join keys, DISTINCT an aggregation. Rules that only reword expressions, some of them as it suits a
filter, are left out. Another version of Spark may optimise in another way: see `compatibility.differences`.

The bodies of functions in other languages are not looked at, nor is what a table holds.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JError

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.scala import elements, option, scala_object, simple_name
from sparksql.gateway.spark.shapes import Expression, Jvm, JvmSession, LogicalPlan
from sparksql.gateway.streaming.state import plan_text, source_identity
from sparksql.gateway.streaming.state.buffers import buffer_types
from sparksql.gateway.streaming.state.description import (
    AGGREGATE,
    IN_PYTHON,
    Description,
    StateColumn,
    StatefulOperator,
    StreamSource,
    Watermark,
)
from sparksql.gateway.streaming.state.expressions import Expressions
from sparksql.gateway.streaming.state.layout import Kept, Layout, layout
from sparksql.gateway.streaming.state.optimised import optimised, run
from sparksql.gateway.streaming.state.outline import outline, plan_of_sources, settings_of, with_columns
from sparksql.gateway.streaming.state.plan_structure import plan_structure, prepared, table_of
from sparksql.gateway.streaming.state.plan_text import UnknownPlanError
from sparksql.gateway.streaming.state.structure import WITHOUT_STATE

log = logging.getLogger(__name__)

_CONFS = ("spark.sql.shuffle.partitions", "spark.sql.streaming.stateStore.providerClass", "spark.sql.session.timeZone")
_WHERE = "where "
_SIDES = ("left", "right")
# Nodes that change neither which rows there are nor what their columns mean; and filters, which may change.
_PLAIN = frozenset(
    {
        "Filter",
        "LocalLimit",
        "Project",
        "RebalancePartitions",
        "Repartition",
        "RepartitionByExpression",
        "ResolvedHint",
        "Sort",
        "SubqueryAlias",
    }
)


def describe(
    driver: SparkDriver,
    session: JvmSession,
    analysed: LogicalPlan,
    *,
    text: str,
    output_mode: str,
    mask: Callable[[str], str],
    qualified: Callable[[str], str],
) -> Description:
    """Returns the description of a streaming query that comes from `text`, by its analysed plan.

    `mask` hides secret values, `qualified` gives paths their full form.
    """
    try:
        return _read(driver, session, analysed, text, output_mode, mask, qualified)
    except (Py4JError, RecursionError, UnknownPlanError) as unknown:  # a node or an expression of some extension
        log.warning("a query's state cannot be described: %s", type(unknown).__name__)
        known = outline(driver, session, analysed, text=text, output_mode=output_mode, mask=mask, qualified=qualified)
        return with_columns(driver.jvm, known, analysed, mask)


def _sources(walk: _Walk, analysed: LogicalPlan, qualified: Callable[[str], str]) -> tuple[StreamSource, ...]:
    found: list[StreamSource] = []
    for leaf, name in source_identity.streamed(analysed):
        if walk.source_number(leaf) > len(found):
            found.append(source_identity.source(leaf, name, qualified))
    return tuple(found)


def _read(
    driver: SparkDriver,
    session: JvmSession,
    analysed: LogicalPlan,
    text: str,
    output_mode: str,
    mask: Callable[[str], str],
    qualified: Callable[[str], str],
) -> Description:
    jvm = driver.jvm
    analysed = prepared(jvm, plan_of_sources(jvm, analysed))
    plan = optimised(driver, session, analysed)
    kept = layout(jvm, run(driver, session, analysed))
    walk = _Walk(jvm, mask, kept)
    sources = _sources(walk, analysed, qualified)
    walk.visit(plan)

    def streamed(leaf: LogicalPlan) -> tuple[int, str]:
        number = walk.source_number(leaf)
        return number, sources[number - 1].identity

    found = plan_structure(
        jvm,
        analysed,
        plan,
        lambda: optimised(driver, session, analysed, pushed=False),
        kept.ids,
        mask=mask,
        streamed=streamed,
        qualified=qualified,
    )
    if len(found.operators) != len(walk.operators):
        raise UnknownPlanError("the two descriptions of its stateful operators differ")
    conf = session.conf()
    return Description(
        spark_version=str(driver.context.version),
        text_hash=hashlib.sha256(text.encode()).hexdigest(),
        output_mode=output_mode.lower(),
        sources=sources,
        watermarks=tuple(walk.watermarks),
        operators=tuple(
            replace(told, structure=digest, as_written=written)
            for told, digest, written in zip(walk.operators, found.operators, found.as_written, strict=True)
        ),
        confs=tuple((key, str(conf.get(key))) for key in _CONFS),
        group_filters=found.group_filters,
        retracts=found.retracts,
        nodes=found.nodes,
        settings=settings_of(jvm, session, [table_of(jvm, leaf) for leaf in elements(analysed.collectLeaves())], mask),
    )


class _Walk:
    """One way through a plan, from the leaves up. `visit` tells what the rows of a node come from and went through."""

    def __init__(self, jvm: Jvm, mask: Callable[[str], str], kept: Layout) -> None:
        self._jvm = jvm
        self._mask = mask
        self._kept = kept
        self._expressions = Expressions(jvm, mask, self._subquery)
        self._sources: dict[int, int] = {}  # number of the source by the id of its first column
        self.operators: list[StatefulOperator] = []
        self.watermarks: list[Watermark] = []

    def source_number(self, leaf: LogicalPlan) -> int:
        """Returns the number of a streaming leaf, from 1, in the order of the calls.

        What is used twice under one name is one source for Spark, too.
        """
        first = source_identity.first_column(leaf)
        if first not in self._sources:
            self._sources[first] = len(self._sources) + 1
            for column in elements(leaf.output()):
                self._expressions.define(column, f"[{self._sources[first]}].{self._mask(str(column.name()))}")
        return self._sources[first]

    def visit(self, node: LogicalPlan) -> tuple[str, ...]:
        kind = simple_name(node)
        children = elements(node.children())
        if not children:
            return self._leaf(node)
        below = [self.visit(child) for child in children]
        told = tuple(part for parts in below for part in parts)
        streams = bool(node.isStreaming())
        match kind:
            case "Project":
                for named in elements(node.projectList()):
                    self._expressions.define_named(named)
            case "Filter" if not streams:
                told = (*told, f"{_WHERE}{self._text(node.condition())}")
            case "ArrowEvalPython" | "BatchEvalPython":
                for function, column in zip(elements(node.udfs()), elements(node.resultAttrs()), strict=True):
                    self._expressions.define(column, self._text(function))
            case "EventTimeWatermark":
                self._watermark(node)
            case "Aggregate":
                told = self._aggregate(node, told)
            case "Join":
                told = self._join(node, below)
            case "Deduplicate" | "DeduplicateWithinWatermark" if streams:
                told = self._stateful(StatefulOperator("deduplication", self._columns(node.keys()), inputs=told))
            case "GlobalLimit" if streams:
                limit = ("limit", self._text(node.limitExpr()))
                told = self._stateful(StatefulOperator("limit", settings=(limit,), inputs=told))
            case plan_text.STATE_IN_PYTHON if streams:
                told = self._in_python(node, below[0])
            case "Union":
                told = self._union(node, children, told)
            case "Expand":
                told = self._expand(node, told)
            case "Generate":
                told = self._generate(node, told)
            case _ if streams and kind not in WITHOUT_STATE:  # it may keep something
                told = self._stateful(StatefulOperator(kind, inputs=told))
            case _ if kind not in _PLAIN:
                told = (*told, f"{kind}({', '.join(map(self._text, elements(node.expressions())))})")
        self._define_rest(kind, node)
        return told

    def _leaf(self, node: LogicalPlan) -> tuple[str, ...]:
        columns = elements(node.output())
        if simple_name(node) in source_identity.STREAMS:
            return (f"source {self.source_number(node)}",)
        name = self._mask(source_identity.static(table_of(self._jvm, node)))
        for column in columns:
            self._expressions.define(column, f"{name}.{self._mask(str(column.name()))}")
        return (name,)

    def _subquery(self, plan: LogicalPlan) -> str:
        told = self.visit(plan)
        return f"{', '.join(self._text(column) for column in elements(plan.output()))} from {', '.join(told)}"

    def _watermark(self, node: LogicalPlan) -> None:
        delay = scala_object(self._jvm.org.apache.spark.sql.catalyst.plans.logical, "EventTimeWatermark")
        self.watermarks.append(Watermark(self._text(node.eventTime()), int(delay.getDelayMs(node.delay()))))

    def _aggregate(self, node: LogicalPlan, told: tuple[str, ...]) -> tuple[str, ...]:
        results = elements(node.aggregateExpressions())
        names = {_column_id(result.child()): str(result.name()) for result in results if simple_name(result) == "Alias"}
        keys = tuple(
            self._column(names.get(_column_id(key) or -1) or _name(key), key, self._text(key))
            for key in elements(node.groupingExpressions())
        )
        streams = bool(node.isStreaming())
        kept = self._kept.next("Aggregate") if streams else None
        values = () if kept is None else self._functions(results, kept)
        for result in results:
            self._expressions.define_named(result)
        if kept is None:
            return (*told, f"grouped by {', '.join(key.meaning for key in keys)}")
        averages = tuple(replace(each, name=self._mask(each.name)) for each in kept.averages)
        return self._stateful(StatefulOperator(AGGREGATE, keys, values, inputs=told, averages=averages))

    def _functions(self, results: list[Any], kept: Kept) -> tuple[StateColumn, ...]:
        """The functions of an aggregation that Spark keeps, in its order, with the meanings that the text gives them."""
        found: dict[int, StateColumn] = {}
        for result in results:
            for function in _aggregate_functions(result):
                column = self._column(str(result.name()), function, self._text(function))
                found.setdefault(int(function.resultId().id()), column)
        (functions,) = kept.parts
        if any(number not in found for number, _ in functions):
            raise UnknownPlanError("Spark keeps an aggregate that the text does not have")
        return tuple(
            replace(found[number], buffers=buffer_types(function.aggregateFunction())) for number, function in functions
        )

    def _join(self, node: LogicalPlan, below: list[tuple[str, ...]]) -> tuple[str, ...]:
        left, right = node.left(), node.right()
        kind = _join_type(node.joinType())
        told = tuple(part for parts in below for part in parts)
        if left.isStreaming() and right.isStreaming():
            return self._stateful(self._stream_join(node, kind, told))
        if not node.isStreaming():
            return (*told, f"{kind} join on {self._condition(option(node.condition()))}")
        if kind in ("LeftSemi", "LeftAnti"):  # a filter, by what is in a table
            return below[0]
        if kind == "Inner":
            told = tuple(part for part in told if not part.startswith(_WHERE))
        return (*told, f"{kind} join on {self._condition(option(node.condition()))}")

    def _stream_join(self, node: LogicalPlan, kind: str, told: tuple[str, ...]) -> StatefulOperator:
        keys: list[StateColumn] = []
        rest = option(node.condition())
        planning = self._jvm.org.apache.spark.sql.catalyst.planning
        found = option(scala_object(planning, "ExtractEquiJoinKeys").unapply(node))
        if found is not None:
            for left, right in zip(elements(found._2()), elements(found._3()), strict=True):
                meaning = f"{self._text(left)} = {self._text(right)}"
                keys.append(self._column(_name(left), left, meaning))
            rest = option(found._4())
        values = tuple(
            self._column(f"{side} {column.name()}", column, self._text(column))
            for side, columns in zip(_SIDES, self._kept.next("Join").parts, strict=True)
            for _, column in columns
        )
        settings = (("type", kind), ("condition", self._condition(rest)))
        return StatefulOperator("join of streams", tuple(keys), values, settings, told)

    def _in_python(self, node: LogicalPlan, told: tuple[str, ...]) -> tuple[str, ...]:
        keys = elements(node.left().output())[: int(node.groupingAttributesLen())]
        columns = tuple(self._column(_name(key), key, self._text(key)) for key in keys)
        function = ("function", self._mask(str(node.functionExpr().name())))
        return self._stateful(StatefulOperator(IN_PYTHON, columns, settings=(function,), inputs=told))

    def _union(self, node: LogicalPlan, children: list[Any], told: tuple[str, ...]) -> tuple[str, ...]:
        outputs = [elements(child.output()) for child in children]
        for column, *same_place in zip(elements(node.output()), *outputs, strict=True):
            self._expressions.define(column, f"union({', '.join(map(self._text, same_place))})")
        return (*told, f"union of {len(children)}")

    def _expand(self, node: LogicalPlan, told: tuple[str, ...]) -> tuple[str, ...]:
        rows = [elements(row) for row in elements(node.projections())]
        for column, *same_place in zip(elements(node.output()), *rows, strict=True):
            window = self._expressions.window(column, same_place)
            texts = [window] if window else list(dict.fromkeys(map(self._text, same_place)))
            self._expressions.define(column, texts[0] if len(texts) == 1 else f"one of ({', '.join(texts)})")
        return (*told, f"each row {len(rows)} times")

    def _generate(self, node: LogicalPlan, told: tuple[str, ...]) -> tuple[str, ...]:
        text = self._text(node.generator())
        for index, column in enumerate(elements(node.generatorOutput())):
            self._expressions.define(column, f"{text}.{index}")
        return (*told, f"{'outer ' if node.outer() else ''}{text}")

    def _stateful(self, operator: StatefulOperator) -> tuple[str, ...]:
        self.operators.append(operator)
        return (f"operator {len(self.operators)}",)

    def _define_rest(self, kind: str, node: LogicalPlan) -> None:
        """Columns that a node makes in a way that is not known here."""
        for column in elements(node.output()):
            if int(column.exprId().id()) not in self._expressions.meanings:
                self._expressions.define(column, f"{kind}.{self._mask(str(column.name()))}")

    def _condition(self, condition: Any | None) -> str:
        """The parts that AND connects, in one order."""
        return "none" if condition is None else " AND ".join(sorted(map(self._text, _conjuncts(condition))))

    def _columns(self, expressions: Any) -> tuple[StateColumn, ...]:
        return tuple(self._column(_name(each), each, self._text(each)) for each in elements(expressions))

    def _column(self, name: str, expression: Expression, meaning: str) -> StateColumn:
        return StateColumn(self._mask(name), self._mask(str(expression.dataType().catalogString())), meaning)

    def _text(self, expression: Expression) -> str:
        return self._expressions.text(expression)


def _aggregate_functions(expression: Expression) -> list[Any]:
    if simple_name(expression) == "AggregateExpression":
        return [expression]
    return [found for child in elements(expression.children()) for found in _aggregate_functions(child)]


def _conjuncts(condition: Any) -> list[Any]:
    if simple_name(condition) != "And":
        return [condition]
    return [part for child in elements(condition.children()) for part in _conjuncts(child)]


def _join_type(join_type: Any) -> str:
    return str(join_type.toString()).partition("(")[0]  # ExistenceJoin(exists#12)


def _column_id(expression: Expression) -> int:
    """Spark's id of a plain column, 0 for any other expression."""
    return int(expression.exprId().id()) if simple_name(expression) == "AttributeReference" else 0


def _name(expression: Expression) -> str:
    return str(expression.name()) if simple_name(expression) in ("AttributeReference", "Alias") else "(expression)"
