"""Requests that the front makes for its users: whose they are is told and kept apart, and they are for clients only."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import aiohttp
import pytest

from sparksql.protocols.hiveserver2 import messages as m
from sparksql.protocols.hiveserver2.codec import STOP, Reader, TMessageType, TType, encode, field_header, header
from sparksql.wire.driver import CONFIG_FILE, DriverConfig
from sparksql.wire.front import (
    HANDLE_HEADER,
    USER_HEADER,
    handle_prefix,
    prefix_of,
    promise_age,
    promised_handle,
    promised_handle_beside,
    written_user,
)
from tests.attack.malformed import send
from tests.support.connect_client import ConnectSession, connect_channel
from tests.support.process import FRONT_TOKEN, TOKEN, GatewayProcess
from tests.support.thrift_client import Refused, ThriftClient, rows_of

from .client import GatewayClient

ADA, BOB = "ada@example.com", "system:serviceaccount:team-b:bob"


class AsUser:
    """Requests to the REST API as the front makes them."""

    def __init__(self, http: aiohttp.ClientSession, gateway: GatewayProcess, user: str | None, token: str) -> None:
        self._http = http
        self._base = f"https://localhost:{gateway.port}"
        self._tls = gateway.client_tls()
        self._headers = {"Authorization": f"Bearer {token}"}
        if user is not None:
            self._headers[USER_HEADER] = written_user(user)

    async def ask(self, method: str, path: str, body: Any = None, promised: str | None = None) -> tuple[int, Any]:
        headers = self._headers if promised is None else {**self._headers, HANDLE_HEADER: promised}
        request = self._http.request(method, self._base + path, json=body, headers=headers, ssl=self._tls or False)
        async with request as answer:
            text = await answer.text()
            return answer.status, json.loads(text) if text.startswith(("{", "[")) else text

    async def value(self, session: str, sql: str) -> Any:
        _, asked = await self.ask("POST", f"/v4/sessions/{session}/statements", {"statement": sql})
        path = f"/v4/sessions/{session}/operations/{asked['operationHandle']}"
        while (page := (await self.ask("GET", f"{path}/result/0?rowFormat=JSON"))[1]).get("resultType") == "NOT_READY":
            await asyncio.sleep(0.05)
        return page["results"]["data"][0]["fields"][0]


def config_of(gateway: GatewayProcess) -> DriverConfig:
    return DriverConfig.model_validate_json((gateway.folder / "config" / CONFIG_FILE).read_text())


async def shown_by(client: GatewayClient) -> list[dict[str, Any]]:
    async with client.http.get("/control/v1/clients") as answer:
        found: list[dict[str, Any]] = (await answer.json())["sessions"]
    return found


@pytest.fixture
def log_of(gateway: GatewayProcess) -> Any:
    begin = (gateway.folder / "log").stat().st_size
    return lambda: (gateway.folder / "log").read_bytes()[begin:].decode(errors="replace")


async def test_a_session_is_its_users_and_nobody_elses(
    gateway: GatewayProcess, client: GatewayClient, log_of: Any
) -> None:
    async with aiohttp.ClientSession() as http:
        ada, bob = (AsUser(http, gateway, user, FRONT_TOKEN) for user in (ADA, BOB))
        direct = AsUser(http, gateway, BOB, TOKEN)  # who has the token is not believed to be anybody
        _, opened = await ada.ask("POST", "/v4/sessions", {})
        session = opened["sessionHandle"]
        assert prefix_of(session) == handle_prefix(config_of(gateway).session_uid)
        assert await ada.value(session, "SELECT current_user()") == ADA
        assert await ada.value(session, "SELECT session_user() FROM range(1)") == ADA
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/heartbeat")):
            status, told = await bob.ask(method, f"/v4/sessions/{session}{path}")
            assert status == 500 and f"Session '{session}' does not exist." in told["errors"][-1], told
        listed = (await bob.ask("GET", "/v4/sessions"))[1]["sessions"]
        assert session not in {each["sessionHandle"] for each in listed}
        assert (await direct.ask("GET", f"/v4/sessions/{session}"))[0] == 200
        _, other = await direct.ask("POST", "/v4/sessions", {})
        assert await direct.value(other["sessionHandle"], "SELECT current_user()") not in (ADA, BOB)
        [shown] = [each for each in await shown_by(client) if each["handle"] == session]
        assert shown["user"] == ADA
        assert (await ada.ask("DELETE", f"/v4/sessions/{session}"))[0] == 200
        await direct.ask("DELETE", f"/v4/sessions/{other['sessionHandle']}")
    lines = [json.loads(line) for line in log_of().splitlines() if f'"session": "{session}"' in line]
    assert lines and {line["user"] for line in lines} == {ADA}, lines


async def test_a_request_in_another_users_session_is_refused_before_its_body(gateway: GatewayProcess) -> None:
    async with aiohttp.ClientSession() as http:
        ada = AsUser(http, gateway, ADA, FRONT_TOKEN)
        _, opened = await ada.ask("POST", "/v4/sessions", {})
        session = opened["sessionHandle"]
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", gateway.port, ssl=gateway.client_tls(), server_hostname="localhost"
        )
        head = (
            f"POST /v4/sessions/{session}/statements HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {FRONT_TOKEN}\r\n"
            f"{USER_HEADER}: {written_user(BOB)}\r\nContent-Length: 1000\r\n\r\n"
        )
        writer.write(head.encode())
        async with asyncio.timeout(120):
            answer = (await reader.readuntil(b"}")).decode()
        assert answer.startswith("HTTP/1.1 500") and f"Session '{session}' does not exist." in answer, answer
        writer.transport.abort()
        await ada.ask("DELETE", f"/v4/sessions/{session}")


async def test_the_front_reaches_paths_of_clients_only(gateway: GatewayProcess, client: GatewayClient) -> None:
    async with aiohttp.ClientSession() as http:
        ada, nobody = AsUser(http, gateway, ADA, FRONT_TOKEN), AsUser(http, gateway, None, FRONT_TOKEN)
        for path in ("/control/v1/info", "/control/v1/clients", "/control/v1/session-state", "/metrics"):
            assert (await ada.ask("GET", path))[0] == 403, path
            assert (await nobody.ask("GET", path))[0] == 401, path
        assert (await nobody.ask("POST", "/v4/sessions", {}))[0] == 401


async def test_handles_that_the_front_has_promised_are_kept_or_say_why_not(
    gateway: GatewayProcess, client: GatewayClient
) -> None:
    uid = config_of(gateway).session_uid
    session, refused = promised_handle(uid, 1), promised_handle(uid, 1)
    async with aiohttp.ClientSession() as http:
        ada, bob, direct = (
            AsUser(http, gateway, user, token)
            for user, token in ((ADA, FRONT_TOKEN), (BOB, FRONT_TOKEN), (None, TOKEN))
        )
        for _ in range(2):  # a repetition opens no second one
            assert await ada.ask("POST", "/v4/sessions", {}, session) == (200, {"sessionHandle": session})
        operation, path = promised_handle_beside(session, 1), f"/v4/sessions/{session}"
        for _ in range(2):
            asked = await ada.ask("POST", f"{path}/statements", {"statement": "SELECT 7"}, operation)
            assert asked == (200, {"operationHandle": operation})
        while (page := (await ada.ask("GET", f"{path}/operations/{operation}/result/0"))[1])[
            "resultType"
        ] == "NOT_READY":
            await asyncio.sleep(0.05)
        assert page["results"]["data"][0]["fields"] == [7]
        # One that stands for nothing says so to whom it was promised.
        body = {"properties": {"spark.driver.memory": "100g"}}
        assert (await ada.ask("POST", "/v4/sessions", body, refused))[0] == 403
        status, told = await ada.ask("GET", f"/v4/sessions/{refused}/operations/{operation}/status")
        assert status == 403 and "spark.driver.memory" in told["errors"][-1], told
        assert "does not exist" in (await bob.ask("GET", f"/v4/sessions/{refused}"))[1]["errors"][-1]
        jar = promised_handle(uid, 1)
        await ada.ask("POST", "/v4/sessions", {"jars": ["file:///no.jar"]}, jar)
        assert "file:///no.jar" in (await ada.ask("GET", f"/v4/sessions/{jar}"))[1]["errors"][-1]
        # Only of this driver, and only from the front.
        assert (await ada.ask("POST", "/v4/sessions", {}, promised_handle("another", 1)))[0] == 400
        assert (await bob.ask("POST", "/v4/sessions", {}, session))[0] == 500
        own = (await direct.ask("POST", "/v4/sessions", {}, promised_handle(uid, 1)))[1]["sessionHandle"]
        assert promise_age(own, 1) is None
        for handle in (session, own):
            await direct.ask("DELETE", f"/v4/sessions/{handle}")


async def test_users_of_connect_do_not_meet_by_the_same_session_id(
    gateway: GatewayProcess, client: GatewayClient
) -> None:
    async with connect_channel(gateway) as channel:
        claimed = {USER_HEADER: written_user(ADA)}
        ada = ConnectSession(channel, user="anybody", token=FRONT_TOKEN, headers=claimed)
        bob = ConnectSession(channel, user="anybody", token=FRONT_TOKEN, session_id=ada.session_id)
        bob.headers = {USER_HEADER: written_user(BOB)}
        await ada.rows("SET spark.sql.shuffle.partitions=3")
        for sql in ("SELECT current_user()", "SELECT session_user() FROM range(2) LIMIT 1"):
            assert (await ada.rows(sql), await bob.rows(sql)) == ([(ADA,)], [(BOB,)])
        assert ("spark.sql.shuffle.partitions", "3") not in await bob.rows("SET spark.sql.shuffle.partitions")
        shown = {each.get("user") for each in await shown_by(client) if each["door"] == "connect"}
        assert {ADA, BOB} <= shown
        await ada.close()
        assert await bob.rows("SELECT 2") == [(2,)]
        await bob.close()


async def test_a_user_of_hives_clients_is_the_one_the_front_says(
    gateway: GatewayProcess, client: GatewayClient
) -> None:
    port = config_of(gateway).endpoints.thrift_port

    def ask(user: str, token: str) -> bytes:
        with ThriftClient(port, gateway.client_tls(), token, user) as thrift:
            opened = thrift.call("OpenSession", m.TOpenSessionReq(9, "somebody else", {}))[3]
            session = m.TSessionHandle(m.THandleIdentifier(opened[1][1], opened[1][2]))
            ran = thrift.call("ExecuteStatement", m.TExecuteStatementReq(session, "SELECT current_user()"))
            operation = m.TOperationHandle(m.THandleIdentifier(ran[2][1][1], ran[2][1][2]), ran[2][2])
            ((value,),) = rows_of(thrift.call("FetchResults", m.TFetchResultsReq(operation, max_rows=2)))
            return bytes(value)

    assert await asyncio.to_thread(ask, BOB, FRONT_TOKEN) == BOB.encode()
    assert await asyncio.to_thread(ask, BOB, TOKEN) != BOB.encode()
    with pytest.raises(Refused):
        await asyncio.to_thread(ask, "", FRONT_TOKEN)


def call(name: str, argument: Any) -> bytes:
    return header(name, TMessageType.CALL, 1) + field_header(TType.STRUCT, 1) + encode(argument) + STOP


@pytest.mark.parametrize("scheme", ["Basic", "Bearer"])
async def test_hives_messages_come_by_http_one_by_one(
    gateway: GatewayProcess, client: GatewayClient, scheme: str
) -> None:
    presented = base64.b64encode(f"ada:{TOKEN}".encode()).decode() if scheme == "Basic" else TOKEN
    async with aiohttp.ClientSession(headers={"Authorization": f"{scheme} {presented}"}) as http:

        async def send(name: str, argument: Any, result: Any) -> Any:
            url = f"https://localhost:{gateway.port}/cliservice"
            async with http.post(url, data=call(name, argument), ssl=gateway.client_tls() or False) as answer:
                assert answer.status == 200 and answer.content_type == "application/x-thrift"
                reader = Reader(await answer.read())
                assert reader.header()[0] == name
                return reader.result(result)

        session = (await send("OpenSession", m.TOpenSessionReq(9), m.TOpenSessionResp)).session_handle
        ran = await send("ExecuteStatement", m.TExecuteStatementReq(session, "SELECT 7"), m.OperationResponse)
        guid = ran.operation_handle.operation_id.guid.hex()
        assert prefix_of(guid) == handle_prefix(config_of(gateway).session_uid)
        fetched = await send("FetchResults", m.TFetchResultsReq(ran.operation_handle, max_rows=5), m.StatusResponse)
        assert fetched.status.status_code == 0
        assert (await send("CloseSession", m.SessionRequest(session), m.StatusResponse)).status.status_code == 0
        gone = await send("ExecuteStatement", m.TExecuteStatementReq(session, "SELECT 7"), m.OperationResponse)
        assert "Invalid SessionHandle" in gone.status.error_message
        async with http.post(
            f"https://localhost:{gateway.port}/cliservice", data=b"no message", ssl=gateway.client_tls() or False
        ) as answer:
            assert answer.status == 400


@pytest.mark.parametrize(
    "target",
    [
        *(
            "/control/v1/info",
            "//control/v1/info",
            "/control/v1/info%0A",
            "/%63ontrol/v1/info",
            "/metrics",
            "/metrics%0A",
        ),
        *(
            "http://h/control/v1/info",
            "/sessions/../control/v1/info",
            "/sessions/%2e%2e/metrics",
            "/sessions%2F..%2Fmetrics",
        ),
        *("/control%2Fv1/info", "/control/v1/clients?x=1", "*", "/anything", "/control"),
    ],
)
async def test_the_front_gets_no_path_but_those_of_clients(gateway: GatewayProcess, log_of: Any, target: str) -> None:
    def ask() -> bytes:
        lines = (f"GET {target} HTTP/1.1", "Host: h", "Connection: close", f"Authorization: Bearer {FRONT_TOKEN}")
        request = "\r\n".join([*lines, f"{USER_HEADER}: ada", "", ""]).encode()
        return send("localhost", gateway.port, request, gateway.client_tls())

    status = int((await asyncio.to_thread(ask)).split()[1])
    assert status in (400, 403, 404), status
    assert "Traceback" not in log_of()


async def test_a_driver_serves_a_target_in_absolute_form(gateway: GatewayProcess) -> None:
    request = f"GET http://any/v4/info HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
    answer = await asyncio.to_thread(send, "localhost", gateway.port, request, gateway.client_tls())
    assert answer.split()[1] == b"200"
