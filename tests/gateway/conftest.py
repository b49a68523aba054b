"""One gateway with real Spark for most tests; a test that needs another start makes its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from tests.support.default_class import running_as_default_class
from tests.support.ports import free_port
from tests.support.process import GatewayProcess, driver_config, start_gateway, wait_until_listening

from .client import GatewayClient, connect
from .connectors import running_with_connectors
from .rest_client import RestClient, connect_rest
from .streams import Streams


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """As the chart's default class makes it, with all protocols, and a temporary view that clients see on request."""
    with running_as_default_class(
        tmp_path_factory.mktemp("gateway"),
        policy={
            "confAllow": ["spark.sql.*", "my.*"],
            "enforcedConf": {"spark.sql.ansi.enabled": "true"},
            "jarPrefixes": ["s3a://trusted/jars/"],
        },
        endpoints={"connect": True, "connect_port": free_port(), "thrift": True, "thrift_port": free_port()},
        init=[{"sql": "CREATE TEMPORARY VIEW shared AS SELECT 7 AS n", "origin": "init[0].sql"}],
    ) as started:
        yield started


@pytest.fixture(scope="session")
def connected_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """With connectors, see there. Tests of a module whose `gateway` is this one share its Spark with those of others."""
    with running_with_connectors(tmp_path_factory.mktemp("connected")) as started:
        yield started


@pytest.fixture
async def client(gateway: GatewayProcess) -> AsyncIterator[GatewayClient]:
    async with connect(gateway) as connected:
        await connected.until_started()
        yield connected


@pytest.fixture
async def rest(gateway: GatewayProcess, client: GatewayClient) -> AsyncIterator[RestClient]:
    async with connect_rest(gateway) as connected:
        yield connected


@pytest.fixture
def own_gateway(tmp_path: Path) -> Iterator[Callable[..., GatewayProcess]]:
    """Starts further gateways, with changed configuration, which end with the test. `optimised` as in `running`."""
    started: list[GatewayProcess] = []

    def start(optimised: bool = False, **changes: object) -> GatewayProcess:
        folder = tmp_path / f"gateway-{len(started)}"
        folder.mkdir()
        process = start_gateway(folder, driver_config(folder, optimised, **changes), optimised)
        started.append(process)
        wait_until_listening(process)
        return process

    yield start
    for process in started:
        process.stop()


@pytest.fixture
async def streams(client: GatewayClient, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Streams]:
    database = f"s{abs(hash(request.node.nodeid)) % 10**9}"
    made = Streams(client, tmp_path, database)
    await client.ok(f"CREATE DATABASE {database}")
    await made.ok(
        "CREATE TABLE $.src (id INT, name STRING, ts TIMESTAMP) USING parquet",
        "INSERT INTO $.src VALUES (1, 'a', TIMESTAMP '2026-01-01 00:00:01'), (2, 'b', TIMESTAMP '2026-01-01 00:00:05')",
    )
    yield made
    for operation_id in made.started:
        await client.cancel(operation_id)
    await asyncio.gather(*(client.until(each, lambda view: view.state.is_terminal) for each in made.started))
    await client.ok(f"DROP DATABASE {database} CASCADE")
