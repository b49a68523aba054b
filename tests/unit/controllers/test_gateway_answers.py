"""Answers of a gateway that make no sense: nothing is known by them, and whoever follows the driver goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from sparksql.drivers.client import Address, GatewayClient, GatewayUnreachable
from sparksql.drivers.tracker import DriverTracker
from sparksql.engine.key import Key
from sparksql.wire.control import CancelRequest, Event, GatewayInfo, GatewayState, OperationView, SubmitRequest
from sparksql.wire.savepoints import SavepointRequest

KEY = Key("SqlSession", "team-a", "s")
SENSELESS = '{"sql": "SELECT secret"}'
SUBMIT = SubmitRequest(boot_id="b", namespace="n", name="n", sql="SELECT 1")
SAVE = SavepointRequest(boot_id="b", target="t", uid="u", namespace="n", name="n")
INFO = GatewayInfo(boot_id="b", state=GatewayState.READY, start_time=datetime(2026, 1, 31, 8, tzinfo=UTC))


class Driver:
    """Says hello to whoever follows it; `answers` to requests are given in turn, the last one for ever."""

    def __init__(self, *answers: str) -> None:
        self._answers = [*answers]

    async def events(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(Event(kind="hello", boot_id="b").to_json().encode() + b"\n")
        return response  # and ends: the next one is a moment later

    async def answer(self, _: web.Request) -> web.Response:
        return web.Response(text=self._answers.pop(0) if len(self._answers) > 1 else self._answers[0])

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[tuple[aiohttp.ClientSession, Address]]:
        app = web.Application()
        app.router.add_get("/control/v1/events", self.events)
        app.router.add_route("*", "/{path:.*}", self.answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        try:
            async with aiohttp.ClientSession() as http:
                yield http, Address("pod-1", host, port, "", "t", None)
        finally:
            await runner.cleanup()


@pytest.mark.parametrize("body", [SENSELESS, "[]", "SELECT secret", ""])
async def test_senseless_gateway_answer_counts_as_unreachable_and_its_text_is_not_shown(body: str) -> None:
    async with Driver(body).serving() as (http, address):
        client = GatewayClient(http, address)
        asked: tuple[Any, ...] = (
            client.info(),
            client.submit("o", SUBMIT),
            client.get("o"),
            client.cancel("o", CancelRequest(boot_id="b")),
            client.save("a", SAVE),
            client.saved("a"),
            client.cancel_save("a"),
            client.drain(),
        )
        for ask in asked:
            with pytest.raises(GatewayUnreachable, match="an answer that is not a") as refused:
                await ask
            assert "secret" not in str(refused.value)


class Heard:
    """Tells that a driver has said something of itself."""

    def __init__(self, changed: asyncio.Event) -> None:
        self._changed = changed

    def driver_changed(self, session: Key, before: GatewayInfo | None, after: GatewayInfo) -> None:
        self._changed.set()

    def operation_changed(self, before: OperationView | None, after: OperationView) -> None:
        pass

    def operation_arrived(self, session: Key) -> None:
        pass


async def test_a_driver_is_followed_on_after_an_answer_that_makes_no_sense() -> None:
    async with Driver(SENSELESS, INFO.to_json()).serving() as (http, address):
        changed = asyncio.Event()
        drivers = DriverTracker(http, lambda _: False)
        drivers.subscribe(Heard(changed))
        drivers.follow(KEY, address)
        try:
            async with asyncio.timeout(60):
                await changed.wait()
            assert drivers.info(KEY) == INFO
        finally:
            await drivers.close()
