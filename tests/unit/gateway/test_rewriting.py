"""Which changes of aggregates a state is rewritten for, and how; and why it is not for others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from sparksql.gateway.streaming.checkpoints.batch_files import File, files_of, is_state_of, whole_state
from sparksql.gateway.streaming.state.description import AGGREGATE, Description, StateColumn, StatefulOperator
from sparksql.gateway.streaming.state.difference import DifferenceKind
from sparksql.gateway.streaming.state.rewriting import NotRewritable, OperatorRewriting, Rewriting, rewriting
from sparksql.gateway.streaming.state.structure_nodes import Node, Nodes
from tests.unit.gateway.descriptions import OLD

BUFFERS = {"count": ("bigint",), "avg": ("double", "bigint"), "max": ("int",), "sum": ("bigint",)}


def description(*levels: Sequence[str], key: str = "country", **changes: object) -> Description:
    """Aggregations over one another by functions such as `sum(amount)`; `@` in one is the first function below it."""
    nodes = Nodes()
    rows = nodes.add("Source", number=1)
    operators: list[StatefulOperator] = []
    result = nodes.add("Column", of=rows, streams=True, name="amount", type="int")
    for functions in levels:
        made = [
            nodes.add("AggregateExpression", text=each, child=result if "@" in each else None) for each in functions
        ]
        keys = [[nodes.add("Column", of=rows, streams=True, name=key, type="string"), []]]
        rows = nodes.add("Aggregate", keys=keys, functions=made, input=rows)
        if made:
            result = nodes.add("ResultOf", operator=rows, function=made[0])
        values = tuple(StateColumn(each, "bigint", each, BUFFERS[each.partition("(")[0]]) for each in functions)
        keyed = (StateColumn(key, "string", f"[1].{key}"),)
        operators.append(StatefulOperator(AGGREGATE, keyed, values, structure=rows["ref"]))
    known: dict[str, Node] = nodes.below([each.structure for each in operators])
    return replace(OLD, operators=tuple(operators), nodes=known, text_hash=str(levels), **changes)  # type: ignore[arg-type]


COUNTS = description(["count(1)", "avg(amount)"])


@pytest.mark.parametrize(
    ("functions", "sources", "kinds"),
    [
        (["count(1)", "avg(amount)", "max(price)", "sum(price)"], (0, 1, None, None), {DifferenceKind.AGGREGATE_ADDED}),
        (["avg(amount)"], (1,), {DifferenceKind.AGGREGATE_REMOVED}),
        (["count(1)"], (0,), {DifferenceKind.AGGREGATE_REMOVED}),
    ],
    ids=["added at the end", "removed in front", "removed at the end"],
)
def test_a_state_is_rewritten_for_aggregates_added_behind_or_removed(
    functions: list[str], sources: tuple[int | None, ...], kinds: set[DifferenceKind]
) -> None:
    found = rewriting(COUNTS, description(functions))
    assert isinstance(found, Rewriting)
    after = tuple(BUFFERS[each.partition("(")[0]] for each in functions)
    assert found.operators == (OperatorRewriting(0, sources, (("bigint",), ("double", "bigint")), after),)
    assert {each.change for each in found.differences} == kinds
    assert all(each.operator == "aggregate" and each.column for each in found.differences)


def as_written(functions: Sequence[str], text: Sequence[str]) -> Description:
    """An aggregation whose state has `functions` and whose text has `text`, of which constants leave some out."""
    kept, written = description(functions), description(text)
    (operator,) = kept.operators
    operators = (replace(operator, as_written=written.operators[0].structure),)
    return replace(kept, operators=operators, nodes={**kept.nodes, **written.nodes}, text_hash=str(text))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["count(1)", "sum(amount)"], ["count(1)", "sum(amount)"]),
        (["count(1)", "max(price)"], ["count(1)", "sum(amount)"]),
    ],
    ids=["the same query", "another function in its place"],
)
def test_rewriting_for_a_folded_function_is_refused(old: list[str], new: list[str]) -> None:
    found = rewriting(as_written(["count(1)"], old), as_written(["count(1)", "sum(amount)"], new))
    assert isinstance(found, NotRewritable) and "had left it out" in found.reason


def test_rewriting_for_a_folded_function_removes_the_columns() -> None:
    text = ["count(1)", "sum(amount)"]
    assert isinstance(rewriting(as_written(text, text), as_written(["count(1)"], text)), Rewriting)


@pytest.mark.parametrize(
    ("functions", "words"),
    [
        (["count(1)", "avg(price)"], "one has become another"),
        (["count(1)", "sum(amount)"], "one has become another"),
        (["avg(amount)", "max(price)"], "added and removed at once"),
        (["max(price)", "count(1)", "avg(amount)"], "put it after them"),
        (["count(1)", "max(price)", "avg(amount)"], "put it after them"),
        (["avg(amount)", "count(1)"], "changed places"),
        (["sum(amount)"], "no aggregate of the state is left"),
        ([], "no aggregate of the state is left"),
    ],
)
def test_a_state_is_not_rewritten_where_an_aggregate_has_another_meaning(functions: list[str], words: str) -> None:
    found = rewriting(COUNTS, description(functions))
    assert isinstance(found, NotRewritable) and words in found.reason


def test_aggregate_added_over_a_changelog_is_refused_and_one_removed_is_not() -> None:
    old, more, less = (
        replace(each, retracts=True)
        for each in (COUNTS, description(["count(1)", "avg(amount)", "sum(price)"]), description(["avg(amount)"]))
    )
    found = rewriting(old, more)
    assert isinstance(found, NotRewritable) and "never counted" in found.reason
    assert isinstance(rewriting(old, less), Rewriting)


def test_groups_without_aggregates_get_none() -> None:
    found = rewriting(description([]), description(["count(1)"]))
    assert isinstance(found, NotRewritable) and "groups without aggregates" in found.reason


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (COUNTS, COUNTS),
        (COUNTS, description(["avg(amount)"], key="city")),
        (COUNTS, description(["avg(amount)"], output_mode="complete")),
        (COUNTS, description(["avg(amount)"], sources=())),
        (COUNTS, description(["count(1)", "avg(amount)"], ["sum(@)"])),
        (replace(OLD, version=1), replace(OLD, version=1, text_hash="another")),
    ],
    ids=["nothing", "a key too", "the mode too", "a source too", "another operator", "no structures"],
)
def test_nothing_is_said_of_rewriting_where_not_only_aggregates_have_changed(
    old: Description, new: Description
) -> None:
    assert rewriting(old, new) is None


def test_an_operator_over_a_rewritten_aggregation_is_copied_if_it_takes_the_same_results() -> None:
    old = description(["count(1)", "avg(amount)"], ["sum(@)"])
    found = rewriting(old, description(["count(1)", "avg(amount)", "max(price)"], ["sum(@)"]))
    assert isinstance(found, Rewriting)
    assert [(each.place, each.sources) for each in found.operators] == [(0, (0, 1, None))]
    assert [each.operator for each in found.differences] == ["aggregate 1"]
    both = rewriting(old, description(["count(1)", "avg(amount)", "max(price)"], ["sum(@)", "max(@)"]))
    assert isinstance(both, Rewriting) and [each.place for each in both.operators] == [0, 1]
    other = rewriting(old, description(["avg(amount)"], ["sum(@)"]))
    assert isinstance(other, NotRewritable), "the sum is one of another result now"
    mixed = rewriting(old, description(["count(1)"], ["sum(@)", "max(@)"]))
    assert isinstance(mixed, NotRewritable) and "one after the other" in mixed.reason


@pytest.mark.parametrize(
    ("changes", "words"), [({"version": 2}, "earlier version"), ({"spark_version": "4.0.1"}, "Spark 4.0.1")]
)
def test_a_state_is_not_rewritten_that_another_driver_has_described(changes: dict[str, object], words: str) -> None:
    found = rewriting(replace(COUNTS, **changes), description(["count(1)"]))  # type: ignore[arg-type]
    assert isinstance(found, NotRewritable) and words in found.reason


def test_a_state_is_not_rewritten_whose_columns_are_not_those_of_the_text() -> None:
    for old in (("bigint",), ()):
        values = (COUNTS.operators[0].values[0], replace(COUNTS.operators[0].values[1], buffers=old))
        told = replace(COUNTS, operators=(replace(COUNTS.operators[0], values=values),))
        assert isinstance(rewriting(told, description(["avg(amount)"])), NotRewritable)


def test_buffers_of_aggregates_are_kept_in_the_description_file() -> None:
    assert Description.from_json(COUNTS.to_json()) == COUNTS


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("0/3/1.delta", "0/3/8.snapshot"),
        ("0/3/1.zip", "0/3/8.zip"),
        ("0/3/SSTs/a.sst", "0/3/SSTs/a.sst"),
        ("0/3/logs/a.log", "0/3/logs/a.log"),
        ("0/3/1.delta.crc", None),
        ("0/3/.1.delta.crc", None),
        ("0/0/_metadata/schema", None),
    ],
)
def test_files_of_a_first_state_get_the_names_of_a_whole_one(path: str, name: str | None) -> None:
    assert whole_state(path, 8) == name


def test_a_first_state_with_an_unknown_file_is_refused() -> None:
    for path in ("0/3/1.changelog", "0/3/1_id.zip"):
        with pytest.raises(ValueError, match="has 1"):
            whole_state(path, 8)


def test_a_copy_of_a_query_that_goes_on_has_its_planned_batch_and_not_the_rewritten_values() -> None:
    paths = (
        "offsets/6",
        "offsets/7",
        "offsets/8",
        "commits/6",
        "commits/7",
        "sources/0/8",
        "state/0/_metadata/metadata",
    )
    paths += ("state/0/0/8.delta", "state/0/0/9.delta", "state/0/0/_metadata/schema", "state/1/0/8.delta", "metadata")
    found = files_of([File(path, 1) for path in paths], 7, lambda _: [], with_planned=True)
    kept = {file.path for file in found if not is_state_of(file.path, [0])}
    assert kept == set(paths) - {"state/0/0/8.delta", "state/0/0/9.delta", "state/0/0/_metadata/schema"}
