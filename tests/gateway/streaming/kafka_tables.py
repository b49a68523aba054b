"""Topics and tables of one test against the tests' broker."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sparksql.wire.control import ErrorReason, OperationState, OperationView

from ..streams import Streams
from .kafka_broker import Broker


@dataclass
class Kafka:
    """Topics and tables of one test. `$` in a text is the test's database, `@` is how to reach the test's topic."""

    streams: Streams
    broker: Broker
    topic: str

    async def ok(self, *statements: str) -> None:
        await self.streams.ok(*map(self.text, statements))

    async def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return await self.streams.rows(self.text(sql))

    async def run(self, sql: str, **fields: Any) -> OperationView:
        return await self.streams.client.run(self.text(sql).replace("$", self.streams.database), **fields)

    async def refused(self, sql: str, says: str) -> None:
        view = await self.run(sql)
        assert view.state is OperationState.ERROR and view.error is not None, view
        assert (view.error.reason, says in view.error.message) == (ErrorReason.INVALID_SPEC, True), view.error

    async def put(self, *records: tuple[str | None, str | None]) -> None:
        """Writes records, in this order into one partition, through a table without declared columns."""
        values = ", ".join(f"({_literal(key)}, {_literal(value)}, 0)" for key, value in records)
        await self.ok(
            "CREATE TABLE IF NOT EXISTS $.put USING kafka OPTIONS (@)",
            f"INSERT INTO $.put (key, value, partition) SELECT /*+ COALESCE(1) */ * FROM VALUES {values}",
        )

    async def put_bytes(self, topic: str, *values: bytes | None) -> None:
        """Writes records without keys into another topic, as `put` does."""
        texts = ", ".join("(CAST(NULL AS BINARY))" if value is None else f"(X'{value.hex()}')" for value in values)
        await self.ok(
            "CREATE TABLE IF NOT EXISTS $.put USING kafka OPTIONS (@)",
            f"INSERT INTO $.put SELECT /*+ COALESCE(1) */ col1 AS value, '{topic}' AS topic, 0 AS partition FROM VALUES {texts}",
        )

    async def put_values(self, *values: object) -> None:
        await self.put(*((None, json.dumps(value)) for value in values))

    def text(self, sql: str) -> str:
        return sql.replace("@", f"'kafka.bootstrap.servers' = '{self.broker.address}', 'subscribe' = '{self.topic}'")


def _literal(text: str | None) -> str:
    return "CAST(NULL AS STRING)" if text is None else "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
