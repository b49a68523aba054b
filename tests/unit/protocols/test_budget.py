"""What is taken of a budget by any order of events: never more than there is, no share passed, all given back."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.protocols.budget import Bound, Lease, OverBudgetError, Pool, Share

SHARE = Share(most=100, each=40, unknown=20, spared=10, modest=5)
HOLDERS = [None, "ada", "bob", "eve", "dan"]


class Seen:
    """A pool with the leases that were taken of it."""

    def __init__(self) -> None:
        self.pool = Pool(Bound.BYTES, SHARE)
        self.leases: list[tuple[str | None, Lease]] = []

    def check(self) -> None:
        sums = {holder: sum(lease.amount for owner, lease in self.leases if owner == holder) for holder in HOLDERS}
        assert sums == {holder: self.pool.held(holder) for holder in HOLDERS}
        assert sum(sums.values()) == self.pool.taken <= SHARE.most
        assert sums.pop(None) <= SHARE.unknown
        assert max(sums.values()) <= SHARE.each

    def do(self, kind: str, which: int, holder: str | None, amount: int) -> None:
        before = self.pool.taken
        try:
            if kind == "take":
                self.leases.append((holder, self.pool.lease(holder, amount)))
                return
            if not self.leases:
                return
            index = which % len(self.leases)
            _, lease = self.leases[index]
            match kind:
                case "grow":
                    lease.grow(amount)
                case "shrink":
                    lease.shrink(amount)
                case "move":
                    lease.move(holder)
                    self.leases[index] = (holder, lease)
                case _:
                    lease.end()
        except OverBudgetError:
            assert self.pool.taken == before


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["take", "grow", "shrink", "move", "end"]),
        st.integers(0, 20),
        st.sampled_from(HOLDERS),
        st.integers(0, 60),
    ),
    max_size=60,
)


@given(steps=STEPS)
def test_leases_in_any_order_stay_within_the_bounds_and_end_at_zero(steps: list[tuple[str, int, str, int]]) -> None:
    seen = Seen()
    for step in steps:
        seen.do(*step)
        seen.check()
    for _, lease in seen.leases:
        lease.end()
        lease.end()
    assert seen.pool.taken == 0 and all(seen.pool.held(holder) == 0 for holder in HOLDERS)


@given(greedy=st.lists(st.tuples(st.sampled_from(HOLDERS), st.integers(0, 60)), max_size=40))
def test_a_small_request_of_another_user_fits_whatever_large_ones_take(greedy: list[tuple[str, int]]) -> None:
    pool = Pool(Bound.BYTES, SHARE)
    for holder, amount in greedy:
        if amount > SHARE.modest or pool.held(holder) > SHARE.modest:
            with contextlib.suppress(OverBudgetError):
                pool.take(holder, amount)
    pool.take("another", SHARE.modest)


@pytest.mark.parametrize(
    ("holder", "taken", "is_own"), [("ada", {"ada": 40}, True), ("ada", {"bob": 40, "eve": 40, "dan": 10}, False)]
)
def test_a_bound_that_is_met_is_named(holder: str, taken: dict[str, int], is_own: bool) -> None:
    pool = Pool(Bound.BYTES, SHARE)
    for owner, amount in taken.items():
        pool.take(owner, amount)
    with pytest.raises(OverBudgetError, match="bytes of requests") as over:
        pool.lease(holder, 10)
    assert (over.value.bound, over.value.is_own) == (Bound.BYTES, is_own)


def test_a_lease_is_given_back_at_the_end_of_its_block() -> None:
    pool = Pool(Bound.CALLS, SHARE)
    with contextlib.suppress(KeyError), pool.lease("ada", 3) as lease:
        lease.grow(4)
        assert pool.taken == 7
        raise KeyError
    assert pool.taken == 0
