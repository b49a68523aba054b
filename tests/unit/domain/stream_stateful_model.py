"""What is around one streaming statement: drivers with their gateways, checkpoints, savepoints. For `stream_stateful`.

Checkpoints and savepoints outlive the drivers, as files do. Each knows the text whose state it holds; a driver runs a text on
the state of another one only if the two fit.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sparksql.api.savepoint import SavepointPhase, SavepointTrigger
from sparksql.domain.statement.decision import CreateSavepoint, DeleteSavepoint
from sparksql.domain.statement.snapshot import Driver, SavepointFacts
from sparksql.wire.control import (
    CancelRequest,
    OperationError,
    OperationState,
    OperationView,
    Progress,
    RestoreOptions,
    StreamOptions,
    StreamProgress,
    SubmitRequest,
)
from tests.unit.domain.builders.statements import SQL
from tests.unit.domain.builders.streams import UNFIT

TEXTS = (SQL, f"{SQL} WHERE a", f"{SQL} WHERE b", f"{SQL} WHERE c")
REWRITABLE = UNFIT.model_copy(update={"rewritable": True})


def fits(state: str, text: str) -> bool:
    """Whether `text` may go on with the state of text `state`: of the four, the last two fit no other."""
    return state == text or not {*TEXTS[2:]} & {state, text}


def rewritable(state: str, text: str) -> bool:
    """Whether the state of text `state` can be rewritten for `text`: the third is nothing's, the last has other aggregates."""
    return not fits(state, text) and TEXTS[2] not in (state, text)


@dataclass(frozen=True)
class Held:
    """A state: of which text, up to which batch, and of which checkpoint it is a copy."""

    text: str
    batch: int
    checkpoint: str = ""


@dataclass
class Checkpoints:
    """By location: what they hold, the query that has them now, what they began with, the texts that wrote there; and what
    went wrong."""

    held: dict[str, Held] = field(default_factory=dict)
    users: dict[str, str] = field(default_factory=dict)
    begun: dict[str, RestoreOptions | None] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    texts: dict[str, set[str]] = field(default_factory=dict)
    wrongs: list[str] = field(default_factory=list)


@dataclass
class Shelf:
    """SqlSavepoints by name; by location what is in them."""

    facts: dict[str, SavepointFacts] = field(default_factory=dict)
    held: dict[str, Held] = field(default_factory=dict)
    made: int = 0

    def create(self, command: CreateSavepoint, now: datetime) -> None:
        self.facts.setdefault(command.name, SavepointFacts(command.name, None, now, command.trigger))

    def delete(self, command: DeleteSavepoint) -> None:
        self.facts.pop(command.name, None)

    def move(self, name: str, phase: SavepointPhase, now: datetime, held: Held | None = None) -> None:
        """Another phase; what is complete holds something, in a place of its own."""
        before = self.facts[name]
        fields: dict[str, Any] = {"phase": phase, "ended": now if phase.is_terminal else None}
        if held is not None:
            self.made += 1
            fields["location"] = f"s3a://bucket/savepoints/{name}-{self.made}"
            self.held[fields["location"]] = held
        self.facts[name] = replace(before, **fields)

    def upgrades(self) -> list[SavepointFacts]:
        return [each for each in self.facts.values() if each.trigger is SavepointTrigger.UPGRADE]


