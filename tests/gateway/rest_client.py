"""A small client of the REST API that sees every answer as it is."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pyarrow as pa

from tests.support.process import TOKEN, GatewayProcess


@dataclass(frozen=True)
class Answer:
    """`body` is None for an empty one, text for one that is no JSON."""

    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        if not self.raw:
            return None
        try:
            return json.loads(self.raw)
        except ValueError:
            return self.raw.decode(errors="replace")

    @property
    def told(self) -> str:
        """The last cause of an error, as Flink's SQL Client shows it."""
        text = "".join(self.body["errors"])
        return text.rpartition("Caused by: ")[2].partition("\tat ")[0].strip()


@dataclass
class RestSession:
    """A session that was opened in one version of the API."""

    client: RestClient
    handle: str
    prefix: str = "/v4"
    pages: int = field(default=0, init=False)

    @property
    def path(self) -> str:
        return f"{self.prefix}/sessions/{self.handle}"

    async def submit(self, sql: str, **fields: Any) -> str:
        answer = await self.client.call("POST", f"{self.path}/statements", {"statement": sql, **fields})
        assert answer.status == 200, answer
        return str(answer.body["operationHandle"])

    async def status(self, operation: str) -> str:
        answer = await self.client.call("GET", f"{self.path}/operations/{operation}/status")
        assert answer.status == 200, answer
        return str(answer.body["status"])

    async def until(self, operation: str, *statuses: str, seconds: float = 120) -> str:
        deadline = asyncio.get_running_loop().time() + seconds
        while (status := await self.status(operation)) not in statuses:
            late = asyncio.get_running_loop().time() > deadline
            assert not late, f"still {status}\n{self.client.gateway.log_tail(2000)}"
            await asyncio.sleep(0.02)
        return status

    async def page(self, operation: str, token: int, row_format: str = "JSON") -> Answer:
        """The page once it is ready."""
        path = f"{self.path}/operations/{operation}/result/{token}?rowFormat={row_format}"
        async with asyncio.timeout(120):
            while True:
                answer = await self.client.call("GET", path)
                if not (isinstance(answer.body, dict) and answer.body.get("resultType") == "NOT_READY"):
                    return answer

    async def run(self, sql: str, row_format: str = "JSON", **fields: Any) -> tuple[dict[str, Any], list[list[Any]]]:
        """The first page's body and all rows of a statement that must succeed."""
        operation = await self.submit(sql, **fields)
        first: dict[str, Any] = {}
        rows: list[list[Any]] = []
        token, self.pages = 0, 0
        while True:
            answer = await self.page(operation, token, row_format)
            assert answer.status == 200, f"{sql!r}: {answer.told}"
            first = first or answer.body
            rows += [row["fields"] for row in answer.body["results"]["data"]]
            if answer.body["resultType"] == "EOS":
                return first, rows
            self.pages += 1
            token = int(re.search(r"/result/(\d+)", answer.body["nextResultUri"])[1])  # type: ignore[index]

    async def value(self, sql: str, row_format: str = "JSON") -> Any:
        """The only value of a statement's result."""
        _, rows = await self.run(sql, row_format)
        assert len(rows) == 1 and len(rows[0]) == 1, rows
        return rows[0][0]

    async def arrow(self, operation: str) -> pa.Table:
        """All rows of an operation as Arrow."""
        tables: list[pa.Table] = []
        token: str | None = "0"
        self.pages = 0
        while token is not None:
            answer = await self.page(operation, int(token), "ARROW")
            assert answer.status == 200, answer
            assert answer.headers["Content-Type"] == "application/vnd.apache.arrow.stream"
            tables.append(pa.ipc.open_stream(answer.raw).read_all())
            self.pages += 1
            token = answer.headers.get("X-Next-Token")
        return pa.concat_tables(tables)

    async def failure(self, sql: str, **fields: Any) -> str:
        """The last cause of a statement that must fail."""
        answer = await self.page(await self.submit(sql, **fields), 0)
        assert answer.status == 500, answer
        return answer.told

    async def properties(self) -> dict[str, str]:
        return dict((await self.client.call("GET", self.path)).body["properties"])

    async def close(self) -> None:
        answer = await self.client.call("DELETE", self.path)
        assert (answer.status, answer.body) == (200, {"status": "CLOSED"}), answer


class RestClient:
    def __init__(self, gateway: GatewayProcess, http: aiohttp.ClientSession) -> None:
        self.gateway = gateway
        self._http = http

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        data = raw if raw is not None or body is None else json.dumps(body).encode()
        async with self._http.request(
            method, path, data=data, headers=headers, skip_auto_headers=("Content-Type",)
        ) as got:
            return Answer(got.status, dict(got.headers), await got.read())

    @asynccontextmanager
    async def session(
        self, prefix: str = "/v4", name: str | None = None, **properties: str
    ) -> AsyncIterator[RestSession]:
        answer = await self.call("POST", f"{prefix}/sessions", {"sessionName": name, "properties": properties})
        assert answer.status == 200, answer
        opened = RestSession(self, answer.body["sessionHandle"], prefix)
        yield opened
        await self.call("DELETE", opened.path)


@asynccontextmanager
async def connect_rest(gateway: GatewayProcess, token: str = TOKEN) -> AsyncIterator[RestClient]:
    connector = aiohttp.TCPConnector(ssl=gateway.client_tls(), limit=0)
    async with aiohttp.ClientSession(
        gateway.url,
        connector=connector,
        headers={"Authorization": f"Bearer {token}"},
        timeout=aiohttp.ClientTimeout(total=120),
        read_bufsize=1 << 20,
    ) as http:
        yield RestClient(gateway, http)
