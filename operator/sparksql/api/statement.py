"""SqlStatement: one SQL statement or script, run at most once per run and attempt in a session."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from sparksql.api.base import (
    NULLABLE,
    SET_LIST,
    ApiModel,
    ApiObject,
    Timestamp,
    cel,
    clipped,
    immutable,
    immutable_list,
    map_list,
    validated,
)
from sparksql.api.conditions import Conditions
from sparksql.api.execution import StatementMode
from sparksql.api.fields import (
    INT32_MAX,
    MAX_SQL_LENGTH,
    SAFE_INT_MAX,
    ConfigMapKeySelector,
    Count,
    Counter,
    LocalReference,
    Nonce,
    ParameterName,
    ResourceName,
    SecretKeySelector,
    SparkConf,
    SqlSource,
)
from sparksql.api.session import SessionTemplate
from sparksql.api.settings import StatementTimeouts
from sparksql.api.streaming import Streaming, StreamingStatus

_DEFAULT_TYPE = "STRING"
_IMMUTABLE_PARAMETERS = "parameters are immutable: create a new SqlStatement with the other values"
# The list holds the same names; each of its entries has rules of its own values.
_SAME_PARAMETERS = cel(
    "(has(self.parameters) ? self.parameters.size() : 0) == (has(oldSelf.parameters) ? oldSelf.parameters.size() : 0) && "
    "(!has(self.parameters) || !has(oldSelf.parameters) || "
    "self.parameters.all(new, oldSelf.parameters.exists(old, old.name == new.name)))",
    _IMMUTABLE_PARAMETERS,
)
MAX_LOST_DRIVERS = 2  # a batch statement ends with so many: it may be the cause, and its session has other users


class StatementDesiredState(StrEnum):
    RUNNING = "Running"
    STOPPED = "Stopped"
    CANCELED = "Canceled"


class StatementPhase(StrEnum):
    """FLIP-91 operation states, and Stopped for streaming, which is not an end."""

    INITIALIZED = "Initialized"
    PENDING = "Pending"
    RUNNING = "Running"
    FINISHED = "Finished"
    CANCELED = "Canceled"
    CLOSED = "Closed"
    ERROR = "Error"
    TIMED_OUT = "TimedOut"
    STOPPED = "Stopped"

    @property
    def is_terminal(self) -> bool:
        """Tells whether no phase follows this one within the run."""
        return self in _TERMINAL


_TERMINAL = frozenset(
    {
        StatementPhase.FINISHED,
        StatementPhase.CANCELED,
        StatementPhase.CLOSED,
        StatementPhase.ERROR,
        StatementPhase.TIMED_OUT,
    }
)


class RetryReason(StrEnum):
    """Terminal reasons after which a statement may be tried again; the names are those of `Reason`."""

    SESSION_LOST = "SessionLost"
    SQL_ERROR = "SqlError"
    EXECUTION_TIMEOUT = "ExecutionTimeout"


class ParameterSource(ApiModel):
    model_config = validated(
        cel(
            "has(self.secretKeyRef) != has(self.configMapKeyRef)", "set exactly one of secretKeyRef and configMapKeyRef"
        )
    )

    secret_key_ref: SecretKeySelector | None = Field(
        None, description="Secret entry; its value is masked wherever shown."
    )
    config_map_key_ref: ConfigMapKeySelector | None = Field(None, description="ConfigMap entry.")


class StatementParameter(ApiModel):
    """A value that Spark binds as `:name`; it is never pasted into the text."""

    model_config = validated(
        cel("has(self.value) != has(self.valueFrom)", "set exactly one of value and valueFrom in each parameter"),
        immutable("value", _IMMUTABLE_PARAMETERS),
        immutable("valueFrom", _IMMUTABLE_PARAMETERS),
        # Objects of earlier versions have the type that the API server wrote then, and their manifests have none.
        cel(
            f"(has(self.type) ? self.type : '{_DEFAULT_TYPE}') == (has(oldSelf.type) ? oldSelf.type : '{_DEFAULT_TYPE}')",
            _IMMUTABLE_PARAMETERS,
        ),
    )

    name: ParameterName = Field(description="Name without the colon.")
    value: str | None = Field(None, max_length=65_536, description="Value as text, cast to `type`.", repr=False)
    value_from: ParameterSource | None = Field(None, description="Source of the value instead.")
    type: str = Field(
        _DEFAULT_TYPE, min_length=1, max_length=256, description="Spark SQL type, e.g. DATE or DECIMAL(10,2)."
    )


RetryReasons = Annotated[tuple[RetryReason, ...], Field(max_length=len(RetryReason), json_schema_extra=SET_LIST)]


class Retry(ApiModel):
    """Running an effect again is the user's decision: the default never does."""

    limit: int = Field(0, ge=0, le=100, description="Further attempts after the first one.")
    backoff_seconds: int = Field(10, ge=0, le=86_400, description="Delay before the first retry; it doubles each time.")
    on: RetryReasons = Field(
        (RetryReason.SESSION_LOST,),
        description="Reasons of an end after which to try again. SessionLost means that the outcome is unknown.",
    )
    on_unquoted: RetryReasons | None = Field(
        None,
        alias="true",
        description="What `on` becomes when it is not quoted in YAML: kubectl reads YAML 1.1, where on is a boolean. "
        "Wins over `on`.",
    )

    @model_validator(mode="before")
    @classmethod
    def _unquoted(cls, obj: Any) -> Any:
        return {**obj, "on": obj["true"]} if isinstance(obj, dict) and obj.get("true") is not None else obj


