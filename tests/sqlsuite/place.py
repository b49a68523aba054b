"""The driver that the suite runs in: a gateway as the chart's default class makes it, started again when it has died."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from tests.gateway.client import connect
from tests.sqlsuite import suite
from tests.sqlsuite.comparing import Answer, Outcome
from tests.sqlsuite.masking import Masks
from tests.sqlsuite.protocols.rest import RestStatements, rest_session
from tests.sqlsuite.surroundings import DATA, TABLES, making_tables
from tests.support.default_class import running_as_default_class
from tests.support.ports import free_port
from tests.support.process import GatewayProcess

_POLICY = {"confAllow": ["spark.sql.*"]}


class Place:
    """A driver and what the suite needs in its catalog. `folder` gets the files of each start."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._starts = 0
        self._running = ExitStack()
        self._gateway: GatewayProcess | None = None
        self._databases: frozenset[str] = frozenset()
        self._tables: set[str] = set()
        suite.extract(DATA, folder)

    async def with_tables(self, tables: Iterable[str]) -> GatewayProcess:
        """Returns the driver, whose catalog has these tables of the suite and nothing else."""
        gateway = self._gateway or await self._start()
        async with rest_session(gateway) as statements:
            if not self._databases:
                self._databases = frozenset(await _names(statements, "SHOW DATABASES"))
            await self._clear(statements)
            wanted = set(tables) - self._tables
            for sql in making_tables(wanted, self._folder / DATA):
                await _done(statements, sql)
            self._tables |= wanted
        return gateway

    def masks(self) -> Masks:
        """Returns the masks of the driver's folders."""
        assert self._gateway is not None
        return Masks([f"{self._gateway.folder}/warehouse", f"{self._gateway.folder}/metastore/warehouse"])

    def has_died(self, seconds: float) -> bool:
        """Returns whether the driver ends within this time."""
        assert self._gateway is not None
        try:
            self._gateway.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def close(self) -> None:
        """Ends the driver; the next use starts another one."""
        self._running.close()
        self._gateway = None
        self._databases = frozenset()
        self._tables = set()

    async def _start(self) -> GatewayProcess:
        self._starts += 1
        folder = self._folder / str(self._starts)
        folder.mkdir()
        endpoints = {"connect": True, "connect_port": free_port(), "thrift": True, "thrift_port": free_port()}
        gateway = self._running.enter_context(running_as_default_class(folder, policy=_POLICY, endpoints=endpoints))
        async with connect(gateway) as client:
            await client.until_started()
        self._gateway = gateway
        return gateway

    async def _clear(self, statements: RestStatements) -> None:
        """Drops what files have left behind, and the folders that dropped views leave."""
        for name in await _names(statements, "SHOW DATABASES"):
            if name not in self._databases:
                await _done(statements, f"DROP DATABASE `{name}` CASCADE")
        for name in await _names(statements, "SHOW VIEWS IN default", 1):
            await _done(statements, f"DROP VIEW default.`{name}`")
        for name in await _names(statements, "SHOW TABLES IN default", 1):
            if name not in TABLES:
                await _done(statements, f"DROP TABLE default.`{name}`")
        for name in await _names(statements, "SHOW USER FUNCTIONS IN default"):
            if "." in name:  # others are temporary
                await _done(statements, f"DROP FUNCTION {name}")
        assert self._gateway is not None
        kept = {*TABLES, *(f"{name}.db" for name in self._databases)}
        for each in (self._gateway.folder / "warehouse").glob("*"):
            if each.name not in kept:
                shutil.rmtree(each)


async def _names(statements: RestStatements, sql: str, column: int = 0) -> list[str]:
    return [str(row[column]) for row in (await _done(statements, sql)).rows]


async def _done(statements: RestStatements, sql: str) -> Answer:
    outcome: Outcome = await statements.run(sql)
    assert isinstance(outcome, Answer), f"{sql}: {outcome}"
    return outcome
