"""What the connections to a gRPC server may send before it has handed it on: gRPC itself has no bound but that of a message.

Bytes that came are counted until the messages of which they are part were handed on. A stranger may send STRANGER_BYTES, a user
what its share of the budget has room for. A connection that needs more waits, unread, for its turn to send a large message:
there is one at a time, and users take turns. Invariant: every wait has an end, and so has a turn. Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from weakref import WeakValueDictionary

from sparksql.protocols.bounds import MAX_MESSAGE_BYTES
from sparksql.protocols.budget import Bound, Budget, Holder, OverBudgetError
from sparksql.protocols.slots import Slot

STRANGER_BYTES = 64 << 10  # a handshake and the largest metadata that the server takes
LARGE_BYTES = MAX_MESSAGE_BYTES + (4 << 20)  # with what stands around it
STRANGER_SECONDS = 10.0
UNKNOWN_CALLS = 8  # of one connection, while it is found out whose they are
TURN_SECONDS = 60.0  # to wait for a turn, and again to send the message
SETTLE_SECONDS = 1.0  # a call whose head has come is known to the server long before


class Turns:
    """Lets one large message at a time be read; of each user one waits for that."""

    def __init__(self) -> None:
        self._all = asyncio.Lock()
        self._of: WeakValueDictionary[Holder, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, holder: Holder) -> AsyncIterator[None]:
        """Waits for a turn and has it for the block."""
        own = self._of.setdefault(holder, asyncio.Lock())
        async with own, self._all:
            yield


@dataclass(frozen=True)
class Flow:
    """Ways to hold a connection: to read no more of it for now, to go on, to end it at once."""

    pause: Callable[[], None]
    resume: Callable[[], None]
    cut: Callable[[], None]


class Passage:
    """One connection to the server."""

    def __init__(self, slot: Slot, budget: Budget, turns: Turns, flow: Flow) -> None:
        self._slot = slot
        self._budget = budget
        self._turns = turns
        self._flow = flow
        self._held = 0
        self._lease = budget.bytes.lease(None)
        self._calls = 0
        self._unknown = 0
        self._reading = 0  # calls whose requests were not handed on yet
        self._settled_at = 0.0
        self._has_turn = False
        self._waiting: asyncio.Task[None] | None = None

    def came(self, size: int) -> None:
        """Counts bytes that go to the server."""
        now = asyncio.get_running_loop().time()
        if self._reading == 0 and now - self._settled_at > SETTLE_SECONDS:
            self._settle()  # what came before was of no message: the windows and pings of HTTP/2
            self._settled_at = now
        self._held += size
        self._fit()

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """Counts a call of the connection for the block: it makes room for none."""
        self._calls += 1
        self._slot.works()
        try:
            yield
        finally:
            self._calls -= 1
            if self._calls == 0:
                self._slot.idles()

    @contextlib.contextmanager
    def unknown(self) -> Iterator[None]:
        """Counts a call for the block until it is known whose it is. Raises OverBudgetError."""
        holder = self._slot.holder
        if holder is None and self._unknown >= UNKNOWN_CALLS:
            raise OverBudgetError(Bound.CALLS, UNKNOWN_CALLS, is_own=False)
        self._unknown += 1
        try:
            with self._budget.calls.lease(holder, 0 if holder is None else 1):
                yield
        finally:
            self._unknown -= 1

    def read(self) -> Reading:
        """Begins to count what comes as parts of a call's messages."""
        self._reading += 1
        return Reading(self)

    def handed_on(self, size: int) -> None:
        """Notes that a message was handed on."""
        self._held = max(0, self._held - size)
        self._lease.shrink(max(0, self._lease.amount - self._held))
        if self._waiting is not None and self._slot.holder is not None and self._has_room():
            self._stop_waiting()
            self._flow.resume()

    def read_no_more(self) -> None:
        """Notes that a call's messages were all handed on, or that it has ended."""
        self._reading -= 1
        if self._reading == 0:
            self._settle()

    def claim(self, holder: Holder) -> None:
        """Makes the connection a user's. Raises OverBudgetError."""
        if self._slot.holder != holder:
            self._slot.claim(holder)
            self._slot.works()
            self._stop_waiting()
            self._lease.end()
            self._lease = self._budget.bytes.lease(holder)
            self._fit()

    def close(self) -> None:
        """Gives all back."""
        self._stop_waiting()
        self._lease.end()
        self._slot.close()

    def _settle(self) -> None:
        self._held = 0
        self._lease.end()
        self._stop_waiting()
        self._flow.resume()

    def _fit(self) -> None:
        """Reads on if what came has room, waits if not."""
        if self._has_turn:
            if self._held > LARGE_BYTES:
                self._flow.cut()
            return
        if self._waiting is not None:
            return
        if self._has_room():
            self._flow.resume()
            return
        self._flow.pause()
        self._waiting = asyncio.get_running_loop().create_task(self._wait(self._slot.holder))

    def _has_room(self) -> bool:
        if self._slot.holder is None:
            return self._held <= STRANGER_BYTES
        try:
            self._lease.grow(max(0, self._held - self._lease.amount))
        except OverBudgetError:
            return False
        return True

    async def _wait(self, holder: Holder) -> None:
        try:
            async with asyncio.timeout(STRANGER_SECONDS if holder is None else TURN_SECONDS) as deadline:
                if holder is None:
                    await asyncio.Event().wait()  # until it has authenticated
                async with self._turns.turn(holder):
                    self._has_turn = True
                    self._lease.end()
                    deadline.reschedule(asyncio.get_running_loop().time() + TURN_SECONDS)
                    self._flow.resume()
                    await asyncio.Event().wait()  # until the message was handed on
        except TimeoutError:
            self._flow.cut()

    def _stop_waiting(self) -> None:
        self._has_turn = False
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


class Reading:
    """The requests of one call of a connection. As a context manager it ends with the call."""

    def __init__(self, passage: Passage) -> None:
        self._passage = passage
        self._is_over = False

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()

    def handed_on(self, size: int) -> None:
        """Notes that a message of so many bytes was handed on, and is not held any more."""
        self._passage.handed_on(size)

    def end(self) -> None:
        """Notes that no message is to come; again it does nothing."""
        if not self._is_over:
            self._is_over = True
            self._passage.read_no_more()