class ValidateAgainst(ApiModel):
    """The state that a text is compared with."""

    statement_ref: LocalReference = Field(
        description="Streaming SqlStatement of the same namespace, in whatever session."
    )


class ResultSpec(ApiModel):
    max_rows: Count = Field(1000, description="Rows of the result to store; `truncated` is set if there are more.")
    preview_rows: int = Field(20, ge=0, le=1000, description="Rows shown in status; the class may allow fewer.")
    retention_seconds: int = Field(
        3600, ge=0, le=INT32_MAX, description="How long the result can be fetched after the end."
    )


class SqlStatementSpec(ApiModel):
    model_config = validated(
        cel("has(self.sql) != has(self.sqlFrom)", "set exactly one of sql and sqlFrom"),
        cel(
            "has(self.sessionRef) != has(self.session)",
            "set exactly one of sessionRef (a session that exists) and session (a dedicated one)",
        ),
        cel(
            "self.desiredState != 'Stopped' || has(self.streaming)",
            "only a statement with spec.streaming can be Stopped: use Canceled to end a batch statement",
            ".desiredState",
        ),
        cel(
            "has(self.sql) == has(oldSelf.sql) && (!has(self.sql) || self.sql == oldSelf.sql || has(self.streaming))",
            "sql is immutable unless spec.streaming is set: create a new SqlStatement for another text, "
            "or change runNonce to run this one again",
        ),
        cel(
            "!has(self.validateAgainst) || self.mode == 'Validate'",
            "validateAgainst needs mode: Validate",
            ".validateAgainst",
        ),
        immutable("validateAgainst", "validateAgainst is immutable: create a new SqlStatement"),
        immutable("sqlFrom", "sqlFrom is immutable: create a new SqlStatement"),
        cel("self.mode == oldSelf.mode", "mode is immutable: create a new SqlStatement with the other mode", ".mode"),
        immutable(
            "sessionRef",
            "the choice of session is immutable: create a new SqlStatement with the other sessionRef",
        ),
        immutable("session", "session is immutable: create a new SqlStatement with the other session"),
        _SAME_PARAMETERS,
        immutable_list("dependsOn", "dependsOn is immutable: create a new SqlStatement with the other dependencies"),
        cel(
            "has(self.streaming) == has(oldSelf.streaming)",
            "the presence of streaming is immutable: create a new SqlStatement",
        ),
    )

    session_ref: LocalReference | None = Field(None, description="SqlSession that runs the statement.")
    session: SessionTemplate | None = Field(
        None,
        description="Dedicated session, owned by this statement and gone when it ends; the result is the preview only.",
    )
    sql: str | None = Field(
        None,
        min_length=1,
        max_length=MAX_SQL_LENGTH,
        description=f"One statement, or a `;`-separated script run in order: up to {MAX_SQL_LENGTH} characters, a little less with "
        "`kubectl apply` without `--server-side`. A longer text is kept in a ConfigMap: `sqlFrom`, up to 1 MiB.",
        repr=False,
    )
    sql_from: SqlSource | None = Field(
        None,
        description="Where the text is kept instead. It is read once a run, when the statement is first handed over.",
    )
    mode: StatementMode = Field(StatementMode.EXECUTE, description="What is done with the text.")
    validate_against: ValidateAgainst | None = Field(
        None,
        description="With mode Validate: whether the query is compatible with the state of a streaming statement. Starts and writes nothing; "
        "what does not fit are the rows of the result. Without a spec.streaming of its own the other one's is taken.",
    )
    parameters: tuple[StatementParameter, ...] = Field(
        (), max_length=64, json_schema_extra=map_list("name"), description="Values for the text's `:name` markers."
    )
    conf: SparkConf = Field(default_factory=dict, description="Spark configuration for this statement only.")
    timeouts: StatementTimeouts | None = Field(
        None, description="Time limits; what is absent is taken from the session."
    )
    desired_state: StatementDesiredState = Field(
        StatementDesiredState.RUNNING, description="Canceled ends the statement; Stopped stops a streaming one."
    )
    run_nonce: Nonce = Field("", description="Change it to run the statement again once it has ended.")
    retry: Retry = Field(Retry(), description="Whether a statement that ended badly is tried again.")
    depends_on: tuple[LocalReference, ...] = Field(
        (), max_length=64, json_schema_extra=map_list("name"), description="Statements that must have finished first."
    )
    priority: int = Field(
        0,
        ge=-1_000_000_000,
        le=1_000_000_000,
        description="Among statements that wait, the greatest goes first; among those that run, its share is larger.",
    )
    result: ResultSpec = Field(ResultSpec(), description="How much of the result is stored, and for how long.")
    ttl_seconds_after_finished: int | None = Field(
        None,
        ge=0,
        le=INT32_MAX,
        json_schema_extra=NULLABLE,
        description="Delete this object so long after its end; absent = never.",
    )
    streaming: Streaming | None = Field(
        None, description="Makes this a streaming statement, which runs until it is stopped."
    )


