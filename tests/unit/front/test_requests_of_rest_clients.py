"""Requests that come to the front by HTTP, before a scripted driver: what is passed on, to whom, and how refusals are told."""

from __future__ import annotations

import asyncio
import base64
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparksql.front import driver_http
from sparksql.front.limits import FrontLimits
from sparksql.front.metrics import FrontMetrics
from sparksql.front.model import FrontError, Refusal, SessionKey, Target, User
from sparksql.front.naming import Asked
from sparksql.front.rest import RestFront
from sparksql.front.reviews import Reviews
from sparksql.front.sessions import FrontSessions
from sparksql.kube.tls import ssl_context
from sparksql.protocols.budget import BYTES, Budget
from sparksql.protocols.hiveserver2 import messages as m
from sparksql.protocols.hiveserver2.codec import STOP, Reader, TMessageType, TType, encode, field_header, header
from sparksql.wire.control import ClientProtocol
from sparksql.wire.front import handle_prefix, prefix_of
from sparksql.wire.target import is_for_clients, read_target
from tests.unit.front.test_thrift_connections_of_the_front import (
    CERTIFICATE,
    FRONT_TOKEN,
    OTHER_TOKEN,
    TLS,
    TOKEN,
    USER,
    FakeReviews,
    FakeSessions,
)

HANDLE = "3b0e5a70-7c1a-4a57-9a53-6f8a2f0f4f11"  # the same in each process: it is in the names of tests
UID = "uid-of-the-session"
AS_USER = {"Authorization": f"Bearer {TOKEN}"}
LIMITS = FrontLimits(hold_seconds=60)
Answer = Callable[[web.Request, bytes], web.Response]


KEY = SessionKey("a", "b")


class Sessions(FakeSessions):
    """Serves at once, unless `starting` says why it does not."""

    starting: FrontError | None = None
    forbidden: frozenset[str] = frozenset()  # users without a right to any session
    withdrawn: FrontError | None = None  # what a user is told who may not go on at the end of the wait

    def __init__(self) -> None:
        super().__init__()
        self.changed = asyncio.Event()

    def start(self) -> None:
        self.starting = None
        self.changed.set()

    async def open(self, user: User, asked: Asked, *others: Any) -> Target:
        found = await super().open(user, asked)
        if others:
            await self.ready(user, found.key, others[0], others[1])
        return found

    async def chosen(self, user: User, asked: Asked, connection: str) -> SessionKey:
        return KEY

    async def ready(self, user: User, key: SessionKey, protocol: ClientProtocol, seconds: float) -> Target:
        if self.starting is not None:
            try:
                await asyncio.wait_for(self.changed.wait(), seconds)
            except TimeoutError:
                raise self.starting from None
        if self.withdrawn is not None:
            raise self.withdrawn
        return await self.target()

    def on_its_way(self, key: SessionKey, protocol: ClientProtocol) -> Any:
        return None if self.starting is None else SimpleNamespace(uid=UID)

    async def check_handle(self, user: User, handle: str) -> None:
        if user.name in self.forbidden:
            raise FrontError(Refusal.UNKNOWN_SESSION, f"Session '{handle}' does not exist.")

    async def coming(self, user: User, handle: str, protocol: ClientProtocol) -> SessionKey | None:
        if self.starting is not None and self.starting.refusal is not Refusal.NOT_READY:
            raise self.starting
        return None if self.starting is None else KEY

    async def of_handle(self, user: User, handle: str, protocol: ClientProtocol) -> Target:
        if handle.lower() != HANDLE and prefix_of(handle) != handle_prefix(UID):
            raise FrontError(Refusal.UNKNOWN_SESSION, f"Session '{handle}' does not exist.")
        return await self.target()

    async def target(self) -> Target:
        return await FakeSessions().open(User("anybody"), Asked())

    async def own(self, user: User, asked: Asked, protocol: ClientProtocol) -> Target | None:
        return None if asked.name is None else await self.open(user, asked)


