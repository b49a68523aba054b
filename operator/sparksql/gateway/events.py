"""The stream of changes: every operation that changed after a sequence number, then each change as it comes.

There is no log that could overflow: a reader is sent the current views whose number is greater than the last that it saw, in
order. Changes between two writes to a slow reader fold into the newest view of each operation; none is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from sparksql.gateway.operations import OperationRegister
from sparksql.wire.control import HEARTBEAT_SECONDS, Event, GatewayInfo


class Changes:
    """Wakes all readers on each change. Belongs to the event loop."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Event] = set()

    def notify(self) -> None:
        for event in self._waiting:
            event.set()

    def reader(self) -> asyncio.Event:
        """An event that every further change sets; give it back with `leave`."""
        event = asyncio.Event()
        self._waiting.add(event)
        return event

    def leave(self, event: asyncio.Event) -> None:
        self._waiting.discard(event)


async def stream(
    register: OperationRegister, changes: Changes, info: Callable[[], GatewayInfo], boot_id: str, after: int
) -> AsyncIterator[Event]:
    """Events for one reader: hello, the gateway's own state, then operations; ends only when the reader goes."""
    changed = changes.reader()
    try:
        seen = after
        told = info()
        yield Event(kind="hello", boot_id=boot_id, seq=seen)
        yield Event(kind="info", boot_id=boot_id, seq=seen, info=told)
        while True:
            changed.clear()
            for view in register.changed_after(seen):
                seen = view.seq
                yield Event(kind="operation", boot_id=boot_id, seq=seen, operation=view)
            current = info()
            if (current.state, current.has_session_state) != (told.state, told.has_session_state):
                told = current
                yield Event(kind="info", boot_id=boot_id, seq=seen, info=told)
            if register.last_seq > seen:
                continue
            try:
                await asyncio.wait_for(changed.wait(), HEARTBEAT_SECONDS)
            except TimeoutError:
                yield Event(kind="heartbeat", boot_id=boot_id, seq=seen)
    finally:
        changes.leave(changed)