class StatementSession(ApiModel):
    """Where the current attempt was handed to. The driver is the same only if all of it is the same."""

    name: ResourceName = Field(description="SqlSession.")
    pod_name: Annotated[str, Field(max_length=253)] | None = Field(None, description="Name of the driver pod.")
    pod_uid: Annotated[str, Field(max_length=64)] | None = Field(
        None, alias="podUID", description="UID of the driver pod."
    )
    boot_id: Annotated[str, Field(max_length=64)] | None = Field(
        None, description="Identity of the gateway process within the pod."
    )


class StatementProgress(ApiModel):
    """Approximate counts of the attempt so far."""

    tasks_done: Count = Field(0, description="Spark tasks done.")
    tasks_total: Count = Field(0, description="Spark tasks known of so far.")
    stages_done: Count = Field(0, description="Spark stages done.")
    stages_total: Count = Field(0, description="Spark stages known of so far.")
    statement_index: Count = Field(1, description="Statement of the script that runs, from 1.")
    statement_count: Count = Field(1, description="Statements of the script.")


class ResultColumn(ApiModel):
    name: Annotated[str, *clipped(1024)] = Field(description="Column name.")
    type: Annotated[str, *clipped(4096)] = Field(description="Spark's simple type string, e.g. decimal(10,2).")


Cell = Annotated[str, *clipped(8192)] | None
"""Rendered value; null is SQL's NULL."""
Row = Annotated[tuple[Cell, ...], Field(max_length=10_000)]


class StatementWrite(ApiModel):
    statement_index: Count = Field(description="Number of the statement in the script, from 1.")
    statement_type: Annotated[str, *clipped(64)] = Field(description="Type of the statement, e.g. INSERT.")
    rows_written: Counter | None = Field(
        None, description="Rows that the statement changed; absent if Spark does not count them."
    )


class StatementResult(ApiModel):
    columns: tuple[ResultColumn, ...] = Field((), max_length=10_000, description="Columns of the result.")
    row_count: Counter = Field(0, description="Rows that are stored.")
    truncated: bool = Field(False, description="The statement had more rows than are stored.")
    preview: tuple[Row, ...] = Field(
        (), max_length=1000, description="First rows, each a list of rendered values; at most 8 KiB in all.", repr=False
    )
    preview_error: Annotated[str, *clipped(1024)] | None = Field(
        None, description="Why there is no preview although rows are stored."
    )
    bytes: Counter = Field(0, description="Size of the stored rows.")
    rows_written: Counter | None = Field(
        None,
        description="Rows inserted, updated or deleted. For a script: by its last statement that writes. For a stream: since its "
        "current run (`streaming.runId`) began. Absent if Spark does not count them, for example for a stream into files.",
    )
    writes: tuple[StatementWrite, ...] | None = Field(
        None, max_length=100, description="The first 100 writes of a script, in the order of its statements."
    )
    earlier_results: Count | None = Field(
        None,
        description="Results of statements of a script before the one that this is of; the session keeps the first rows of each.",
    )
    expiration_time: Timestamp | None = Field(
        None, description="Until when the result can be fetched from the session."
    )


