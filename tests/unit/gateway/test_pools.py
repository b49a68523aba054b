"""Weights of pools by priority."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparksql.gateway.spark.pools import weight_of

PRIORITIES = st.integers(-1_000_000_000, 1_000_000_000)


def test_each_step_doubles_the_share_within_bounds() -> None:
    assert [weight_of(priority) for priority in (-4, -3, -2, -1, 0, 1, 2, 3, 100)] == [1, 1, 2, 4, 8, 16, 32, 64, 64]


@given(PRIORITIES, PRIORITIES)
def test_a_greater_priority_never_has_less(one: int, other: int) -> None:
    assert (weight_of(one) <= weight_of(other)) == (one <= other) or weight_of(one) == weight_of(other)
    assert 1 <= weight_of(one) <= 64
