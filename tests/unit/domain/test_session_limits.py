"""Limits of sessions: whose place it is, in which order places are given, and what is said to who gets none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase as Phase
from sparksql.domain.session.session_limits import SessionLimits, SessionQueueEntry, limit_violation

ONE = SessionQueueEntry("a", "one", "2026-01-31T08:00:05Z", "standard", Phase.PENDING)


def other(name: str, phase: Phase | None = Phase.READY, *, minute: int = 0, **fields: str | bool) -> SessionQueueEntry:
    return replace(ONE, name=name, phase=phase, created=f"2026-01-31T08:{minute:02}:00Z", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bounds", "others", "names"),
    [
        (SessionLimits(), [other("b")] * 9, None),
        (SessionLimits(of_class_in_namespace=2), [other("b")], None),
        (SessionLimits(of_class_in_namespace=1), [other("b")], "limits.sessionsPerNamespace"),
        (SessionLimits(of_class_in_namespace=1), [other("b", namespace="elsewhere")], None),
        (SessionLimits(of_class_in_namespace=1), [other("b", class_name="large")], None),
        (SessionLimits(of_class=1), [other("b", namespace="elsewhere")], "limits.sessions"),
        (SessionLimits(of_class=1), [other("b", class_name="large")], None),
        (
            SessionLimits(of_operator=1),
            [other("b", class_name="large", namespace="elsewhere")],
            "operator.limits.sessions",
        ),
        (SessionLimits(of_class=0), [], "allows no sessions"),
    ],
)
def test_each_session_limit_counts_only_the_sessions_in_its_scope(
    bounds: SessionLimits, others: list[SessionQueueEntry], names: str | None
) -> None:
    refused = limit_violation(ONE, [ONE, *others], bounds)
    assert (refused is None) is (names is None)
    if refused is not None and names is not None:
        assert refused.reason is Reason.LIMIT_EXCEEDED
        assert names in refused.message


@pytest.mark.parametrize(
    ("before", "is_there"),
    [
        (other("b", Phase.STARTING, minute=9), False),  # younger, and has its driver
        (other("b", Phase.DRAINING, minute=9), False),
        (other("b", Phase.PENDING, minute=9), True),  # younger, and waits behind this one
        (other("b", None, minute=9), True),
        (other("b", Phase.PENDING), False),
        (other("b", None), False),
        (other("b", Phase.PENDING, held_up=True), True),  # waits for something else
        (other("b", Phase.PENDING, wanted=False), True),
        *((other("b", phase), True) for phase in (Phase.STOPPED, Phase.CLOSED, Phase.FAILED)),
    ],
)
def test_places_are_held_by_drivers_and_given_to_the_oldest(before: SessionQueueEntry, is_there: bool) -> None:
    assert (limit_violation(ONE, [before, ONE], SessionLimits(of_class=1)) is None) is is_there


contenders = st.lists(
    st.builds(
        SessionQueueEntry,
        namespace=st.sampled_from("ab"),
        name=st.text("xyz", min_size=1, max_size=3),
        created=st.sampled_from("123"),
        class_name=st.just("standard"),
        phase=st.sampled_from([None, *Phase]),
        held_up=st.booleans(),
        wanted=st.booleans(),
    ),
    max_size=8,
    unique_by=lambda each: (each.namespace, each.name),
)


@given(contenders, st.integers(0, 4))
def test_sessions_admitted_at_the_same_time_never_exceed_the_limit(
    sessions: list[SessionQueueEntry], limit: int
) -> None:
    """Every session is decided on by itself, from the same facts: together they take no more places than there are."""
    holding = [s for s in sessions if s.phase in (Phase.STARTING, Phase.READY, Phase.DRAINING)]
    waiting = [s for s in sessions if s.phase in (None, Phase.PENDING) and s.wanted and not s.held_up]
    let_in = [s for s in waiting if limit_violation(s, sessions, SessionLimits(of_operator=limit)) is None]
    assert len(let_in) <= max(0, limit - len(holding))