class StatementError(ApiModel):
    """Why the statement ended badly. Line and position count from 1 in the submitted text."""

    condition: Annotated[str, *clipped(253)] | None = Field(None, description="Spark's error condition.")
    sql_state: Annotated[str, *clipped(16)] | None = Field(None, description="SQLSTATE.")
    message: Annotated[str, *clipped(8192)] = Field("", description="Message, without plans and without secret values.")
    line: Count | None = Field(None, description="Line of the error.")
    position: Count | None = Field(None, description="Position of the error within the line.")
    fragment: Annotated[str, *clipped(1024)] | None = Field(
        None, description="The part of the text that it is about.", repr=False
    )


class SqlStatementStatus(ApiModel):
    observed_generation: int = Field(
        -1, ge=-1, le=SAFE_INT_MAX, description="Generation of the spec that this is about."
    )
    phase: StatementPhase | None = Field(None, description="State of the operation; absent until it is accepted.")
    run: Count = Field(0, description="Number of the current run; `runNonce` starts another one.")
    attempt: Count = Field(0, description="Number of the current attempt of this run.")
    observed_run_nonce: Nonce = Field("", description="`runNonce` that the current run was started for.")
    operation_id: Annotated[str, Field(max_length=64)] | None = Field(
        None, description="Identity of the attempt: a UUID made of the object's UID, run and attempt."
    )
    session_name: ResourceName | None = Field(None, description="SqlSession of `sessionRef`, or the dedicated one.")
    session: StatementSession | None = Field(None, description="Where the current attempt was handed to.")
    statement_type: Annotated[str, Field(max_length=128)] | None = Field(
        None, description="Kind of the statement as Spark's parser sees it, e.g. INSERT; SCRIPT for several."
    )
    read_only: bool | None = Field(None, description="Running it again cannot change anything.")
    sql_hash: Annotated[str, Field(max_length=128)] | None = Field(None, description="SHA-256 of the text of this run.")
    met_dependencies: tuple[ResourceName, ...] = Field(
        (), max_length=64, json_schema_extra=SET_LIST, description="Dependencies that are met, even if deleted since."
    )
    failed_attempts: Count = Field(0, description="Attempts of this run that ended badly.")
    lost_drivers: Annotated[tuple[Annotated[str, Field(max_length=253)], ...], Field(max_length=MAX_LOST_DRIVERS)] = (
        Field(
            (),
            description="Pods of drivers that were lost while they had this run in their hands, but for those that the cluster took "
            "away or whose pods were deleted. A batch statement ends with the second one; of a stream this is the last one.",
        )
    )
    next_attempt_time: Timestamp | None = Field(None, description="Not before this the next attempt is made.")
    submitted_time: Timestamp | None = Field(None, description="When this run was accepted; it waits from then on.")
    start_time: Timestamp | None = Field(None, description="When the current attempt began to run.")
    completion_time: Timestamp | None = Field(None, description="When this run ended.")
    duration_millis: Counter | None = Field(None, description="Time from start to completion.")
    progress: StatementProgress | None = Field(None, description="How far the current attempt is.")
    result: StatementResult | None = Field(None, description="Summary and first rows of the result.")
    error: StatementError | None = Field(None, description="Why this run ended badly.")
    streaming: StreamingStatus | None = Field(None, description="State of a streaming statement; absent for batch.")
    conditions: Conditions = Field(
        (),
        description="Ready, Reconciling, Stalled, Succeeded, Finished; streaming: Healthy, CheckpointFresh, Compatible.",
    )


class SqlStatement(ApiObject):
    """A SQL statement or script that runs in a session."""

    KIND: ClassVar[str] = "SqlStatement"
    PLURAL: ClassVar[str] = "sqlstatements"
    SHORT_NAME: ClassVar[str] = "sqlstmt"

    spec: SqlStatementSpec
    status: SqlStatementStatus = SqlStatementStatus()
