"""The fence of a checkpoint: who may write, who must wait, and who must stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from sparksql.gateway.sql.errors import StatementError
from sparksql.gateway.streaming.checkpoints import fence as fencing
from sparksql.gateway.streaming.checkpoints.fence import (
    LEASE_SECONDS,
    SUFFIX,
    WAIT_SECONDS,
    CheckpointLease,
    Fence,
    WriterRecord,
)
from sparksql.wire.control import ErrorReason

CHECKPOINT = "s3a://bucket/checkpoints/team-a/st/1"
PLACE = CHECKPOINT + SUFFIX


@dataclass
class FakeFiles:
    """A storage of small files that can stop to answer."""

    texts: dict[str, str] = field(default_factory=dict)
    answers: bool = True

    def read_text(self, uri: str) -> str | None:
        self._ask()
        return self.texts.get(uri)

    def write_text(self, uri: str, text: str) -> None:
        self._ask()
        self.texts[uri] = text

    def delete(self, uri: str) -> bool:
        self._ask()
        return self.texts.pop(uri, None) is not None

    def _ask(self) -> None:
        if not self.answers:
            raise OSError("no route to host")


class Clock:
    """Seconds that pass when somebody sleeps; then all fences look, and `then` is called."""

    def __init__(self) -> None:
        self.now = 100.0
        self.fences: list[Fence] = []
        self.then: Callable[[], None] = lambda: None

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for fence in self.fences:
            fence.refresh()
        self.then()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(fencing.time, "sleep", made.sleep)
    monkeypatch.setattr(Fence, "_watch", lambda _: None)  # here the clock does it
    return made


@pytest.fixture
def files() -> FakeFiles:
    return FakeFiles()


def going_on() -> None:
    """Nothing ends the attempt."""


def taken(
    files: FakeFiles, clock: Clock, boot: str, operation: str, *unconfirmed: str
) -> tuple[Fence, CheckpointLease]:
    fence = Fence(files, clock)
    clock.fences.append(fence)
    lease = fence.lease(CHECKPOINT, boot, operation)
    lease.take(unconfirmed, going_on)
    return fence, lease


def mark(files: FakeFiles) -> WriterRecord:
    return WriterRecord.from_json(files.texts[PLACE])


def refusal_of(lease: CheckpointLease) -> str:
    with pytest.raises(StatementError) as refused:
        lease.check()
    assert refused.value.error.reason is ErrorReason.ENVIRONMENT_FAILED
    return refused.value.error.message


def test_a_checkpoint_that_nobody_writes_is_taken_at_once_and_given_back(files: FakeFiles, clock: Clock) -> None:
    _, lease = taken(files, clock, "boot-1", "op-1")
    assert mark(files) == WriterRecord("boot-1", "op-1")
    lease.verify()
    lease.release()
    assert (clock.now, files.texts) == (100.0, {})


def test_a_driver_that_was_seen_to_end_is_not_waited_for(files: FakeFiles, clock: Clock) -> None:
    taken(files, clock, "boot-1", "op-1")
    taken(files, clock, "boot-2", "op-2", "boot-0")
    assert (clock.now, mark(files)) == (100.0, WriterRecord("boot-2", "op-2"))


def test_a_driver_that_may_still_run_is_waited_for_and_stops(files: FakeFiles, clock: Clock) -> None:
    _, old = taken(files, clock, "boot-1", "op-1")
    _, new = taken(files, clock, "boot-2", "op-2", "boot-1")
    assert clock.now - 100.0 == pytest.approx(WAIT_SECONDS, abs=0.5)
    assert mark(files) == WriterRecord("boot-2", "op-2")
    assert refusal_of(old) == fencing.TAKEN_OVER
    old.release()
    new.verify()
    assert mark(files) == WriterRecord("boot-2", "op-2")


def test_the_wait_outlasts_a_driver_that_cannot_read_the_mark(files: FakeFiles, clock: Clock) -> None:
    """Cut off from the storage, it stops by itself before the next one starts."""
    cut_off = FakeFiles(files.texts)
    _, old = taken(cut_off, clock, "boot-1", "op-1")
    cut_off.answers = False
    ended: list[float] = []

    def watch() -> None:
        try:
            old.check()
        except StatementError:
            ended.append(clock.now)

    clock.then = watch
    _, new = taken(files, clock, "boot-2", "op-2", "boot-1")
    new.check()
    assert ended and ended[0] - 100.0 == pytest.approx(LEASE_SECONDS, abs=0.5)
    assert old.is_lost and not new.is_lost


@pytest.mark.parametrize("left", [WriterRecord("boot-2", "op-2", settled=False).to_json(), "", '{"boot', '{"who": 1}'])
def test_an_unsettled_or_broken_mark_of_a_gone_driver_is_waited_for_in_full(
    files: FakeFiles, clock: Clock, left: str
) -> None:
    """It is gone for certain, but the one that it waited for may not be; half a mark says as little."""
    files.texts[PLACE] = left
    taken(files, clock, "boot-3", "op-3")
    assert clock.now - 100.0 == pytest.approx(WAIT_SECONDS, abs=0.5)
    assert mark(files) == WriterRecord("boot-3", "op-3")


def test_the_wait_can_be_ended_and_is_then_not_settled(files: FakeFiles, clock: Clock) -> None:
    taken(files, clock, "boot-1", "op-1")

    class Enough(Exception):
        pass

    def cancelled() -> None:
        if clock.now > 105.0:
            raise Enough

    lease = Fence(files, clock).lease(CHECKPOINT, "boot-2", "op-2")
    with pytest.raises(Enough):
        lease.take(("boot-1",), cancelled)
    assert mark(files) == WriterRecord("boot-2", "op-2", settled=False)
    lease.release()
    assert mark(files) == WriterRecord("boot-2", "op-2", settled=False)


def test_a_statement_overtaken_while_it_waits_for_the_fence_does_not_start(files: FakeFiles, clock: Clock) -> None:
    taken(files, clock, "boot-1", "op-1")

    def third() -> None:
        files.texts[PLACE] = WriterRecord("boot-3", "op-3").to_json()

    clock.then = third
    with pytest.raises(StatementError, match="owns the checkpoint"):
        taken(files, clock, "boot-2", "op-2", "boot-1")


def test_a_storage_that_is_silent_for_a_moment_stops_nothing(files: FakeFiles, clock: Clock) -> None:
    fence, lease = taken(files, clock, "boot-1", "op-1")
    files.answers = False
    clock.now += LEASE_SECONDS - 1
    fence.refresh()
    lease.check()
    files.answers = True
    fence.refresh()
    clock.now += LEASE_SECONDS - 1
    lease.check()
    clock.now += 2
    assert refusal_of(lease) == fencing.UNREADABLE
    assert lease.is_lost


@pytest.mark.parametrize("found", [None, WriterRecord("boot-1", "op-9").to_json()])
def test_a_mark_that_is_not_ours_any_more_stops_the_query(files: FakeFiles, clock: Clock, found: str | None) -> None:
    """Also one that is missing: whoever removed it may have written it in between."""
    _, lease = taken(files, clock, "boot-1", "op-1")
    files.texts.clear()
    if found is not None:
        files.texts[PLACE] = found
    with pytest.raises(StatementError, match="owns the checkpoint"):
        lease.verify()
    lease.release()
    assert files.texts.get(PLACE) == found


def test_a_fence_that_was_never_taken_is_released_without_storage_access(files: FakeFiles, clock: Clock) -> None:
    files.answers = False
    Fence(files, clock).lease(CHECKPOINT, "boot-1", "op-1").release()


def test_a_storage_that_fails_at_the_release_does_not_fail_the_query(files: FakeFiles, clock: Clock) -> None:
    _, lease = taken(files, clock, "boot-1", "op-1")
    files.answers = False
    lease.release()
