"""Ways to have a statement run and to read its rows, each with the same small client on both sides of a comparison."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import subprocess
import time
import uuid
from collections.abc import AsyncIterator
from typing import Protocol

import aiohttp
import grpc

from sparksql.drivers.client import Address, GatewayClient
from sparksql.protocols.hiveserver2 import messages as m
from sparksql.wire.control import OperationView, ResultOptions, SubmitRequest
from tests.gateway.rest_client import RestSession, connect_rest
from tests.support.connect_client import ConnectSession, sql_relation
from tests.support.process import TOKEN, GatewayProcess
from tests.support.thrift_client import Fields, ThriftClient, rows_of

SQL = "SELECT 1"
HIVE_PROTOCOL = 9
SECONDS = 120.0
DEFAULT_RESULT = ResultOptions()


class NotYet(Exception):
    """The server opens no session; it says why."""


class Way(Protocol):
    """One way, with as many clients as it was opened for."""

    async def statements(self, count: int, clients: int) -> list[float]:
        """Milliseconds of each of `count` statements, `clients` of them at a time, each from the request to its last row."""


class Clients:
    """A way whose clients are in this process: `run` of a client has one statement run."""

    async def run(self, client: int) -> None:
        raise NotImplementedError

    async def statements(self, count: int, clients: int) -> list[float]:
        millis: list[float] = []

        async def one(client: int) -> None:
            while len(millis) < count:
                began = time.perf_counter()
                await self.run(client)
                millis.append((time.perf_counter() - began) * 1000)

        await asyncio.gather(*(one(client) for client in range(clients)))
        return millis


class Plain:
    """Spark itself: measured where it runs, no client in between."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    async def statements(self, count: int, clients: int) -> list[float]:
        return await asyncio.to_thread(self._ask, count, clients)

    def _ask(self, count: int, clients: int) -> list[float]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"sql": SQL, "count": count, "clients": clients}) + "\n")
        self._process.stdin.flush()
        found: list[float] = json.loads(self._process.stdout.readline())
        return found


class Control(Clients):
    """As the operator hands a statement over: a request, and the end from the event stream. Its rows stay where they are."""

    def __init__(self, gateway: GatewayClient, boot_id: str) -> None:
        self._gateway, self._boot_id = gateway, boot_id
        self._ends: dict[str, asyncio.Future[OperationView]] = {}

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, process: GatewayProcess) -> AsyncIterator[Control]:
        async with aiohttp.ClientSession() as http:
            address = Address("pod", "localhost", process.port, "localhost", TOKEN, process.client_tls())
            gateway = GatewayClient(http, address)
            way = cls(gateway, (await gateway.info()).boot_id)
            following = asyncio.create_task(way._follow())
            try:
                yield way
            finally:
                following.cancel()

    async def run(self, client: int) -> None:
        await self.execute(SQL, f"s{client}")

    async def execute(self, sql: str, name: str, result: ResultOptions = DEFAULT_RESULT) -> OperationView:
        """Has a statement run and returns its end, whichever that is."""
        operation = str(uuid.uuid4())
        ended = self._ends[operation] = asyncio.get_running_loop().create_future()
        request = SubmitRequest(boot_id=self._boot_id, namespace="bench", name=name, sql=sql, result=result)
        await self._gateway.submit(operation, request)
        return await asyncio.wait_for(ended, SECONDS)

    async def _follow(self) -> None:
        async for event in self._gateway.events(0):
            if event.operation is not None and event.operation.state.is_terminal:
                future = self._ends.pop(event.operation.operation_id, None)
                if future is not None:
                    future.set_result(event.operation)


class Rest(Clients):
    """The REST frontend: a statement, then its pages."""

    def __init__(self) -> None:
        self._sessions: list[RestSession] = []

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, process: GatewayProcess, clients: int) -> AsyncIterator[Rest]:
        way = cls()
        async with connect_rest(process) as rest, contextlib.AsyncExitStack() as stack:
            for number in range(clients):
                way._sessions.append(await stack.enter_async_context(rest.session(name=f"c{number}")))
            yield way

    async def run(self, client: int) -> None:
        await self._sessions[client].run(SQL)


class Thrift(Clients):
    """A HiveServer2 server: execute, fetch to the end, close."""

    def __init__(self, port: int, tls: ssl.SSLContext | None, clients: int) -> None:
        self._clients = [ThriftClient(port, tls) for _ in range(clients)]
        opened = [client.call("OpenSession", m.TOpenSessionReq(HIVE_PROTOCOL, "ada", {})) for client in self._clients]
        if refused := [answer for answer in opened if 3 not in answer]:
            raise NotYet(str(refused[0]))
        self._sessions = [m.TSessionHandle(_identifier(answer[3])) for answer in opened]

    async def run(self, client: int) -> None:
        await asyncio.to_thread(self.execute, client)

    def execute(self, number: int) -> None:
        """Has the statement run in a client's session and reads its rows."""
        client = self._clients[number]
        answer = client.call("ExecuteStatement", m.TExecuteStatementReq(self._sessions[number], SQL))
        if answer[1][1] != 0:
            raise SystemExit(f"refused: {answer}")
        operation = m.TOperationHandle(_identifier(answer[2]), answer[2][2])
        while rows_of(client.call("FetchResults", m.TFetchResultsReq(operation, max_rows=1000))):
            pass
        client.call("CloseOperation", m.OperationRequest(operation))


def _identifier(handle: Fields) -> m.THandleIdentifier:
    return m.THandleIdentifier(handle[1][1], handle[1][2])


class Connect(Clients):
    """A Connect server: a relation executed, its responses read, released."""

    def __init__(self, channel: grpc.aio.Channel, clients: int) -> None:
        self._sessions = [ConnectSession(channel, user=f"c{number}") for number in range(clients)]

    async def run(self, client: int) -> None:
        await self._sessions[client].execute(root=sql_relation(SQL))
