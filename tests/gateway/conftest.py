"""One gateway with real Spark for most tests; a test that needs another start makes its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from .client import GatewayClient, connect
from .process import GatewayProcess, driver_config, free_port, running, start_gateway, wait_until_listening


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """With all doors, and a temporary view that clients see on request."""
    with running(
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


@pytest.fixture
async def client(gateway: GatewayProcess) -> AsyncIterator[GatewayClient]:
    async with connect(gateway) as connected:
        await connected.until_started()
        yield connected


@pytest.fixture
def own_gateway(tmp_path: Path) -> Iterator[Callable[..., GatewayProcess]]:
    """Starts further gateways, with changed configuration, which end with the test."""
    started: list[GatewayProcess] = []

    def start(**changes: object) -> GatewayProcess:
        folder = tmp_path / f"gateway-{len(started)}"
        folder.mkdir()
        process = start_gateway(folder, driver_config(folder, **changes))
        started.append(process)
        wait_until_listening(process)
        return process

    yield start
    for process in started:
        process.stop()
