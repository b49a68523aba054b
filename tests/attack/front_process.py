"""The front's three ports in a process of their own, with scripted users and sessions: `python -m tests.attack.front_process`.

Its arguments are a folder with tls.crt and tls.key, and the ports of the drivers: REST, HiveServer2, Connect. It prints its own
ports as JSON. A token `user-NAME` is that of user NAME; `user-mallory-...` has no right; any other is wrong, after a moment.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar, cast

import aiohttp

from sparksql.front import connect, driver_http, thrift
from sparksql.front.certificates import Certificates
from sparksql.front.config import FrontConfig
from sparksql.front.connect import ConnectFront
from sparksql.front.limits import FrontLimits
from sparksql.front.metrics import FrontMetrics
from sparksql.front.model import FrontError, Refusal, SessionKey, Target, User
from sparksql.front.naming import Asked
from sparksql.front.rest import RestFront
from sparksql.front.reviews import Reviews
from sparksql.front.sessions import FrontSessions
from sparksql.front.thrift import ThriftFront
from sparksql.kube.tls import ssl_context
from sparksql.protocols.budget import Budget
from sparksql.protocols.http_limits import BoundedSite, make_runner
from sparksql.protocols.slots import SlotLimits, Slots

FRONT_TOKEN = "front-token"
REVIEW_SECONDS = 0.05

T = TypeVar("T")


class ScriptedReviews:
    async def user(self, token: bytes) -> User:
        text = token.decode()
        if not text.startswith("user-"):
            await asyncio.sleep(REVIEW_SECONDS)
            raise FrontError(Refusal.UNAUTHENTICATED, "the cluster does not know this token")
        return User(text.removeprefix("user-"))


class ScriptedSessions:
    def __init__(self, certificate: str) -> None:
        tls = ssl_context(certificate)
        self._target = Target(SessionKey("a", "b"), "u", "127.0.0.1", "localhost", certificate, FRONT_TOKEN, tls)

    async def check(self, user: User, asked: Asked) -> None:
        if user.name.startswith("mallory"):
            raise FrontError(Refusal.FORBIDDEN, f"user {user.name} may not connect")

    async def check_handle(self, user: User, handle: str) -> None:
        if user.name.startswith("mallory"):
            raise FrontError(Refusal.UNKNOWN_SESSION, f"Session '{handle}' does not exist.")

    async def of_handle(self, user: User, handle: str, *_: Any) -> Target:
        await self.check_handle(user, handle)
        return self._target

    async def chosen(self, user: User, asked: Asked, _: str) -> SessionKey:
        await self.check(user, asked)
        return self._target.key

    async def open(self, user: User, asked: Asked, *_: Any) -> Target:
        await self.check(user, asked)
        return self._target

    async def ready(self, *_: Any) -> Target:
        return self._target

    def on_its_way(self, *_: Any) -> None:
        return None

    async def is_allowed(self, *_: Any) -> bool:
        return True

    async def while_allowed(self, _user: User, _key: SessionKey, work: Coroutine[Any, Any, T], _seconds: float) -> T:
        return await work

    async def end(self, _: Target) -> None:
        pass


async def serve(folder: Path, rest_port: int, thrift_port: int, connect_port: int) -> None:
    driver_http.GATEWAY_PORT, thrift.THRIFT_PORT, connect.CONNECT_PORT = rest_port, thrift_port, connect_port
    certificates = Certificates(folder)
    sessions = cast(FrontSessions, ScriptedSessions((folder / "tls.crt").read_text()))
    budget, slots = Budget.of(), Slots(SlotLimits.of_users(FrontConfig().max_connections))
    parts = (sessions, cast(Reviews, ScriptedReviews()), FrontLimits(), FrontMetrics())
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), auto_decompress=False) as http:
        runner = make_runner(RestFront(*parts, budget, http).application())
        await runner.setup()
        site = BoundedSite(runner, "127.0.0.1", 0, certificates.context, slots)
        await site.start()
        by_thrift = await ThriftFront(*parts, budget, slots).listen("127.0.0.1", 0, certificates.context)
        connect_front = ConnectFront(*parts, budget, slots)
        by_connect = await connect_front.listen("127.0.0.1", 0, certificates.credentials())
        print(json.dumps({"rest": site.port, "thrift": by_thrift, "connect": by_connect}), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), *map(int, sys.argv[2:5])))
