"""What the state of a query is made of, whole: every node of its plan up to the last operator with state, with every field.

It is made of the text that the session's own Java gives of an optimised plan (`PlanText`), and told as nodes by their digest:
two operators with the same digest are made of the same. Columns stand for what they are computed from, so projections and names
leave no trace. What else leaves none is written in `structure_rules`, and here at `_filter`, `_join` and `_relation`; whatever
is not known there is told with all its fields. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparksql.gateway.changelog.relations import WEIGHT
from sparksql.gateway.streaming.state import plan_text, structure_rules
from sparksql.gateway.streaming.state.plan_text import PlanNode
from sparksql.gateway.streaming.state.structure_nodes import OPAQUE, Node, Nodes

# How rows lie and what the planner is told, not what they are: of any plan; and of streams, whose rows have no order.
_TRANSPARENT = frozenset({"SubqueryAlias", "View", "ResolvedHint", "Repartition", "RepartitionByExpression"}) | {
    "RebalancePartitions"
}
_TRANSPARENT_STREAMS = frozenset({"LocalLimit", "Sort"})
# Nodes over streams that keep nothing; any other one that is not known here may.
_TOLD = frozenset(
    {"Project", "Filter", "ArrowEvalPython", "BatchEvalPython", "EventTimeWatermark", "Join", "Union"}
) | {*("Expand", "Generate", "Sample", "CollectMetrics", "UpdateEventTimeWatermarkColumn")}
WITHOUT_STATE = _TOLD | _TRANSPARENT | _TRANSPARENT_STREAMS
_SEMI = frozenset({"LeftSemi", "LeftAnti"})
# What operators keep in state by Spark's ids, in its order: kinds, and functions or columns of both sides. See `layout`.
Kept = Sequence[tuple[str, tuple[tuple[int, ...], ...]]]


@dataclass(frozen=True)
class Structure:
    """Holds what the state of a query is made of, as digests of nodes.

    `operators` are digests of those with state, those first whose rows others take. `as_written` are the same with what they keep
    in the order of the text, which may be another one than that of the state. `group_filters` are digests of the
    conditions on whole groups, which Spark applies below the state although the text has them above it. `retracts`: rows have
    weights. `nodes` are all that these lead to.
    """

    operators: tuple[str, ...] = ()
    as_written: tuple[str, ...] = ()
    group_filters: tuple[str, ...] = ()
    retracts: bool = False
    nodes: dict[str, Node] = field(default_factory=dict)


@dataclass(frozen=True)
class Leaf:
    """Describes a table of a plan, as `label` tells it from others.

    A streaming one has its `number` among the sources. `ids` tell its columns, by their names, where names are not
    enough. Not `is_told`: the label is that of others, too.
    """

    label: str
    number: int = 0
    ids: dict[str, str] = field(default_factory=dict)
    is_told: bool = True


@dataclass(frozen=True)
class _Relation:
    """What the rows of a node are, and the operators with state that they went through, by their places."""

    ref: Any
    state: tuple[int, ...] = ()


def structure(
    plan: PlanNode,
    leaves: Sequence[Leaf],
    *,
    mask: Callable[[str], str],
    kept: Kept,
    unpushed: tuple[Any, Sequence[Leaf]] | None = None,
) -> Structure:
    """Returns the structure of a plan in the form of `PlanText`, `leaves` being its tables by their numbers there.

    Raises UnknownPlanError where what is `kept` is not of this plan.
    `unpushed` is the same plan where filters are still in their places; None when it has no filter above a group.
    """
    streamed = [leaves[each["leaf"]].label for each in plan_text.leaves(plan) if each["streams"]]
    # Where one source is read twice, only its filters may tell one operator or side from another. And a row of a changelog must
    # go by the filters that it came by.
    retracts = plan_text.has_column(plan, WEIGHT)
    keeps_filters = len(set(streamed)) < len(streamed) or retracts
    nodes = Nodes()
    told, written = (
        _Resolver(leaves, mask, keep_filters=keeps_filters, nodes=nodes, kept=each) for each in (kept, None)
    )
    for each in (told, written):
        each.relation(plan)
    filters: list[str] = []
    if unpushed is not None:
        other = _Resolver(unpushed[1], mask, keep_filters=keeps_filters, nodes=nodes)
        other.relation(unpushed[0])
        filters = sorted(each["ref"] for each in other.group_filters)
    operators, as_written = ([each["ref"] for each in way.operators] for way in (told, written))
    found = nodes.below([*operators, *as_written, *filters])
    return Structure(tuple(operators), tuple(as_written), tuple(filters), retracts, found)


class _Resolver:
    """One way through a plan, from the leaves up."""

    def __init__(
        self,
        leaves: Sequence[Leaf],
        mask: Callable[[str], str],
        *,
        keep_filters: bool,
        nodes: Nodes,
        kept: Kept | None = None,
    ) -> None:
        self._leaves = leaves
        self._mask = mask
        self._keep_filters = keep_filters
        self.nodes = nodes
        self._kept = None if kept is None else iter(kept)
        self.operators: list[Any] = []
        self.group_filters: list[Any] = []
        self._columns: dict[int, Any] = {}
        self._lambdas: dict[int, str] = {}
        self._seen: dict[str, int] = {}
        self._results_of: Any = None

    # Plans

    def relation(self, plan: PlanNode) -> _Relation:
        kind, streams = plan_text.simple(plan["plan"]), plan["streams"]
        if "leaf" in plan:
            return self._leaf(plan, kind)
        below = [self.relation(child) for child in plan_text.children(plan)]
        state = tuple(place for each in below for place in each.state)
        made = self._made(plan, kind, streams, plan["fields"], below, state)
        for index, column in enumerate(plan["output"]):
            if column["attribute"] not in self._columns:
                known = self.nodes.add("Made", by=made.ref, place=index, type=column["type"])
                self._columns[column["attribute"]] = known
        return made

    def _made(
        self, plan: PlanNode, kind: str, streams: bool, fields: Any, below: list[_Relation], state: tuple[int, ...]
    ) -> _Relation:
        match kind:
            case "Project":
                self._define(fields["projectList"])
                return below[0]
            case "Filter":
                return self._filter(fields, below[0], streams)
            case "ArrowEvalPython" | "BatchEvalPython":
                for function, column in zip(fields["udfs"], fields["resultAttrs"], strict=True):
                    self._columns[column["attribute"]] = self._value(function)
                return below[0]
            case "EventTimeWatermark":
                time = self._value(fields["eventTime"])
                return _Relation(self.nodes.add("Watermark", column=time, input=below[0].ref), state)
            case "Aggregate":
                return self._aggregate(fields, below[0], streams)
            case "Join":
                return self._join(plan, below)
            case "Union":
                return self._union(plan, below, state)
            case "Expand":
                return self._expand(plan, below[0])
            case "Generate":
                return self._generate(fields, below[0])
            case "GlobalLimit" if streams:
                limit = self._value(fields["limitExpr"])
                return self._stateful(self.nodes.add(kind, limit=limit, input=below[0].ref), state)
            case _ if kind in plan_text.DEDUPLICATIONS and streams:
                keys = self._value(fields["keys"])
                return self._stateful(self.nodes.add(kind, keys=keys, input=below[0].ref), state)
            case plan_text.STATE_IN_PYTHON if streams:
                return self._in_python(plan, below, state)
            case _ if kind in _TRANSPARENT or (streams and kind in _TRANSPARENT_STREAMS):
                return below[0]
        refs = iter(below)
        whole = {
            name: self._value(value, lambda _: next(refs).ref) for name, value in fields.items() if name != "output"
        }
        ref = self.nodes.add(plan_text.class_name(plan["plan"]), **whole)
        return self._stateful(ref, state) if streams and kind not in WITHOUT_STATE else _Relation(ref, state)

    def _leaf(self, plan: PlanNode, kind: str) -> _Relation:
        leaf = self._leaves[plan["leaf"]]
        fields = {name: self._value(value) for name, value in plan.get("fields", {}).items() if name != "output"}
        by_name = not fields and "rows" not in plan
        if plan["streams"]:
            ref = self.nodes.add("Source", number=leaf.number)
        else:
            fields = structure_rules.of_leaf(kind, fields)
            if not leaf.is_told:
                fields["rows_of"] = self.nodes.add(OPAQUE, of=leaf.label)
            ref = self.nodes.add(kind, name=leaf.label, rows=plan.get("rows"), **fields)
            nth = self._seen[ref["ref"]] = self._seen.get(ref["ref"], 0) + 1
            ref = ref if nth == 1 else self.nodes.add("Again", nth=nth, of=ref)
        for index, column in enumerate(plan["output"]):
            name = self._mask(column["name"]) if by_name else index
            more = {"id": leaf.ids[column["name"]]} if column["name"] in leaf.ids else {}
            self._columns[column["attribute"]] = self.nodes.add(
                "Column", of=ref, streams=plan["streams"], name=name, type=self._mask(column["type"]), **more
            )
        return _Relation(ref)

    def _filter(self, fields: Any, below: _Relation, streams: bool) -> _Relation:
        """Filters between the sources and the first state may change: what was read by then stays, see docs/upgrades.md."""
        conditions = self._conjuncts(fields["condition"])
        if streams and below.state:
            self._note_group_filters(conditions, below.state)
        if streams and not below.state and not self._keep_filters:
            return below
        return _Relation(self.nodes.add("Filter", conditions=_ordered(conditions), input=below.ref), below.state)

    def _note_group_filters(self, conditions: Iterable[Any], state: tuple[int, ...], *, any_side: bool = True) -> None:
        for each in conditions:
            told = self.nodes.mentions(each)
            if "ResultOf" not in told and (any_side or "Table" not in told):
                self.group_filters.append(self.nodes.add("GroupFilter", operators=list(state), condition=each))

    def _aggregate(self, fields: Any, below: _Relation, streams: bool) -> _Relation:
        keys = [[self._value(key), plan_text.marks(key)] for key in fields["groupingExpressions"]]
        found = [
            (plan_text.result_id(each), self._value(each))
            for each in plan_text.aggregate_functions(fields["aggregateExpressions"])
        ]
        if streams and self._kept is not None:
            (functions,) = self._kept_of("Aggregate", dict(reversed(found)))
        else:  # equal ones once, at the place of the first
            functions = [each for place, (_, each) in enumerate(found) if each not in [it for _, it in found[:place]]]
        ref = self.nodes.add("Aggregate", keys=keys, functions=functions, input=below.ref)
        made = self._stateful(ref, below.state) if streams else _Relation(ref, below.state)
        outer, self._results_of = self._results_of, ref
        self._define(fields["aggregateExpressions"])
        self._results_of = outer
        return made

    def _join(self, plan: PlanNode, below: list[_Relation]) -> _Relation:
        fields, (left, right) = plan["fields"], below
        kind = plan_text.simple(fields["joinType"]["object"])
        state = (*left.state, *right.state)
        condition = fields["condition"]
        conditions = [] if condition is None else self._conjuncts(condition)
        if kind == "ExistenceJoin":
            exists = fields["joinType"]["fields"]["exists"]["attribute"]
            self._columns[exists] = self.nodes.add("Exists", in_=right.ref, conditions=_ordered(conditions))
        sides = [fields["left"], fields["right"]]
        if all(side["streams"] for side in sides):
            keys = [each for each in conditions if self.nodes.kind(each) in ("EqualTo", "EqualNullSafe")]
            rest = _ordered(each for each in conditions if each not in keys)
            if self._kept is None:
                outputs = [[self._value(column) for column in side["output"]] for side in sides]
            else:
                outputs = self._kept_of("Join", self._columns)
            ref = self.nodes.add(
                "StreamJoin", joinType=kind, keys=keys, conditions=rest, columns=outputs, left=left.ref, right=right.ref
            )
            if state:
                self._note_group_filters(conditions, state)
            return self._stateful(ref, state)
        if plan["streams"]:
            if state and kind in _SEMI:
                both = self.nodes.add("InTable", kind=kind, conditions=_ordered(conditions), rows=right.ref)
                self._note_group_filters([both], state)
            elif state:
                self._note_group_filters(conditions, state, any_side=False)
            if kind in _SEMI and not state and not self._keep_filters:  # a filter, by what is in a table
                return left if sides[0]["streams"] else right
            if kind == "Inner" and not state and not self._keep_filters:
                left, right = (
                    each if side["streams"] else self._unfiltered(each) for each, side in zip(below, sides, strict=True)
                )
        ref = self.nodes.add("Join", joinType=kind, conditions=_ordered(conditions), left=left.ref, right=right.ref)
        return _Relation(ref, state)

    def _kept_of(self, kind: str, known: Mapping[int, Any]) -> list[list[Any]]:
        """What the next operator keeps, of the functions or columns that are known by their ids."""
        assert self._kept is not None
        of, parts = next(self._kept, ("", ()))
        if of != kind or any(each not in known for part in parts for each in part):
            raise plan_text.UnknownPlanError("Spark keeps other functions or columns than the text has")
        return [[known[each] for each in part] for part in parts]

    def _unfiltered(self, table: _Relation) -> _Relation:
        """A table that an inner join takes: its own filters drop rows of the join and nothing else."""
        ref = table.ref
        while self.nodes.kind(ref) == "Filter":
            ref = self.nodes.fields(ref)["input"]
        return _Relation(ref)

    def _union(self, plan: PlanNode, below: list[_Relation], state: tuple[int, ...]) -> _Relation:
        outputs = [[self._value(column) for column in child["output"]] for child in plan_text.children(plan)]
        ref = self.nodes.add("Union", inputs=[each.ref for each in below])
        for column, *same_place in zip(plan["output"], *outputs, strict=True):
            known = self.nodes.add("UnionColumn", of=same_place)
            self._columns[column["attribute"]] = known
        return _Relation(ref, state)

    def _expand(self, plan: PlanNode, below: _Relation) -> _Relation:
        rows = [[self._value(each) for each in row] for row in plan["fields"]["projections"]]
        for column, *same_place in zip(plan["output"], *rows, strict=True):
            known = self.nodes.add("OneOf", values=same_place)
            self._columns[column["attribute"]] = known
        return _Relation(self.nodes.add("Expand", rows=len(rows), input=below.ref), below.state)

    def _generate(self, fields: Any, below: _Relation) -> _Relation:
        generator = self._value(fields["generator"])
        for index, column in enumerate(fields["generatorOutput"]):
            known = self.nodes.add("Generated", by=generator, place=index, type=column["type"])
            if plan_text.is_of_merged_sessions(fields["generator"]):  # no condition on them is applied below
                known = self.nodes.add("ResultOf", operator=below.ref, function=known)
            self._columns[column["attribute"]] = known
        ref = self.nodes.add("Generate", generator=generator, outer=fields["outer"], input=below.ref)
        return _Relation(ref, below.state)

    def _in_python(self, plan: PlanNode, below: list[_Relation], state: tuple[int, ...]) -> _Relation:
        """A state that a Python function keeps. The function is told by its name, as all of them are."""
        told = ("functionExpr", "groupingAttributesLen", "outputMode", "timeMode")
        fields = {name: self._value(plan["fields"][name]) for name in told}
        ref = self.nodes.add(plan_text.STATE_IN_PYTHON, **fields, inputs=[each.ref for each in below])
        for place, column in enumerate(plan["output"]):
            made = self.nodes.add("Output", place=place)
            self._columns[column["attribute"]] = self.nodes.add("ResultOf", operator=ref, function=made)
        return self._stateful(ref, state)

    def _stateful(self, ref: Any, state: tuple[int, ...]) -> _Relation:
        self.operators.append(ref)
        return _Relation(ref, (*state, len(self.operators)))

    def _define(self, columns: Any) -> None:
        for each in columns:
            if "alias" in each:
                self._columns[each["alias"]] = self._value(each["child"])

    def _conjuncts(self, condition: Any) -> list[Any]:
        if plan_text.simple(condition.get("expression", "")) != "And":
            return [self._value(condition)]
        return [part for side in ("left", "right") for part in self._conjuncts(condition["fields"][side])]

    # Expressions and what they have as fields

    def _value(self, value: Any, plan: Callable[[Any], Any] | None = None) -> Any:
        if isinstance(value, str):
            return self._mask(value)
        if isinstance(value, list):
            return [self._value(each, plan) for each in value]
        if not isinstance(value, dict):
            return value
        match next(iter(value)):
            case "attribute":
                known = self._columns.get(value["attribute"])
                return self.nodes.add(OPAQUE, of=f"column {value['name']}") if known is None else known
            case "alias":
                return self._value(value["child"])
            case "expression":
                return self._expression(value)
            case "plan":
                return self._subquery(value) if plan is None else plan(value)
            case "object":
                kind = plan_text.class_name(value["object"])
                return self.nodes.add(kind, **self._fields(value["fields"]))
            case "map":
                return {"map": _ordered(self._value(value["map"]))}
            case "set":
                return {"set": _ordered(self._value(value["set"]))}
            case "id":
                return None
            case "opaque":
                return self.nodes.add(OPAQUE, of=value["opaque"])
        return {name: self._value(each) for name, each in value.items()}

    def _fields(self, fields: Any) -> dict[str, Any]:
        return {name: self._value(each) for name, each in fields.items()}

    def _expression(self, value: Any) -> Any:
        kind = plan_text.class_name(value["expression"])
        if "literal" in value:
            told = self._value(value["literal"])
            if isinstance(told, int) and self._mask(str(told)) != str(told):
                told = self._mask(str(told))
            return self.nodes.add("Literal", type=self._mask(value["type"]), value=told)
        fields = value["fields"]
        match kind:
            case "OuterReference":
                return self._value(fields["e"])
            case "VariableReference":
                return self._value(fields["varDef"]["fields"]["currentValue"])
            case "NamedLambdaVariable":
                place = self._lambdas.get(fields["exprId"]["id"], "unknown")
                return self.nodes.add(kind, place=place, type=value["type"])
        outer = self._lambdas
        if kind == "LambdaFunction":
            names = {each["fields"]["exprId"]["id"]: f"{len(outer)}.{i}" for i, each in enumerate(fields["arguments"])}
            self._lambdas = {**outer, **names}
        found = self._fields(structure_rules.told(kind, fields))
        self._lambdas = outer
        kind, found = structure_rules.apply(
            self.nodes, kind, found, commutes=value.get("commutes", False), zoned=value.get("zoned", True)
        )
        ref = self.nodes.add(kind, type=self._mask(value["type"] or ""), **found)
        if kind == "AggregateExpression" and self._results_of is not None:
            return self.nodes.add("ResultOf", operator=self._results_of, function=ref)
        return ref

    def _subquery(self, plan: PlanNode) -> Any:
        made = self.relation(plan)
        return self.nodes.add("Query", rows=made.ref, columns=[self._value(each) for each in plan["output"]])


def _ordered(values: Iterable[Any]) -> list[Any]:
    return sorted(values, key=lambda each: json.dumps(each, sort_keys=True))
