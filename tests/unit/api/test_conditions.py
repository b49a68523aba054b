"""A condition's time moves only with its status; everything else follows the latest look."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from sparksql.api.conditions import Condition, ConditionStatus, find_condition, is_true, merge_conditions

T0 = datetime(2026, 1, 31, 8, tzinfo=UTC)
TYPES = ("Ready", "Reconciling", "Stalled", "Healthy")

desired_sets = st.dictionaries(
    st.sampled_from(TYPES), st.tuples(st.sampled_from(ConditionStatus), st.sampled_from(["A", "B"])), max_size=4
)


def conditions(desired: dict[str, tuple[ConditionStatus, str]]) -> tuple[Condition, ...]:
    return tuple(Condition(type=type, status=status, reason=reason) for type, (status, reason) in desired.items())


@given(st.lists(desired_sets, min_size=1, max_size=6))
def test_time_is_that_of_the_last_change_of_status(history: list[dict[str, tuple[ConditionStatus, str]]]) -> None:
    current: tuple[Condition, ...] = ()
    since: dict[str, tuple[ConditionStatus, datetime]] = {}
    for step, desired in enumerate(history):
        now = T0 + timedelta(seconds=step)
        since = {
            type: since[type] if type in since and since[type][0] == status else (status, now)
            for type, (status, _) in desired.items()
        }
        current = merge_conditions(current, conditions(desired), generation=step, now=now)
        assert [each.type for each in current] == list(desired)
        for each in current:
            assert (each.status, each.last_transition_time) == since[each.type]
            assert each.reason == desired[each.type][1]
            assert each.observed_generation == step


def test_merging_the_same_again_changes_nothing() -> None:
    desired = (Condition(type="Ready", status=ConditionStatus.FALSE, reason="Starting"),)
    once = merge_conditions((), desired, generation=1, now=T0)
    assert merge_conditions(once, desired, generation=1, now=T0 + timedelta(hours=1)) == once


def test_condition_without_a_time_gets_the_present_time() -> None:
    broken = (Condition(type="Ready", status=ConditionStatus.TRUE),)
    (merged,) = merge_conditions(broken, broken, generation=1, now=T0)
    assert merged.last_transition_time == T0


def test_conditions_are_found_by_type() -> None:
    ready = Condition(type="Ready", status=ConditionStatus.TRUE)
    stalled = Condition(type="Stalled", status=ConditionStatus.UNKNOWN)
    assert find_condition((stalled, ready), "Ready") is ready
    assert find_condition((stalled,), "Ready") is None
    assert is_true((ready, stalled), "Ready")
    assert not is_true((ready, stalled), "Stalled")
    assert not is_true((), "Ready")


def test_a_long_message_is_cut_not_refused() -> None:
    condition = Condition(type="Ready", status=ConditionStatus.FALSE, message="m" * 10_000)
    assert len(condition.message) == 4096
    assert condition.message.endswith("m…")
