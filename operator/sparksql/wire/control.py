"""Control protocol, version 1: what the operator asks of a gateway and what it answers.

All paths are below `/control/v1`, JSON bodies, `Authorization: Bearer <token>`:

| request | body | answer |
|---|---|---|
| GET /info | | `GatewayInfo` |
| PUT /statements/{operationId} | `SubmitRequest` | `OperationView`; a known id answers what is known and never runs again |
| GET /statements/{operationId} | | `OperationView`, 404 for an unknown id |
| POST /statements/{operationId}/cancel | `CancelRequest` | `OperationView`; for an unknown id a tombstone that refuses a PUT |
| GET /statements/{operationId}/results | | `ResultPage`, or an Arrow IPC stream with `X-Next-Token` |
| GET /events?after=SEQ | | NDJSON of `Event`, see below |
| POST /drain | | `GatewayInfo`; no new statement is begun |
| GET /session-state | | `session_state.SessionState`: what brings the state of the session back in another driver |
| GET /clients | | `ClientsView`: sessions of clients, and their statements that have not ended |

PUT is idempotent. A driver that drains answers an id that it does not know as Closed, without a start time: it never begins
here. The query of results is `token=N&maxRows=M&format=json`, or `format=arrow`.

Errors are `ErrorBody` with 400 (malformed), 401 (token), 404 (unknown), 410 (result expired), 412 (other boot id) or
503 (not started yet).

Events. Each operation carries the sequence number of its last change. The stream sends every operation whose `seq` is greater
than `after`, in order of `seq`, then each change as it comes; a reader that reconnects with the last `seq` it saw loses
nothing, and a reader that starts at 0 gets a full picture. The log is the set of current views, so it never overflows.
The first line is always a `hello` with the boot id; a line comes at least each 5 s, `info` if that has changed, else
`heartbeat`. `info` comes at once when the state changes, when the first client opens a session or the last one closes its
own, and when the last statement of clients ends. Operations of clients are not in the stream, they are in the counts of `info`.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, model_validator

from sparksql.api.execution import Lookup, OutputMode, StatementMode, TriggerMode, Upsert
from sparksql.api.reasons import Reason
from sparksql.wire.failure.kind import FailureKind
from sparksql.wire.model import SqlText, WireModel
from sparksql.wire.savepoints import SavepointPlace
from sparksql.wire.versions import FIRST_VERSION, or_else

HEARTBEAT_SECONDS = 5.0


class OperationState(StrEnum):
    """FLIP-91 operation states, spelled as in the resource's phase. `Initialized` never leaves the operator."""

    PENDING = "Pending"
    RUNNING = "Running"
    FINISHED = "Finished"
    CANCELED = "Canceled"
    CLOSED = "Closed"
    ERROR = "Error"
    TIMED_OUT = "TimedOut"

    @property
    def is_terminal(self) -> bool:
        """Returns whether the operation has ended, so that its state does not change any more."""
        return self not in (OperationState.PENDING, OperationState.RUNNING)


class ClientProtocol(StrEnum):
    """The protocol by which a client came."""

    REST = "rest"
    CONNECT = "connect"
    THRIFT = "thrift"


AnyClientProtocol = Annotated[ClientProtocol | str, Field(union_mode="left_to_right")]
"""A protocol in an answer: one that is not known is shown by its name."""


class Parameter(WireModel):
    """A value that Spark binds as `:name`. `type` is a Spark SQL type name; `secret` values are masked in everything shown."""

    name: str
    value: str = Field(repr=False)
    type: str = "STRING"
    secret: bool = False


MAX_RESULT_ROWS = 2**31 - 2  # Spark's LIMIT takes an INT, and one row more is asked for


class ResultOptions(WireModel):
    """Bounds of the result: rows kept (the rest sets `truncated`), rows shown in status, seconds kept after the end.

    No result keeps more than MAX_RESULT_ROWS.
    """

    max_rows: int = 1000
    preview_rows: int = 20
    retention_seconds: int = 3600


class RestoreOptions(WireModel):
    """Describes the state that a checkpoint begins with.

    A savepoint or another checkpoint at `location` becomes the query `query_id`. Done once: a checkpoint that has begun
    is left as it is.

    With `rewrite` the query of the checkpoint at `location`, which has ended, goes on as itself in the new place, and its
    state is made anew if the text needs that: rewritten, or computed where `StreamOptions.rebuilds` says so. `query_id`
    only tells which one it is, empty if that is not known; what the checkpoint says counts.
    """

    location: str
    query_id: str
    rewrite: bool = False


