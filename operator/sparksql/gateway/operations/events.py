"""The stream of changes: every operation that changed after a sequence number, then each change as it comes.

There is no log that could overflow: a reader is sent the current views whose number is greater than the last that it saw, in
order. Changes between two writes to a slow reader fold into the newest view of each operation; none is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from sparksql.gateway.operations.register import OperationRegister
from sparksql.wire.control import HEARTBEAT_SECONDS, Event, GatewayInfo


class Changes:
    """Wakes all readers on each change. Belongs to the event loop."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Event] = set()

    def notify(self) -> None:
        """Wakes all readers."""
        for event in self._waiting:
            event.set()

    def reader(self) -> asyncio.Event:
        """Returns an event that every further change sets; give it back with `leave`."""
        event = asyncio.Event()
        self._waiting.add(event)
        return event

    def leave(self, event: asyncio.Event) -> None:
        """Forgets a reader's event."""
        self._waiting.discard(event)


async def stream(
    register: OperationRegister, changes: Changes, info: Callable[[], GatewayInfo], boot_id: str, after: int
) -> AsyncIterator[Event]:
    """Yields the events for one reader: hello, the gateway's own state, then operations; ends only when the reader goes."""
    changed = changes.reader()
    clock = asyncio.get_running_loop().time
    try:
        seen = after
        told, beat = info(), clock() + HEARTBEAT_SECONDS
        yield Event(kind="hello", boot_id=boot_id, seq=seen)
        yield Event(kind="info", boot_id=boot_id, seq=seen, info=told)
        while True:
            changed.clear()
            upto = register.last_seq
            for view in register.changed_after(seen):
                seen = view.seq
                if view.protocol is None:
                    yield Event(kind="operation", boot_id=boot_id, seq=seen, operation=view)
            seen = max(seen, upto)  # the last ones may be forgotten already
            current, due = info(), clock() >= beat
            at_once = _standing(current) != _standing(told) or _clients_ended(told, current)
            if at_once or (due and current != told):
                told, beat = current, clock() + HEARTBEAT_SECONDS
                yield Event(kind="info", boot_id=boot_id, seq=seen, info=told)
            elif due:
                beat = clock() + HEARTBEAT_SECONDS
                yield Event(kind="heartbeat", boot_id=boot_id, seq=seen)
            if register.last_seq <= seen:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), max(0.0, beat - clock()))
    finally:
        changes.leave(changed)


def _standing(info: GatewayInfo) -> tuple[object, ...]:
    """What is told at once; counts and times are told with the heartbeat."""
    return info.state, info.has_session_state, info.restorable_statements, info.state_obstacle, info.client_sessions > 0


def _clients_ended(told: GatewayInfo, now: GatewayInfo) -> bool:
    """Returns whether the last statement of clients that a reader knows of has ended.

    That one began is told with the heartbeat, so that clients who send one after the other cost a line a heartbeat and
    not one a statement.
    """
    return bool(told.client_pending or told.client_running) and not (now.client_pending or now.client_running)
