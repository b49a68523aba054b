"""One driver at a time writes a checkpoint: a record beside it names the driver and is looked at while its query runs.

Kubernetes cannot prove that a pod which was deleted by force, or whose node is lost, runs no more. A driver that takes a
checkpoint over writes its own name into the record. The one before it finds that and stops its query: within `CHECK_SECONDS`,
or, if it cannot read the record, once `LEASE_SECONDS` have passed since it last could. Only after `WAIT_SECONDS` does the new
one start its query, and only if the operator says that the end of the driver before it was not seen.

Between two looks Spark's own log of batches and the batch number in the target hold: of a batch that both write, one counts, see
`conditional` and `commit_once`. A query whose batches go through this process looks before each of them.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, replace
from typing import Protocol

from sparksql.gateway.sql.errors import refusal
from sparksql.wire.control import ErrorReason

SUFFIX = ".writer.json"  # beside the checkpoint, so that whoever copies or removes the checkpoint need not know of it
CHECK_SECONDS = 5.0
LEASE_SECONDS = 20.0
# The lease and some time for the query to end; also more than the grace period of a driver pod (25 s).
WAIT_SECONDS = 30.0
_POLL_SECONDS = 0.2

TAKEN_OVER = "another driver owns the checkpoint; this one has stopped the query"
UNREADABLE = (
    f"for {LEASE_SECONDS:g} s this driver was frozen, or the storage of the checkpoint did not answer; the query was "
    "stopped, since another driver may own the checkpoint by now"
)

log = logging.getLogger(__name__)


class TextFiles(Protocol):
    """Does what a fence needs of a file system. All calls raise what the file system raises."""

    def read_text(self, uri: str) -> str | None:
        """Returns a file's text, None when there is no file."""

    def write_text(self, uri: str, text: str) -> None:
        """Writes a file in place of the one that is there."""

    def delete(self, uri: str) -> bool:
        """Deletes a file; returns whether it was there."""


@dataclass(frozen=True)
class WriterRecord:
    """Names who writes a checkpoint: the boot of a gateway and its operation. `settled`: who came before is known to be over."""

    boot_id: str
    operation_id: str
    settled: bool = True

    def to_json(self) -> str:
        """Returns the file's text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> WriterRecord:
        """Reads a record's text.

        Raises ValueError for what is no record: one that is just being written, or that an unclean end has cut off.
        """
        try:
            return cls(**json.loads(text))
        except TypeError as error:
            raise ValueError(str(error)) from error


class Fence:
    """The checkpoints that this process writes, and the thread that looks after their marks. `clock` is monotonic seconds."""

    def __init__(self, files: TextFiles, clock: Callable[[], float] = time.monotonic) -> None:
        self.files = files
        self.clock = clock
        self._leases: set[CheckpointLease] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def lease(self, checkpoint: str, boot_id: str, operation_id: str) -> CheckpointLease:
        """Returns a lease on a checkpoint, not yet taken."""
        return CheckpointLease(self, f"{checkpoint.rstrip('/')}{SUFFIX}", WriterRecord(boot_id, operation_id))

    def refresh(self) -> None:
        """Looks at all marks once. One that cannot be read is looked at again the next time."""
        with self._lock:
            leases = list(self._leases)
        for lease in leases:
            lease.refresh()

    def watch(self, lease: CheckpointLease) -> None:
        """Begins to read the record of a lease every CHECK_SECONDS."""
        with self._lock:
            self._leases.add(lease)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="fence", daemon=True)
                self._thread.start()

    def forget(self, lease: CheckpointLease) -> None:
        """Ends that; unknown leases change nothing."""
        with self._lock:
            self._leases.discard(lease)

    def _watch(self) -> None:
        while True:
            time.sleep(CHECK_SECONDS)
            self.refresh()


class CheckpointLease:
    """Holds a checkpoint for one operation: `take`, then `check` or `verify` as long as it writes, then `release`."""

    def __init__(self, fence: Fence, uri: str, record: WriterRecord) -> None:
        self._fence = fence
        self._uri = uri
        self._record = record
        self._verified: float | None = None  # when the record was last known to be ours, None before it is taken
        self._is_settled = False
        self._is_lost = False

    @property
    def is_lost(self) -> bool:
        """Returns whether another driver has the checkpoint, or may have it."""
        return self._is_lost

    def take(self, unconfirmed: Collection[str], check: Callable[[], None]) -> None:
        """Marks the checkpoint as this attempt's; waits if a driver among `unconfirmed` (boot ids) may still write it.

        `check` is called while it waits, to raise what ends the attempt. Raises StatementError when it is taken over meanwhile.
        """
        must_wait = self._may_have_another_writer(unconfirmed)
        now = self._fence.clock()
        self._write(replace(self._record, settled=not must_wait))
        self._verified = now
        self._fence.watch(self)
        if must_wait:
            self._wait_for_other_writer(check)
            self._write(self._record)
        self._is_settled = True

    def refresh(self) -> None:
        """Reads the record; one that cannot be read tells nothing."""
        now = self._fence.clock()
        try:
            is_own = self._is_own()
        except Exception as error:
            log.warning(
                "the mark of a checkpoint could not be read: %s",
                type(error).__name__,
                extra={"operation_id": self._record.operation_id},
            )
            return
        if is_own:
            self._verified = now
        else:
            self._is_lost = True

    def check(self) -> None:
        """Raises StatementError once somebody else has the checkpoint, or may have it. Reads nothing."""
        if self._is_lost:
            raise refusal(ErrorReason.ENVIRONMENT_FAILED, TAKEN_OVER)
        if self._verified is not None and self._fence.clock() - self._verified > LEASE_SECONDS:
            self._is_lost = True
            raise refusal(ErrorReason.ENVIRONMENT_FAILED, UNREADABLE)

    def verify(self) -> None:
        """Reads the record, then `check`."""
        self.refresh()
        self.check()

    def release(self) -> None:
        """Takes the record away if it is this attempt's: the next one need not ask who wrote here.

        After a wait that did not end the record stays: who was waited for may still write.
        """
        self._fence.forget(self)
        if not self._is_settled or self._is_lost:
            return
        try:
            if self._is_own():
                self._fence.files.delete(self._uri)
        except Exception as error:
            log.warning(
                "the mark of a checkpoint could not be removed: %s",
                type(error).__name__,
                extra={"operation_id": self._record.operation_id},
            )

    def _wait_for_other_writer(self, check: Callable[[], None]) -> None:
        log.warning(
            "waits for a driver that may still write the checkpoint, at most %.0f s",
            WAIT_SECONDS,
            extra={"operation_id": self._record.operation_id},
        )
        until = self._fence.clock() + WAIT_SECONDS
        while self._fence.clock() < until:
            check()
            self.check()
            time.sleep(_POLL_SECONDS)
        self.verify()

    def _may_have_another_writer(self, unconfirmed: Collection[str]) -> bool:
        text = self._fence.files.read_text(self._uri)
        if text is None:
            return False
        try:
            before = WriterRecord.from_json(text)
        except ValueError:
            return True
        return not before.settled or before.boot_id in unconfirmed

    def _is_own(self) -> bool:
        text = self._fence.files.read_text(self._uri)
        return text is not None and WriterRecord.from_json(text).operation_id == self._record.operation_id

    def _write(self, record: WriterRecord) -> None:
        self._fence.files.write_text(self._uri, record.to_json())