class CheckpointContent(WireModel):
    """Tells what a checkpoint is known to have: the id of its query, and a batch that was committed."""

    query_id: str
    committed_batch_id: int


class StreamOptions(WireModel):
    """Says how a streaming statement runs.

    `checkpoint` is the Hadoop URI of its folder, which one attempt at a time may use; `interval_millis` None means that
    the gateway chooses. `unconfirmed` are boots of earlier gateways whose end nobody has seen: they may still write the
    checkpoint. `rewrites`: who asks knows that a state can be written anew for a text that it does not fit. Such a text
    is then told from others: as an answer to `validate_against` by Finished with the rows of `COMPARISON`, as the end of
    an attempt by `OperationError.rewritable`. `rebuilds`: a state that cannot be rewritten is computed anew from the history of
    the sources, and told in the same ways, with rows `HISTORY_READ` first. `known`: what the checkpoint must still have, None
    before its first committed batch.
    """

    checkpoint: str
    trigger: TriggerMode = TriggerMode.AUTO
    interval_millis: int | None = None
    max_rows_per_trigger: int = 0
    max_files_per_trigger: int = 0
    output_mode: OutputMode = OutputMode.APPEND
    upsert: Upsert | None = None
    lookups: tuple[Lookup, ...] = ()
    restore: RestoreOptions | None = None
    unconfirmed: tuple[str, ...] = ()
    rewrites: bool = False
    rebuilds: bool = False
    known: CheckpointContent | None = None


# Columns that tell how a text differs from the state that it is compared with.
COMPARISON = ("change", "operator", "column", "was", "is", "remedy")
# The change of a row that is no difference: `is` tells what is read of a source to compute the state anew.
HISTORY_READ = "HistoryRead"


class SubmitRequest(WireModel):
    """Asks for one attempt of one statement.

    `execution_seconds` 0 means no limit and counts from the change to Running.

    With `streaming` the text is an INSERT that reads a STREAM, or a script that ends in one. It runs until it is
    cancelled; it then ends between two batches if it can, and another attempt with the same checkpoint goes on where
    this one ended.

    With `validate_against` the mode is Validate, and such a text is compared with the state that it would go on from,
    which may be in use: nothing is started or written. One that fits is Finished with the columns `COMPARISON` and no
    row; one that does not ends in Error, StateIncompatible, with a row a difference (see `StreamOptions.rewrites`).
    `GatewayInfo.compares_states` tells that the field is known.

    With `preview_from` the mode is Preview, and the query of such a text goes on from what `preview_from.restore` names, in
    its output mode, which the driver copies into a checkpoint of its own and removes at the end; `checkpoint` is empty.
    `GatewayInfo.previews_states` tells that the field is known.

    With `dry_run` the mode is Validate or Explain, and the text is read as with `streaming`: what is checked or shown is the
    query that would run so. Nothing is started, claimed or written; `checkpoint` is empty. `GatewayInfo.plans_streams` tells
    that the field is known.

    `savepoints` are what `savepoint_state` finds by name; None where nobody has looked for them.
    """

    boot_id: str
    namespace: str
    name: str
    sql: SqlText = Field(repr=False)
    mode: StatementMode = StatementMode.EXECUTE
    parameters: tuple[Parameter, ...] = ()
    conf: dict[str, str] = Field(default_factory=dict)
    priority: int = 0  # the greater, the larger its share of the executors
    execution_seconds: float = 0
    result: ResultOptions = ResultOptions()
    streaming: StreamOptions | None = None
    validate_against: StreamOptions | None = None
    preview_from: StreamOptions | None = None
    dry_run: StreamOptions | None = None
    savepoints: tuple[SavepointPlace, ...] | None = None


class CancelRequest(WireModel):
    """Ends an operation. `outcome` is the state to end in; `reason` is shown to people."""

    boot_id: str
    outcome: Literal[OperationState.CANCELED, OperationState.CLOSED, OperationState.TIMED_OUT] = OperationState.CANCELED
    reason: str = ""


class StreamProgress(WireModel):
    """Tells what a streaming query last reported of itself. Rates are rows per second as decimal numbers.

    `query_id` belongs to the checkpoint, `run_id` to this start. `committed_batch_id` is the last batch that is done
    and durable, `batch_id` the one that is worked on or comes next. `lag` counts what waits in the
    sources: records of Kafka, rows of Iceberg, files of other tables. `watermark` is ISO 8601. `rows_written` counts the rows
    that this run has inserted, updated or deleted; None before its first batch, and for a sink that does not count.
    """

    query_id: str
    run_id: str
    batch_id: int | None = None
    committed_batch_id: int | None = None
    input_rows_per_second: str | None = None
    processed_rows_per_second: str | None = None
    watermark: str | None = None
    last_progress_time: datetime | None = None
    lag: int | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    rows_written: int | None = None


