"""Lines of a gateway's stream of events, however they come."""

from __future__ import annotations

import aiohttp
from aiohttp import web

from sparksql.drivers.client import lines_of


async def test_lines_may_be_longer_than_a_buffer_and_come_in_pieces() -> None:
    long, short = b"x" * 300_000, b"y"

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in (long[:100], long[100:] + b"\n" + short, b"\n" + short):
            await response.write(piece)
        return response

    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        async with aiohttp.ClientSession() as http, http.get(f"http://{host}:{port}") as response:
            assert [line async for line in lines_of(response)] == [long, short]
    finally:
        await runner.cleanup()
