"""One gateway with real Spark for most tests; a test that needs another start makes its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from .client import GatewayClient, connect
from .process import GatewayProcess, driver_config, start_gateway, wait_until_listening


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    folder = tmp_path_factory.mktemp("gateway")
    config = driver_config(
        folder,
        policy={
            "confAllow": ["spark.sql.*", "my.*"],
            "enforcedConf": {"spark.sql.ansi.enabled": "true"},
            "jarPrefixes": ["s3a://trusted/jars/"],
        },
    )
    started = start_gateway(folder, config)
    try:
        wait_until_listening(started)
        yield started
    finally:
        started.stop()


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