class Progress(WireModel):
    """Counts approximately what the attempt has done so far.

    `statement_index` is 1-based within a script. `stream` is there as soon as a streaming query has started.
    """

    tasks_done: int = 0
    tasks_total: int = 0
    stages_done: int = 0
    stages_total: int = 0
    statement_index: int = 1
    statement_count: int = 1
    stream: StreamProgress | None = None


class Column(WireModel):
    """Column of a result; `type` is Spark's simple type string, e.g. `decimal(10,2)`."""

    name: str
    type: str


class StatementWrite(WireModel):
    """One write of a script: which statement it is, from 1, and the rows that it has inserted, updated or deleted."""

    statement_index: int
    statement_type: str
    rows_written: int | None = None


class ResultSummary(WireModel):
    """`row_count` is the number of rows kept; `truncated` tells that the statement had more. Cells are strings or null.

    `preview_error` is the reason why kept rows have no preview. `rows_written` counts the rows that a write has inserted, updated
    or deleted, absent if unknown; of a script it is of the last statement that writes, and `writes` are all of them, in order.
    `earlier_results` counts the results of a script's statements before that of this one, which are kept as well; absent for
    none.

    Of a preview that still runs: what it has so far, which cannot be paged yet and has no `expiration_time`."""

    columns: tuple[Column, ...] = ()
    row_count: int = 0
    truncated: bool = False
    preview: tuple[tuple[str | None, ...], ...] = Field(default=(), repr=False)
    preview_error: str | None = None
    bytes: int = 0
    rows_written: int | None = None
    writes: tuple[StatementWrite, ...] | None = None
    earlier_results: int | None = None
    expiration_time: datetime | None = None


class ErrorReason(StrEnum):
    """Terminal reasons that only the gateway can know; the names are those of the resource contract."""

    SQL_ERROR = Reason.SQL_ERROR
    INVALID_SPEC = Reason.INVALID_SPEC
    NOT_ALLOWED = Reason.NOT_ALLOWED
    LIMIT_EXCEEDED = Reason.LIMIT_EXCEEDED
    RESULT_TOO_LARGE = Reason.RESULT_TOO_LARGE
    EXECUTION_TIMEOUT = Reason.EXECUTION_TIMEOUT
    QUEUE_TIMEOUT = Reason.QUEUE_TIMEOUT  # of clients' statements; the operator counts a manifest's own
    NOT_IMPLEMENTED = Reason.NOT_IMPLEMENTED
    STATE_INCOMPATIBLE = Reason.STATE_INCOMPATIBLE  # of a streaming statement and its checkpoint
    CHECKPOINT_LOST = Reason.CHECKPOINT_LOST
    SOURCE_LOST = Reason.SOURCE_LOST  # a source lacks what the stream was to read next, or is another one
    ENVIRONMENT_FAILED = Reason.ENVIRONMENT_FAILED  # the driver or the storage, whatever the statement says


class OperationError(WireModel):
    """Says why an operation ended badly.

    `condition` and `sql_state` are Spark's; `line` and `position`, counted from 1, are those in the submitted text.
    `rewritable`, of StateIncompatible: the next attempt may go on in another place, with `RestoreOptions.rewrite`.
    `cause` is what the types of Spark's exceptions tell, None if nothing; `failure.classify` decides with it.
    """

    reason: Annotated[ErrorReason, or_else(ErrorReason.SQL_ERROR)] = ErrorReason.SQL_ERROR
    condition: str | None = None
    sql_state: str | None = None
    message: str = ""
    line: int | None = None
    position: int | None = None
    fragment: str | None = Field(default=None, repr=False)
    rewritable: bool = False
    cause: Annotated[FailureKind | None, or_else(FailureKind.UNKNOWN)] = None


_STATES = frozenset(state.value for state in OperationState)


