"""When an execution begins, and that it is told as ended exactly once, whatever its streams and Spark do."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from sparksql.gateway.frontends.connect import executions as module
from sparksql.gateway.frontends.connect.backend import ExecutionKey, ExecutionState, SessionKey
from sparksql.gateway.frontends.connect.errors import ConnectError
from sparksql.gateway.frontends.connect.executions import MISSING_POLLS, Asked, Execution, Executions
from sparksql.gateway.sessions.model import ClientError, OperationStatus, Problem
from sparksql.wire.control import OperationError

SESSION = SessionKey("ann", "s")


class ScriptedService:
    """Admits everything unless told otherwise; a cancel reaches the work as the engine does it."""

    def __init__(self) -> None:
        self.works: dict[str, Execution] = {}
        self.ended: dict[str, OperationError | None] = {}
        self.closed: list[str] = []
        self.problem: Problem | None = None
        self._numbers = itertools.count()

    def admit(self, handle: str, statement_type: str, work: Execution, *, local: bool) -> str:
        if self.problem is not None:
            raise ClientError(self.problem, "full")
        operation = f"o{next(self._numbers)}"
        self.works[operation] = work
        return operation

    def cancel(self, handle: str, operation: str) -> None:
        if operation in self.ended:
            raise ClientError(Problem.ILLEGAL_TRANSITION, "it has ended")
        self.works[operation].stop("the client cancelled it")

    def outside_done(self, operation: str, error: OperationError | None) -> None:
        assert operation not in self.ended, f"{operation} has ended before"
        self.ended[operation] = error

    async def wait(self, handle: str, operation: str, seconds: float) -> Any:
        return SimpleNamespace(status=OperationStatus.FINISHED)

    def close_operation(self, handle: str, operation: str) -> None:
        self.closed.append(operation)


class ScriptedSpark:
    """`running` is how many rounds of interrupting an execution survives."""

    def __init__(self) -> None:
        self.known: dict[ExecutionKey, ExecutionState] = {}
        self.running = 0
        self.interrupts = 0
        self.polls = 0
        self.broken = False

    def states(self) -> dict[ExecutionKey, ExecutionState]:
        self.polls += 1
        if self.broken:
            raise RuntimeError("no answer")
        return dict(self.known)

    def interrupt(self, key: ExecutionKey, reason: str) -> bool:
        self.interrupts += 1
        self.running -= 1
        return self.running >= 0


class Stage:
    def __init__(self) -> None:
        self.service, self.spark = ScriptedService(), ScriptedSpark()
        self.pool = ThreadPoolExecutor(1)
        self.executions = Executions(self.service, self.spark, self.pool)  # type: ignore[arg-type]
        self.watch = asyncio.create_task(self.executions.watch())

    def admit(self, name: str = "a", *, reattachable: bool = True, request: bytes = b"x") -> Execution:
        asked = Asked(ExecutionKey(SESSION, name), request, b"r", frozenset(), reattachable)
        return self.executions.admit(asked, "h", "SELECT")

    def forwarded(self, name: str = "a", **options: Any) -> Execution:
        """One that has a stream and that Spark runs."""
        execution = self.handed_over(name, **options)
        execution.begun.set()
        self.spark.known[execution.asked.key] = ExecutionState.RUNNING
        return execution

    def handed_over(self, name: str = "a", **options: Any) -> Execution:
        """One that has a stream and that Spark has not begun yet."""
        execution = self.admit(name, **options)
        execution.attach()
        execution.start()
        assert execution.turn.is_set()
        execution.take_request()
        return execution

    async def ended(self, operation: str = "o0") -> OperationError | None:
        await self.until(lambda: operation in self.service.closed)
        return self.service.ended[operation]

    async def polled(self) -> None:
        """Waits for more polls than a missing execution has until its end; what the last one shows may be to come."""
        wanted = self.spark.polls + MISSING_POLLS + 2
        await self.until(lambda: self.spark.polls >= wanted or bool(self.service.ended))

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.sleep(0.005)


@pytest.fixture
async def stage(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(module, "STOP_ROUND_SECONDS", 0.005)
    monkeypatch.setattr(module, "RETURN_SECONDS", 0.05)
    made = Stage()
    yield made
    made.watch.cancel()
    await made.executions.close()
    made.pool.shutdown()


async def test_an_execution_with_a_complete_result_ends_once_without_an_error(stage: Stage) -> None:
    execution = stage.forwarded()
    stage.executions.end(execution, None)
    stage.executions.end(execution, OperationError(message="late"))
    assert await stage.ended() is None
    assert stage.executions.find(execution.asked.key) is None
    assert stage.spark.interrupts == 0


async def test_an_execution_whose_client_has_gone_is_not_begun(stage: Stage) -> None:
    execution = stage.admit()
    execution.start()
    error = await stage.ended()
    assert error is not None and "went away" in error.message
    assert execution.turn.is_set() and not execution.forwarded


async def test_a_client_may_come_back_to_one_that_waits(stage: Stage) -> None:
    execution = stage.admit()
    execution.attach()
    execution.detach()
    execution.attach()  # at once: how long it may stay away is short here
    later = stage.admit("b")
    later.attach()
    later.detach()
    assert await stage.ended("o1") is not None, "a client that left later has been away for too long"
    assert "o0" not in stage.service.ended
    execution.detach()
    assert await stage.ended() is not None
    assert execution.stop_reason == "the client cancelled it"


async def test_an_execution_that_is_not_reattachable_ends_with_its_stream(stage: Stage) -> None:
    waiting = stage.admit(reattachable=False)
    waiting.attach()
    waiting.detach()
    assert await stage.ended("o0") is not None
    running = stage.forwarded("b", reattachable=False)
    running.detach()
    assert await stage.ended("o1") is not None
    assert stage.spark.interrupts > 0


async def test_a_stream_that_breaks_ends_nothing(stage: Stage) -> None:
    execution = stage.forwarded()
    execution.detach()
    await stage.polled()
    assert not stage.service.ended
    stage.spark.known[execution.asked.key] = ExecutionState.FINISHED
    assert await stage.ended() is None


@pytest.mark.parametrize("state", [ExecutionState.FAILED, None])
async def test_an_execution_that_spark_ended_unseen_is_reported_after_some_polls(
    stage: Stage, state: ExecutionState | None
) -> None:
    execution = stage.forwarded()
    if state is None:
        del stage.spark.known[execution.asked.key]
    else:
        stage.spark.known[execution.asked.key] = state
    error = await stage.ended()
    assert error is not None and "did not read the result" in error.message
    assert execution.missing == MISSING_POLLS


async def test_an_execution_that_spark_is_slow_to_begin_is_not_taken_for_ended(stage: Stage) -> None:
    execution = stage.handed_over()
    await stage.polled()
    assert not stage.service.ended
    assert execution.missing == 0
    execution.detach()  # nobody is told any more what becomes of it
    error = await stage.ended()
    assert error is not None and "did not read the result" in error.message


async def test_a_stop_waits_for_what_spark_has_not_begun(stage: Stage) -> None:
    execution = stage.handed_over()
    execution.stop("it took too long")
    await stage.until(lambda: stage.spark.interrupts >= 3)  # none of the rounds before has found it
    assert not stage.service.ended
    stage.spark.running = 2
    execution.begun.set()
    assert await stage.ended() is not None
    assert stage.spark.running < 0


async def test_a_stop_gives_up_what_spark_never_begins(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "START_SECONDS", 0.05)
    execution = stage.handed_over()
    execution.stop("it took too long")
    assert await stage.ended() is not None


async def test_no_answer_of_spark_s_is_no_end(stage: Stage) -> None:
    execution = stage.forwarded()
    stage.spark.known.clear()
    stage.spark.broken = True
    await stage.polled()
    assert not stage.service.ended
    stage.spark.broken = False
    stage.spark.known[execution.asked.key] = ExecutionState.RUNNING
    await stage.polled()
    assert not stage.service.ended


async def test_a_stop_is_repeated_until_spark_has_let_go(stage: Stage) -> None:
    execution = stage.forwarded()
    stage.spark.running = 4
    execution.stop("it took too long")
    execution.stop("again")
    error = await stage.ended()
    assert error is not None and error.message == "it took too long"
    assert stage.spark.interrupts > 4


async def test_an_execution_stopped_while_it_waits_never_reaches_spark(stage: Stage) -> None:
    execution = stage.admit()
    execution.attach()
    execution.stop("the queue took too long")
    assert await stage.ended() is not None
    assert execution.turn.is_set()
    assert stage.spark.interrupts == 0


async def test_full_queue_refuses_another_connect_execution(stage: Stage) -> None:
    stage.service.problem = Problem.QUEUE_FULL
    with pytest.raises(ConnectError) as refused:
        stage.admit()
    assert refused.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert stage.executions.find(ExecutionKey(SESSION, "a")) is None


async def test_requests_of_waiting_executions_are_bounded_and_forwarded_ones_dropped(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_WAITING_BYTES", 100)
    first = stage.forwarded("a", request=bytes(80))
    assert first.request == b""
    second = stage.admit("b", request=bytes(80))
    with pytest.raises(ConnectError, match="80 bytes wait"):
        stage.admit("c", request=bytes(30))
    stage.executions.cancel(second)
    await stage.ended("o1")
    stage.admit("c", request=bytes(30))
