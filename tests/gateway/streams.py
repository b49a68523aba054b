"""Streams and tables of one test, through the control API."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

from sparksql.api.execution import TriggerMode
from sparksql.wire.control import OperationState, OperationView, StreamOptions
from sparksql.wire.savepoints import SavepointRequest, SavepointState, SavepointView, StateQuery

from .client import API, GatewayClient


class Streams:
    """Streams and tables of one test, in a database of its own."""

    def __init__(self, client: GatewayClient, folder: Path, database: str) -> None:
        self.client = client
        self.folder = folder
        self.database = database
        self.started: list[str] = []

    async def ok(self, *statements: str) -> None:
        for sql in statements:
            await self.client.ok(self._named(sql))

    async def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return await self.client.rows(self._named(sql))

    def options(self, checkpoint: str = "c", **fields: Any) -> StreamOptions:
        fields.setdefault("trigger", TriggerMode.AVAILABLE_NOW)
        return StreamOptions(checkpoint=(self.folder / checkpoint).as_uri(), **fields)

    async def put(
        self, sql: str, checkpoint: str = "c", conf: dict[str, str] | None = None, **fields: Any
    ) -> OperationView:
        view = await self.client.put(self._named(sql), streaming=self.options(checkpoint, **fields), conf=conf or {})
        self.started.append(view.operation_id)
        return view

    async def run(self, sql: str, checkpoint: str = "c", **fields: Any) -> OperationView:
        """Reads what is there, to the end."""
        return await self.client.end(await self.put(sql, checkpoint, **fields))

    async def drained(self, sql: str, checkpoint: str = "c", **fields: Any) -> OperationView:
        view = await self.run(sql, checkpoint, **fields)
        assert view.state is OperationState.FINISHED, f"{sql!r} ended as {view}\n{self.client.gateway.log_tail(3000)}"
        return view

    async def endless(self, sql: str, checkpoint: str = "c", **fields: Any) -> OperationView:
        """Starts a query that runs until it is stopped; answers once it looks for data."""
        fields = {"trigger": TriggerMode.INTERVAL, "interval_millis": 100, **fields}
        view = await self.put(sql, checkpoint, **fields)
        return await self.client.until_state(view.operation_id, OperationState.RUNNING)

    async def committed(self, view: OperationView, batch: int) -> OperationView:
        def is_committed(seen: OperationView) -> bool:
            stream = seen.progress.stream if seen.progress else None
            return stream is not None and stream.committed_batch_id is not None and stream.committed_batch_id >= batch

        return await self.client.until(view.operation_id, lambda seen: is_committed(seen) or seen.state.is_terminal)

    async def stop(self, view: OperationView) -> OperationView:
        await self.client.cancel(view.operation_id)
        return await self.client.end(view)

    async def saved(self, name: str, checkpoint: str = "c") -> str:
        """Has a savepoint made; answers its location."""
        view = await self.attempted(name, self.options(checkpoint).checkpoint)
        assert view.state is SavepointState.COMPLETED, view
        return (self.folder / name).as_uri()

    async def attempted(self, name: str, checkpoint: str | None, query: StateQuery | None = None) -> SavepointView:
        """Has an attempt made to make a savepoint; answers how it has ended."""
        client = self.client
        asked = SavepointRequest(
            boot_id=client.boot_id,
            checkpoint=checkpoint,
            target=(self.folder / name).as_uri(),
            uid="u",
            namespace="n",
            name=name,
            query=query,
        )
        url = f"{API}/savepoints/{uuid.uuid4()}"
        async with asyncio.timeout(60):
            while True:
                async with client.http.put(url, data=asked.to_json()) as response:
                    view = SavepointView.model_validate_json(await response.text())
                if view.state is not SavepointState.RUNNING:
                    return view
                await asyncio.sleep(0.05)

    def _named(self, sql: str) -> str:
        return sql.replace("$", self.database)
