"""A small client of the REST API, for tests that need several sessions at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from tests.support.process import TOKEN, GatewayProcess

TERMINAL = ("FINISHED", "CANCELED", "CLOSED", "ERROR", "TIMEOUT")


class RestSession:
    """One session of the REST API."""

    def __init__(self, http: aiohttp.ClientSession, handle: str) -> None:
        self.http = http
        self.path = f"/v4/sessions/{handle}"
        self.handle = handle

    async def submit(self, sql: str, timeout_ms: int = 0, **conf: str) -> str:
        status, body = await self.try_submit(sql, timeout_ms, **conf)
        assert status == 200, body
        return str(body["operationHandle"])

    async def try_submit(self, sql: str, timeout_ms: int = 0, **conf: str) -> tuple[int, Any]:
        request = {"statement": sql, "executionTimeout": timeout_ms, "executionConfig": conf}
        return await call(self.http, "POST", f"{self.path}/statements", request)

    async def status(self, operation: str) -> str:
        code, body = await call(self.http, "GET", f"{self.path}/operations/{operation}/status")
        assert code == 200, body
        return str(body["status"])

    async def until(self, operation: str, *statuses: str, seconds: float = 120) -> str:
        """The first of these statuses that is seen. Fails at the deadline, and at an end that is none of them."""
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            seen = await self.status(operation)
            if seen in statuses:
                return seen
            assert seen not in TERMINAL, f"{operation} ended as {seen}, not as {statuses}"
            assert asyncio.get_running_loop().time() < deadline, f"{operation} is {seen}, not {statuses}"
            await asyncio.sleep(0.05)

    async def page(self, operation: str, token: int) -> tuple[int, Any]:
        while True:
            status, body = await call(self.http, "GET", f"{self.path}/operations/{operation}/result/{token}")
            if status != 200 or body["resultType"] != "NOT_READY":
                return status, body

    async def rows(self, sql: str, **conf: str) -> list[list[Any]]:
        operation, token, found = await self.submit(sql, **conf), 0, []
        while True:
            status, body = await self.page(operation, token)
            assert status == 200, body
            found += [row["fields"] for row in body["results"]["data"]]
            if body["resultType"] == "EOS":
                return found
            token += 1

    async def error(self, sql: str, **conf: str) -> str:
        """The text of the error that a statement ends in."""
        status, body = await self.page(await self.submit(sql, **conf), 0)
        assert status == 500, body
        return str(body["errors"][-1])

    async def cancel(self, operation: str) -> tuple[int, Any]:
        return await call(self.http, "POST", f"{self.path}/operations/{operation}/cancel")

    async def close_operation(self, operation: str) -> None:
        status, body = await call(self.http, "DELETE", f"{self.path}/operations/{operation}/close")
        assert status == 200, body

    async def close(self) -> tuple[int, Any]:
        return await call(self.http, "DELETE", self.path)


async def call(http: aiohttp.ClientSession, method: str, path: str, body: object = None) -> tuple[int, Any]:
    async with http.request(method, path, json=body) as response:
        return response.status, await response.json()


async def open_rest(http: aiohttp.ClientSession, name: str = "test", **properties: str) -> RestSession:
    status, body = await call(http, "POST", "/v4/sessions", {"sessionName": name, "properties": properties})
    assert status == 200, body
    return RestSession(http, body["sessionHandle"])


@asynccontextmanager
async def rest_http(gateway: GatewayProcess) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(ssl=gateway.client_tls(), limit=0)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(gateway.url, connector=connector, headers=headers, timeout=timeout) as http:
        yield http
