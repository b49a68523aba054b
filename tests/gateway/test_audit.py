"""What is written of statements, whichever way they come: each state in the audit log, each end in the metrics, never the SQL."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sparksql.protocols.hiveserver2 import messages as m
from sparksql.wire.driver import CONFIG_FILE, DriverConfig
from tests.support.connect_client import ConnectSession, Failed, connect_channel, sql_relation, until
from tests.support.process import GatewayProcess
from tests.support.thrift_client import ThriftClient

from .client import GatewayClient
from .rest_client import connect_rest

GOOD = "SELECT '{}' AS a FROM range(1)"
BAD = "SELECT raise_error('{}') FROM range(1)"


async def by_manifest(gateway: GatewayProcess, client: GatewayClient, sql: str) -> None:
    await client.run(sql)


async def by_rest(gateway: GatewayProcess, client: GatewayClient, sql: str) -> None:
    async with connect_rest(gateway) as rest, rest.session(name="auditor") as session:
        await session.until(await session.submit(sql), "FINISHED", "ERROR")


async def by_thrift(gateway: GatewayProcess, client: GatewayClient, sql: str) -> None:
    config = DriverConfig.model_validate_json((gateway.folder / "config" / CONFIG_FILE).read_text())

    def ask() -> None:
        with ThriftClient(config.endpoints.thrift_port, gateway.client_tls()) as thrift:
            opened = thrift.call("OpenSession", m.TOpenSessionReq(9, "auditor", {}))[3]
            handle = m.TSessionHandle(m.THandleIdentifier(opened[1][1], opened[1][2]))
            thrift.call("ExecuteStatement", m.TExecuteStatementReq(handle, sql))

    await asyncio.to_thread(ask)


async def by_connect(gateway: GatewayProcess, client: GatewayClient, sql: str) -> None:
    async with connect_channel(gateway) as channel:
        session = ConnectSession(channel, user="auditor")
        with contextlib.suppress(*((Failed,) if "raise_error" in sql else ())):
            await session.execute(root=sql_relation(sql))
        await session.close()


WAYS: dict[str, Callable[[GatewayProcess, GatewayClient, str], Awaitable[None]]] = {
    "": by_manifest,
    "rest": by_rest,
    "thrift": by_thrift,
    "connect": by_connect,
}


@pytest.fixture
def log(gateway: GatewayProcess) -> Callable[[], str]:
    """What the gateway has written since the test began."""
    begin = (gateway.folder / "log").stat().st_size
    return lambda: (gateway.folder / "log").read_bytes()[begin:].decode(errors="replace")


async def ended(client: GatewayClient, protocol: str, state: str) -> float:
    async with client.http.get("/metrics") as response:
        lines = (await response.text()).splitlines()
    counts = re.compile(
        rf'sparksql_gateway_statements_ended_total{{door="{protocol}",protocol="{protocol}",.*state="{state}"'
    )
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if counts.match(line))


@pytest.mark.parametrize(("text", "last"), [(GOOD, "FINISHED"), (BAD, "ERROR")], ids=["finished", "error"])
@pytest.mark.parametrize("protocol", WAYS, ids=lambda protocol: protocol or "manifest")
async def test_every_statement_is_written_down_and_counted(
    gateway: GatewayProcess, client: GatewayClient, log: Callable[[], str], protocol: str, text: str, last: str
) -> None:
    literal = f"nobody-may-log-{uuid.uuid4().hex}"  # Spark may still write of the task of an earlier test that failed
    before = await ended(client, protocol, last.capitalize())
    await WAYS[protocol](gateway, client, text.format(literal))

    def entries() -> list[dict[str, Any]]:
        audited = [json.loads(line) for line in log().splitlines() if '"event": "statement"' in line]
        return [entry for entry in audited if entry.get("protocol", "") == protocol]

    async def is_written() -> bool:
        return any(entry["state"].upper() == last for entry in entries())

    await until("the end is in the audit log", is_written)
    last_id = next(entry["operation_id"] for entry in reversed(entries()) if entry["state"].upper() == last)
    way = [entry["state"].upper() for entry in entries() if entry["operation_id"] == last_id]
    assert way == ["PENDING", "RUNNING", last]
    assert all(("session" in entry) == bool(protocol) for entry in entries())
    assert all(entry.get("door", "") == protocol for entry in entries())  # its name in earlier versions
    if last == "ERROR":
        assert entries()[-1]["reason"] == "USER_RAISED_EXCEPTION"
    assert await ended(client, protocol, last.capitalize()) == before + 1
    # Spark warns of a task that failed with the text of its error, which may name values.
    ours = [line for line in log().splitlines() if last == "FINISHED" or line.startswith("{")]
    assert not [line for line in ours if literal in line]
