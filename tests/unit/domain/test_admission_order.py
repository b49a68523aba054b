"""Whose turn it is in a session: strict order, bounded slots, one hand-over at a time, and a queue with a limit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.domain.admission import QueueEntry, QueueState, Turn, exceeds_queue, next_in_queue, order, turn
from sparksql.domain.backoff import exponential
from tests.unit.domain.builders.objects import NOW, seconds


def created(age: float = 0) -> str:
    return (NOW - seconds(age)).strftime("%Y-%m-%dT%H:%M:%SZ")


def entry(name: str, place: QueueState = QueueState.WAITING, *, age: float = 0) -> QueueEntry:
    return QueueEntry(name, created(age), place)


LINES = st.lists(
    st.builds(
        QueueEntry,
        name=st.text("abcdefgh", min_size=1, max_size=3),
        created=st.integers(0, 3).map(created),
        place=st.sampled_from(QueueState),
    ),
    unique_by=lambda c: c.name,
    max_size=9,
)
SLOTS = st.integers(1, 4)


def waiting(line: list[QueueEntry]) -> list[QueueEntry]:
    return [c for c in line if c.place is QueueState.WAITING]


def test_priority_goes_before_age_and_age_before_name() -> None:
    in_order = [
        order(1, created(0), "z"),
        order(0, created(9), "z"),
        order(0, created(0), "a"),
        order(0, created(0), "b"),
    ]
    assert sorted({*in_order}) == in_order


def test_only_the_first_in_line_goes() -> None:
    line = [entry("a"), entry("b")]
    assert turn("a", line, 4) == Turn(granted=True, ahead=0)
    assert turn("b", line, 4) == Turn(granted=False, ahead=1)
    assert next_in_queue(line) == "a"


def test_blocked_statement_is_passed_over_in_the_session_queue() -> None:
    blocked = entry("a", QueueState.BLOCKED)
    assert turn("b", [blocked, entry("b")], 1).granted
    assert next_in_queue([blocked]) is None


@pytest.mark.parametrize("names", ["ab", "ba"], ids=["ahead", "behind"])
def test_no_statement_is_handed_over_while_another_hand_over_is_under_way(names: str) -> None:
    line = [entry(name, QueueState.HANDING_OVER if name == "a" else QueueState.WAITING) for name in names]
    assert turn("b", line, 4) == Turn(granted=False, ahead=1)
    assert turn("b", [replace(c, place=QueueState.ARRIVED) if c.name == "a" else c for c in line], 4).granted


@given(LINES, SLOTS)
def test_at_most_one_statement_is_granted_a_turn_and_only_the_next_in_line(line: list[QueueEntry], slots: int) -> None:
    granted = [c.name for c in waiting(line) if turn(c.name, line, slots).granted]
    taken = sum(c.place in (QueueState.HANDING_OVER, QueueState.ARRIVED) for c in line)
    in_transit = any(c.place is QueueState.HANDING_OVER for c in line)
    follows = next_in_queue(line)
    expected = [follows] if follows is not None and taken < slots and not in_transit else []
    assert granted == expected


@given(LINES, SLOTS)
def test_statements_ahead_in_the_queue_are_each_counted_once(line: list[QueueEntry], slots: int) -> None:
    taken = sum(c.place in (QueueState.HANDING_OVER, QueueState.ARRIVED) for c in line)
    in_order = waiting(line)
    assert [turn(c.name, line, slots).ahead for c in in_order] == [taken + i for i in range(len(in_order))]


def test_search_for_the_next_in_line_stops_at_the_first_waiting_statement() -> None:
    line = iter([entry("a", QueueState.ARRIVED), entry("b"), entry("c")])
    assert next_in_queue(line) == "b"
    assert [c.name for c in line] == ["c"]


@given(LINES, SLOTS)
def test_all_go_in_order_when_each_arrives_and_ends(everyone: list[QueueEntry], slots: int) -> None:
    """Handing over, arriving and ending one by one empties the line in its order, never beyond the slots."""
    line = {c.name: replace(c, place=QueueState.WAITING) for c in everyone}
    names = list(line)
    gone: list[str] = []
    while line:
        follows = next_in_queue(line.values())
        if follows is not None and turn(follows, line.values(), slots).granted:
            line[follows] = replace(line[follows], place=QueueState.ARRIVED)
            gone.append(follows)
        else:
            done = next(c.name for c in line.values() if c.place is QueueState.ARRIVED)
            del line[done]
        assert sum(c.place is QueueState.ARRIVED for c in line.values()) <= slots
    assert gone == names


@given(LINES, st.integers(0, 5))
def test_queue_beyond_its_limit_keeps_the_oldest_statements(everyone: list[QueueEntry], limit: int) -> None:
    queued = [c for c in everyone if c.place in (QueueState.WAITING, QueueState.BLOCKED)]
    refused = [c for c in everyone if exceeds_queue(c.name, everyone, limit)]
    assert len(refused) == max(0, len(queued) - limit)
    assert all(c in queued for c in refused)
    kept = [c for c in queued if c not in refused]
    assert all((k.created, k.name) < (r.created, r.name) for k in kept for r in refused)


@given(LINES, st.integers(1, 5))
def test_a_newcomer_never_drives_another_one_out(everyone: list[QueueEntry], limit: int) -> None:
    newcomer = entry("zzzz", age=-99)
    before = {c.name for c in everyone if exceeds_queue(c.name, everyone, limit)}
    after = {c.name for c in everyone if exceeds_queue(c.name, [*everyone, newcomer], limit)}
    assert before == after


@given(st.integers(1, 200), st.floats(0.1, 100), st.floats(100, 1000))
def test_backoff_doubles_up_to_its_bound(failures: int, first: float, most: float) -> None:
    now, following = exponential(failures, first, most), exponential(failures + 1, first, most)
    assert first <= now <= most
    assert following == min(most, 2 * now)


def test_backoff_of_no_failures_is_the_first_and_zero_stays_zero() -> None:
    assert [exponential(n, 1.0, 60.0) for n in (0, 1, 2, 3, 7)] == [1, 1, 2, 4, 60]
    assert exponential(5, 0, 600) == 0
