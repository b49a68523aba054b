"""What the loop makes of each outcome of a reconcile, and how it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from sparksql.engine.errors import Transient, Waiting
from sparksql.engine.key import Key
from sparksql.engine.loop import ReconcileLoop, Result
from sparksql.engine.queue import WorkQueue

KEY = Key("SqlStatement", "team-a", "one")


class Seen:
    """An observer that remembers results and lets a test wait for a number of them."""

    def __init__(self) -> None:
        self.results: asyncio.Queue[Result] = asyncio.Queue()

    def reconciled(self, kind: str, result: Result, seconds: float) -> None:
        assert kind == "SqlStatement"
        assert seconds >= 0
        self.results.put_nowait(result)

    async def wait(self, count: int) -> list[Result]:
        async with asyncio.timeout(60):
            return [await self.results.get() for _ in range(count)]


class RecordingQueue(WorkQueue):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def add_after(self, key: Key, seconds: float) -> None:
        self.calls.append(f"after {seconds:.0f}" if seconds >= 1 else "soon")
        super().add_after(key, seconds)

    def add_rate_limited(self, key: Key, at_least: float = 0.0) -> None:
        self.calls.append(f"backoff, at least {at_least:.0f}" if at_least else "backoff")
        super().add_rate_limited(key, at_least)

    def forget(self, key: Key) -> None:
        self.calls.append("forget")
        super().forget(key)


async def run_once(outcome: float | Exception | None) -> tuple[list[str], Result]:
    queue, seen = RecordingQueue(), Seen()

    async def reconcile(key: Key) -> float | None:
        assert key == KEY
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    queue.add(KEY)
    queue.calls.clear()
    loop = asyncio.create_task(ReconcileLoop(queue, {"SqlStatement": reconcile}, workers=2, observer=seen).run())
    results = await seen.wait(1)
    queue.close()
    async with asyncio.timeout(60):
        await loop
    return queue.calls, results[0]


@pytest.mark.parametrize(
    ("outcome", "calls", "result"),
    [
        (None, ["forget"], Result.SUCCESS),
        (30.0, ["forget", "after 30"], Result.SUCCESS),
        (Waiting(7.0), ["forget", "after 7"], Result.WAITING),
        (Transient(OSError("refused")), ["backoff", "soon"], Result.TRANSIENT),
        (ValueError("odd"), ["backoff", "soon"], Result.ERROR),
    ],
)
async def test_reconcile_outcome_decides_when_the_key_is_queued_again(
    outcome: float | Exception | None, calls: list[str], result: Result
) -> None:
    assert await run_once(outcome) == (calls, result)


async def test_a_failure_that_says_when_to_come_back_is_not_tried_before() -> None:
    calls, result = await run_once(Transient(OSError("busy"), 7.0))
    assert (calls[0], result) == ("backoff, at least 7", Result.TRANSIENT)
    assert 7 <= float(calls[1].removeprefix("after ")) <= 11


async def test_a_failing_key_is_tried_again_until_it_succeeds_and_others_go_on() -> None:
    queue, seen = WorkQueue(), Seen()
    failures = {"bad": 3}
    other = Key("SqlStatement", "team-a", "good")

    async def reconcile(key: Key) -> float | None:
        if failures.get(key.name, 0):
            failures[key.name] -= 1
            raise RuntimeError("not yet")
        return None

    queue.add(Key("SqlStatement", "team-a", "bad"))
    queue.add(other)
    loop = asyncio.create_task(ReconcileLoop(queue, {"SqlStatement": reconcile}, workers=1, observer=seen).run())
    results = await seen.wait(5)
    assert sorted(results) == sorted([Result.ERROR] * 3 + [Result.SUCCESS] * 2)
    queue.close()
    await loop


async def test_an_unexpected_error_is_logged_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        await run_once(ValueError("SELECT secret FROM t"))
    [record] = caplog.records
    fields = record.__dict__["fields"]
    assert (fields["namespace"], fields["name"], fields["error"]) == ("team-a", "one", "ValueError")
    assert "reconcile" in fields["stack"]
    assert "secret" not in caplog.text
    assert "secret" not in str(fields)


def blocking(started: asyncio.Event, release: asyncio.Event, ended: list[str]) -> Callable[[Key], Awaitable[None]]:
    async def reconcile(_: Key) -> None:
        started.set()
        try:
            await release.wait()
            ended.append("returned")
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    return reconcile


async def test_closing_the_queue_lets_a_running_reconcile_end() -> None:
    queue, started, release, ended = WorkQueue(), asyncio.Event(), asyncio.Event(), list[str]()
    work = blocking(started, release, ended)
    loop = asyncio.create_task(ReconcileLoop(queue, {"SqlStatement": work}, workers=3, observer=Seen()).run())
    queue.add(KEY)
    async with asyncio.timeout(60):
        await started.wait()
        queue.close()
        release.set()
        await loop
    assert ended == ["returned"]


async def test_cancelling_the_loop_cancels_a_running_reconcile() -> None:
    queue, started, seen, ended = WorkQueue(), asyncio.Event(), Seen(), list[str]()
    work = blocking(started, asyncio.Event(), ended)
    loop = asyncio.create_task(ReconcileLoop(queue, {"SqlStatement": work}, workers=3, observer=seen).run())
    queue.add(KEY)
    async with asyncio.timeout(60):
        await started.wait()
        loop.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loop
    assert ended == ["cancelled"]
    assert seen.results.empty()


async def test_a_long_queue_of_reconciles_that_wait_for_nothing_lets_others_run() -> None:
    """At a start with thousands of ended statements probes are answered, and events do not pile up."""
    queue, seen, left = WorkQueue(), Seen(), 100

    async def reconcile(_: Key) -> float | None:
        nonlocal left
        left -= 1
        return None

    for number in range(left):
        queue.add(Key("SqlStatement", "team-a", str(number)))
    loop = asyncio.create_task(ReconcileLoop(queue, {"SqlStatement": reconcile}, workers=4, observer=seen).run())
    turns = 0
    async with asyncio.timeout(60):
        while left > 0:
            await asyncio.sleep(0)
            turns += 1
        queue.close()
        await loop
    assert turns >= 100 / 4
