"""Texts that take long to be read: refused by their bounds or given up, and others of the session go on meanwhile."""

from __future__ import annotations

import asyncio
import zipfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from sparksql.api.execution import StatementMode
from sparksql.gateway.sql.text_bounds import MAX_MARKERS, MAX_NESTING, MAX_PARAMETERS
from sparksql.wire.control import ErrorReason, OperationState, Parameter
from tests.support.client_session import open_rest, rest_http
from tests.support.connect_client import ConnectSession, Failed, connect_channel
from tests.support.ports import free_port
from tests.support.process import GatewayProcess, running
from tests.support.thorough import thorough_but
from tests.support.thrift_client import ThriftClient

from .client import GatewayClient, connect
from .test_thrift_frontend import Session

# What was read for minutes, or ended the reading thread's stack.
TOO_MUCH = {
    "parentheses": "SELECT " + "(" * 10_000 + "1" + ")" * 10_000,
    "unions": "SELECT 1" + " UNION SELECT 1" * 20_000,
    "cases": "SELECT " + "CASE WHEN id = 1 THEN 1 ELSE " * 5_000 + "0" + " END" * 5_000,
    "types": "SELECT CAST(NULL AS " + "ARRAY<" * 5_000 + "INT" + ">" * 5_000 + ")",
    "comments": "/*" * 2_000 + "*/" * 2_000 + " SELECT 1",
    "queries": "SELECT * FROM (" * 2_000 + "SELECT 1" + ")" * 2_000,
    "markers": "SELECT " + ", ".join([":p"] * 60_000),
}
# At the bounds: whatever Spark says of it, it says it soon.
AT_THE_BOUNDS = {
    "parentheses": "SELECT " + "(" * MAX_NESTING + "1" + ")" * MAX_NESTING,
    "cases": "SELECT " + "CASE WHEN 1 = 1 THEN 1 ELSE " * MAX_NESTING + "0" + " END" * MAX_NESTING,
    "types": "SELECT CAST(NULL AS " + "STRUCT<a:" * MAX_NESTING + "INT" + ">" * MAX_NESTING + ")",
    "signs": "SELECT " + "- " * 50_000 + "1",
    "unions": "SELECT 1 AS a" + " UNION ALL SELECT 1" * 200,
    "unions that Spark optimises for a minute": "SELECT 1 AS a" + " UNION ALL SELECT 1" * 900,
    "open": "SELECT " + "(" * MAX_NESTING + "1",
}
LONG = {"unions that Spark optimises for a minute"}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    folder = tmp_path_factory.mktemp("reading")
    (folder / "jars").mkdir()
    with running(
        folder,
        policy={"jarPrefixes": [f"file://{folder}/jars/"]},
        endpoints={"connect": True, "connect_port": free_port(), "thrift": True, "thrift_port": free_port()},
    ) as started:
        yield started


@pytest.fixture
async def client(gateway: GatewayProcess) -> AsyncIterator[GatewayClient]:
    async with connect(gateway) as connected:
        await connected.until_started()
        yield connected


@pytest.mark.parametrize("shape", TOO_MUCH)
async def test_a_statement_beyond_the_parsing_bounds_is_refused_unread(client: GatewayClient, shape: str) -> None:
    ended = await client.run(TOO_MUCH[shape], parameters=(Parameter(name="p", value="1"),) * (shape == "markers"))
    assert ended.state is OperationState.ERROR
    assert ended.error is not None and ended.error.reason is ErrorReason.LIMIT_EXCEEDED, ended
    assert "more than" in ended.error.message  # by the look, which is linear: a text that was read for long is told so


async def test_parameters_have_a_bound(client: GatewayClient) -> None:
    names = [f"p{number}" for number in range(20_000)]
    sql = "SELECT " + ", ".join(f":{name}" for name in names[: MAX_MARKERS - 1])
    ended = await client.run(sql, parameters=tuple(Parameter(name=name, value="1") for name in names))
    assert ended.error is not None and ended.error.reason is ErrorReason.LIMIT_EXCEEDED, ended
    assert str(MAX_PARAMETERS) in ended.error.message


@pytest.mark.parametrize("mode", [StatementMode.VALIDATE, StatementMode.EXPLAIN])
async def test_validate_and_explain_have_the_same_parsing_bounds_as_execution(
    client: GatewayClient, mode: StatementMode
) -> None:
    ended = await client.run(TOO_MUCH["parentheses"], mode=mode)
    assert ended.error is not None and ended.error.reason is ErrorReason.LIMIT_EXCEEDED, ended


async def test_a_text_within_a_text_has_the_same_bounds(client: GatewayClient) -> None:
    ended = await client.run(f"EXECUTE IMMEDIATE '{TOO_MUCH['cases']}'")
    assert ended.error is not None and ended.error.reason is ErrorReason.LIMIT_EXCEEDED, ended


