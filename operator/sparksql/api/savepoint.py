"""SqlSavepoint: a named, complete copy of a streaming statement's state, and the ledger entry for its data."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from sparksql.api.base import NULLABLE, SET_LIST, ApiModel, ApiObject, Timestamp, cel, clipped, immutable, validated
from sparksql.api.conditions import Conditions
from sparksql.api.fields import (
    MAX_SQL_LENGTH,
    SAFE_INT_MAX,
    Count,
    Counter,
    LocalReference,
    ObjectName,
    ResourceName,
    Uri,
)


class SavepointSource(StrEnum):
    """Copy takes a savepoint; Existing adopts one that lies at `location`; Query makes one whose state `sql` gives."""

    COPY = "Copy"
    EXISTING = "Existing"
    QUERY = "Query"

    @property
    def owns_data(self) -> bool:
        """Tells whether the data were written for the object, and so may go with it."""
        return self is not SavepointSource.EXISTING


class ReclaimPolicy(StrEnum):
    RETAIN = "Retain"
    DELETE = "Delete"


class SavepointPhase(StrEnum):
    PENDING = "Pending"
    IN_PROGRESS = "InProgress"
    COMPLETED = "Completed"
    FAILED = "Failed"
    ABANDONED = "Abandoned"

    @property
    def is_terminal(self) -> bool:
        """Tells whether no phase follows this one."""
        return self in (SavepointPhase.COMPLETED, SavepointPhase.FAILED, SavepointPhase.ABANDONED)


class SavepointTrigger(StrEnum):
    MANUAL = "Manual"
    PERIODIC = "Periodic"
    UPGRADE = "Upgrade"


class SqlSavepointSpec(ApiModel):
    model_config = validated(
        cel(
            "(has(self.location) && dyn(self.location) != null) == (self.source == 'Existing')",
            "set location with source Existing, and only then: the operator chooses the location of all others",
            ".location",
        ),
        cel(
            "(has(self.sql) && dyn(self.sql) != null) == (self.source == 'Query')",
            "set sql with source Query, and only then: it gives the state of the new savepoint",
            ".sql",
        ),
        cel(
            "!has(self.operator) || dyn(self.operator) == null || self.source == 'Query'",
            "set operator with source Query only: it names the operator that the rows of sql belong to",
            ".operator",
        ),
        cel(
            "self.statementRef == oldSelf.statementRef",
            "statementRef is immutable: create a new SqlSavepoint of the other statement",
            ".statementRef",
        ),
        cel("self.source == oldSelf.source", "source is immutable: create a new SqlSavepoint", ".source"),
        cel(
            "!has(self.location) || !has(oldSelf.location) || self.location == oldSelf.location",
            "location is immutable: create a new SqlSavepoint for the other location",
            ".location",
        ),
        immutable("sql", "sql is immutable: create a new SqlSavepoint with the other query"),
        immutable("operator", "operator is immutable: create a new SqlSavepoint for the other operator"),
    )

    statement_ref: LocalReference = Field(description="Streaming SqlStatement that the state belongs to.")
    source: SavepointSource = Field(
        SavepointSource.COPY, description="Take a savepoint, adopt an existing one, or make one of a query."
    )
    location: Uri | None = Field(
        None, json_schema_extra=NULLABLE, description="Where the existing savepoint lies, with source Existing."
    )
    sql: str | None = Field(
        None,
        json_schema_extra=NULLABLE,
        min_length=1,
        max_length=MAX_SQL_LENGTH,
        description="Query whose rows are the state of an aggregate, with source Query. All else is that of the savepoint of the "
        "statement that it reads with savepoint_state, or of the statement's checkpoint.",
        repr=False,
    )
    operator: str | None = Field(
        None,
        json_schema_extra=NULLABLE,
        min_length=1,
        max_length=128,
        description="Name of the aggregate, as savepoint_state has it; the only one, if absent.",
    )
    reclaim_policy: ReclaimPolicy = Field(
        ReclaimPolicy.RETAIN, description="What deleting this object does to the data."
    )
    pinned: bool = Field(False, description="Never removed by retention.")
    timeout_seconds: int = Field(600, ge=1, le=86_400, description="Longest time one attempt may take.")
    backoff_limit: int = Field(3, ge=0, le=100, description="Failed attempts after which the savepoint is Failed.")


class SavepointAttempt(ApiModel):
    """Who was asked for the newest attempt, and what its clean-up needs once statement, session and driver are gone."""

    pod_name: ObjectName = Field(description="Driver that copies.")
    pod_uid: Annotated[str, Field(max_length=64)] = Field(alias="podUID", description="UID of the driver's pod.")
    boot_id: Annotated[str, Field(max_length=64)] = Field(description="Process of the gateway in it.")
    statement_uid: Annotated[str, Field(max_length=64)] = Field(
        alias="statementUID", description="Statement whose state it is."
    )
    class_name: ObjectName = Field(description="SqlSessionClass of the statement's session.")
    service_account_name: ObjectName = Field(description="Service account of the session.")


class SqlSavepointStatus(ApiModel):
    observed_generation: int = Field(
        -1, ge=-1, le=SAFE_INT_MAX, description="Generation of the spec that this is about."
    )
    phase: SavepointPhase | None = Field(
        None, description="Abandoned: its statement was deleted before it was complete."
    )
    trigger: SavepointTrigger | None = Field(None, description="Cause of the savepoint.")
    location: Uri | None = Field(None, description="Folder of the data; complete once it holds manifest.json.")
    batch_id: Counter | None = Field(None, description="Last batch that is part of it.")
    query_id: Annotated[str, Field(max_length=64)] | None = Field(None, description="Query whose state it is.")
    sql_hash: Annotated[str, Field(max_length=128)] | None = Field(None, description="SHA-256 of the query's text.")
    spark_version: Annotated[str, Field(max_length=64)] | None = Field(None, description="Spark that wrote it.")
    size_bytes: Counter | None = Field(None, description="Size of the data.")
    file_count: Counter | None = Field(None, description="Number of files.")
    start_time: Timestamp | None = Field(None, description="When the current attempt began.")
    completion_time: Timestamp | None = Field(None, description="When it was complete or given up.")
    used_by: tuple[ResourceName, ...] = Field(
        (),
        max_length=256,
        json_schema_extra=SET_LIST,
        description="Statements that refer to it; it is not removed while any does.",
    )
    attempt: SavepointAttempt | None = Field(None, description="The newest attempt.")
    deletion_job_uid: Annotated[str, Field(max_length=64)] | None = Field(
        None, alias="deletionJobUID", description="UID of the Job that deletes the data."
    )
    failures: Count = Field(0, description="Attempts that failed.")
    next_attempt_time: Timestamp | None = Field(None, description="Not before this the next attempt is made.")
    message: Annotated[str, *clipped(4096)] | None = Field(None, description="Explanation of the phase for people.")
    conditions: Conditions = Field((), description="Ready, Reconciling, Stalled, Succeeded, Finished.")


class SqlSavepoint(ApiObject):
    """A savepoint of a streaming statement."""

    KIND: ClassVar[str] = "SqlSavepoint"
    PLURAL: ClassVar[str] = "sqlsavepoints"
    SHORT_NAME: ClassVar[str] = "sqlsp"

    spec: SqlSavepointSpec
    status: SqlSavepointStatus = SqlSavepointStatus()
