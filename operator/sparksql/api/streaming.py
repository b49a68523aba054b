"""The streaming part of a SqlStatement: how it is triggered, upgraded, restarted and saved, and how it is doing."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from sparksql.api.base import ApiModel, Timestamp, cel, clipped, map_list, ratcheting, validated
from sparksql.api.execution import Lookup, OutputMode, TriggerMode, Upsert
from sparksql.api.fields import Count, Counter, LocalReference, Nonce, ResourceName, Seconds

Location = Annotated[str, Field(max_length=2048)]
QueryId = Annotated[str, Field(max_length=64)]
Rate = Annotated[str, Field(max_length=32, pattern=r"^[0-9]+(\.[0-9]+)?$")]
KeepCount = Annotated[int, Field(ge=0, le=1000)]


class UpgradeMode(StrEnum):
    """What a changed query starts from: its last checkpoint, a savepoint taken first, or nothing.

    Rebuild is LastState, and where the state does not fit it is computed anew from the history of the sources.
    """

    LAST_STATE = "LastState"
    SAVEPOINT = "Savepoint"
    STATELESS = "Stateless"
    REBUILD = "Rebuild"


class OnIncompatible(StrEnum):
    """When the state does not fit a changed query: keep it and say so, or begin anew."""

    PARK = "Park"
    START_FRESH = "StartFresh"


class OnDelete(StrEnum):
    RETAIN = "Retain"
    DELETE = "Delete"


class Trigger(ApiModel):
    model_config = validated(
        cel(
            "self.mode != 'Interval' || has(self.intervalMillis)",
            "trigger mode Interval needs intervalMillis: set it, or use mode Auto",
            ".intervalMillis",
        ),
    )

    mode: TriggerMode = Field(TriggerMode.AUTO, description="When micro-batches start.")
    interval_millis: int | None = Field(
        None,
        ge=0,
        le=86_400_000,
        description="Interval between batches; with Auto it wins over what is inferred from the query.",
    )
    max_rows_per_trigger: Counter = Field(0, description="Most rows of one batch, for sources that can; 0 = no limit.")
    max_files_per_trigger: Count = Field(0, description="Most files of one batch, for file sources; 0 = no limit.")


class StartFrom(ApiModel):
    savepoint_ref: LocalReference = Field(description="SqlSavepoint to start from.")


class SavepointSchedule(ApiModel):
    model_config = validated(
        cel("has(self.intervalSeconds) != has(self.cron)", "set exactly one of intervalSeconds and cron"),
        ratcheting(
            "has(self.cron) || self.timezone == 'UTC'",
            "timezone has no effect without cron, as it is the zone of cron: remove it, or set cron in place of intervalSeconds",
            ".timezone",
        ),
    )

    interval_seconds: int | None = Field(None, ge=1, le=31_622_400, description="Time between savepoints.")
    cron: str | None = Field(None, min_length=9, max_length=128, description="Five-field cron expression.")
    timezone: str = Field("UTC", min_length=1, max_length=64, description="IANA time zone of `cron`.")
    paused: bool = Field(False, description="Take none for now.")
    jitter_seconds: int = Field(
        0, ge=0, le=3600, description="Random delay, so that many statements do not save at once."
    )
    catch_up: bool = Field(
        False, description="Take one at once if one or more were missed while the statement was stopped."
    )


class Retention(ApiModel):
    """A savepoint is kept if any rule keeps it; without rules all are kept."""

    keep_last: KeepCount | None = Field(None, description="Keep this many newest.")
    keep_within_seconds: int | None = Field(None, ge=0, le=316_224_000, description="Keep all that are younger.")
    keep_hourly: KeepCount | None = Field(None, description="Keep the newest of each of this many hours.")
    keep_daily: KeepCount | None = Field(None, description="Keep the newest of each of this many days.")
    keep_weekly: KeepCount | None = Field(None, description="Keep the newest of each of this many weeks.")


class Savepoints(ApiModel):
    schedule: SavepointSchedule | None = Field(None, description="Schedule of automatic savepoints.")
    retention: Retention = Field(Retention(), description="Retention of periodic and upgrade savepoints.")
    on_delete: OnDelete = Field(OnDelete.RETAIN, description="What deleting the statement does to its savepoints.")


class StreamRestart(ApiModel):
    limit: int = Field(
        10, ge=0, le=10_000, description="Restarts in a row before the statement is parked with its checkpoint."
    )
    backoff_seconds: int = Field(10, ge=0, le=3600, description="Delay before the first restart; it doubles each time.")
    reset_after_seconds: Seconds = Field(
        600, description="Time of healthy running after which the count starts from 0."
    )


class Streaming(ApiModel):
    """A statement that runs until it is stopped."""

    model_config = validated(
        ratcheting(
            "self.restoreNonce == '' || has(self.startFrom)",
            "restoreNonce has no effect without startFrom: set startFrom to the savepoint to go back to, or remove restoreNonce",
            ".restoreNonce",
        )
    )

    trigger: Trigger = Field(Trigger(), description="When micro-batches start and how much they take.")
    output_mode: OutputMode = Field(OutputMode.APPEND, description="What a batch writes to the sink.")
    upsert: Upsert | None = Field(None, description="Write changes by key instead of appending rows.")
    lookups: tuple[Lookup, ...] = Field(
        (),
        max_length=16,
        json_schema_extra=map_list("table"),
        description="Joined tables in databases that are looked up by key in each batch.",
    )
    upgrade_mode: UpgradeMode = Field(UpgradeMode.LAST_STATE, description="What a changed query starts from.")
    start_from: StartFrom | None = Field(
        None,
        description="Savepoint for the first start, for the next one when `restoreNonce` changes, and for a preview.",
    )
    restore_nonce: Nonce = Field("", description="Change it to go back to `startFrom`.")
    on_incompatible: OnIncompatible = Field(
        OnIncompatible.PARK, description="What to do when the state is incompatible with a changed query."
    )
    savepoints: Savepoints = Field(Savepoints(), description="Periodic savepoints and their retention.")
    restart: StreamRestart = Field(
        StreamRestart(), description="Automatic restart from the checkpoint after a failure."
    )


class LastSavepoint(ApiModel):
    name: ResourceName = Field(description="SqlSavepoint.")
    time: Timestamp = Field(description="When it was completed.")


class LagTrend(ApiModel):
    """Memory of the lag from which the condition Healthy tells whether it grows. Periods are of 150 s or more."""

    since: Timestamp = Field(description="When the current period began.")
    least: Counter = Field(description="Least lag in the current period.")
    least_before: Counter | None = Field(None, description="Least lag in the period before.")
    base: Counter | None = Field(None, description="Least lag in the period that the growth began with.")
    rises: Count = Field(0, description="Periods in a row whose least lag was above that of the one before.")


class StreamingStatus(ApiModel):
    """Present as soon as the statement is known to be streaming. Rates are decimal numbers as strings."""

    query_id: QueryId | None = Field(None, description="Identity of the query's state; survives restarts.")
    run_id: QueryId | None = Field(None, description="Identity of the query since its last start.")
    batch_id: Counter | None = Field(None, description="Batch being worked on.")
    committed_batch_id: Counter | None = Field(None, description="Last batch that is done and durable.")
    input_rows_per_second: Rate | None = Field(None, description="Rate at which rows arrive.")
    processed_rows_per_second: Rate | None = Field(None, description="Rate at which rows are processed.")
    watermark: Annotated[str, Field(max_length=64)] | None = Field(None, description="Event-time watermark.")
    last_progress_time: Timestamp | None = Field(None, description="When the query last made progress.")
    lag: Counter | None = Field(
        None,
        description=(
            "Input that is not read yet: offsets of Kafka, rows of Iceberg, files of Delta and of file sources, summed over the "
            "sources. Absent if no source reports it."
        ),
    )
    lag_trend: LagTrend | None = Field(None, description="Whether the lag grows, as far as it has been seen.")
    state_rows: Counter | None = Field(None, description="Rows in the query's state.")
    state_bytes: Counter | None = Field(None, description="Memory of the query's state.")
    checkpoint_location: Location | None = Field(
        None, description="Location of offsets and state; fixed when a run is first submitted."
    )
    settings_hash: Annotated[str, Field(max_length=128)] | None = Field(
        None,
        description="Fingerprint of the trigger, output mode, upsert, lookups and conf that the current attempt began with, and of "
        "whether a state may be computed anew.",
    )
    upgrades: Count = Field(
        0,
        description="Times that this run began with another checkpoint: without state, restored from a savepoint, or with "
        "its state rewritten or computed anew.",
    )
    restored_from: Location | None = Field(
        None, description="Where the savepoint lies that the current checkpoint began with."
    )
    rewritten_from: Location | None = Field(
        None,
        description="Where the checkpoint lies whose state was rewritten for the current one, as a changed text has other "
        "aggregates, or computed anew, with `upgradeMode` Rebuild. It is kept.",
    )
    restarts: Count = Field(0, description="Automatic restarts in a row.")
    last_savepoint: LastSavepoint | None = Field(None, description="Newest completed savepoint.")
    observed_restore_nonce: Nonce = Field("", description="`restoreNonce` that was last acted upon.")
    next_restart_time: Timestamp | None = Field(None, description="Not before this the query is restarted.")
    next_savepoint_time: Timestamp | None = Field(None, description="When the next periodic savepoint is due.")
    message: Annotated[str, *clipped(4096)] | None = Field(None, description="Explanation of the state for people.")
