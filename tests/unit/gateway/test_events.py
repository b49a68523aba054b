"""What a gateway says of itself: which version it has, what a reader of its events is told at once, and what with the heartbeat."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from sparksql.gateway.frontends.control.service import ControlService
from sparksql.gateway.lifecycle import Lifecycle
from sparksql.gateway.operations.events import Changes, stream
from sparksql.gateway.operations.register import OperationRegister
from sparksql.gateway.sessions.service import SessionService
from sparksql.gateway.settings import PodIdentity, Settings
from sparksql.wire.control import Event, GatewayInfo, GatewayState
from sparksql.wire.driver import DriverConfig

NOW = datetime(2026, 1, 31, 8, tzinfo=UTC)
HEARTBEAT = "sparksql.gateway.operations.events.HEARTBEAT_SECONDS"
SOON, NEVER = 0.01, 3600.0
TURNS = 20  # of the event loop, of which a line that is due takes a few


class Reader:
    """A reader of a gateway that says of itself what a test wants."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch
        self._changes = Changes()
        self._info = GatewayInfo(boot_id="boot", state=GatewayState.READY, start_time=NOW)
        register = OperationRegister("boot", lambda: NOW)
        self._events: AsyncIterator[Event] = stream(register, self._changes, lambda: self._info, "boot", 0)
        self._next: asyncio.Task[Event] | None = None

    def changes(self, **fields: Any) -> None:
        self._info = self._info.model_copy(update=fields)
        self._changes.notify()

    def next_heartbeat(self, seconds: float) -> None:
        """Of each heartbeat, the one before tells when it is due."""
        self._patch.setattr(HEARTBEAT, seconds)

    async def told(self) -> Event:
        async with asyncio.timeout(60):
            event = await (self._next or self._begin())
        self._next = None
        return event

    async def told_at_once(self) -> Event | None:
        """The line that is due without a heartbeat, if there is one."""
        reading = self._next or self._begin()
        for _ in range(TURNS):
            await asyncio.sleep(0)
        return await self.told() if reading.done() else None

    def _begin(self) -> asyncio.Task[Event]:
        async def read() -> Event:
            return await anext(self._events)

        self._next = asyncio.create_task(read())
        return self._next


async def test_the_end_of_the_last_client_statement_is_told_before_the_heartbeat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader = Reader(monkeypatch)
    reader.next_heartbeat(SOON)
    assert [(await reader.told()).kind for _ in range(2)] == ["hello", "info"]
    reader.next_heartbeat(NEVER)
    reader.changes(client_pending=1, client_running=2)
    counted = await reader.told()
    assert counted.info is not None and counted.info.client_running == 2
    reader.changes(client_pending=0, client_running=1)
    assert await reader.told_at_once() is None, "it is not the last one"
    reader.changes(client_running=0)
    ended = await reader.told_at_once()
    assert ended is not None and ended.info is not None and ended.info.client_running == 0
    reader.changes(client_running=1)
    assert await reader.told_at_once() is None, "clients who send one after the other would cost a line a statement"
    reader.changes(client_running=0)
    assert await reader.told_at_once() is None, "the reader knows of none"


@pytest.mark.parametrize(
    "change", [{"state": GatewayState.DRAINING}, {"has_session_state": True}, {"client_sessions": 1}]
)
async def test_how_the_gateway_is_is_told_at_once(monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]) -> None:
    reader = Reader(monkeypatch)
    reader.next_heartbeat(NEVER)
    assert [(await reader.told()).kind for _ in range(2)] == ["hello", "info"]
    reader.changes(**change)
    event = await reader.told_at_once()
    assert event is not None and event.kind == "info"


def test_gateway_info_has_its_protocol_version_and_oldest_operator_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparksql.gateway.frontends.control.service.PROTOCOL_VERSION", 7)
    monkeypatch.setattr("sparksql.gateway.frontends.control.service.OLDEST_OPERATOR", 3)
    config = DriverConfig(namespace="n", session="s", session_uid="u", incarnation=1)
    lifecycle = Lifecycle(Settings(config, "", "", None, PodIdentity(), None), "boot", lambda: NOW)
    info = ControlService(lifecycle, SessionService(lifecycle)).info()
    assert (info.protocol_version, info.oldest_operator_version) == (7, 3)
