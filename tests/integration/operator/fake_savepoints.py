"""Savepoints of the scripted gateway: the requests of `sparksql.wire.savepoints`, and folders that outlive drivers.

What happens to the attempts for a SqlSavepoint is said in `Savepoints`, by its name or how that begins. Without a word they are
complete at once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from aiohttp import web

from sparksql.wire.savepoints import SavepointRequest, SavepointState, SavepointView
from tests.integration.operator.fake_answers import Refused, answer
from tests.integration.operator.fake_streams import Checkpoints, Saved

SPARK_VERSION = "4.1.4"
SIZE_BYTES, FILE_COUNT = 4321, 9
GIVEN_UP = "the copy was given up"


@dataclass(frozen=True)
class Attempt:
    """One attempt that a driver began with; a request that is repeated begins nothing."""

    id: str
    pod: str
    request: SavepointRequest


@dataclass
class Savepoints:
    """What drivers were asked for and what came of it; what happens to attempts, by how the SqlSavepoint's name begins."""

    begun: list[Attempt] = field(default_factory=list)
    copied: list[Attempt] = field(default_factory=list)  # those that wrote data
    cancelled: list[str] = field(default_factory=list)
    messages: dict[str, list[str]] = field(default_factory=dict)  # each makes one attempt fail
    held: Counter[str] = field(default_factory=Counter)  # so many attempts go on only when they are released
    drop_answers: int = 0  # so many requests are carried out without an answer
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def of(self, name: str) -> list[Attempt]:
        """Attempts for the SqlSavepoint `name`, in order."""
        return [each for each in self.begun if each.request.name == name]

    def copies(self, name: str) -> list[Attempt]:
        return [each for each in self.copied if each.request.name == name]

    def release(self, name: str) -> None:
        del self.held[name]
        self._changed.set()
        self._changed = asyncio.Event()

    async def until_released(self, name: str, number: int) -> None:
        while any(number <= held for begin, held in self.held.items() if name.startswith(begin)):
            await self._changed.wait()

    def failure(self, name: str) -> str | None:
        """What the present attempt fails with, if it is to fail."""
        return next((left.pop(0) for begin, left in self.messages.items() if left and name.startswith(begin)), None)


class DriverSavepoints:
    """Those of one driver: it knows each attempt as long as it lives."""

    def __init__(self, pod: str, boot_id: str, savepoints: Savepoints, checkpoints: Checkpoints) -> None:
        self._pod = pod
        self._boot_id = boot_id
        self._all = savepoints
        self._checkpoints = checkpoints
        self._views: dict[str, SavepointView] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def routes(self, root: str) -> list[web.RouteDef]:
        path = f"{root}/savepoints/{{id}}"
        return [web.put(path, self._put), web.get(path, self._get), web.delete(path, self._delete)]

    async def kill(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _put(self, request: web.Request) -> web.Response:
        asked = SavepointRequest.model_validate_json(await request.read())
        if asked.boot_id != self._boot_id:
            raise Refused(412, "OtherBoot")
        id_ = request.match_info["id"]
        if id_ not in self._views:
            self._say(id_, SavepointState.RUNNING)
            attempt = Attempt(id_, self._pod, asked)
            self._all.begun.append(attempt)
            self._tasks[id_] = asyncio.create_task(self._work(attempt))
        if self._all.drop_answers:
            self._all.drop_answers -= 1
            assert request.transport is not None
            request.transport.abort()
        return answer(self._views[id_])

    async def _get(self, request: web.Request) -> web.Response:
        view = self._views.get(request.match_info["id"])
        if view is None:
            raise Refused(404, "UnknownSavepoint")
        return answer(view)

    async def _delete(self, request: web.Request) -> web.Response:
        id_ = request.match_info["id"]
        self._all.cancelled.append(id_)
        known = self._views.get(id_)
        if id_ in self._tasks:
            self._tasks[id_].cancel()
        if known is None or known.state is SavepointState.RUNNING:
            self._say(id_, SavepointState.FAILED, message=GIVEN_UP)
        return answer(known or self._views[id_])  # what runs ends a little later than it is told to

    async def _work(self, attempt: Attempt) -> None:
        name = attempt.request.name
        await self._all.until_released(name, len(self._all.of(name)))
        message = self._all.failure(name)
        if message is not None:
            self._say(attempt.id, SavepointState.FAILED, message=message)
            return
        found = self._found(attempt)
        if found is None:
            message = "there is no savepoint of this object"
            self._say(attempt.id, SavepointState.FAILED, message=message, location_invalid=True)
            return
        self._say(
            attempt.id, SavepointState.COMPLETED, batch_id=found.batch_id, query_id=found.query_id,
            spark_version=SPARK_VERSION, size_bytes=SIZE_BYTES, file_count=FILE_COUNT, sql_hash=found.sql_hash,
        )  # fmt: skip

    def _found(self, attempt: Attempt) -> Saved | None:
        """What lies at the target, in the end; None if that is not what was asked for."""
        request = attempt.request
        known = self._checkpoints.look(request.target)
        if request.checkpoint is None or (known is not None and known.owner == request.uid):
            return known
        state = self._checkpoints.look(request.checkpoint)
        if known is not None or state is None:
            return None
        saved = Saved(state.batch_id, state.query_id, request.uid, request.sql_hash)
        self._checkpoints.saved[request.target] = saved
        self._all.copied.append(attempt)
        return saved

    def _say(self, id_: str, state: SavepointState, **fields: object) -> None:
        view = SavepointView(attempt_id=id_, boot_id=self._boot_id, state=state)
        self._views[id_] = view.model_copy(update=fields)