def _known_state(answer: Any) -> Any:
    """An answer whose state is not known as one whose state is: with a time of completion it has ended, nobody knows how."""
    state = answer.get("state") if isinstance(answer, dict) else None
    if not isinstance(state, str) or state in _STATES:
        return answer
    if answer.get("completionTime") is None:
        going = OperationState.RUNNING if answer.get("startTime") is not None else OperationState.PENDING
        return {**answer, "state": going}
    message = f"it ended in a state of a later version, {state[:100]}: outcome unknown"
    return {**answer, "state": OperationState.ERROR, "error": {"message": message}}


class OperationView(WireModel):
    """Everything the gateway knows of one operation, at one sequence number."""

    _state_of_later_versions = model_validator(mode="before")(_known_state)

    operation_id: str
    boot_id: str
    seq: int
    state: OperationState
    statement_type: str | None = None  # e.g. INSERT, SELECT, SET; SCRIPT for several
    read_only: bool = False  # running it again cannot change anything
    streaming: bool = False
    # Of a client's operation; none of a manifest's.
    protocol: AnyClientProtocol | None = Field(default=None, alias="door")
    session: str | None = None  # handle of that client's session
    user: str | None = None  # who it is, as the front says
    submitted_time: datetime | None = None
    start_time: datetime | None = None
    completion_time: datetime | None = None
    progress: Progress | None = None
    result: ResultSummary | None = None
    error: OperationError | None = None


class GatewayState(StrEnum):
    """Names the states of a gateway. Only a Ready one takes statements."""

    STARTING = "Starting"  # the HTTP side is up, Spark or init is not
    READY = "Ready"
    INIT_FAILED = "InitFailed"
    DRAINING = "Draining"


class InitFailure(WireModel):
    """The init statement that failed: 1-based position in the list, its text (first 200 characters) and Spark's error.

    Position 0 is what comes before the list, the session's database, or a frontend of the class, which `frontend` names.
    """

    position: int
    statement: str = Field(repr=False)
    error: OperationError
    frontend: str | None = None


class GatewayInfo(WireModel):
    """Tells what a gateway says of itself. A state that is not known is one in which it takes no statements."""

    protocol_version: int = FIRST_VERSION
    oldest_operator_version: int = FIRST_VERSION  # an older operator must not hand it anything
    boot_id: str
    incarnation: int = 0
    config_hash: str = ""
    state: Annotated[GatewayState, or_else(GatewayState.STARTING)]
    spark_version: str | None = None
    spark_application_id: str | None = None
    start_time: datetime
    pending: int = 0
    running: int = 0
    client_sessions: int = 0
    client_pending: int = 0  # of `pending`, those that came from clients
    client_running: int = 0
    streams: int = 0  # of `pending` and `running`, streaming statements, which end by being cancelled only
    compares_states: bool = False  # knows `SubmitRequest.validate_against`
    previews_states: bool = False  # knows `SubmitRequest.preview_from`
    plans_streams: bool = False  # knows `SubmitRequest.dry_run`
    makes_states: bool = False  # knows `SavepointRequest.query`
    has_session_state: bool = False  # temp views, SET, USE or variables that die with the driver
    restorable_statements: int = 0  # of `SessionState`, which bring that back; 0 in a driver that cannot
    state_obstacle: str | None = None  # why they do not bring it back, if so
    state_lost: str | None = None  # what of the state that this driver was to begin with it does not have, and why
    executors_wanted: int | None = None  # that Spark asks for now; None in a driver that does not say
    last_activity_time: datetime | None = None
    init_failure: InitFailure | None = None
    certificate: str | None = None  # PEM, of all its ports; None where it speaks no TLS


EventKind = Literal["hello", "operation", "info", "heartbeat"]
_EVENT_KINDS = frozenset(get_args(EventKind))


def _known_kind(kind: object) -> object:
    return "heartbeat" if isinstance(kind, str) and kind not in _EVENT_KINDS else kind


class Event(WireModel):
    """A line of the events stream. `hello` carries `boot_id`, `operation` a view, `info` the gateway's own change.

    A line of a kind that is not known is no more than a heartbeat.
    """

    kind: Annotated[EventKind, BeforeValidator(_known_kind)]
    boot_id: str
    seq: int = 0
    operation: OperationView | None = None
    info: GatewayInfo | None = None


class ResultPage(WireModel):
    """Rows of one page. `next_token` is absent on the last page; any token may be asked again until the result expires."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str | int | float | bool | list[object] | dict[str, object] | None, ...], ...] = Field(repr=False)
    next_token: int | None = None
    row_count: int = 0
    truncated: bool = False


class ErrorBody(WireModel):
    """Answers a request that failed: `error` is a code for programs, `message` is for people."""

    error: str
    message: str
