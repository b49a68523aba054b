"""Whose turn it is in a session: strict order, bounded slots, one hand-over at a time, and a queue with a limit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from domain_samples import NOW, seconds
from hypothesis import given
from hypothesis import strategies as st

from sparksql.domain.admission import Contender, Place, Turn, exceeds_queue, next_in_line, turn
from sparksql.domain.backoff import exponential


def contender(name: str, place: Place = Place.WAITING, *, priority: int = 0, age: float = 0) -> Contender:
    return Contender(name, priority, NOW - seconds(age), place)


CONTENDERS = st.lists(
    st.builds(
        Contender,
        name=st.text("abcdefgh", min_size=1, max_size=3),
        priority=st.integers(-2, 2),
        created=st.integers(0, 3).map(lambda count: NOW + seconds(count)),
        place=st.sampled_from(Place),
    ),
    unique_by=lambda c: c.name,
    max_size=9,
)
SLOTS = st.integers(1, 4)


def waiting(everyone: list[Contender]) -> list[Contender]:
    return [c for c in everyone if c.place is Place.WAITING]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (contender("z", priority=1), contender("a", age=9)),
        (contender("z", age=9), contender("a")),
        (contender("a"), contender("b")),
    ],
    ids=["priority before age", "age before name", "name last"],
)
def test_order(first: Contender, second: Contender) -> None:
    assert turn(first.name, [second, first], 4) == Turn(granted=True, ahead=0)
    assert turn(second.name, [second, first], 4) == Turn(granted=False, ahead=1)
    assert next_in_line([second, first]) == first.name


def test_blocked_ones_are_passed_over() -> None:
    blocked = contender("a", Place.BLOCKED, priority=9)
    assert turn("b", [blocked, contender("b")], 1).granted
    assert next_in_line([blocked]) is None


def test_nobody_goes_while_another_is_on_its_way() -> None:
    on_its_way = contender("a", Place.HANDING_OVER)
    assert turn("b", [on_its_way, contender("b")], 4) == Turn(granted=False, ahead=1)
    assert turn("b", [replace(on_its_way, place=Place.ARRIVED), contender("b")], 4).granted


@given(CONTENDERS, SLOTS)
def test_at_most_one_is_granted_and_it_is_the_next_in_line(everyone: list[Contender], slots: int) -> None:
    granted = [c.name for c in waiting(everyone) if turn(c.name, everyone, slots).granted]
    taken = sum(c.place in (Place.HANDING_OVER, Place.ARRIVED) for c in everyone)
    in_transit = any(c.place is Place.HANDING_OVER for c in everyone)
    follows = next_in_line(everyone)
    expected = [follows] if follows is not None and taken < slots and not in_transit else []
    assert granted == expected


@given(CONTENDERS, SLOTS)
def test_those_ahead_are_counted_once(everyone: list[Contender], slots: int) -> None:
    taken = sum(c.place in (Place.HANDING_OVER, Place.ARRIVED) for c in everyone)
    in_order = sorted(waiting(everyone), key=lambda c: c.order)
    assert [turn(c.name, everyone, slots).ahead for c in in_order] == [taken + i for i in range(len(in_order))]


@given(CONTENDERS, SLOTS, st.randoms(use_true_random=False))
def test_the_order_of_the_listing_does_not_count(everyone: list[Contender], slots: int, random: object) -> None:
    shuffled = list(everyone)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert next_in_line(shuffled) == next_in_line(everyone)
    for c in waiting(everyone):
        assert turn(c.name, shuffled, slots) == turn(c.name, everyone, slots)


@given(CONTENDERS, SLOTS)
def test_all_go_in_order_when_each_arrives_and_ends(everyone: list[Contender], slots: int) -> None:
    """Handing over, arriving and ending one by one empties the line in its order, never beyond the slots."""
    line = {c.name: replace(c, place=Place.WAITING) for c in everyone}
    order = [c.name for c in sorted(line.values(), key=lambda c: c.order)]
    gone: list[str] = []
    while line:
        follows = next_in_line(line.values())
        if follows is not None and turn(follows, line.values(), slots).granted:
            line[follows] = replace(line[follows], place=Place.ARRIVED)
            gone.append(follows)
        else:
            done = next(c.name for c in line.values() if c.place is Place.ARRIVED)
            del line[done]
        assert sum(c.place is Place.ARRIVED for c in line.values()) <= slots
    assert gone == order


@given(CONTENDERS, st.integers(0, 5))
def test_the_queue_keeps_its_oldest(everyone: list[Contender], limit: int) -> None:
    queued = [c for c in everyone if c.place in (Place.WAITING, Place.BLOCKED)]
    refused = [c for c in everyone if exceeds_queue(c.name, everyone, limit)]
    assert len(refused) == max(0, len(queued) - limit)
    assert all(c in queued for c in refused)
    kept = [c for c in queued if c not in refused]
    assert all((k.created, k.name) < (r.created, r.name) for k in kept for r in refused)


@given(CONTENDERS, st.integers(1, 5))
def test_a_newcomer_never_drives_another_one_out(everyone: list[Contender], limit: int) -> None:
    newcomer = Contender("zzzz", 2, NOW + seconds(99), Place.WAITING)
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
