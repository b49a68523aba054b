"""Savepoints in the control protocol.

The operator asks a gateway for a copy of a checkpoint, maybe with the state that a query gives, or what lies at a location, and
looks how far it is.

| request | body | answer |
|---|---|---|
| PUT /savepoints/{attemptId} | `SavepointRequest` | `SavepointView`; idempotent: a known id answers what is known |
| GET /savepoints/{attemptId} | | `SavepointView`, 404 for an unknown id |
| DELETE /savepoints/{attemptId} | | `SavepointView`; see below |

DELETE gives up a copy that runs, so that its folder has no manifest, and an id that is unknown is refused from then on.

An id names one attempt. An attempt whose folder holds a complete savepoint of the same owner ends at once as Completed.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from sparksql.wire.model import WireModel
from sparksql.wire.versions import or_else

STATE_FUNCTION = "savepoint_state"  # the table function of SQL that reads a savepoint


class SavepointPlace(WireModel):
    """A SqlSavepoint of a statement's namespace that its text may name. `location` is there once it is Completed.

    `statement` is the one whose state it is.
    """

    name: str
    phase: str
    location: str | None = None
    statement: str | None = None


class StateQuery(WireModel):
    """A query whose rows are the state of an aggregation of a statement, with the columns that `savepoint_state` gives of it.

    `operator` is its name there, None for the only one. All else that a savepoint consists of is that of the one savepoint of the
    statement that the query reads, else of `SavepointRequest.checkpoint`. `savepoints` are what `savepoint_state` finds by name.
    """

    sql: str = Field(repr=False)
    statement: str
    operator: str | None = None
    savepoints: tuple[SavepointPlace, ...] = ()


class SavepointState(StrEnum):
    """Names the states of an attempt to make a savepoint."""

    RUNNING = "Running"
    COMPLETED = "Completed"
    FAILED = "Failed"


class SavepointRequest(WireModel):
    """Copy `checkpoint` into `target`, a folder that belongs to the SqlSavepoint `uid`. Both are Hadoop URIs.

    Without `checkpoint` and `query`: look what lies at `target`, a savepoint or a checkpoint of whatever origin; nothing is
    written. `sql_hash` is that of the text whose state it is, and is kept with it. `GatewayInfo.makes_states` tells that `query`
    is known.
    """

    boot_id: str
    checkpoint: str | None = None
    target: str
    uid: str
    namespace: str
    name: str
    sql_hash: str | None = None
    query: StateQuery | None = None


class SavepointView(WireModel):
    """Tells how an attempt is doing.

    What is in the manifest is there once it is Completed, `message` once it has Failed. `location_invalid`: what lies
    there is no savepoint, or is another object's; a further attempt would find the same. `refusal` is the reason, one of
    `ErrorReason`, for which a query has failed, which it would again.
    """

    attempt_id: str
    boot_id: str
    state: Annotated[SavepointState, or_else(SavepointState.RUNNING)]
    batch_id: int | None = None
    query_id: str | None = None
    spark_version: str | None = None
    size_bytes: int | None = None
    file_count: int | None = None
    sql_hash: str | None = None
    location_invalid: bool = False
    refusal: str | None = None
    message: str | None = None
