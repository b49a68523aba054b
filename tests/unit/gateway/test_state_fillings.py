"""Which columns of a query fill those of a state, by name, and which cannot."""

from __future__ import annotations

import pytest

from sparksql.gateway.streaming.state_tables.columns import Form, Layout, Part, Unscaled
from sparksql.gateway.streaming.state_tables.filling import Filling, Given, MisfitError, Value, fillings

STATE = Layout(
    keys=(Part("city", (0,)),),
    values=(
        Part("n", (1,), Form.VALUE, "bigint", ("count",)),
        Part("mean", (2, 3), Form.AVERAGE, "double", ("sum", "count")),
        Part("total", (4, 5), Form.SUM, "decimal(20,2)", ("sum", "isEmpty")),
        Part("last", (6, 7), Form.VALUE, "int", ("value", "ordering")),
        Part("seen", (8,), Form.AS_KEPT, "array<int>", ("buf",)),
    ),
    is_told=True,
)
KEPT = (
    Given("SEEN", ("buf",)),
    Given("last", ("ordering", "value")),
    Given("Total", ("sum", "isempty")),
    Given("mean", ("count", "Sum")),
    Given("n"),
    Given("city"),
)


def test_sums_of_decimals_without_their_scale_are_filled_from_decimals() -> None:
    cents = Unscaled(6, 2)
    state = Layout(
        keys=(),
        values=(
            Part("total", (0,), Form.VALUE, "bigint", ("sum",), cents),
            Part("mean", (1, 2), Form.AVERAGE, "double", ("sum", "count"), cents),
        ),
        is_told=True,
    )
    assert fillings(state, [Given("mean", ("count", "sum")), Given("total")]) == (
        Filling("total", 1, value=Value.UNSCALED, unscaled=cents),
        Filling("mean.sum", 0, 1, Value.UNSCALED, cents),
        Filling("mean.count", 0, 0),
    )


def test_struct_with_a_count_for_an_average_with_a_shared_count_is_refused() -> None:
    mean = Part("mean", (0, 1), Form.AVERAGE, "double", ("sum",), own=(0,))
    state = Layout(keys=(), values=(mean, Part("n", (1,), Form.VALUE, "bigint", ("count",))), is_told=True)
    assert fillings(state, [Given("n"), Given("mean", ("sum",))]) == (Filling("mean.sum", 1, 0), Filling("n", 0))
    with pytest.raises(MisfitError, match="column mean must be a STRUCT of sum, and it is one of sum, count"):
        fillings(state, [Given("n"), Given("mean", ("sum", "count"))])


def test_columns_are_found_by_their_names_in_any_order() -> None:
    assert fillings(STATE, KEPT) == (
        Filling("city", 5),
        Filling("n", 4),
        Filling("mean.sum", 3, 1),
        Filling("mean.count", 3, 0),
        Filling("total.sum", 2, 0),
        Filling("total.isEmpty", 2, 1),
        Filling("last.value", 1, 1),
        Filling("last.ordering", 1, 0),
        Filling("seen.buf", 0, 0),
    )


def test_sums_are_given_by_their_value_and_single_columns_as_they_are() -> None:
    plain = (Given("seen"), *KEPT[1:2], Given("total"), *KEPT[3:])
    found = fillings(STATE, plain)
    assert found[4:6] == (Filling("total", 2, value=Value.TOTAL), Filling("total", 2, value=Value.IS_EMPTY))
    assert found[8] == Filling("seen", 0)


def test_a_greatest_struct_is_a_value_and_not_what_is_kept() -> None:
    state = Layout((), (Part("top", (0,), Form.VALUE, "struct<max:int>", ("max",)),), is_told=True)
    assert fillings(state, [Given("top", ("max",))]) == (Filling("top", 0),)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (KEPT[:-1], "the query lacks column city; the columns of the state are city, n, mean, total, last, seen"),
        ((*KEPT, Given("more")), "the query has column more, which the state has not"),
        ((Given("operator"), Given("key"), Given("value")), "the rows have the form of all operators, JSON"),
        ((*KEPT, Given("N")), "the query has column n twice"),
        ((*KEPT[:3], Given("mean"), *KEPT[4:]), "column mean must be a STRUCT of sum, count: the state stores more than the value"),
        ((KEPT[0], Given("last"), *KEPT[2:]), "column last must be a STRUCT of value, ordering"),
        ((*KEPT[:3], Given("mean", ("sum",)), *KEPT[4:]), "a STRUCT of sum, count, and it is one of sum"),
        ((*KEPT[:3], Given("mean", ("sum", "sum")), *KEPT[4:]), "a STRUCT of sum, count, and it is one of sum, sum"),
    ],
)  # fmt: skip
def test_columns_that_are_not_those_of_the_state_are_named(given: tuple[Given, ...], words: str) -> None:
    with pytest.raises(MisfitError) as refused:
        fillings(STATE, given)
    assert words in str(refused.value)
