"""All that a decision about one statement may ask for: the status, commands, Events, and when to look again. Frozen."""

from __future__ import annotations

from dataclasses import dataclass

from sparksql.api.savepoint import SavepointTrigger
from sparksql.api.statement import SqlStatementStatus
from sparksql.domain.event import Event
from sparksql.wire.control import CancelRequest, SubmitRequest


@dataclass(frozen=True)
class Question:
    """Asks a driver whether a change fits, before the query that runs is stopped for it.

    Another request, or another `generation` of the spec, is another question.
    """

    generation: int
    request: SubmitRequest


@dataclass(frozen=True)
class Submit:
    """Hands the statement to its driver. The same id again is the same operation."""

    operation_id: str
    request: SubmitRequest


@dataclass(frozen=True)
class Cancel:
    """Has the driver end the operation."""

    operation_id: str
    request: CancelRequest


@dataclass(frozen=True)
class Ask:
    """Has a driver answer, unless the question is with it already: that of pod `pod_uid`, None for the one that has the query."""

    question: Question
    pod_uid: str | None = None


@dataclass(frozen=True)
class CreateSession:
    """Makes the dedicated session of this statement."""


@dataclass(frozen=True)
class DeleteSession:
    """Deletes the dedicated session of this statement, if there is one."""


@dataclass(frozen=True)
class DeleteSelf:
    """Deletes the statement: `ttlSecondsAfterFinished` has passed."""


@dataclass(frozen=True)
class CreateSavepoint:
    """Makes a SqlSavepoint of this statement, unless one of that name is there."""

    name: str
    trigger: SavepointTrigger


@dataclass(frozen=True)
class DeleteSavepoint:
    """Deletes a SqlSavepoint with its statement, as `savepoints.onDelete: Delete` asks."""

    name: str


Command = Submit | Cancel | Ask | CreateSession | DeleteSession | DeleteSelf | CreateSavepoint | DeleteSavepoint


@dataclass(frozen=True)
class Decision:
    """Says what to do, in this order: finalizer on, status written, commands, finalizer off.

    `requeue_after` is in seconds; None waits for a change.
    """

    status: SqlStatementStatus
    commands: tuple[Command, ...] = ()
    finalizer: bool = True
    events: tuple[Event, ...] = ()
    requeue_after: float | None = None


@dataclass(frozen=True)
class NeedsInputs:
    """Says that the decision turns on the text or on values of parameters.

    The controller reads them, and the driver's answer if it was asked about them, and has it decided again. Never the
    answer to a snapshot that has inputs.
    """
