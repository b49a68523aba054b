"""A small client of the control API, with the wire models."""

from __future__ import annotations

import asyncio
import itertools
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from sparksql.wire.control import (
    CancelRequest,
    Event,
    GatewayInfo,
    GatewayState,
    OperationState,
    OperationView,
    Parameter,
    ResultOptions,
    ResultPage,
    SubmitRequest,
)
from tests.support.process import TOKEN, GatewayProcess

API = "/control/v1"
FIRST_PAUSE_SECONDS = 0.02
LONGEST_PAUSE_SECONDS = 0.2
SECONDS = 300.0  # beside tests that go first
_numbers = itertools.count(1)


class GatewayClient:
    """One HTTP session with the session's token."""

    def __init__(self, gateway: GatewayProcess, http: aiohttp.ClientSession) -> None:
        self.gateway = gateway
        self.http = http
        self.boot_id = ""

    async def info(self) -> GatewayInfo:
        async with self.http.get(f"{API}/info") as response:
            return GatewayInfo.model_validate_json(await response.text())

    async def until_started(self, seconds: float = 600) -> GatewayInfo:
        """Until Spark is ready or init has failed."""
        deadline = asyncio.get_running_loop().time() + seconds
        try:
            info = await self.info()
        except aiohttp.ClientConnectorError as refused:
            code = self.gateway.process.poll()
            raise AssertionError(f"refused; exit code {code}:\n{self.gateway.log_tail()}") from refused
        while info.state is GatewayState.STARTING:
            assert asyncio.get_running_loop().time() < deadline, f"still starting: {self.gateway.log_tail()}"
            assert self.gateway.process.poll() is None, self.gateway.log_tail()
            await asyncio.sleep(0.1)
            info = await self.info()
        self.boot_id = info.boot_id
        return info

    async def put(self, sql: str, operation_id: str | None = None, **fields: Any) -> OperationView:
        status, body = await self.put_raw(sql, operation_id, **fields)
        assert status == 200, body
        return OperationView.model_validate_json(body)

    async def put_raw(self, sql: str, operation_id: str | None = None, **fields: Any) -> tuple[int, str]:
        request = SubmitRequest(
            **{"boot_id": self.boot_id, "namespace": "team-a", "name": f"s-{next(_numbers)}", "sql": sql, **fields}
        )
        async with self.http.put(
            f"{API}/statements/{operation_id or uuid.uuid4()}", data=request.to_json()
        ) as response:
            return response.status, await response.text()

    async def get(self, operation_id: str) -> OperationView:
        async with self.http.get(f"{API}/statements/{operation_id}") as response:
            body = await response.text()
            assert response.status == 200, body
            return OperationView.model_validate_json(body)

    async def cancel(
        self, operation_id: str, outcome: OperationState = OperationState.CANCELED, reason: str = ""
    ) -> OperationView:
        body = CancelRequest(boot_id=self.boot_id, outcome=outcome, reason=reason)  # type: ignore[arg-type]
        async with self.http.post(f"{API}/statements/{operation_id}/cancel", data=body.to_json()) as response:
            text = await response.text()
            assert response.status == 200, text
            return OperationView.model_validate_json(text)

    async def until(
        self, operation_id: str, condition: Callable[[OperationView], bool], seconds: float = SECONDS
    ) -> OperationView:
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            view = await self.get(operation_id)
            if condition(view):
                return view
            waited = loop.time() - began
            assert waited < seconds, f"last seen {view}\n{self.gateway.log_tail(2000)}"
            # A look takes CPU from what it waits for: the longer that takes, the less often it is looked for.
            await asyncio.sleep(min(FIRST_PAUSE_SECONDS + waited / 20, LONGEST_PAUSE_SECONDS))

    async def until_state(self, operation_id: str, state: OperationState, seconds: float = SECONDS) -> OperationView:
        return await self.until(operation_id, lambda view: view.state is state or view.state.is_terminal, seconds)

    async def end(self, view: OperationView, seconds: float = SECONDS) -> OperationView:
        return await self.until(view.operation_id, lambda seen: seen.state.is_terminal, seconds)

    async def run(self, sql: str, **fields: Any) -> OperationView:
        """Submits and waits for the end."""
        return await self.end(await self.put(sql, **fields))

    async def ok(self, sql: str, **fields: Any) -> OperationView:
        """Submits and waits for the end, which must be Finished."""
        view = await self.run(sql, **fields)
        assert view.state is OperationState.FINISHED, f"{sql!r} ended as {view}\n{self.gateway.log_tail(3000)}"
        return view

    async def rows(self, sql: str, **fields: Any) -> list[tuple[Any, ...]]:
        """All rows of a statement, read page by page."""
        fields.setdefault("result", ResultOptions(max_rows=10_000))
        view = await self.ok(sql, **fields)
        return [row async for row in self.pages(view.operation_id)]

    async def page(self, operation_id: str, token: int = 0, max_rows: int = 1000) -> ResultPage:
        status, body = await self.page_raw(operation_id, token=token, maxRows=max_rows)
        assert status == 200, body
        return ResultPage.model_validate_json(body)

    async def page_raw(self, operation_id: str, **query: Any) -> tuple[int, str]:
        async with self.http.get(f"{API}/statements/{operation_id}/results", params=query) as response:
            return response.status, await response.text()

    async def pages(self, operation_id: str, max_rows: int = 1000) -> AsyncIterator[tuple[Any, ...]]:
        token: int | None = 0
        while token is not None:
            page = await self.page(operation_id, token, max_rows)
            for row in page.rows:
                yield row
            token = page.next_token

    @asynccontextmanager
    async def events(self, after: int = 0) -> AsyncIterator[AsyncIterator[Event]]:
        async with self.http.get(f"{API}/events", params={"after": after}) as response:
            assert response.status == 200, await response.text()

            async def lines() -> AsyncIterator[Event]:
                async for line in response.content:
                    yield Event.model_validate(json.loads(line))

            yield lines()


@asynccontextmanager
async def connect(gateway: GatewayProcess, token: str = TOKEN) -> AsyncIterator[GatewayClient]:
    connector = aiohttp.TCPConnector(ssl=gateway.client_tls(), limit=0)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    timeout = aiohttp.ClientTimeout(total=SECONDS)
    async with aiohttp.ClientSession(
        gateway.url, connector=connector, headers=headers, timeout=timeout, read_bufsize=1 << 20
    ) as http:
        yield GatewayClient(gateway, http)


__all__ = ["API", "GatewayClient", "Parameter", "ResultOptions", "connect"]
