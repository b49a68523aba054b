"""The engine with a scripted runner: what it tells while the JVM is dying."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from py4j.protocol import Py4JNetworkError

from sparksql.gateway.engine import Engine
from sparksql.gateway.errors import refusal
from sparksql.gateway.masking import LogMask
from sparksql.gateway.operations import OperationRegister
from sparksql.gateway.workers import Workers
from sparksql.wire.control import ErrorReason, OperationState, SubmitRequest

NOW = datetime(2026, 1, 31, tzinfo=UTC)
REQUEST = SubmitRequest(boot_id="boot", namespace="team-a", name="st", sql="SELECT 1")


class FailingReader:
    """A runner that cannot read a text. Its JVM answers the `answers_at`th time that it is asked, and not before."""

    def __init__(self, failure: Exception, answers_at: float) -> None:
        self.failure = failure
        self.answers_at = answers_at
        self.asked = 0

    def classify(self, request: SubmitRequest) -> None:
        raise self.failure

    def is_quiet(self, group: str) -> bool:
        self.asked += 1
        if self.asked < self.answers_at:
            raise Py4JNetworkError("Answer from Java side is empty")
        return True


def made(runner: FailingReader) -> tuple[Engine, OperationRegister]:
    register = OperationRegister("boot", lambda: NOW)
    none = cast(Any, None)
    engine = Engine(
        runner=cast(Any, runner),
        register=register,
        store=none,
        reader=none,
        log_mask=LogMask(),
        clock=lambda: NOW,
        slots=1,
        workers=Workers(0, 1, 0.0, lambda: None),
        max_preview_rows=1,
    )
    return engine, register


FAILURES = [Py4JNetworkError("Answer from Java side is empty"), refusal(ErrorReason.SQL_ERROR, "no such function")]


@pytest.mark.parametrize("failure", FAILURES, ids=["connection", "refusal"])
async def test_a_text_that_a_dead_jvm_could_not_read_is_not_refused(failure: Exception) -> None:
    runner = FailingReader(failure, answers_at=float("inf"))
    engine, register = made(runner)
    submitted = asyncio.create_task(engine.submit("op", REQUEST))
    async with asyncio.timeout(10):
        while runner.asked < 3:
            await asyncio.sleep(0.01)
    assert register.view("op").state is OperationState.PENDING
    assert not submitted.done()
    submitted.cancel()


@pytest.mark.parametrize("failure", FAILURES, ids=["connection", "refusal"])
async def test_a_text_that_cannot_be_read_is_refused_once_the_jvm_answers(failure: Exception) -> None:
    runner = FailingReader(failure, answers_at=2)
    engine, _ = made(runner)
    async with asyncio.timeout(10):
        view = await engine.submit("op", REQUEST)
    assert (view.state, runner.asked) == (OperationState.ERROR, 2)