class Driver:
    """Answers by `answer` and writes down what came."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, bytes, str | None, str | None]] = []
        self.promised: list[str | None] = []
        self.answer: Answer = lambda request, body: web.json_response({"sessionHandle": HANDLE})

    async def serve(self, request: web.Request) -> web.Response:
        body = await request.read()
        headers = request.headers
        user = headers.get("x-sparksql-user")
        self.promised.append(headers.get("x-sparksql-handle"))
        self.seen.append((request.method, request.raw_path, body, headers.get("Authorization"), user))
        return self.answer(request, body)


class Running:
    def __init__(self, client: TestClient[Any, Any], driver: Driver, sessions: Sessions) -> None:
        self.client = client
        self.driver = driver
        self.sessions = sessions

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        data = body if body is None or isinstance(body, (bytes, AsyncIterator)) else json.dumps(body)
        async with self.client.request(method, path, data=data, headers={**AS_USER, **headers}) as answer:
            return answer.status, json.loads(await answer.read() or b"null")


@asynccontextmanager
async def running(
    limits: FrontLimits = LIMITS, of: Running | None = None, budget: Budget | None = None
) -> AsyncIterator[Running]:
    """A replica, and unless it is one more `of` the same front, its sessions and their driver."""
    driver, sessions = (Driver(), Sessions()) if of is None else (of.driver, of.sessions)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", driver.serve)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=TLS).start()
    async with aiohttp.ClientSession(auto_decompress=False) as http:
        parts = (
            cast(FrontSessions, sessions),
            cast(Reviews, FakeReviews()),
            limits,
            FrontMetrics(),
            budget or Budget.of(),
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(driver_http, "GATEWAY_PORT", runner.addresses[0][1])
            async with TestClient(TestServer(RestFront(*parts, http).application())) as client:
                yield Running(client, driver, sessions)
    await runner.cleanup()


@pytest.fixture
async def front() -> AsyncIterator[Running]:
    async with running() as made:
        yield made


async def test_a_session_is_opened_where_it_is_wanted_and_for_whom(front: Running) -> None:
    asked = {"sessionName": "mine", "properties": {"sparksql.session": "team-a/main", "spark.sql.ansi.enabled": "true"}}
    assert await front.ask("POST", "/v3/sessions", asked) == (200, {"sessionHandle": HANDLE})
    [(method, path, body, authorization, user)] = front.driver.seen
    assert (method, path, authorization, user) == ("POST", "/v3/sessions", f"Bearer {FRONT_TOKEN}", "ada%40example.com")
    assert json.loads(body) == {"sessionName": "mine", "properties": {"spark.sql.ansi.enabled": "true"}}
    assert front.sessions.asked == [Asked("team-a", "main")]


@pytest.mark.parametrize("body", [None, b"", b"{}", b"[1]", b"no json", b'{"properties": 1}'])
async def test_a_request_that_names_no_session_is_passed_on_as_it_is(front: Running, body: bytes | None) -> None:
    await front.ask("POST", "/sessions", body)
    assert front.driver.seen[0][2] == (body or b"")
    assert front.sessions.asked == [Asked()]


async def test_a_header_names_a_session_where_no_property_does(front: Running) -> None:
    header_of = {"x-sparksql-session": "team-a/main"}
    await front.ask("POST", "/sessions", **header_of)
    await front.ask("POST", "/sessions", {"properties": {"sparksql.session": "team-a/other"}}, **header_of)
    assert front.sessions.asked == [Asked("team-a", "main"), Asked("team-a", "other")]


async def test_requests_with_a_handle_go_to_its_driver_as_they_are(front: Running) -> None:
    front.driver.answer = lambda request, body: web.Response(
        status=418, body=b'{"a":1}', content_type="application/json"
    )
    path = f"/v2/sessions/{HANDLE}/operations/x%3Ay/result/0?rowFormat=JSON&a=%20b"
    assert await front.ask("GET", path) == (418, {"a": 1})
    assert front.driver.seen[0][:3] == ("GET", path, b"")
    assert (await front.ask("GET", f"/v2/sessions/{uuid.uuid4()}"))[0] == 404


async def raw_answer(front: Running, line: bytes) -> tuple[int, Any]:
    """Status and content of the answer to a request whose first line is written as it is."""
    reader, writer = await asyncio.open_connection("127.0.0.1", front.client.server.port)
    writer.write(line + f" HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
    head, _, body = (await asyncio.wait_for(reader.read(), 20)).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), body


async def test_a_target_in_absolute_form_is_served_by_its_path(front: Running) -> None:
    front.driver.answer = lambda request, body: web.json_response({"a": 1})
    assert (await raw_answer(front, b"GET http://anything:1/info"))[0] == 200
    status, body = await raw_answer(front, f"GET http://anything/v2/sessions/{HANDLE}?x=1".encode())
    assert (status, json.loads(body)) == (200, {"a": 1})
    assert front.driver.seen[0][1] == f"/v2/sessions/{HANDLE}?x=1"


SESSION = "/v2/sessions/HANDLE"


@pytest.mark.parametrize(
    "line",
    [
        *("OPTIONS *", "CONNECT host:443", "CONNECT /info", "GET *", "GET host:443", "GET info", "GET ftp://h/info"),
        *(
            f"GET {SESSION}/../../../control/v1/info",
            f"GET {SESSION}/%2e%2e/x",
            f"GET {SESSION}%0A",
            f"GET {SESSION}/%00",
        ),
        *(
            f"GET {SESSION}/a%2Fb",
            f"GET {SESSION}/%ff",
            f"GET {SESSION}/%",
            "GET /control/v1/info%0A",
            "GET http:///info",
        ),
        *(
            "POST /cliservice%0A",
            f"GET http://u@h{SESSION}",
            f"GET {SESSION}/\xff",
            "GET //control/v1/info",
            "GET /metrics",
        ),
    ],
)
async def test_a_target_that_is_not_understood_is_answered_by_the_front(
    front: Running, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    status, _ = await raw_answer(front, line.replace("HANDLE", HANDLE).encode("latin-1"))
    assert status in (400, 404, 405), status
    assert front.driver.seen == []
    assert all("Unhandled" not in each.message for each in caplog.records)


async def test_a_path_of_slashes_does_not_hold_the_others_up(front: Running) -> None:
    began = asyncio.get_running_loop().time()
    assert (await raw_answer(front, b"GET " + b"/" * 8_000))[0] == 404
    assert (await raw_answer(front, b"GET /compat" + b"/" * 8_000 + b"x"))[0] == 404
    assert asyncio.get_running_loop().time() - began < 1.0


TARGET_PIECES = st.sampled_from(
    [
        "/",
        "/v1",
        "/compat",
        "/sessions",
        f"/{HANDLE}",
        "/control",
        "/..",
        "%2e",
        "%2f",
        "%0a",
        "%41",
        "//",
        "http://h",
        "?",
        "#",
    ]
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=st.lists(TARGET_PIECES, max_size=8))
async def test_a_target_that_is_passed_on_is_read_alike_by_front_and_driver(front: Running, pieces: list[str]) -> None:
    front.driver.seen.clear()
    raw = "".join(pieces)
    await raw_answer(front, f"GET {raw}".encode())
    for _, passed, *_others in front.driver.seen:
        assert read_target(passed) == read_target(raw)
        assert is_for_clients(read_target(passed).segments)


async def test_requests_without_a_session_are_answered_by_the_front(front: Running) -> None:
    assert (await front.ask("GET", "/info"))[1]["productName"] == "Spark SQL"
    assert (await front.ask("GET", "/v1/api_versions"))[1] == {"versions": ["V1", "V2", "V3", "V4"]}
    assert (await front.ask("GET", "/compat/v1/api_versions"))[1] == {"versions": ["V1", "V2"]}
    assert await front.ask("GET", "/v4/sessions") == (200, {"sessions": []})
    for path in ("/control/v1/info", "/metrics", "/v4/sessions/no-handle", "/anything"):
        assert (await front.ask("GET", path)) == (404, {"errors": [f"Not found: {path}"]})
    assert front.driver.seen == []


async def test_nobody_without_a_token_is_answered(front: Running) -> None:
    for presented in ("Bearer wrong", "Basic wrong", "", TOKEN):
        status, told = await front.ask("GET", "/info", Authorization=presented)
        assert (status, told) == (401, {"errors": ["the cluster does not know this token"]})


async def test_unfinished_bodies_of_a_user_leave_other_users_room() -> None:
    budget = Budget.of(replace(BYTES, each=3 << 20))
    over = asyncio.Event()

    async def unfinished() -> AsyncIterator[bytes]:
        yield bytes(1 << 20)
        await over.wait()

    async with running(budget=budget) as front:
        asks = [
            asyncio.create_task(front.ask("POST", f"/sessions/{HANDLE}/statements", unfinished())) for _ in range(5)
        ]
        status, told = await front.ask("GET", "/info", Authorization=f"Bearer {OTHER_TOKEN}")
        assert status == 200 and told["productName"] == "Spark SQL"
        refused = [answer.result() for answer in (await asyncio.wait(asks, timeout=2))[0]]
        assert [status for status, _ in refused] == [429] * len(refused) and len(refused) >= 2
        assert "your share of 3145728 bytes of requests" in refused[0][1]["errors"][0]
        assert 0 < budget.bytes.taken <= 3 << 20
        over.set()
        await asyncio.gather(*asks)
        assert (budget.bytes.taken, budget.calls.taken) == (0, 0)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        (f"/sessions/{HANDLE}/statements", f"Session '{HANDLE}' does not exist."),
        (f"/v1/sessions/{HANDLE}/heartbeat", f"Session '{HANDLE}' does not exist."),
        ("/control/v1/statements/a", "Not found"),
        ("/v2/sessions/%2e%2e/statements", "an encoded slash"),
    ],
)
async def test_a_request_without_a_right_is_refused_before_its_body(front: Running, path: str, why: str) -> None:
    front.sessions.forbidden = frozenset({USER})
    reader, writer = await asyncio.open_connection("127.0.0.1", front.client.server.port)
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 1000\r\n\r\n"
    writer.write(head.encode())
    async with asyncio.timeout(60):
        answer = await reader.readuntil(b"}")
    assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 400")) and why in answer.decode(), answer
    assert front.driver.seen == []
    writer.transport.abort()


async def test_a_driver_that_answers_too_much_to_an_opening_is_not_read_further(front: Running) -> None:
    front.driver.answer = lambda request, body: web.Response(body=bytes(2 << 20))
    status, told = await front.ask("POST", "/sessions")
    assert status == 503 and "more than 1048576 bytes" in told["errors"][0]


async def test_a_driver_that_drains_is_followed_by_the_next(front: Running) -> None:
    def first_not(request: web.Request, body: bytes) -> web.Response:
        return web.json_response({}, status=503 if len(front.driver.seen) == 1 else 200)

    front.driver.answer = first_not
    assert (await front.ask("POST", "/sessions"))[0] == 200
    assert len(front.driver.seen) == len(front.sessions.asked) == 2


async def test_drivers_that_do_not_serve_the_front_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(FrontLimits(hold_seconds=0.2)) as front:
        front.driver.answer = lambda request, body: web.Response(status=401)
        status, told = await front.ask("GET", f"/sessions/{HANDLE}")
        assert status == 409 and "spec.restartNonce" in told["errors"][0]
        monkeypatch.setattr(driver_http, "GATEWAY_PORT", 1)
        for method, path in (("GET", f"/sessions/{HANDLE}"), ("POST", "/sessions")):
            status, told = await front.ask(method, path)
            assert status == 503 and "does not answer" in told["errors"][0]


def call(name: str, argument: Any) -> bytes:
    return header(name, TMessageType.CALL, 7) + field_header(TType.STRUCT, 1) + encode(argument) + STOP


def reply(name: str, result: Any) -> bytes:
    return header(name, TMessageType.REPLY, 7) + field_header(TType.STRUCT, 0) + encode(result) + STOP


async def by_http(front: Running, message: bytes) -> tuple[int, bytes]:
    login = base64.b64encode(f"ada:{TOKEN}".encode()).decode()
    headers = {"Authorization": f"Basic {login}", "Content-Type": "application/x-thrift"}
    async with front.client.post("/cliservice", data=message, headers=headers) as answer:
        return answer.status, await answer.read()


async def test_a_thrift_session_is_opened_by_http(front: Running) -> None:
    opened = reply("OpenSession", m.TOpenSessionResp())
    front.driver.answer = lambda request, body: web.Response(body=opened)
    request = m.TOpenSessionReq(9, "somebody", {"use:database": "team-a/main/sales"})
    assert await by_http(front, call("OpenSession", request)) == (200, opened)
    [(_, path, body, authorization, user)] = front.driver.seen
    assert (path, authorization, user) == ("/cliservice", f"Bearer {FRONT_TOKEN}", "ada%40example.com")
    reader = Reader(body)
    assert reader.header()[0] == "OpenSession"
    assert reader.argument(m.TOpenSessionReq) == m.TOpenSessionReq(9, USER, {"use:database": "sales"})
    assert front.sessions.asked == [Asked("team-a", "main")]


@pytest.mark.parametrize("name", ["ExecuteStatement", "FetchResults", "CloseSession", "AnyOther"])
async def test_a_thrift_call_finds_its_driver_by_its_handle(front: Running, name: str) -> None:
    front.driver.answer = lambda request, body: web.Response(body=b"as it is")
    known, unknown = (
        m.TSessionHandle(m.THandleIdentifier(uuid.UUID(each).bytes, b"s")) for each in (HANDLE, str(uuid.uuid4()))
    )
    message = call(name, m.SessionRequest(known))
    assert await by_http(front, message) == (200, b"as it is")
    assert front.driver.seen[0][2] == message
    status, refused = await by_http(front, call(name, m.SessionRequest(unknown)))
    reader = Reader(refused)
    assert status == 200 and reader.header()[0] == name
    told = reader.result(m.StatusResponse).status
    assert (told.status_code, told.sql_state) == (3, "08003")


PATHS = st.lists(
    st.sampled_from(["", "v1", "v4", "compat", "sessions", HANDLE, "info", "cliservice", "..", "%2e", "ü"]), max_size=6
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    method=st.sampled_from(["GET", "POST", "DELETE", "PUT"]), path=PATHS, body=st.binary(max_size=200),
    nested=st.booleans(),
)  # fmt: skip
async def test_odd_requests_are_answered(method: str, path: list[str], body: bytes, nested: bool) -> None:
    async with running() as front:
        data = b'{"properties": {"sparksql.session": ' + b"[" * 50_000 if nested else body
        async with front.client.request(method, "/" + "/".join(path).lstrip("/"), data=data, headers=AS_USER) as answer:
            assert answer.status in (200, 400, 404, 405), (answer.status, await answer.text())


def test_certificate_of_these_tests_is_trusted_by_itself_alone() -> None:
    assert ssl_context(CERTIFICATE).get_ca_certs()
