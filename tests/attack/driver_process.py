"""A driver's Connect port in a process of its own, before a scripted proxy: `python -m tests.attack.driver_process FOLDER`.

The folder has tls.crt and tls.key. It prints the port as JSON. The session's token is `TOKEN`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import grpc

from sparksql.gateway.frontends.connect.proxy import ConnectProxy
from sparksql.gateway.frontends.connect.server import DriverConnectPort
from sparksql.gateway.main import bound_heap
from sparksql.gateway.sessions.callers import Callers
from sparksql.protocols.budget import DRIVER_BYTES, DRIVER_CALLS, Budget

LIMIT_BYTES = 416 << 20  # beyond what the process has without clients, and without requests that wait; docs/security.md
TOKEN, FRONT_TOKEN = "token-of-the-session", "token-of-the-front"


class ScriptedProxy:
    """Answers each call with the size of its request."""

    def __getattr__(self, name: str) -> Any:
        async def answer(data: bytes, context: Any) -> bytes:
            return b"%d" % len(data)

        return answer

    async def execute(self, data: bytes, context: Any, _: Any) -> None:
        await context.write(b"%d" % len(data))

    reattach = execute

    async def add_artifacts(self, messages: AsyncIterator[bytes], context: Any) -> bytes:
        return b"%d" % sum([len(message) async for message in messages])


async def serve(folder: Path) -> None:
    budget = Budget.of(DRIVER_BYTES, DRIVER_CALLS)
    opened = DriverConnectPort(cast(ConnectProxy, ScriptedProxy()), Callers(TOKEN, FRONT_TOKEN), budget)
    pair = ((folder / "tls.key").read_bytes(), (folder / "tls.crt").read_bytes())
    port = await opened.listen("127.0.0.1", 0, grpc.ssl_server_credentials((pair,)))
    print(json.dumps({"connect": port}), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    bound_heap()  # as in a driver: otherwise each of gRPC's threads keeps a heap of the size of its largest message
    asyncio.run(serve(Path(sys.argv[1])))