class Gateway:
    """One driver's memory, with the queries that run in it."""

    def __init__(self, number: int, checkpoints: Checkpoints, shelf: Shelf) -> None:
        # Every fourth is of an earlier version, which can only try.
        self.driver = Driver(f"s-{number}", f"pod-{number}", f"boot-{number}", compares_states=number % 4 != 0)
        self.views: dict[str, OperationView] = {}
        self._requests: dict[str, SubmitRequest] = {}
        self._checkpoints = checkpoints
        self._shelf = shelf

    def submit(self, operation: str, request: SubmitRequest) -> None:
        if request.boot_id == self.driver.boot_id and operation not in self.views:
            self._requests[operation] = request
            self._put(operation, OperationState.PENDING)

    def cancel(self, operation: str, request: CancelRequest, now: datetime) -> None:
        known = self.views.get(operation)
        if request.boot_id == self.driver.boot_id and (known is None or not known.state.is_terminal):
            self.end(operation, request.outcome, now)

    def look(self, request: SubmitRequest, now: datetime) -> OperationView:
        """Whether a text fits the state that it would go on from; touches nothing."""
        options = request.validate_against
        assert options is not None and request.streaming is None
        files, restore = self._checkpoints, options.restore
        held = files.held.get(options.checkpoint)
        if restore is not None and options.checkpoint not in files.begun:
            held = (files.held if restore.rewrite else self._shelf.held).get(restore.location)
        assert options.rewrites
        is_fit = held is None or fits(held.text, request.sql) or rewritable(held.text, request.sql)
        state = OperationState.FINISHED if is_fit else OperationState.ERROR
        return OperationView(
            operation_id="look",
            boot_id=self.driver.boot_id,
            seq=1,
            state=state,
            completion_time=now,
            error=None if is_fit else UNFIT,
        )

    def start(self, operation: str, now: datetime) -> None:
        options, text, files = self._options(operation), self._requests[operation].sql, self._checkpoints
        place = options.checkpoint
        if place in files.users:
            files.wrongs.append(f"{operation} starts while {files.users[place]} runs on {place}")
        if not self._begin(options, text):
            self._put(operation, OperationState.ERROR, completion_time=now, error=UNFIT)
            return
        held = files.held.get(place)
        if held is not None and not fits(held.text, text):
            error = REWRITABLE if rewritable(held.text, text) else UNFIT
            self._put(operation, OperationState.ERROR, completion_time=now, error=error)
            return
        files.users[place] = operation
        stream_ = StreamProgress(query_id=files.ids[place], run_id=operation)
        self._put(operation, OperationState.RUNNING, start_time=now, progress=Progress(stream=stream_))

    def _begin(self, options: StreamOptions, text: str) -> bool:
        """A checkpoint is made once; from then on it can only be gone on with. False if it cannot be made for the text."""
        files, place, restore = self._checkpoints, options.checkpoint, options.restore
        if restore is not None and restore.rewrite:
            restore = restore.model_copy(update={"query_id": files.ids[restore.location]})  # what is there counts
        if place not in files.begun:
            if restore is not None and restore.rewrite:
                return self._rewrite(place, restore, text)
            if restore is not None and restore.query_id in files.ids.values():
                files.wrongs.append(f"{place} becomes a query that there is already")
            files.begun[place] = restore
            files.ids[place] = restore.query_id if restore is not None else place[-64:]
            if restore is not None:
                files.held[place] = self._shelf.held[restore.location]
        elif files.begun[place] != restore:
            files.wrongs.append(f"{place} began with {files.begun[place]}, and is to begin with {restore}")
        return True

    def _rewrite(self, place: str, restore: RestoreOptions, text: str) -> bool:
        """The query goes on as itself in another place, where its state is one of the text."""
        files = self._checkpoints
        if restore.location in files.users:
            files.wrongs.append(
                f"{place} is made of {restore.location} while {files.users[restore.location]} runs on it"
            )
        held = files.held.get(restore.location)
        if held is not None and not fits(held.text, text):
            if not rewritable(held.text, text):
                return False
            held = replace(held, text=text)
        if held is not None:
            files.held[place] = held
        files.begun[place], files.ids[place] = restore, files.ids[restore.location]
        return True

    def commit(self, operation: str, now: datetime) -> None:
        place, text = self._options(operation).checkpoint, self._requests[operation].sql
        held = self._checkpoints.held.get(place)
        batch = held.batch + 1 if held is not None else 0
        self._checkpoints.held[place] = Held(text, batch)
        self._checkpoints.texts.setdefault(place, set()).add(text)
        told = StreamProgress(
            query_id=self._checkpoints.ids[place], run_id=operation, batch_id=batch + 1, committed_batch_id=batch
        )
        stream_ = told.model_copy(update={"last_progress_time": now})
        self._put(operation, OperationState.RUNNING, progress=Progress(stream=stream_))

    def end(self, operation: str, state: OperationState, now: datetime) -> None:
        error = OperationError(message="it failed") if state is OperationState.ERROR else None
        self._free(operation)
        self._put(operation, state, completion_time=now, error=error)

    def die(self) -> None:
        for operation in self._requests:
            self._free(operation)

    def _options(self, operation: str) -> StreamOptions:
        options = self._requests[operation].streaming
        assert options is not None
        return options

    def _free(self, operation: str) -> None:
        if operation in self._requests and self._checkpoints.users.get(place := self._place(operation)) == operation:
            del self._checkpoints.users[place]

    def _place(self, operation: str) -> str:
        return self._options(operation).checkpoint

    def _put(self, operation: str, state: OperationState, **fields: Any) -> None:
        new = OperationView(operation_id=operation, boot_id=self.driver.boot_id, seq=0, state=state, streaming=True)
        known = self.views.get(operation, new)
        self.views[operation] = known.model_copy(update={"state": state, "seq": known.seq + 1, **fields})
