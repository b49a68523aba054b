"""Connections of a process, over all of its ports: how many there are, whose they are, and who makes room for whom.

A client that has not authenticated is a stranger. Strangers have slots of their own: when these are full, the oldest stranger of
the address that has most of them makes room, also within a handshake. So strangers close the port to none, and hold no slot of a
user. A user has a share; beyond it the user's own longest idle connection makes room, or the new one is refused. While all slots
of users are taken, an idle connection of the user who has most makes room for one who has fewer. Belongs to the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sparksql.protocols.budget import Bound, Holder, OverBudgetError

STRANGERS = 256
STRANGER_PART, USER_PART = 4, 10
LEAST = 16


@dataclass(frozen=True)
class SlotLimits:
    """Bounds connections: `most` of clients that have authenticated, `each` of one of them, and `strangers` besides."""

    most: int
    each: int
    strangers: int

    @classmethod
    def of_users(cls, most: int) -> SlotLimits:
        """Returns the limits of a server that tells its users apart."""
        return cls(most, max(LEAST, most // USER_PART), max(LEAST, min(STRANGERS, most // STRANGER_PART)))

    @classmethod
    def of_one_token(cls, most: int) -> SlotLimits:
        """Returns the limits of a server whose clients all have one token; 0 means no bound on them."""
        bound = most or 1 << 30
        return cls(bound, bound, max(LEAST, min(STRANGERS, bound // STRANGER_PART)))


class Slots:
    """The open connections."""

    def __init__(self, limits: SlotLimits) -> None:
        self.limits = limits
        self._strangers: dict[str, dict[Slot, None]] = {}  # by address; the oldest first
        self._users: dict[Holder, _Owned] = {}

    def __len__(self) -> int:
        return self.strangers + self.owned

    @property
    def strangers(self) -> int:
        """Returns the number of connections that have not authenticated."""
        return sum(map(len, self._strangers.values()))

    @property
    def owned(self) -> int:
        """Returns the number of connections that have."""
        return sum(len(owned.all) for owned in self._users.values())

    def admit(self, address: str, cut: Callable[[], None]) -> Slot:
        """Counts a new connection from an address. `cut` ends it at once; it is called when the connection has to make room."""
        if self.strangers >= self.limits.strangers:
            fullest = max(self._strangers, key=lambda each: len(self._strangers[each]))
            next(iter(self._strangers[fullest])).evict()
        slot = Slot(self, address, cut)
        self._strangers.setdefault(address, {})[slot] = None
        return slot

    def own(self, slot: Slot, holder: Holder) -> None:
        """Makes a connection a user's. Raises OverBudgetError, and then it stays as it was."""
        owned = self._users.get(holder, _Owned({}, {}))
        if len(owned.all) >= self.limits.each:
            if not owned.idle:
                raise OverBudgetError(Bound.CONNECTIONS, self.limits.each, is_own=True)
            next(iter(owned.idle)).evict()
        elif slot.holder is None and self.owned >= self.limits.most:
            idle = [other for other in self._users.values() if other.idle and len(other.all) > len(owned.all) + 1]
            if not idle:
                raise OverBudgetError(Bound.CONNECTIONS, self.limits.most, is_own=False)
            next(iter(max(idle, key=lambda other: len(other.all)).idle)).evict()
        self.remove(slot)
        self._users.setdefault(holder, owned).all[slot] = None

    def mark(self, slot: Slot, *, is_idle: bool) -> None:
        """Notes whether a user's connection does nothing now; strangers count as idle always."""
        owned = self._users.get(slot.holder)
        if owned is None or slot not in owned.all:
            return
        owned.idle.pop(slot, None)
        if is_idle:
            owned.idle[slot] = None

    def remove(self, slot: Slot) -> None:
        """Forgets a connection."""
        if slot.holder is not None:
            if (owned := self._users.get(slot.holder)) is not None:
                owned.all.pop(slot, None)
                owned.idle.pop(slot, None)
                if not owned.all:
                    del self._users[slot.holder]
        elif (of_address := self._strangers.get(slot.address)) is not None:
            of_address.pop(slot, None)
            if not of_address:
                del self._strangers[slot.address]


@dataclass(frozen=True)
class _Owned:
    """A user's connections, and those among them that do nothing now, the longest first."""

    all: dict[Slot, None]
    idle: dict[Slot, None]


class Slot:
    """One connection that is counted. `holder` is the user whose it is."""

    def __init__(self, slots: Slots, address: str, cut: Callable[[], None]) -> None:
        self._slots = slots
        self._cut = cut
        self._is_open = True
        self.address = address
        self.holder: Holder = None

    def claim(self, holder: Holder) -> None:
        """Makes the connection a user's, who does something with it now. Raises OverBudgetError."""
        if not self._is_open or holder == self.holder:
            return
        self._slots.own(self, holder)
        self.holder = holder

    def works(self) -> None:
        """Notes that the connection is in use: it makes room for none."""
        self._slots.mark(self, is_idle=False)

    def idles(self) -> None:
        """Notes that nothing is asked by the connection now."""
        self._slots.mark(self, is_idle=True)

    def close(self) -> None:
        """Gives the slot back; again it does nothing."""
        self._is_open = False
        self._slots.remove(self)

    def evict(self) -> None:
        """Ends the connection in favour of another one."""
        self.close()
        self._cut()
