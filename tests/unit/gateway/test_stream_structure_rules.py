"""Which wordings of an expression are one, and that nothing else is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.gateway.streaming.state import structure_rules
from sparksql.gateway.streaming.state.plan_text import has_group_filter
from sparksql.gateway.streaming.state.structure import Leaf, structure

CATALYST = "org.apache.spark.sql.catalyst.expressions."


def column(number: int, name: str, kind: str = "int") -> dict[str, Any]:
    return {"attribute": number, "name": name, "type": f'"{kind}"', "marks": []}


def expression(kind: str, value_type: str = "int", more: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"expression": CATALYST + kind, "type": f'"{value_type}"', **(more or {}), "fields": fields}


def literal(value: Any, kind: str = "int") -> dict[str, Any]:
    return {"expression": CATALYST + "Literal", "type": f'"{kind}"', "literal": value}


def grouped(key: Any, name: str = "a", condition: Any = None) -> dict[str, Any]:
    leaf = {"plan": "x.StreamingRelation", "streams": True, "leaf": 0, "output": [column(1, name), column(2, "b")]}
    rows: dict[str, Any] = leaf
    if condition is not None:
        fields = {"condition": condition, "child": leaf}
        rows = {"plan": "x.Filter", "streams": True, "output": leaf["output"], "fields": fields}
    fields = {"groupingExpressions": [key], "aggregateExpressions": [], "child": rows, "hint": None}
    return {"plan": "x.Aggregate", "streams": True, "output": [], "fields": fields}


def digest(key: Any, **more: Any) -> str:
    (found,) = structure(
        grouped(key, **more), [Leaf("t", 1)], mask=lambda text: text, kept=[("Aggregate", ((),))]
    ).operators
    return found


A, B = column(1, "a"), column(2, "b")


def test_a_filter_between_the_source_and_the_first_state_leaves_no_trace() -> None:
    assert digest(A, condition=expression("LessThan", "boolean", left=A, right=B)) == digest(A)


def test_filters_are_told_where_one_source_is_read_twice() -> None:
    def both(first: Any) -> Any:
        one, two = grouped(A, condition=first), grouped(A)
        two["fields"]["child"] = {**two["fields"]["child"], "leaf": 1}
        return {"plan": "x.Union", "streams": True, "output": [], "fields": {"children": [one, two], "byName": False}}

    conditions = [expression("LessThan", "boolean", left=A, right=literal(each)) for each in (1, 2)]
    for labels, same in ((("t", "t"), False), (("t", "u"), True)):
        leaves = [Leaf(label, number) for number, label in enumerate(labels, 1)]
        found = [
            structure(both(each), leaves, mask=str, kept=[("Aggregate", ((),))] * 2).operators for each in conditions
        ]
        assert (found[0] == found[1]) is same


def test_operands_are_in_one_order_where_spark_says_that_they_commute() -> None:
    commutes = {"commutes": True}
    one, other = (expression("Add", more=commutes, left=x, right=y) for x, y in ((A, B), (B, A)))
    assert digest(one) == digest(other)
    one, other = (expression("Subtract", left=x, right=y) for x, y in ((A, B), (B, A)))
    assert digest(one) != digest(other)


def test_turned_comparison_has_the_same_digest() -> None:
    assert digest(expression("GreaterThan", left=A, right=B)) == digest(expression("LessThan", left=B, right=A))
    assert digest(expression("GreaterThan", left=A, right=B)) != digest(expression("LessThan", left=A, right=B))


def test_order_of_values_in_an_in_list_does_not_count() -> None:
    lists = ([literal(1), literal(2)], [literal(2), literal(1), literal(1)], [literal(1)])
    found = [digest(expression("In", "boolean", value=A, list=each)) for each in lists]
    assert found[0] == found[1] != found[2]


def test_a_case_with_one_branch_equals_an_if() -> None:
    def case(other: Any) -> Any:
        return expression(
            "CaseWhen", branches=[{"object": "scala.Tuple2", "fields": {"_1": A, "_2": B}}], elseValue=other
        )

    def either(other: Any) -> Any:
        return expression("If", predicate=A, trueValue=B, falseValue=other)

    assert digest(case(literal(1))) == digest(either(literal(1))) != digest(either(literal(2)))
    null = expression("Cast", child=literal(None, "void"), timeZoneId=None)
    assert digest(case(None)) == digest(either(literal(None))) == digest(either(null)) != digest(either(literal(1)))


def test_a_time_zone_counts_only_in_casts_that_use_it() -> None:
    found = [
        digest(expression("Cast", more={"zoned": zoned}, child=A, timeZoneId=zone))
        for zoned in (False, True)
        for zone in ("UTC", "Asia/Tokyo")
    ]
    assert found[0] == found[1] and found[2] != found[3]


def test_interval_units_do_not_count_where_added_to_a_timestamp() -> None:
    spans = [
        literal(value, kind)
        for value, kind in ((60, "interval second"), (60, "interval minute"), (61, "interval second"))
    ]
    found = [digest(expression("TimestampAddInterval", start=A, interval=each)) for each in spans]
    assert found[0] == found[1] != found[2]
    assert digest(spans[0]) != digest(spans[1])


@pytest.mark.parametrize("hidden", [True, False])
def test_the_seed_of_rand_counts_only_if_the_sql_gives_it(hidden: bool) -> None:
    found = [digest(expression("Rand", child=literal(seed), hideSeed=hidden)) for seed in (1, 2)]
    assert (found[0] == found[1]) is hidden


def test_ids_and_names_in_a_lambda_leave_no_trace() -> None:
    def mapped(number: int, name: str, step: int) -> Any:
        variable = expression(
            "NamedLambdaVariable", name=name, dataType={"type": '"int"'}, nullable=True, exprId={"id": number}, value={"opaque": "x"}
        )  # fmt: skip
        body = expression("Add", left=variable, right=literal(step))
        return expression("ArrayTransform", function=expression("LambdaFunction", function=body, arguments=[variable]))

    assert digest(mapped(7, "x", 1)) == digest(mapped(8, "y", 1)) != digest(mapped(7, "x", 2))


def test_foreign_functions_are_told_by_their_names_and_classes() -> None:
    def python(name: str, body: str) -> Any:
        given = {"name": name, "func": {"opaque": body}, "children": [A], "evalType": 100, "udfDeterministic": True}
        return expression("PythonUDF", **given, resultId={"id": 3})

    assert digest(python("f", "one")) == digest(python("f", "other")) != digest(python("g", "one"))
    java = [
        expression(
            "ScalaUDF", function={"value": each}, children=[A], udfName="f", udfDeterministic=True, inputEncoders=[]
        )
        for each in ("com.example.One", "com.example.Two")
    ]
    assert digest(java[0]) != digest(java[1])


def test_the_type_and_the_name_of_a_column_are_told() -> None:
    assert digest(A) != digest(B)
    assert digest(A) != digest(A, name="c")


def test_a_condition_above_groups_is_seen() -> None:
    inner = grouped(A)
    fields = {"condition": A, "child": inner}
    assert has_group_filter({"plan": "x.Filter", "streams": True, "output": [], "fields": fields})
    assert not has_group_filter(grouped(A, condition=A))


scalars = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.text("abc", max_size=2))
values = st.recursive(
    st.one_of(scalars, st.builds(literal, scalars), st.sampled_from([A, B])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.builds(lambda kind, fields: expression(kind, **fields), st.sampled_from("XYZ"), st.dictionaries(st.sampled_from("pqr"), inner)),
    ),
    max_leaves=6,
)  # fmt: skip


@given(values, values)
def test_an_expression_without_a_rule_is_equal_only_to_itself(one: Any, other: Any) -> None:
    keys = [expression("Unheard", field=each) for each in (one, other)]
    assert (digest(keys[0]) == digest(keys[1])) is (
        json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    )


def test_every_structure_rule_tells_its_reason() -> None:
    for rule in structure_rules._RULES.values():
        assert rule.__doc__
