"""Small clients of a session's frontends, all alike: each has one session and one statement at a time, and tells how that ended."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import grpc

from sparksql.protocols.hiveserver2 import messages
from sparksql.protocols.hiveserver2.messages import TOperationState
from sparksql.wire.driver import CONNECT_PORT, GATEWAY_PORT, THRIFT_PORT
from sparksql.wire.front import SESSION_HEADER, SESSION_PROPERTY
from tests.support.connect_client import ConnectSession, Failed, sql_relation
from tests.support.thrift_client import Fields, ThriftClient, rows_of

PROTOCOLS = {"rest": GATEWAY_PORT, "connect": CONNECT_PORT, "thrift": THRIFT_PORT}
# What a client hears of a statement that somebody else has canceled.
CANCELED = {"rest": "CANCELED", "connect": "OPERATION_CANCELED", "thrift": "CANCELED"}
SECONDS = 120.0  # that a statement or a call takes at most
HIVE_PROTOCOL = 9  # V10


@dataclass(frozen=True)
class Way:
    """How a frontend is reached on this machine, and who may enter; `session` is what a client of the front asks for."""

    port: int
    token: str
    certificate: str
    session: str | None = None

    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.certificate)


class Client(Protocol):
    """`end` waits for the statement of `start`; `leave` ends the session as clients of that kind do, once."""

    def start(self, sql: str) -> None: ...

    def end(self) -> str: ...

    def value(self, sql: str) -> Any: ...

    def leave(self) -> None: ...


class Rest:
    def __init__(self, way: Way, name: str) -> None:
        self._way = way
        properties = {} if way.session is None else {SESSION_PROPERTY: way.session}
        asked = {"sessionName": name, "properties": properties}
        self._path = f"/v4/sessions/{self._ask('/v4/sessions', asked)['sessionHandle']}"
        self._operation = ""

    def start(self, sql: str) -> None:
        handle = self._ask(f"{self._path}/statements", {"statement": sql})["operationHandle"]
        self._operation = f"{self._path}/operations/{handle}"

    def end(self) -> str:
        return _last(lambda: self._ask(f"{self._operation}/status")["status"], "INITIALIZED", "PENDING", "RUNNING")

    def value(self, sql: str) -> Any:
        self.start(sql)
        ended = self.end()
        assert ended == "FINISHED", ended
        (row,) = self._ask(f"{self._operation}/result/0?rowFormat=JSON")["results"]["data"]
        return row["fields"][0]

    def leave(self) -> None:
        if self._path:
            self._ask(self._path, method="DELETE")
        self._path = ""

    def _ask(self, path: str, body: object = None, method: str | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._way.token}", "Content-Type": "application/json"}
        url = f"https://localhost:{self._way.port}{path}"
        request = urllib.request.Request(url, data, headers, method=method)
        with urllib.request.urlopen(request, context=self._way.tls(), timeout=SECONDS) as response:
            return json.load(response)


class Thrift:
    """By HiveServer2. Leaving is hanging up, as clients do that are killed."""

    def __init__(self, way: Way, name: str) -> None:
        self._client = ThriftClient(way.port, way.tls(), way.token, name)
        configuration = {} if way.session is None else {"use:database": way.session}
        opened = self._call("OpenSession", messages.TOpenSessionReq(HIVE_PROTOCOL, name, configuration))
        self._session = messages.TSessionHandle(_identifier(opened[3]))
        self._operation = messages.TOperationHandle()

    def start(self, sql: str) -> None:
        request = messages.TExecuteStatementReq(self._session, sql, run_async=True)
        handle = self._call("ExecuteStatement", request)[2]
        self._operation = messages.TOperationHandle(_identifier(handle), handle[2])

    def end(self) -> str:
        request = messages.TGetOperationStatusReq(self._operation)
        return _last(
            lambda: TOperationState(self._call("GetOperationStatus", request)[2]).name.removesuffix("_STATE"),
            "INITIALIZED", "PENDING", "RUNNING",
        )  # fmt: skip

    def value(self, sql: str) -> Any:
        self.start(sql)
        ended = self.end()
        assert ended == "FINISHED", ended
        request = messages.TFetchResultsReq(self._operation, max_rows=2)
        ((value,),) = rows_of(self._call("FetchResults", request))
        return value.decode() if isinstance(value, bytes) else value

    def leave(self) -> None:
        self._client.socket.close()

    def _call(self, method: str, request: Any) -> Fields:
        answer = self._client.call(method, request)
        assert answer[1].get(1) == 0, answer
        return answer


class Connect:
    """By Spark Connect, in an event loop of its own."""

    def __init__(self, way: Way, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._channel = self._call(self._open(way))
        headers = {} if way.session is None else {SESSION_HEADER: way.session}
        self._session = ConnectSession(self._channel, name, token=way.token, headers=headers)
        self._execution: Any = None

    def start(self, sql: str) -> None:
        execution = self._session.execute(root=sql_relation(sql))
        self._execution = asyncio.run_coroutine_threadsafe(execution, self._loop)

    def end(self) -> str:
        try:
            self._execution.result(SECONDS)
        except Failed as failed:
            return str(failed.failure.condition)
        return "FINISHED"

    def value(self, sql: str) -> Any:
        ((value,),) = self._call(self._session.rows(sql))
        return value

    def leave(self) -> None:
        if self._loop.is_running():
            try:
                self._call(self._session.close())
            finally:
                self.vanish()

    def vanish(self) -> None:
        """Goes without a word, so that its session stays."""
        self._call(self._channel.close())
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _open(self, way: Way) -> grpc.aio.Channel:
        credentials = grpc.ssl_channel_credentials(way.certificate.encode())
        channel = grpc.aio.secure_channel(f"localhost:{way.port}", credentials)
        await asyncio.wait_for(channel.channel_ready(), SECONDS)
        return channel

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS)


OPENS: Mapping[str, Callable[[Way, str], Client]] = {"rest": Rest, "connect": Connect, "thrift": Thrift}


def _identifier(handle: Fields) -> messages.THandleIdentifier:
    return messages.THandleIdentifier(handle[1][1], handle[1][2])


def _last(state: Callable[[], str], *passing: str) -> str:
    deadline = time.monotonic() + SECONDS
    while (seen := state()) in passing:
        assert time.monotonic() < deadline, f"still {seen} after {SECONDS:g} s"
        time.sleep(0.05)
    return seen
