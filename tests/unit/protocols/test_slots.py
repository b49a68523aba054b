"""Slots of connections by any order of events: bounds hold, strangers make room for strangers, users for themselves."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from sparksql.protocols.budget import OverBudgetError
from sparksql.protocols.slots import Slot, SlotLimits, Slots

LIMITS = SlotLimits(most=10, each=4, strangers=3)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["admit", "claim", "works", "idles", "close"]),
        st.integers(0, 30),
        st.sampled_from(["ada", "bob", "eve", "dan"]),
        st.sampled_from(["10.0.0.1", "10.0.0.2"]),
    ),
    max_size=80,
)


class Crowd:
    """Connections with what became of them."""

    def __init__(self) -> None:
        self.slots = Slots(LIMITS)
        self.open: list[Slot] = []

    def admit(self, address: str) -> Slot:
        slot = self.slots.admit(address, lambda: self.open.remove(slot))
        self.open.append(slot)
        return slot

    def user(self, holder: str, count: int, *, is_idle: bool) -> list[Slot]:
        made = []
        for _ in range(count):
            slot = self.admit("10.0.0.9")
            slot.claim(holder)
            if is_idle:
                slot.idles()
            made.append(slot)
        return made


@given(steps=STEPS)
def test_slots_in_any_order_stay_within_the_bounds_and_end_at_zero(steps: list[tuple[str, int, str, str]]) -> None:
    crowd = Crowd()
    for kind, which, holder, address in steps:
        if kind == "admit":
            crowd.admit(address)
        elif crowd.open:
            slot = crowd.open[which % len(crowd.open)]
            with contextlib.suppress(OverBudgetError):
                match kind:
                    case "claim":
                        slot.claim(holder)
                    case "works":
                        slot.works()
                    case "idles":
                        slot.idles()
                    case _:
                        crowd.open.remove(slot)
                        slot.close()
        holders = [slot.holder for slot in crowd.open]
        assert len(crowd.slots) == len(holders)
        assert holders.count(None) == crowd.slots.strangers <= LIMITS.strangers
        assert crowd.slots.owned <= LIMITS.most
        assert all(holders.count(user) <= LIMITS.each for user in ("ada", "bob", "eve", "dan"))
    for slot in crowd.open:
        slot.close()
    assert len(crowd.slots) == 0


def test_a_stranger_is_always_admitted_and_the_oldest_of_the_fullest_address_goes() -> None:
    crowd = Crowd()
    first, many = crowd.admit("10.0.0.1"), [crowd.admit("10.0.0.2") for _ in range(50)]
    assert crowd.open == [first, *many[-2:]]
    crowd.user("ada", 4, is_idle=False)
    assert crowd.open[0] is first


def test_a_user_evicts_only_connections_of_its_own() -> None:
    crowd = Crowd()
    bobs = crowd.user("bob", 2, is_idle=True)
    adas = crowd.user("ada", 4, is_idle=True)
    adas += crowd.user("ada", 2, is_idle=True)
    assert crowd.open == [*bobs, *adas[2:]]


def test_while_all_slots_are_taken_the_user_who_has_most_makes_room_for_one_who_has_fewer() -> None:
    crowd = Crowd()
    adas, bobs = crowd.user("ada", 4, is_idle=True), crowd.user("bob", 3, is_idle=False)
    crowd.user("eve", 3, is_idle=True)
    [dans] = crowd.user("dan", 1, is_idle=False)
    assert adas[0] not in crowd.open and dans in crowd.open and set(bobs) <= set(crowd.open)


def test_limits_leave_users_a_tenth_each_and_strangers_a_part_of_their_own() -> None:
    assert SlotLimits.of_users(2000) == SlotLimits(2000, 200, 256)
    assert SlotLimits.of_users(10) == SlotLimits(10, 16, 16)
    assert SlotLimits.of_one_token(1000) == SlotLimits(1000, 1000, 250)
    assert SlotLimits.of_one_token(0).strangers == 256
