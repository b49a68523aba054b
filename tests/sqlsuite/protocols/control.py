"""Statements over the operator's control API, whose types are Spark's and whose values are JSON."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sparksql.wire.control import OperationView, ResultOptions
from tests.gateway.client import GatewayClient, connect
from tests.sqlsuite.comparing import Answer, Error, Outcome
from tests.sqlsuite.decoding import from_json, from_text
from tests.sqlsuite.types import Type
from tests.support.process import GatewayProcess

_TEXT_IN_SPARK = ("interval", "variant", "geometry", "geography", "time", "void")
_ALL_ROWS = ResultOptions(max_rows=100_000)


class ControlReading:
    """Types and values of the control API."""

    def type_of(self, kind: Type) -> str:
        """Returns the type as it is."""
        return kind.text

    def value(self, raw: Any, kind: Type) -> Any:
        """Returns the value of a JSON value, or of a text that stands for one of another type."""
        if raw is None or kind.name in ("string", "char", "varchar"):
            return raw
        if kind.has(*_TEXT_IN_SPARK):
            return from_text(raw, kind)
        return from_json(raw, kind)


@asynccontextmanager
async def control_session(gateway: GatewayProcess) -> AsyncIterator[ControlStatements]:
    """The session that all statements of the operator share; what they made of it is dropped at the end."""
    async with connect(gateway) as client:
        await client.until_started()
        statements = ControlStatements(client)
        try:
            yield statements
        finally:
            await statements.clear()


class ControlStatements:
    """Statements of the session."""

    reading = ControlReading()

    def __init__(self, client: GatewayClient) -> None:
        self._client = client

    async def run(self, sql: str) -> Outcome:
        """Runs a statement to its end. Raises aiohttp.ClientError where the driver no longer exists."""
        view = await self._client.run(sql, result=_ALL_ROWS)
        if view.error is not None:
            return Error(view.error.condition, view.error.sql_state, view.error.message, view.error.reason)
        return await self._answer(view)

    async def _answer(self, view: OperationView) -> Outcome:
        columns = () if view.result is None else tuple((each.name, each.type) for each in view.result.columns)
        if not columns:
            return Answer((), ())
        return Answer(columns, tuple([row async for row in self._client.pages(view.operation_id)]))

    async def clear(self) -> None:
        """Drops temporary views and functions, and resets settings."""
        for name, is_temporary in await self._rows("SHOW VIEWS IN default", 1, 2):
            if is_temporary:
                await self.run(f"DROP VIEW `{name}`")
        for (name,) in await self._rows("SHOW USER FUNCTIONS", 0):
            if "." not in name:
                await self.run(f"DROP TEMPORARY FUNCTION `{name}`")
        await self.run("RESET")

    async def _rows(self, sql: str, *columns: int) -> list[tuple[Any, ...]]:
        outcome = await self.run(sql)
        return [tuple(row[c] for c in columns) for row in outcome.rows] if isinstance(outcome, Answer) else []
