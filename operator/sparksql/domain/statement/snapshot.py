"""Everything a decision about one statement looks at, and everything it may ask for. Frozen; made by the controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto

from sparksql.api.reasons import Reason
from sparksql.api.savepoint import SavepointPhase, SavepointTrigger
from sparksql.api.session import SessionPhase
from sparksql.api.statement import SqlStatement, SqlStatementStatus
from sparksql.domain import dependencies
from sparksql.domain.admission import Turn
from sparksql.domain.note import Note
from sparksql.domain.refusal import Refusal
from sparksql.wire.control import CancelRequest, OperationView, Parameter, SubmitRequest


@dataclass(frozen=True)
class Driver:
    """A driver that takes statements: the pod it runs in and the boot of its gateway.

    `unconfirmed` are boots of drivers before it whose end nobody has seen.
    """

    pod_name: str
    pod_uid: str
    boot_id: str
    unconfirmed: tuple[str, ...] = ()


@dataclass(frozen=True)
class SessionFacts:
    """The session that a statement names, or the one it owns. `driver` is set while it can take statements."""

    name: str
    phase: SessionPhase | None
    deleting: bool = False
    driver: Driver | None = None
    problem: tuple[Reason, str] | None = None  # its Stalled condition, when that is True

    @property
    def is_closing(self) -> bool:
        """Whether statements that wait here must end in Closed."""
        return self.deleting or self.phase is SessionPhase.CLOSED


@dataclass(frozen=True)
class Settings:
    """A statement's own settings after all layers and the class's limits; seconds, 0 = no limit. `checkpoint_root` is where
    class `class_name` keeps checkpoints of streaming statements."""

    conf: Mapping[str, str] = field(default_factory=dict)
    queue_seconds: int = 0
    execution_seconds: int = 0
    preview_rows: int = 20
    class_name: str = ""
    checkpoint_root: str | None = None


@dataclass(frozen=True)
class Inputs:
    """Text and parameter values with every reference resolved."""

    sql: str
    parameters: tuple[Parameter, ...] = ()


@dataclass(frozen=True)
class MissingReference:
    """A ConfigMap, Secret or key that does not exist (yet)."""

    message: str


class Silence(Enum):
    """Why there is no view of an operation that was handed over."""

    UNKNOWN = auto()  # the gateway answers and does not know it
    UNREACHABLE = auto()  # the gateway does not answer, its pod is still there
    DRIVER_GONE = auto()  # the pod is confirmed gone or has ended, or another boot answers


@dataclass(frozen=True)
class SavepointFacts:
    """A SqlSavepoint as a statement sees it. `ended` is when it was complete or given up, `adopted` that it was there already,
    `message` explains its phase."""

    name: str
    phase: SavepointPhase | None
    created: datetime
    trigger: SavepointTrigger = SavepointTrigger.MANUAL
    location: str | None = None
    ended: datetime | None = None
    deleting: bool = False
    pinned: bool = False
    adopted: bool = False
    message: str = ""


@dataclass(frozen=True)
class Snapshot:
    """Facts at one moment. `operation` is about `status.operation_id`; `settings` is None while the session is unknown;
    `awaited` tells that a dependant has not yet noted the end of this statement. Of a streaming statement `savepoints` are
    those that name it, `start_from` is what its `startFrom` names, None if there is no such SqlSavepoint.
    """

    now: datetime
    statement: SqlStatement
    session: SessionFacts | None
    settings: Settings | Refusal | None
    dependencies: dependencies.Outcome
    turn: Turn
    queue_full: bool = False
    inputs: Inputs | MissingReference | Refusal | None = None
    operation: OperationView | Silence | None = None
    awaited: bool = False
    namespace_terminating: bool = False
    savepoints: tuple[SavepointFacts, ...] = ()
    start_from: SavepointFacts | None = None


@dataclass(frozen=True)
class Submit:
    operation_id: str
    request: SubmitRequest


@dataclass(frozen=True)
class Cancel:
    operation_id: str
    request: CancelRequest


@dataclass(frozen=True)
class CreateSession:
    """Make the dedicated session of this statement."""


@dataclass(frozen=True)
class DeleteSession:
    """Delete the dedicated session of this statement, if there is one."""


@dataclass(frozen=True)
class DeleteSelf:
    """`ttlSecondsAfterFinished` has passed."""


@dataclass(frozen=True)
class CreateSavepoint:
    """Make a SqlSavepoint of this statement, unless one of that name is there."""

    name: str
    trigger: SavepointTrigger


@dataclass(frozen=True)
class DeleteSavepoint:
    """`savepoints.onDelete: Delete`: it goes with the statement."""

    name: str


Command = Submit | Cancel | CreateSession | DeleteSession | DeleteSelf | CreateSavepoint | DeleteSavepoint


@dataclass(frozen=True)
class Decision:
    """What to do, in this order: finalizer on, status written, commands, finalizer off. `requeue_after` in seconds."""

    status: SqlStatementStatus
    commands: tuple[Command, ...] = ()
    finalizer: bool = True
    note: Note | None = None
    requeue_after: float | None = None
