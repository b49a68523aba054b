"""What clients may take of a process: bytes and calls, counted before anything is read or held. Free of I/O.

A holder is a user, or None for all clients that have not authenticated. Invariants: no holder has more than its share, the
holders together no more than there is, and what a lease has taken is given back once. A part is spared for holders that have
little: who takes a whole share leaves small requests of other users room. Belongs to the event loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType

Holder = Hashable | None


class Bound(StrEnum):
    """Names what is bounded."""

    CONNECTIONS = "connections"
    BYTES = "bytes of requests"
    CALLS = "calls"


class OverBudgetError(Exception):
    """Names the bound that a client has met; nothing was taken. `is_own` is whether it is the client's own share."""

    def __init__(self, bound: Bound, most: int, *, is_own: bool) -> None:
        what = f"your share of {most}" if is_own else f"all of the {most}"
        remedy = "wait for requests under way, or close connections" if is_own else "try again later"
        super().__init__(f"{what} {bound.value} that this server holds at a time is in use: {remedy}")
        self.bound = bound
        self.is_own = is_own


@dataclass(frozen=True)
class Share:
    """Bounds one thing: `most` in all, `each` of one user, `unknown` of all clients that have not authenticated.

    `spared` is the part of `most` that only holders of `modest` or less may use.
    """

    most: int
    each: int
    unknown: int
    spared: int
    modest: int


class Pool:
    """Keeps what is taken of one bound."""

    def __init__(self, bound: Bound, share: Share) -> None:
        self._bound = bound
        self._share = share
        self._of: Counter[Holder] = Counter()
        self._taken = 0

    @property
    def taken(self) -> int:
        """Returns what all holders have."""
        return self._taken

    @property
    def each(self) -> int:
        """Returns what one user may have."""
        return self._share.each

    def held(self, holder: Holder) -> int:
        """Returns what one holder has."""
        return self._of.get(holder, 0)

    def lease(self, holder: Holder, amount: int = 0) -> Lease:
        """Takes an amount for a holder. Raises OverBudgetError."""
        self.take(holder, amount)
        return Lease(self, holder, amount)

    def take(self, holder: Holder, amount: int) -> None:
        """Takes an amount, which `give_back` must follow. Raises OverBudgetError."""
        share = self._share
        held = self.held(holder) + amount
        own = share.unknown if holder is None else share.each
        if held > own:
            raise OverBudgetError(self._bound, own, is_own=holder is not None)
        if self._taken + amount > share.most - (0 if held <= share.modest else share.spared):
            raise OverBudgetError(self._bound, share.most, is_own=False)
        if amount:
            self._of[holder] = held
            self._taken += amount

    def give_back(self, holder: Holder, amount: int) -> None:
        """Gives back what was taken."""
        left = self.held(holder) - amount
        assert left >= 0 and amount >= 0, (self._bound, amount)
        self._taken -= amount
        if left:
            self._of[holder] = left
        else:
            self._of.pop(holder, None)


class Lease:
    """What one request or connection has taken. As a context manager it gives all back at its end."""

    def __init__(self, pool: Pool, holder: Holder, amount: int) -> None:
        self._pool = pool
        self._holder = holder
        self.amount = amount

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()

    def grow(self, amount: int) -> None:
        """Takes more. Raises OverBudgetError, and then has what it had."""
        self._pool.take(self._holder, amount)
        self.amount += amount

    def shrink(self, amount: int) -> None:
        """Gives so much back, and no more than it has."""
        amount = min(amount, self.amount)
        self.amount -= amount
        self._pool.give_back(self._holder, amount)

    def move(self, holder: Holder) -> None:
        """Makes another holder's what it has. Raises OverBudgetError, and then it stays where it is."""
        if holder == self._holder:
            return
        amount = self.amount
        self.end()
        try:
            self._pool.take(holder, amount)
        except OverBudgetError:
            self._pool.take(self._holder, amount)
            self.amount = amount
            raise
        self._holder, self.amount = holder, amount

    def end(self) -> None:
        """Gives all back; again it does nothing."""
        self.shrink(self.amount)


BYTES = Share(most=32 << 20, each=12 << 20, unknown=4 << 20, spared=8 << 20, modest=512 << 10)
"""A body has 8 MiB at most; `tests/unit/front/test_worst_case.py` adds up what the front may hold."""
CALLS = Share(most=1_000, each=200, unknown=256, spared=200, modest=20)


DRIVER_BYTES = Share(most=48 << 20, each=24 << 20, unknown=4 << 20, spared=8 << 20, modest=512 << 10)
DRIVER_CALLS = Share(most=2_000, each=1_500, unknown=256, spared=200, modest=20)
"""Clients that have the session's token are one holder, hence the larger share.

`tests/unit/gateway/test_worst_case.py` adds up what a driver's gateway may hold.
"""


@dataclass(frozen=True)
class Budget:
    """Holds the pools of a process, which all of its ports take from."""

    bytes: Pool
    calls: Pool

    @classmethod
    def of(cls, bytes_: Share = BYTES, calls: Share = CALLS) -> Budget:
        """Makes a budget of which nothing is taken."""
        return cls(Pool(Bound.BYTES, bytes_), Pool(Bound.CALLS, calls))
