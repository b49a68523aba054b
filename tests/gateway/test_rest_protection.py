"""Requests that nobody should send: the API answers or hangs up in time, never with an error that is not its own, and lives."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparksql.gateway.frontends.control.routes import MAX_BODY_BYTES
from sparksql.gateway.frontends.rest.routing import ROUTES
from tests.support.process import TOKEN, GatewayProcess

from .client import GatewayClient
from .rest_client import RestClient, RestSession, connect_rest

DEADLINE = 90.0
AUTH = b"Authorization: Bearer " + TOKEN.encode() + b"\r\n"
ZERO = "00000000-0000-0000-0000-000000000000"

MALFORMED = {
    "no HTTP": b"hello\r\n\r\n",
    "binary": bytes(range(256)) * 4,
    "TLS within TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 600,
    "unknown version": b"GET /info HTTP/9.9\r\nHost: a\r\n" + AUTH + b"\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "two lengths": b"POST /v4/sessions HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 20\r\n"
    + AUTH
    + b"\r\n{}",
    "length and chunks": b"POST /v4/sessions HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n"
    + AUTH
    + b"\r\n{}",
    "negative length": b"POST /v4/sessions HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n" + AUTH + b"\r\n",
    "bad chunk": b"POST /v4/sessions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
    + AUTH
    + b"\r\nzz\r\n{}\r\n",
    "no compression": b"POST /v4/sessions HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n"
    + AUTH
    + b"\r\n{}",
    "null in header": b"GET /info HTTP/1.1\r\nHost: a\r\nX-A: a\0b\r\n" + AUTH + b"\r\n",
    "folded header": b"GET /info HTTP/1.1\r\nHost: a\r\nX-A: a\r\n b\r\n" + AUTH + b"\r\n",
    "long target": b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: a\r\n" + AUTH + b"\r\n",
    "many headers": b"GET /info HTTP/1.1\r\nHost: a\r\n"
    + b"".join(b"X-%d: a\r\n" % number for number in range(500))
    + b"\r\n",
    "bad escape": b"GET /v4/sessions/%zz%ff%00 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + AUTH + b"\r\n",
    "absolute target": b"GET http://elsewhere/v4/info HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + AUTH + b"\r\n",
    "asterisk": b"OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + AUTH + b"\r\n",
    "connect": b"CONNECT elsewhere:443 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + AUTH + b"\r\n",
    "upgrade": b"GET /info HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    + AUTH
    + b"\r\n",
    "token that is no text": b"GET /info HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer \xff\xfe\r\n\r\n",
    "dots": b"GET /v4/../../control/v1/info HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
}


@pytest.fixture
async def rest(gateway: GatewayProcess, client: GatewayClient) -> AsyncIterator[RestClient]:
    async with connect_rest(gateway) as connected:
        yield connected
        assert (await connected.call("GET", "/info")).status == 200


async def raw(gateway: GatewayProcess, data: bytes) -> bytes:
    """What comes back until the gateway closes, or until an answer is complete enough to have a status."""
    reader, writer = await asyncio.open_connection(
        "localhost", gateway.port, ssl=gateway.client_tls(), server_hostname="localhost"
    )
    try:
        writer.write(data)
        async with asyncio.timeout(DEADLINE):
            with suppress(ConnectionResetError):
                return await reader.read(4096)
    finally:
        writer.transport.abort()
    return b""


@pytest.mark.parametrize("name", MALFORMED)
async def test_a_malformed_request_never_gives_a_server_error(
    gateway: GatewayProcess, rest: RestClient, name: str
) -> None:
    answer = await raw(gateway, MALFORMED[name])
    assert answer == b"" or answer[9:10] in (b"2", b"4"), answer
    if name in ("token that is no text", "dots"):
        assert b" 401 " in answer


async def test_a_body_beyond_the_bound_is_refused(rest: RestClient) -> None:
    body = json.dumps({"statement": "x" * MAX_BODY_BYTES}).encode()
    answer = await rest.call("POST", f"/v4/sessions/{ZERO}/statements", raw=body)
    assert answer.status == 413
    assert list(answer.body) == ["errors"]


async def test_a_body_that_unpacks_beyond_the_bound_is_refused(rest: RestClient) -> None:
    packed = gzip.compress(b" " * (20 * MAX_BODY_BYTES))
    answer = await rest.call("POST", "/v4/sessions", raw=packed, headers={"Content-Encoding": "gzip"})
    assert answer.status in (400, 413), answer


async def test_a_long_statement_is_taken(rest: RestClient) -> None:
    async with rest.session() as session:
        text = "x" * (1 << 20)
        _first, rows = await session.run(f"SELECT length('{text}') AS n")
        assert rows == [[1 << 20]]


ids = st.sampled_from(["{S}", "{O}", ZERO, "abc", "%00", "..", ""])
bodies = st.one_of(
    st.none(),
    st.binary(max_size=30),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["statement", "executionTimeout", "executionConfig", "position", "properties", "script"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=8,
    ).map(lambda value: json.dumps(value).encode()),
)


async def test_whatever_is_sent_is_answered_in_a_released_form(rest: RestClient) -> None:
    """Every route with odd handles, tokens, queries and bodies."""
    async with rest.session() as session:
        operation = await session.submit("SELECT 1 AS a")
        await session.until(operation, "FINISHED")
        loop = asyncio.get_running_loop()

        @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
        @given(
            route=st.sampled_from(ROUTES),
            version=st.sampled_from(["/v1", "/v4", "", "/compat", "/compat/v2", "/v9"]),
            handles=st.tuples(ids, ids),
            token=st.sampled_from(["0", "1", "-1", "9" * 18, "9" * 30, "x", "0x1", "١"]),
            query=st.sampled_from(
                ["", "?rowFormat=JSON", "?rowFormat=arrow", "?rowFormat=%00", "?rowFormat=a&rowFormat=b"]
            ),
            body=bodies,
        )
        def send(
            route: object, version: str, handles: tuple[str, str], token: str, query: str, body: bytes | None
        ) -> None:
            known = {"{S}": session.handle, "{O}": operation}
            values = {
                "session_handle": known.get(handles[0], handles[0]),
                "operation_handle": known.get(handles[1], handles[1]),
                "token": token,
                "identifier": handles[1],
                "catalog": {"{S}": "spark_catalog"}.get(handles[0], handles[0]),
                "database": {"{O}": "default"}.get(handles[1], handles[1]),
                "table": handles[1],
            }
            path = version + route.path.format(**values) + query  # type: ignore[attr-defined]
            if route.name == "close_session" and values["session_handle"] == session.handle:  # type: ignore[attr-defined]
                return
            call = rest.call(route.method, path, raw=body)  # type: ignore[attr-defined]
            answer = asyncio.run_coroutine_threadsafe(call, loop).result(DEADLINE)
            assert answer.status in (200, 400, 401, 403, 404, 429, 500), (path, body, answer)
            if answer.status != 200:
                assert list(answer.body) == ["errors"], (path, body, answer)
                assert "Internal server error. " not in answer.body["errors"][0], (path, body, answer)

        await asyncio.to_thread(send)


async def test_clients_that_vanish_leave_no_statement_behind(gateway: GatewayProcess, client: GatewayClient) -> None:
    async with connect_rest(gateway) as rest, rest.session() as session:
        operation = await session.submit("SELECT count(*) FROM range(0, 1000000000000, 1, 1)")
        request = (
            f"GET {session.path}/operations/{operation}/result/0 HTTP/1.1\r\nHost: a\r\n".encode() + AUTH + b"\r\n"
        )
        for _ in range(20):
            _, writer = await asyncio.open_connection(
                "localhost", gateway.port, ssl=gateway.client_tls(), server_hostname="localhost"
            )
            writer.write(request)
            await writer.drain()
            writer.transport.abort()
        await session.close()
        deadline = asyncio.get_running_loop().time() + DEADLINE
        while session.handle in (shown := (await rest.call("GET", "/control/v1/clients")).raw.decode()):
            assert asyncio.get_running_loop().time() < deadline, shown
            await asyncio.sleep(0.1)


async def test_many_rest_sessions_at_once_each_get_their_own_answer(rest: RestClient) -> None:
    async def use(number: int) -> int:
        async with rest.session() as session:
            opened: RestSession = session
            return int(await opened.value(f"SELECT {number} AS n"))

    numbers = list(range(25))
    assert await asyncio.gather(*map(use, numbers)) == numbers
