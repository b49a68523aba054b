"""The merge patch between two statuses is exact and minimal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.kube.status import merge_patch

scalars = st.one_of(st.booleans(), st.integers(-2, 2), st.text("ab", max_size=2))
cells = st.one_of(scalars, st.none())
statuses = st.recursive(
    st.dictionaries(st.sampled_from("abcd"), st.one_of(scalars, st.lists(cells, max_size=3)), max_size=4),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), st.one_of(scalars, inner), max_size=4),
    max_leaves=12,
)


def applied(target: Any, patch: Any) -> Any:
    """MergePatch of RFC 7386, section 2, word by word."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = applied(result.get(name), value)
    return result


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        ({}, {}, {}),
        ({"phase": "Ready"}, {"phase": "Ready"}, {}),
        ({"phase": "Ready"}, {}, {"phase": None}),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, {"b": 3}),
        ({"d": {"x": 1, "y": 2}}, {"d": {"x": 1}}, {"d": {"y": None}}),
        ({"c": [{"type": "Ready"}]}, {"c": [{"type": "Ready"}, {"type": "Stalled"}]},
         {"c": [{"type": "Ready"}, {"type": "Stalled"}]}),
        ({"c": [1, None]}, {"c": (1, None)}, {}),
        ({"d": {"x": 1}}, {"d": "text"}, {"d": "text"}),
        ({"n": 1}, {"n": True}, {"n": True}),
        ({"n": [1]}, {"n": [True]}, {"n": [True]}),
    ],
)  # fmt: skip
def test_merge_patch_has_only_changed_fields_and_null_for_removed_fields(
    old: dict[str, Any], new: dict[str, Any], patch: dict[str, Any]
) -> None:
    assert merge_patch(old, new) == patch


@given(statuses, statuses)
def test_a_patch_leads_from_old_to_new(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert repr(sorted_deep(applied(old, merge_patch(old, new)))) == repr(sorted_deep(new))


@given(statuses)
def test_no_change_needs_no_patch(status: dict[str, Any]) -> None:
    assert merge_patch(status, status) == {}


def sorted_deep(value: Any) -> Any:
    """For comparison by repr, which tells True from 1 where `==` does not."""
    return {key: sorted_deep(value[key]) for key in sorted(value)} if isinstance(value, dict) else value
