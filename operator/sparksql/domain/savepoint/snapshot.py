"""Everything a decision about one savepoint looks at, and everything it may ask for. Frozen; made by the controller."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

from sparksql.api.reasons import Reason
from sparksql.api.savepoint import SavepointTrigger, SqlSavepoint, SqlSavepointStatus
from sparksql.api.statement import SqlStatement
from sparksql.domain.event import Event
from sparksql.domain.savepoint.retention import RetentionDecision
from sparksql.domain.statement.snapshot import Driver, SavepointFacts, Unobserved
from sparksql.wire.savepoints import StateQuery


@dataclass(frozen=True)
class SavepointStorage:
    """Tells where class `class_name` of the statement's session keeps savepoints.

    `savepoint_root` is None if the class names none. `service_account` is the session's.
    """

    class_name: str
    savepoint_root: str | None
    service_account: str = "default"


@dataclass(frozen=True)
class Attempt:
    """Holds what is known of the newest attempt, kept with the status.

    That is the driver that was asked, the statement whose checkpoint it copies, and the class and service account it
    works with.
    """

    driver: Driver
    statement_uid: str
    class_name: str = ""
    service_account: str = "default"


@dataclass(frozen=True)
class Running:
    """The driver works on it."""


@dataclass(frozen=True)
class Completed:
    """The manifest is written, or was found where an existing savepoint lies. `size_bytes` is that of all files."""

    batch_id: int
    query_id: str
    spark_version: str | None
    size_bytes: int
    file_count: int
    sql_hash: str | None = None


@dataclass(frozen=True)
class Failed:
    """Says that the attempt is over without a manifest.

    So ends one that was cancelled as well, even if the driver had not heard of it before. `final` is the reason of a failure that
    another attempt would have as well: what lies at the location is no savepoint, or another's, or the query gives no state.
    """

    message: str
    final: Reason | None = None


Observation = Running | Completed | Failed | Unobserved
"""What the driver that was asked last said of an attempt; a `Unobserved` tells why there is none."""


class DeletionJob(Enum):
    """The Job that removes a savepoint's data."""

    ABSENT = auto()
    RUNNING = auto()
    SUCCEEDED = auto()


@dataclass(frozen=True)
class DeletionFailed:
    """Says that the Job has given up; `reason` and `message` are those of its condition."""

    reason: str
    message: str


@dataclass(frozen=True)
class Snapshot:
    """Holds the facts at one moment.

    `statement` is None only when a live read has confirmed that there is none; `storage` is None while the class is not
    known; `driver` is one of the statement's session that can copy now. `attempt` is what was kept with the status,
    `observation` is about it. `trigger` is why the object was made; `used_by` are names of statements that refer to it;
    `retention` is what retention says of it, None if nobody asked. `named` are other savepoints of its namespace whose names
    occur in its query, if that calls `savepoint_state`.
    """

    now: datetime
    savepoint: SqlSavepoint
    statement: SqlStatement | None
    storage: SavepointStorage | None = None
    driver: Driver | None = None
    attempt: Attempt | None = None
    observation: Observation | None = None
    trigger: SavepointTrigger = SavepointTrigger.MANUAL
    used_by: tuple[str, ...] = ()
    named: tuple[SavepointFacts, ...] = ()
    retention: RetentionDecision | None = None
    deletion_job: DeletionJob | DeletionFailed = DeletionJob.ABSENT
    namespace_terminating: bool = False


@dataclass(frozen=True)
class StartCopy:
    """Have `driver` copy `checkpoint` to `target` and write the manifest last. The same `id` copies at most once per driver.

    `owner_uid` goes into the marker file of `target`: what another object's marker names is not touched.
    """

    id: str
    driver: Driver
    checkpoint: str
    target: str
    owner_uid: str
    sql_hash: str | None = None


@dataclass(frozen=True)
class StartQuery:
    """Have `driver` make a savepoint at `target` whose state `query` gives; else as `StartCopy`.

    `checkpoint` is None while the statement has no state.
    """

    id: str
    driver: Driver
    checkpoint: str | None
    target: str
    owner_uid: str
    query: StateQuery
    sql_hash: str | None = None


@dataclass(frozen=True)
class VerifyExisting:
    """Have `driver` read the manifest of what lies at `location`. Nothing is written."""

    id: str
    driver: Driver
    location: str


@dataclass(frozen=True)
class CancelCopy:
    """Have `driver` end `id`; one that it does not know yet is refused from then on."""

    id: str
    driver: Driver
    reason: str


@dataclass(frozen=True)
class StartDeletionJob:
    """Make the Job that removes `target`: only below `root`, only where the marker file names `owner_uid`."""

    target: str
    root: str
    owner_uid: str


@dataclass(frozen=True)
class DeleteSelf:
    """Retention does not keep it."""


Command = StartCopy | StartQuery | VerifyExisting | CancelCopy | StartDeletionJob | DeleteSelf


@dataclass(frozen=True)
class Decision:
    """Says what to do, in this order: finalizer on, status and attempt written in one, commands, finalizer off.

    `requeue_after` in seconds.
    """

    status: SqlSavepointStatus
    commands: tuple[Command, ...] = ()
    attempt: Attempt | None = None
    finalizer: bool = True
    events: tuple[Event, ...] = ()
    requeue_after: float | None = None
