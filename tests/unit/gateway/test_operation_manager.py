"""The manager with a scripted executor: what it tells while the JVM is dying."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from py4j.protocol import Py4JNetworkError

from sparksql.gateway.operations import cancellation
from sparksql.gateway.operations.manager import OperationManager
from sparksql.gateway.operations.operation import Operation, StopRequest
from sparksql.gateway.operations.register import OperationRegister
from sparksql.gateway.operations.thread_pools import ThreadPools
from sparksql.gateway.operations.threads import Workers
from sparksql.gateway.results.store import EMPTY, StoredResult
from sparksql.gateway.sql.classifier import Classified, Statement
from sparksql.gateway.sql.errors import refusal
from sparksql.gateway.sql.kinds import SHOW_SETTINGS
from sparksql.gateway.sql.masking import LogMask
from sparksql.gateway.sql.script import Fragment
from sparksql.wire.control import ErrorReason, OperationState, Progress, ResultSummary, SubmitRequest

NOW = datetime(2026, 1, 31, tzinfo=UTC)
REQUEST = SubmitRequest(boot_id="boot", namespace="team-a", name="st", sql="SELECT 1")


class FailingReader:
    """A executor that cannot read a text. Its JVM answers the `answers_at`th time that it is asked, and not before."""

    def __init__(self, failure: Exception, answers_at: float) -> None:
        self.failure = failure
        self.answers_at = answers_at
        self.asked = 0

    @property
    def jobs(self) -> FailingReader:
        return self

    def classify(self, request: SubmitRequest) -> None:
        raise self.failure

    def is_quiet(self, group: str) -> bool:
        self.asked += 1
        if self.asked < self.answers_at:
            raise Py4JNetworkError("Answer from Java side is empty")
        return True


class EndlessPlanner:
    """A executor whose thread notices no stop until it is let go."""

    def __init__(self, *, read_only: bool) -> None:
        self.read_only = read_only
        self.may_end = threading.Event()
        self.stops = 0

    @property
    def jobs(self) -> EndlessPlanner:
        return self

    def classify(self, request: SubmitRequest) -> Classified:
        return Classified((Statement(Fragment(request.sql, 0), SHOW_SETTINGS),), self.read_only, exclusive=True)

    def run(self, operation: Operation) -> StoredResult:
        operation.started()
        assert self.may_end.wait(60)
        return EMPTY

    def stop(self, group: str, reason: str) -> None: ...

    def stop_jobs(self, group: str, reason: str) -> None:
        self.stops += 1

    def is_quiet(self, group: str) -> bool:
        return True

    def progress(self, group: str) -> Progress:
        return Progress()


def made(executor: object, workers: int = 1) -> tuple[OperationManager, OperationRegister]:
    register = OperationRegister("boot", lambda: NOW)
    reader = SimpleNamespace(summary=lambda *_: ResultSummary())
    store = SimpleNamespace(keep=lambda *_: NOW)
    manager = OperationManager(
        executor=cast(Any, executor),
        register=register,
        store=cast(Any, store),
        reader=cast(Any, reader),
        log_mask=LogMask(),
        clock=lambda: NOW,
        slots=1,
        workers=Workers(0, workers, 0.0, lambda: None),
        threads=ThreadPools(),
        max_preview_rows=1,
    )
    return manager, register


FAILURES = [Py4JNetworkError("Answer from Java side is empty"), refusal(ErrorReason.SQL_ERROR, "no such function")]


@pytest.mark.parametrize("failure", FAILURES, ids=["connection", "refusal"])
async def test_a_text_that_a_dead_jvm_could_not_read_is_not_refused(failure: Exception) -> None:
    executor = FailingReader(failure, answers_at=float("inf"))
    manager, register = made(executor)
    submitted = asyncio.create_task(manager.submit("op", REQUEST))
    async with asyncio.timeout(60):
        while executor.asked < 3:
            await asyncio.sleep(0.01)
    assert register.view("op").state is OperationState.PENDING
    assert not submitted.done()
    submitted.cancel()


@pytest.mark.parametrize("failure", FAILURES, ids=["connection", "refusal"])
async def test_a_text_that_cannot_be_read_is_refused_once_the_jvm_answers(failure: Exception) -> None:
    executor = FailingReader(failure, answers_at=2)
    manager, _ = made(executor)
    async with asyncio.timeout(60):
        view = await manager.submit("op", REQUEST)
    assert (view.state, executor.asked) == (OperationState.ERROR, 2)


async def until_state(register: OperationRegister, operation_id: str, state: OperationState) -> None:
    async with asyncio.timeout(60):
        while register.view(operation_id).state is not state:
            await asyncio.sleep(0.01)


async def test_a_query_that_cannot_be_stopped_ends_for_its_user_and_excludes_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cancellation, "LEAVE_SECONDS", 0.2)
    executor = EndlessPlanner(read_only=True)
    manager, register = made(executor, workers=2)
    await manager.submit("stuck", REQUEST)
    await manager.submit("next", REQUEST)
    await until_state(register, "stuck", OperationState.RUNNING)
    manager.cancel("stuck", StopRequest(OperationState.CANCELED))
    await until_state(register, "stuck", OperationState.CANCELED)
    await until_state(register, "next", OperationState.RUNNING)
    executor.may_end.set()
    await until_state(register, "next", OperationState.FINISHED)
    assert register.view("stuck").state is OperationState.CANCELED


async def test_a_canceled_statement_with_effects_stays_running_until_it_really_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cancellation, "LEAVE_SECONDS", 0.1)
    executor = EndlessPlanner(read_only=False)
    manager, register = made(executor)
    await manager.submit("writes", REQUEST)
    await until_state(register, "writes", OperationState.RUNNING)
    manager.cancel("writes", StopRequest(OperationState.CANCELED))
    async with asyncio.timeout(60):
        while executor.stops < 5:
            await asyncio.sleep(0.01)
    assert register.view("writes").state is OperationState.RUNNING
    executor.may_end.set()
    await until_state(register, "writes", OperationState.FINISHED)
