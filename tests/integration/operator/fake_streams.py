"""Checkpoints of the scripted gateway's streaming queries. They outlive drivers, as files do, and tell who used them.

A streaming statement commits one batch and then runs until it is ended. Further words of its text:

| text | what happens |
|---|---|
| ... IDLE | no batch is committed until the statement is released |
| ... HOLD | what follows happens only when the statement is released |
| ... FAIL | the query fails |
| ... BROKEN | ends in Error, for its text, before a query has started |
| ... UNFIT | ends so as well, with StateIncompatible, on a checkpoint that is another text's |
| ... REWRITE | ends so there, as what the state can be rewritten for: it runs on a checkpoint that is made so of the other one |

Whoever asks beforehand is told what would end it in Error, and nothing happens.

A checkpoint that is made of a savepoint, or of another checkpoint, has no text yet: every text fits it.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sparksql.api.execution import TriggerMode
from sparksql.wire.control import (
    COMPARISON,
    Column,
    ErrorReason,
    OperationError,
    OperationState,
    Progress,
    RestoreOptions,
    ResultSummary,
    StreamProgress,
    SubmitRequest,
)

FAILURE = OperationError(condition="FAILED", sql_state="58030", message="it failed", line=1, position=1)
WRONG = FAILURE.model_copy(update={"sql_state": "42000"})
DIFFERENCES = tuple(Column(name=name, type="string") for name in COMPARISON)
WRITTEN_ANEW = "the state is written anew: aggregate: column m was added"
REWRITABLE = OperationError(reason=ErrorReason.STATE_INCOMPATIBLE, message=WRITTEN_ANEW, rewritable=True)
UNFIT = OperationError(reason=ErrorReason.STATE_INCOMPATIBLE, message="operator 1: column k was int, is string")


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


@dataclass(frozen=True)
class Saved:
    """A complete savepoint: what its manifest says. `owner` is None for one that nobody here has made."""

    batch_id: int
    query_id: str
    owner: str | None = None
    sql_hash: str | None = None


@dataclass
class Checkpoints:
    """Checkpoints and complete savepoints, by location. `overlaps` names queries that ran on the checkpoint of another one that had not ended."""

    known: dict[str, Checkpoint] = field(default_factory=dict)
    saved: dict[str, Saved] = field(default_factory=dict)
    overlaps: list[str] = field(default_factory=list)

    def restore(self, location: str, options: RestoreOptions) -> None:
        """Makes a checkpoint of what lies elsewhere; one that has begun is left as it is."""
        if location not in self.known:
            found = self.look(options.location)
            assert found is not None, f"nothing to restore from at {options.location}"
            query_id = self.known[options.location].query_id if options.rewrite else options.query_id
            self.known[location] = Checkpoint(query_id, found.batch_id)

    def look(self, location: str) -> Saved | None:
        """What lies there: a savepoint, or the state of a checkpoint."""
        checkpoint = self.known.get(location)
        if checkpoint is not None and checkpoint.committed is not None:
            return Saved(checkpoint.committed, checkpoint.query_id)
        return self.saved.get(location)

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


def starts(checkpoints: Checkpoints, request: SubmitRequest) -> bool:
    """Whether its query starts at all."""
    return _refusal(checkpoints, request) is None


def _refusal(checkpoints: Checkpoints, request: SubmitRequest) -> OperationError | None:
    words, options = request.sql.upper().split(), request.streaming or request.validate_against
    assert options is not None
    if "BROKEN" in words:
        return WRONG
    known = checkpoints.known.get(options.checkpoint)
    is_anothers = known is not None and bool(known.texts) and request.sql not in known.texts
    if is_anothers and "REWRITE" in words:
        return REWRITABLE
    return UNFIT if is_anothers and not {"UNFIT", "OTHER_KEY"}.isdisjoint(words) else None


def look(checkpoints: Checkpoints, request: SubmitRequest) -> dict[str, Any]:
    """The end of a look at whether its query could start, on a checkpoint that may be in use."""
    violation = _refusal(checkpoints, request)
    if violation is None:
        return _end(OperationState.FINISHED, result=ResultSummary(columns=DIFFERENCES))
    if violation is REWRITABLE:
        assert request.validate_against is not None and request.validate_against.rewrites
        added = ("AggregateAdded", "aggregate", "m", "", "max(v)", "none is needed")
        found = ResultSummary(columns=DIFFERENCES, row_count=1, preview=(added,))
        return _end(OperationState.FINISHED, result=found)
    if violation is not UNFIT:
        return _end(OperationState.ERROR, error=violation)
    row = ("KeyChanged", "operator 1", "k", "int", "string", "change it back")
    return _end(
        OperationState.ERROR, error=violation, result=ResultSummary(columns=DIFFERENCES, row_count=1, preview=(row,))
    )


async def query(
    checkpoints: Checkpoints, until_released: Callable[[str], Awaitable[None]], operation: str, request: SubmitRequest
) -> AsyncIterator[dict[str, Any]]:
    """Changes of the operation's view as its query goes on; it goes on for ever unless its text says otherwise."""
    options, words = request.streaming, request.sql.upper().split()
    assert options is not None
    violation = _refusal(checkpoints, request)
    if violation is not None:
        yield _end(OperationState.ERROR, error=violation)
        return
    if options.restore is not None:
        checkpoints.restore(options.checkpoint, options.restore)
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
