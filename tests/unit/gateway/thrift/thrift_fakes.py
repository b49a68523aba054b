"""A session service in memory, for tests of connections: statements end when a test says so."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from sparksql.gateway.sessions.model import ClientError, OperationInfo, OperationStatus, Problem, SessionInfo
from sparksql.wire.control import ClientProtocol, Column

ROWS = pa.table({"c0": pa.array(range(25), pa.int64())})
BIG = pa.table({"c0": pa.array(["x" * (8 << 20)])})


class FakeService:
    """`SELECT` ends at once with 25 rows, `BIG` with one of 8 MiB, `WAIT` when it is stopped."""

    def __init__(self) -> None:
        self.sessions: dict[str, SessionInfo] = {}
        self.operations: dict[str, OperationInfo] = {}
        self.closed: list[str] = []
        self.stopped: list[str] = []
        self.uses = 0
        self.read: list[int] = []  # first rows of pages
        self._told: dict[str, Callable[[str], None]] = {}

    async def open(self, protocol: ClientProtocol, name: str, properties: Mapping[str, str]) -> SessionInfo:
        if "refused" in properties:
            raise ClientError(Problem.NOT_ALLOWED, "configuration key 'refused' is never allowed")
        view = SessionInfo(str(uuid.uuid4()), protocol, name, datetime.now(UTC), properties)
        self.sessions[view.handle] = view
        return view

    def session(self, handle: str) -> SessionInfo:
        if handle not in self.sessions:
            raise ClientError(Problem.UNKNOWN_SESSION, f"session {handle} does not exist")
        self.uses += 1
        return self.sessions[handle]

    async def close(self, handle: str) -> None:
        self.session(handle)
        del self.sessions[handle]
        self.closed.append(handle)
        for view in [view for view in self.operations.values() if view.session == handle]:
            self.close_operation(handle, view.handle)
        self._told.pop(handle, lambda _: None)(handle)

    def on_close(self, handle: str, told: Callable[[str], None]) -> None:
        self._told[handle] = told

    def submit(self, session: str, sql: str, **options: Any) -> str:
        self.session(session)
        kind, rows = ("string", 1) if sql == "BIG" else ("bigint", 25)
        status = OperationStatus.RUNNING if sql == "WAIT" else OperationStatus.FINISHED
        columns = (Column(name="id", type=kind),)
        view = OperationInfo(str(uuid.uuid4()), session, status, columns=columns, row_count=rows)
        self.operations[view.handle] = view
        return view.handle

    def operation(self, session: str, operation: str) -> OperationInfo:
        if operation not in self.operations:
            raise ClientError(Problem.UNKNOWN_OPERATION, f"operation {operation} does not exist")
        return self.operations[operation]

    async def wait_for_rows(self, session: str, operation: str, seconds: float) -> OperationInfo:
        await asyncio.sleep(min(seconds, 0.05))
        return self.operation(session, operation)

    def close_operation(self, session: str, operation: str) -> None:
        if self.operations.pop(operation).status is OperationStatus.RUNNING:
            self.stopped.append(operation)

    async def page(self, session: str, operation: str, first_row: int, max_rows: int) -> tuple[pa.Table, int | None]:
        self.read.append(first_row)
        table = BIG if self.operations[operation].row_count == 1 else ROWS
        return table.slice(first_row, max_rows), None

    async def until(self, condition: Callable[[], bool], seconds: float = 60) -> None:
        deadline = asyncio.get_running_loop().time() + seconds
        while not condition():
            assert asyncio.get_running_loop().time() < deadline, (
                f"sessions {self.sessions}, operations {self.operations}"
            )
            await asyncio.sleep(0.01)
