"""Answers and streams of events of a gateway, however they come and however long they are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from sparksql.drivers import client
from sparksql.drivers.client import Address, GatewayClient, GatewayUnreachable, lines_of


@asynccontextmanager
async def answering(*pieces: bytes, status: int = 200) -> AsyncIterator[tuple[aiohttp.ClientSession, str, int]]:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=status)
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
        return response

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        async with aiohttp.ClientSession() as http:
            yield http, *runner.addresses[0][:2]
    finally:
        await runner.cleanup()


async def test_lines_may_be_longer_than_a_buffer_and_come_in_pieces() -> None:
    long, short = b"x" * 300_000, b"y"
    pieces = (long[:100], long[100:] + b"\n" + short, b"\n" + short)
    async with answering(*pieces) as (http, host, port), http.get(f"http://{host}:{port}") as response:
        assert [line async for line in lines_of(response)] == [long, short]


@pytest.mark.parametrize("status", [200, 409])
async def test_an_answer_without_end_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    monkeypatch.setattr(client, "MAX_ANSWER_BYTES", 100_000)
    async with answering(*[b"x" * 50_000] * 10, status=status) as (http, host, port):
        gateway = GatewayClient(http, Address("pod-1", host, port, "", "t", None))
        with pytest.raises(GatewayUnreachable, match="an answer of more than"):
            await gateway.info()


async def test_an_event_without_end_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_ANSWER_BYTES", 100_000)
    async with answering(*[b"x" * 50_000] * 10) as (http, host, port):
        gateway = GatewayClient(http, Address("pod-1", host, port, "", "t", None))
        with pytest.raises(GatewayUnreachable, match="an event of more than 100000 bytes"):
            await anext(gateway.events(0))
