"""Checkpoints of the scripted gateway's streaming queries. They outlive drivers, as files do, and tell who used them.

A streaming statement commits one batch and then runs until it is ended. Further words of its text:

| text | what happens |
|---|---|
| ... IDLE | no batch is committed until the statement is released |
| ... HOLD | what follows happens only when the statement is released |
| ... FAIL | the query fails |
| ... BROKEN | ends in Error before a query has started |
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sparksql.wire.control import (
    OperationError,
    OperationState,
    Progress,
    StreamProgress,
    SubmitRequest,
    TriggerMode,
)

FAILURE = OperationError(condition="FAILED", sql_state="42000", message="it failed", line=1, position=1)


@dataclass
class Checkpoint:
    """`texts` are those of all queries that ever ran on it."""

    query_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    committed: int | None = None
    texts: list[str] = field(default_factory=list)
    user: str | None = None

    def progress(self, run_id: str) -> Progress:
        following = 0 if self.committed is None else self.committed + 1
        stream = StreamProgress(
            query_id=self.query_id,
            run_id=run_id,
            batch_id=following,
            committed_batch_id=self.committed,
            input_rows_per_second="12.5" if self.committed is not None else None,
            last_progress_time=datetime.now(UTC) if self.committed is not None else None,
        )
        return Progress(stream=stream)

    def commit(self) -> None:
        self.committed = 0 if self.committed is None else self.committed + 1


@dataclass
class Checkpoints:
    """By location. `overlaps` names queries that ran on the checkpoint of another one that had not ended."""

    known: dict[str, Checkpoint] = field(default_factory=dict)
    overlaps: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def used(self, location: str, operation: str, sql: str) -> Iterator[Checkpoint]:
        checkpoint = self.known.setdefault(location, Checkpoint())
        if checkpoint.user is not None:
            self.overlaps.append(f"{operation} while {checkpoint.user} has {location}")
        checkpoint.user = operation
        checkpoint.texts.append(sql)
        try:
            yield checkpoint
        finally:
            checkpoint.user = None


def starts(request: SubmitRequest) -> bool:
    """Whether its query starts at all."""
    return "BROKEN" not in request.sql.upper().split()


async def query(
    checkpoints: Checkpoints, until_released: Callable[[str], Awaitable[None]], operation: str, request: SubmitRequest
) -> AsyncIterator[dict[str, Any]]:
    """Changes of the operation's view as its query goes on; it goes on for ever unless its text says otherwise."""
    options, words = request.streaming, request.sql.upper().split()
    assert options is not None
    if not starts(request):
        yield _end(OperationState.ERROR, error=FAILURE)
        return
    with checkpoints.used(options.checkpoint, operation, request.sql) as checkpoint:
        run_id = str(uuid.uuid4())
        progress = checkpoint.progress(run_id)
        yield {"state": OperationState.RUNNING, "start_time": datetime.now(UTC), "progress": progress}
        if "IDLE" in words:
            await until_released(request.name)
        checkpoint.commit()
        yield {"progress": checkpoint.progress(run_id)}
        if "HOLD" in words:
            await until_released(request.name)
        if "FAIL" in words:
            yield _end(OperationState.ERROR, error=FAILURE)
        elif options.trigger is TriggerMode.AVAILABLE_NOW:
            yield _end(OperationState.FINISHED)
        else:
            await asyncio.Event().wait()


def _end(state: OperationState, **fields: Any) -> dict[str, Any]:
    return {"state": state, "completion_time": datetime.now(UTC), **fields}
