"""All that a decision about one statement looks at. Frozen; made by the controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto

from sparksql.api.reasons import Reason
from sparksql.api.savepoint import SavepointPhase, SavepointTrigger
from sparksql.api.session import SessionPhase
from sparksql.api.statement import SqlStatement
from sparksql.api.streaming import Streaming
from sparksql.domain.admission import Turn
from sparksql.domain.session.snapshot import ExecutorFailure
from sparksql.domain.statement import dependencies
from sparksql.domain.violation import Violation
from sparksql.wire.control import OperationView, Parameter


@dataclass(frozen=True)
class Driver:
    """A driver that takes statements: the pod it runs in and the boot of its gateway.

    `unconfirmed` are boots of drivers before it whose end nobody has observed. `compares_states` tells that it can look
    at a changed text while the query runs, `previews_states` that a preview can begin with a savepoint, `makes_states` that a
    query can give the state of one, `plans_streams` that it validates and explains the query that a stream would run;
    drivers of earlier versions cannot.
    """

    pod_name: str
    pod_uid: str
    boot_id: str
    unconfirmed: tuple[str, ...] = ()
    compares_states: bool = False
    previews_states: bool = False
    makes_states: bool = False
    plans_streams: bool = False


@dataclass(frozen=True)
class SessionFacts:
    """The session that a statement names, or the one it owns. `driver` is set while it can take statements."""

    name: str
    phase: SessionPhase | None
    deleting: bool = False
    driver: Driver | None = None
    problem: tuple[Reason, str] | None = None  # its Stalled condition, when that is True
    queue: str | None = None  # what its driver waits for in a queue
    executors: str | None = None  # what it waits for while it has not a single executor
    executor_failures: tuple[ExecutorFailure, ...] = ()  # of its driver, within the last hour
    incompatibility: str | None = None  # why its driver is handed nothing, being of another version

    @property
    def is_closing(self) -> bool:
        """Tells whether statements that wait here must end in Closed."""
        return self.deleting or self.phase is SessionPhase.CLOSED


@dataclass(frozen=True)
class Settings:
    """A statement's own settings after all layers and the class's limits; seconds, 0 = no limit.

    `checkpoint_root` is where class `class_name` keeps checkpoints of streaming statements.
    """

    conf: Mapping[str, str] = field(default_factory=dict)
    queue_seconds: int = 0
    execution_seconds: int = 0
    preview_rows: int = 20
    class_name: str = ""
    checkpoint_root: str | None = None


@dataclass(frozen=True)
class Inputs:
    """Text and parameter values with every reference resolved."""

    sql: str = field(repr=False)
    parameters: tuple[Parameter, ...] = ()


@dataclass(frozen=True)
class MissingReference:
    """A ConfigMap, Secret or key that does not exist (yet)."""

    message: str


class Unobserved(Enum):
    """Names why there is no view of an operation that was handed over."""

    UNKNOWN = auto()  # the gateway answers and does not know it
    UNREACHABLE = auto()  # the gateway does not answer, its pod is still there
    DRIVER_GONE = auto()  # the pod is confirmed gone or has ended, or another boot answers


@dataclass(frozen=True)
class Refusal:
    """Says that the driver answers the hand-over of this attempt with an error: its words, and since when it does."""

    since: datetime
    message: str


@dataclass(frozen=True)
class SavepointFacts:
    """A SqlSavepoint as a statement sees it.

    `ended` is when it was complete or given up, `adopted` that it is no copy of what the statement had (it was there already, or
    a query gave it), `message` explains its phase; `statement` is the one whose state it is.
    """

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
    statement: str | None = None


@dataclass(frozen=True)
class StateFacts:
    """The statement that a text is validated against: its `spec.streaming`, and where its state is."""

    name: str
    streaming: Streaming | None
    checkpoint: str | None


@dataclass(frozen=True)
class Inquired:
    """Holds the time of the first request of the present question, and the number of its answers."""

    since: datetime
    answers: int


@dataclass(frozen=True)
class Snapshot:
    """Holds the facts at one moment.

    `inputs` is None until they were read, which costs requests: a decision that turns on them says so, and is asked
    again. `operation` is about `status.operation_id`, and `last_view` the last word on it of a driver that is gone;
    `is_disrupted` tells that the cluster took this driver away for its own ends, `is_deleted` that its pod was deleted while it
    ran, by a user or by the operator (a restart, a changed spec, a hibernation). `refusal` is why a driver does not take it;
    `settings` is None while the session is unknown; `awaited` tells that a dependant has not yet noted the end of this statement.

    Of a streaming statement `savepoints` are those that name it, `start_from` is what its `startFrom` names, None if
    there is no such SqlSavepoint, and `answer` is the last word of its driver on `stream.compatibility.question`,
    `inquired` the history of that question. `state` is what `validateAgainst` names, None if there is no such statement.
    `named` are savepoints of its namespace whose names occur in its inputs, if these call `savepoint_state`; else None.

    `sessions` and `statements` are names of others in its namespace: looked up only when it names one that does not exist.
    """

    now: datetime
    statement: SqlStatement
    session: SessionFacts | None
    settings: Settings | Violation | None
    dependencies: dependencies.Outcome
    turn: Turn
    queue_full: bool = False
    inputs: Inputs | MissingReference | Violation | None = None
    operation: OperationView | Unobserved | None = None
    last_view: OperationView | None = None
    refusal: Refusal | None = None
    is_disrupted: bool = False
    is_deleted: bool = False
    awaited: bool = False
    namespace_terminating: bool = False
    savepoints: tuple[SavepointFacts, ...] = ()
    start_from: SavepointFacts | None = None
    answer: OperationView | None = None
    inquired: Inquired | None = None
    state: StateFacts | None = None
    named: tuple[SavepointFacts, ...] | None = None
    sessions: tuple[str, ...] = ()
    statements: tuple[str, ...] = ()
