"""Frontends by entry points: one of a package beside the gateway's own, and those that cannot serve."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from sparksql.gateway.frontends.frontends import GROUP
from sparksql.wire.control import GatewayState
from tests.support.ports import free_port
from tests.support.process import TOKEN, GatewayProcess

from .client import connect
from .rest_client import connect_rest

PACKAGE = Path(__file__).with_name("line_frontend")
Start = Callable[..., GatewayProcess]


@pytest.fixture
def with_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is installed, as far as a process can tell."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(PACKAGE), os.environ.get("PYTHONPATH", ""))))


def on(*names: str) -> dict[str, Any]:
    return {
        "frontends": [{"name": name, "port": free_port()} for name in names],
        "thrift": True,
        "thrift_port": free_port(),
    }


@asynccontextmanager
async def lines(gateway: GatewayProcess, port: int, token: str = TOKEN) -> AsyncIterator[Callable[[str], Any]]:
    reader, writer = await asyncio.open_connection("localhost", port, ssl=gateway.client_tls())
    writer.write(f"{token}\n".encode())

    async def ask(sql: str) -> Any:
        writer.write(f"{sql}\n".encode())
        return json.loads(await reader.readline())

    yield ask
    writer.close()


def test_the_gateways_own_frontends_are_found_by_entry_points() -> None:
    assert {each.name for each in entry_points(group=GROUP)} >= {"control", "rest", "thrift", "connect"}


@pytest.mark.usefixtures("with_package")
async def test_a_frontend_of_a_package_serves_beside_the_gateways_own(own_gateway: Start) -> None:
    endpoints = on("lines")
    gateway = own_gateway(endpoints=endpoints)
    port = endpoints["frontends"][0]["port"]
    async with connect(gateway) as client, connect_rest(gateway) as rest:
        assert (await client.until_started()).state is GatewayState.READY
        async with lines(gateway, port) as ask:
            assert await ask("SELECT 1 AS a, 'x' AS b") == {"rows": [{"a": 1, "b": "x"}]}
            assert await ask("CREATE TEMPORARY VIEW mine AS SELECT 7 AS n") == {"rows": []}
            assert await ask("SELECT n FROM mine") == {"rows": [{"n": 7}]}
            assert "TABLE_OR_VIEW_NOT_FOUND" in (await ask("SELECT * FROM missing"))["error"]
            sessions = (await rest.call("GET", "/v4/sessions")).body["sessions"]
            assert [(each["protocol"], each["sessionName"]) for each in sessions] == [("lines", "line client")]
            async with client.http.get("/metrics") as response:
                assert 'client_sessions{door="lines",protocol="lines"} 1.0' in await response.text()
        async with lines(gateway, port, token="wrong") as ask:
            assert await ask("SELECT 1") == {"error": "wrong token"}
        assert (await rest.call("GET", "/lines")).body == {"port": port}
        async with connect_rest(gateway, token="wrong") as stranger:
            assert (await stranger.call("GET", "/lines")).status == 401


@pytest.mark.usefixtures("with_package")
@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "nowhere",
            "no entry point nowhere in the group sparksql.frontends (it has: absent, broken, connect, control, ending, lines, rest, thrift)",
        ),
        ("absent", "No module named 'a_module_that_is_not_there'"),
        ("broken", "RuntimeError: it has no licence"),
    ],
)
async def test_a_frontend_that_cannot_serve_is_told_by_its_name(own_gateway: Start, name: str, told: str) -> None:
    async with connect(own_gateway(endpoints=on("lines", name))) as client:
        info = await client.until_started()
    assert info.state is GatewayState.INIT_FAILED
    assert info.init_failure is not None
    assert (info.init_failure.frontend, told in info.init_failure.error.message) == (name, True), info.init_failure


@pytest.mark.usefixtures("with_package")
@pytest.mark.parametrize("what", ["context", "scheduler"])
async def test_process_whose_spark_has_ended_within_a_living_jvm_ends_with_an_error(
    own_gateway: Start, what: str
) -> None:
    options = on("ending")
    gateway = own_gateway(endpoints=options)
    async with connect(gateway) as client:
        started = await client.until_started()
        assert started.state is GatewayState.READY, started.init_failure
        _, writer = await asyncio.open_connection(
            "localhost", options["frontends"][0]["port"], ssl=gateway.client_tls()
        )
        writer.write(f"{what}\n".encode())
        await writer.drain()
        assert await asyncio.to_thread(gateway.wait, 90) == 1
        writer.close()
    assert "Spark's context has stopped" in gateway.log_tail()