async def test_every_protocol_has_the_same_bounds(client: GatewayClient) -> None:
    sql = TOO_MUCH["parentheses"]
    async with rest_http(client.gateway) as http:
        session = await open_rest(http)
        assert "levels of parentheses" in await session.error(sql)
        await session.close()
    connection = await asyncio.to_thread(ThriftClient, thrift_port(client.gateway), client.gateway.client_tls())
    opened = await asyncio.to_thread(Session, connection)
    answer = await asyncio.to_thread(opened.execute, sql)
    assert "levels of parentheses" in str(answer), answer
    connection.socket.close()
    async with connect_channel(client.gateway) as channel:
        connected = ConnectSession(channel)
        with pytest.raises(Failed, match="levels of parentheses"):
            await connected.rows(sql)
        await connected.close()


def thrift_port(gateway: GatewayProcess) -> int:
    from sparksql.wire.driver import CONFIG_FILE, DriverConfig

    return DriverConfig.model_validate_json((gateway.folder / "config" / CONFIG_FILE).read_text()).endpoints.thrift_port


@pytest.mark.parametrize("shape", thorough_but(AT_THE_BOUNDS.keys() - LONG, AT_THE_BOUNDS))
async def test_a_small_query_ends_while_statements_at_the_parsing_bounds_are_parsed(
    client: GatewayClient, shape: str
) -> None:
    heavy = [asyncio.create_task(client.run(AT_THE_BOUNDS[shape])) for _ in range(2)]
    # Two threads read; a third text waits for one of them, at most as long as the worst text within the bounds takes.
    await client.ok("SELECT sum(id) FROM range(3)")
    ended = await asyncio.gather(*heavy)
    for view in ended:  # and what Spark's own stack is too small for is told so
        assert view.error is None or "StackOverflow" not in view.error.message, view
        assert view.error is None or view.error.message, view


@pytest.mark.thorough
async def test_long_statements_as_tools_generate_them_are_parsed_and_run(client: GatewayClient) -> None:
    values = ", ".join(map(str, range(100_000)))
    assert await client.rows(f"SELECT count(*) FROM range(10) WHERE id IN ({values})") == [(10,)]
    terms = " AND ".join(f"id <> {number}" for number in range(10, 1_510))
    assert await client.rows(f"SELECT count(*) FROM range(3) WHERE {terms}") == [(3,)]
    assert (await client.ok("SELECT 1;" * 500)).statement_type == "SCRIPT"


async def test_a_cancel_ends_a_statement_that_is_being_read(client: GatewayClient) -> None:
    text = "SELECT 1 FROM range(1)" + " LATERAL VIEW explode(array(1)) t AS x" * 12_000
    reading = asyncio.create_task(client.put(text, "7a0e2f9e-33b4-4d9f-8a55-1f9b7c3fd001"))
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        while (await client.http.get("/control/v1/statements/7a0e2f9e-33b4-4d9f-8a55-1f9b7c3fd001")).status != 200:
            await asyncio.sleep(0.02)
    ended = await client.cancel("7a0e2f9e-33b4-4d9f-8a55-1f9b7c3fd001")
    assert ended.state is OperationState.CANCELED, ended
    assert ended.start_time is None, "it has been read"
    await client.ok("SELECT 1")
    await reading


RESOURCES = {
    "ADD JAR '{folder}/missing.jar'": "missing.jar",
    "ADD FILE '{folder}/missing.txt'": "missing.txt",
    "ADD ARCHIVE '{folder}/missing.zip'": "missing.zip",
    "ADD JARS '{folder}/there.jar' '{folder}/missing.jar'": "missing.jar",
    "ADD JAR '{folder}/folder'": "is a folder",
    "CREATE FUNCTION f AS 'a.B' USING JAR '{folder}/missing.jar'": "missing.jar",
    "CREATE TEMPORARY FUNCTION f AS 'a.B' USING JAR '{folder}/missing.jar'": "missing.jar",
    "EXECUTE IMMEDIATE 'ADD JAR \"{folder}/missing.jar\"'": "missing.jar",
}


@pytest.fixture
def jars(gateway: GatewayProcess) -> Path:
    folder = gateway.folder / "jars"
    (folder / "folder").mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / "there.jar", "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
    return folder


@pytest.mark.parametrize("template", RESOURCES)
async def test_a_file_that_is_not_there_is_an_error(client: GatewayClient, jars: Path, template: str) -> None:
    sql = template.format(folder=f"file://{jars}")
    ended = await client.run(sql)
    assert ended.state is OperationState.ERROR, ended
    assert ended.error is not None and ended.error.condition == "PATH_NOT_FOUND", ended
    assert RESOURCES[template] in ended.error.message
    async with connect_channel(client.gateway) as channel:
        connected = ConnectSession(channel)
        with pytest.raises(Failed, match=RESOURCES[template]):
            await connected.sql(sql)
        await connected.close()
    assert await client.rows("LIST JARS") == []


async def test_a_jar_that_is_there_is_added(client: GatewayClient, jars: Path) -> None:
    async with rest_http(client.gateway) as http:
        session = await open_rest(http)
        await session.rows(f"ADD JAR 'file://{jars}/there.jar'")
        assert "there.jar" in str(await session.rows("LIST JARS"))
        await session.close()
