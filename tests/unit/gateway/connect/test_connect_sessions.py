"""One client session stands behind each of Connect's, from its first request to its end, in whatever order things happen."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from sparksql.gateway.frontends.connect.backend import SessionKey
from sparksql.gateway.frontends.connect.errors import ConnectError
from sparksql.gateway.frontends.connect.sessions import MAX_USER_CHARS, ConnectSessions
from sparksql.gateway.sessions.model import ClientError, Problem
from sparksql.wire.control import ClientProtocol


class ScriptedService:
    """Client sessions by handle, and what was asked of each."""

    def __init__(self) -> None:
        self.open_sessions: dict[str, tuple[str, dict[str, str]]] = {}
        self.asked = 0
        self.opened = 0
        self.problem: Problem | None = None
        self._told: dict[str, Callable[[str], None]] = {}

    async def open(self, protocol: ClientProtocol, name: str, properties: dict[str, str]) -> Any:
        self.asked += 1
        await asyncio.sleep(0.01)
        if self.problem is not None:
            raise ClientError(self.problem, "no")
        assert protocol is ClientProtocol.CONNECT
        self.opened += 1
        handle = f"h{self.opened}"
        self.open_sessions[handle] = (name, properties)
        return SimpleNamespace(handle=handle)

    def session(self, handle: str) -> None:
        if handle not in self.open_sessions:
            raise ClientError(Problem.UNKNOWN_SESSION, "gone")

    async def with_session(self, handle: str, function: Callable[[Any, Any], Any]) -> Any:
        self.session(handle)
        return await asyncio.to_thread(function, None, handle)

    def on_close(self, handle: str, told: Callable[[str], None]) -> None:
        self._told[handle] = told

    async def close(self, handle: str) -> None:
        self.session(handle)
        self.expire(handle)

    def expire(self, handle: str) -> None:
        del self.open_sessions[handle]
        if told := self._told.pop(handle, None):
            told(handle)


class ScriptedSpark:
    """Connect's session manager. `gate` holds its closing up."""

    def __init__(self) -> None:
        self.holders: dict[SessionKey, str] = {}
        self.gate = threading.Event()
        self.gate.set()
        self.broken = False

    def adopt(self, key: SessionKey, session: str) -> None:
        if self.broken:
            raise RuntimeError("no answer")
        self.holders[key] = session

    def close_session(self, key: SessionKey) -> None:
        self.gate.wait(60)
        self.holders.pop(key, None)


class Stage:
    def __init__(self) -> None:
        self.service, self.spark = ScriptedService(), ScriptedSpark()
        self.pool = ThreadPoolExecutor(2)
        self.sessions = ConnectSessions(self.service, self.spark, self.pool)  # type: ignore[arg-type]

    async def handle(self, key: SessionKey, **properties: str) -> str:
        return await self.sessions.handle(key, key.user_id, properties)

    async def settled(self, key: SessionKey) -> None:
        await self.until(lambda: key not in self.spark.holders)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.sleep(0.001)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage()
    yield made
    made.spark.gate.set()
    made.pool.shutdown()


def key(user: str = "ann") -> SessionKey:
    return SessionKey(user, str(uuid.uuid4()))


async def condition_of(call: Any) -> str | None:
    with pytest.raises(ConnectError) as refused:
        await call
    return refused.value.condition


async def test_the_first_of_many_requests_opens_the_session(stage: Stage) -> None:
    name = key()
    handles = await asyncio.gather(*(stage.handle(name, a="b") for _ in range(10)))
    assert set(handles) == {"h1"}
    assert stage.service.open_sessions == {"h1": ("ann", {"a": "b"})}
    assert stage.spark.holders == {name: "h1"}
    assert await stage.handle(SessionKey("bob", name.session_id)) == "h2"


async def test_a_client_that_hangs_up_while_its_session_opens_leaves_the_session_whole(stage: Stage) -> None:
    name = key()
    opening = asyncio.create_task(stage.handle(name))
    await stage.until(lambda: stage.service.asked == 1)
    opening.cancel()
    await stage.until(lambda: name in stage.spark.holders)
    assert await stage.handle(name) == "h1"
    assert stage.spark.holders == {name: "h1"}


async def test_an_expired_session_is_closed_in_spark_and_its_name_stays_refused(stage: Stage) -> None:
    name = key()
    stage.service.expire(await stage.handle(name))
    await stage.settled(name)
    assert await condition_of(stage.handle(name)) == "INVALID_HANDLE.SESSION_CLOSED"
    with pytest.raises(ConnectError, match="SESSION_CLOSED"):
        stage.sessions.known(name)
    assert stage.service.opened == 1


async def test_a_released_session_ends_once(stage: Stage) -> None:
    name = key()
    await stage.handle(name)
    await stage.sessions.release(name, may_return=False)
    await stage.sessions.release(name, may_return=False)
    await stage.settled(name)
    assert stage.service.open_sessions == {}
    assert await condition_of(stage.handle(name)) == "INVALID_HANDLE.SESSION_CLOSED"


async def test_a_session_that_returns_during_its_release_waits_and_is_opened_anew(stage: Stage) -> None:
    name = key()
    await stage.handle(name)
    stage.spark.gate.clear()
    await stage.sessions.release(name, may_return=True)
    again = asyncio.create_task(stage.handle(name))
    assert await stage.handle(key("bob")) == "h2", "a later request was served first"
    assert not again.done(), "it waits for the end of the earlier one"
    stage.spark.gate.set()
    assert await again == "h3"
    assert stage.spark.holders[name] == "h3"


async def test_a_name_that_was_never_used_is_not_found(stage: Stage) -> None:
    with pytest.raises(ConnectError, match="SESSION_NOT_FOUND"):
        stage.sessions.known(key())
    await stage.sessions.release(key(), may_return=False)
    assert stage.service.opened == 0


async def test_bad_session_names_open_no_connect_session(stage: Stage) -> None:
    assert await condition_of(stage.handle(SessionKey("ann", "no-uuid"))) == "INVALID_HANDLE.FORMAT"
    assert await condition_of(stage.handle(key("a" * (MAX_USER_CHARS + 1)))) is None
    assert stage.service.opened == 0


async def test_a_refused_session_may_be_asked_for_again(stage: Stage) -> None:
    name = key()
    stage.service.problem = Problem.TOO_MANY_SESSIONS
    assert await condition_of(stage.handle(name)) is None
    stage.service.problem = None
    assert await stage.handle(name) == "h1"


async def test_a_session_that_spark_does_not_take_is_not_left_open(stage: Stage) -> None:
    name = key()
    stage.spark.broken = True
    with pytest.raises(RuntimeError):
        await stage.handle(name)
    assert stage.service.open_sessions == {}
    stage.spark.broken = False
    assert await stage.handle(name) == "h2"
