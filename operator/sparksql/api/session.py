"""SqlSession: a Spark driver, with its executors, that serves SQL statements of one namespace."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from sparksql.api.base import ApiModel, ApiObject, Timestamp, cel, clipped, validated
from sparksql.api.conditions import Conditions
from sparksql.api.fields import SAFE_INT_MAX, Count, Image, Nonce, ObjectName, ResourceName, SqlSource
from sparksql.api.settings import SessionSettings

WAKE_CHARS = 64  # of the annotation that wakes a session; two values that differ behind them are the same
MAX_UNCONFIRMED_DRIVERS = 8  # the newest: of more in a row the first ones are long over


class SessionDesiredState(StrEnum):
    RUNNING = "Running"
    STOPPED = "Stopped"


class SessionPhase(StrEnum):
    """Hibernated: no driver, the next statement wakes it. Stopped: by wish. Closed is final, Failed needs a changed spec."""

    PENDING = "Pending"
    STARTING = "Starting"
    READY = "Ready"
    DRAINING = "Draining"
    HIBERNATED = "Hibernated"
    STOPPED = "Stopped"
    CLOSED = "Closed"
    FAILED = "Failed"


class InitStatement(ApiModel):
    """Statements that prepare every new driver, given as text or by reference."""

    model_config = validated(
        cel("has(self.sql) != has(self.sqlFrom)", "set exactly one of sql and sqlFrom in each init entry")
    )

    sql: str | None = Field(
        None, min_length=1, max_length=16_384, description="Statement, or a `;`-separated script.", repr=False
    )
    sql_from: SqlSource | None = Field(None, description="Where the statement's text is kept instead.")


class SessionTemplate(SessionSettings):
    """What a session is made of, as a session of its own or inside the statement that owns it."""

    class_name: ResourceName | None = Field(
        None, description="SqlSessionClass of the session; without it the cluster's default class is taken."
    )
    image: Image | None = Field(None, description="Image instead of the class's; the class must allow it.")
    init: tuple[InitStatement, ...] = Field(
        (),
        max_length=64,
        description="Statements run in order at every driver start: SET, RESET, USE, CREATE, DROP, ALTER, "
        "ADD JAR/FILE, LOAD, REFRESH, DECLARE. A failing one fails the session.",
    )
    service_account_name: ObjectName | None = Field(
        None, description="Service account of the driver; the class must allow it. Without it the class's own is taken."
    )


class SqlSessionSpec(SessionTemplate):
    desired_state: SessionDesiredState = Field(
        SessionDesiredState.RUNNING,
        description="Stopped ends the driver and keeps the object; Running starts it again.",
    )
    restart_nonce: Nonce = Field(
        "", description="Change it to restart the driver, after running statements have ended."
    )


class DriverStatus(ApiModel):
    """The driver that the session has, or had last. `incarnation` counts drivers and never goes back."""

    pod_name: Annotated[str, Field(max_length=253)] | None = Field(None, description="Name of the driver pod.")
    pod_uid: Annotated[str, Field(max_length=64)] | None = Field(
        None, alias="podUID", description="UID of the driver pod: its identity."
    )
    pool_uid: Annotated[str, Field(max_length=64)] | None = Field(
        None, alias="poolUID", description="Identity of the driver in the class's warm pool, if it came from there."
    )
    boot_id: Annotated[str, Field(max_length=64)] | None = Field(
        None, description="Identity of the gateway process within the pod."
    )
    pod_ip: Annotated[str, Field(max_length=64)] | None = Field(
        None, alias="podIP", description="IP address of the driver pod, once the session is Ready."
    )
    certificate: Annotated[str, Field(max_length=16_384)] | None = Field(
        None, description="Certificate of all its endpoints (PEM): what clients trust, and nothing else."
    )
    incarnation: Count = Field(0, description="Number of drivers started so far, this one included.")
    start_time: Timestamp | None = Field(None, description="When the driver pod was made.")
    admitted_time: Timestamp | None = Field(
        None,
        description="When a queue system let the driver pod go, if one held it; the deadlines of its start count from it.",
    )
    spark_application_id: Annotated[str, Field(max_length=253)] | None = Field(
        None, description="Spark's application id."
    )
    spark_version: Annotated[str, Field(max_length=64)] | None = Field(None, description="Spark version of the driver.")
    unconfirmed: Annotated[
        tuple[Annotated[str, Field(max_length=64)], ...], Field(max_length=MAX_UNCONFIRMED_DRIVERS)
    ] = Field(
        (),
        description="Boot ids of the last drivers before this one that vanished without having been seen to end, as after a forced "
        "deletion or on a lost node. A streaming statement that one of them ran starts 30 s later.",
    )


class FrontendAddress(ApiModel):
    """A frontend that the class adds."""

    name: Annotated[str, Field(max_length=15)] = Field(description="Name of the frontend.")
    address: Annotated[str, Field(max_length=1024)] = Field(description="Host and port.")


class EndpointStatus(ApiModel):
    """Where clients reach the session, from inside the cluster. Only what is on, and only while the session is Ready."""

    rest: Annotated[str, Field(max_length=1024)] | None = Field(None, description="URL of the SQL gateway.")
    connect: Annotated[str, Field(max_length=1024)] | None = Field(None, description="Spark Connect URL.")
    thrift: Annotated[str, Field(max_length=1024)] | None = Field(None, description="JDBC URL of HiveServer2.")
    frontends: Annotated[tuple[FrontendAddress, ...], Field(max_length=8)] | None = Field(
        None, description="Where the class's own frontends listen."
    )


class StatementCounts(ApiModel):
    """Statements that have not ended, of SqlStatement objects and of clients. A stream that is Stopped is none of them."""

    running: Count = Field(0, description="Objects handed over to the driver, and clients' statements that run.")
    queued: Count = Field(0, description="Objects not handed over yet, and clients' statements that wait.")


class ClientCounts(ApiModel):
    """Clients of the session's endpoints."""

    sessions: Count = Field(0, description="Sessions that clients have open in the driver.")


class ExecutorsStatus(ApiModel):
    """Executors of the driver that the session has."""

    wanted: Count = Field(0, description="Executors that the driver requests now.")
    ready: Count = Field(0, description="Executors that run.")
    pending: Count = Field(0, description="Executors whose pods are there and do not run yet.")
    summary: Annotated[str, Field(max_length=64)] = Field("", description="`ready` of `wanted`, as `1/2`.")
    message: Annotated[str, *clipped(1024)] | None = Field(
        None, description="What missing executors wait for, in the words of the scheduler, the kubelet or the quota."
    )


class ConfigurationLayer(StrEnum):
    """Who said a value; a later one wins over an earlier one."""

    OPERATOR = "Operator"
    CLASS = "Class"
    SESSION = "Session"
    ENFORCED = "ClassEnforced"


class ConfigurationEntry(ApiModel):
    name: Annotated[str, *clipped(1024)] = Field(description="Path in the spec, such as `executors.memory`.")
    value: Annotated[str, *clipped(256)] = Field(
        description="The value, redacted if its key looks like a secret's.", repr=False
    )
    layer: ConfigurationLayer = Field(description="The layer that it came from.")


class KeptState(ApiModel):
    """What a session that hibernates has kept of its state, in its Secret that ends in `-state`."""

    statements: Count = Field(0, description="Statements that run again at the wake, after `init`.")
    incarnation: Count = Field(0, description="The driver that they had changed.")


class SqlSessionStatus(ApiModel):
    observed_generation: int = Field(
        -1, ge=-1, le=SAFE_INT_MAX, description="Generation of the spec that this is about."
    )
    phase: SessionPhase | None = Field(None, description="Where the session is in its life.")
    phase_since: Timestamp | None = Field(None, description="When the phase began; deadlines count from here.")
    message: Annotated[str, *clipped(4096)] | None = Field(None, description="Explanation of the phase for people.")
    class_name: ResourceName | None = Field(
        None, description="SqlSessionClass of the session: that of the spec, or the default class that was taken."
    )
    driver: DriverStatus | None = Field(None, description="The driver that the session has, or had last.")
    endpoints: EndpointStatus | None = Field(None, description="Where clients reach the session.")
    front: Annotated[str, Field(max_length=253)] | None = Field(
        None, description="Host of the front, where clients of all sessions come in; absent without a front."
    )
    statements: StatementCounts | None = Field(None, description="Statements of this session that have not ended.")
    clients: ClientCounts | None = Field(None, description="Clients of the driver that the session has.")
    executors: ExecutorsStatus | None = Field(None, description="Executors of the driver that the session has.")
    last_activity_time: Timestamp | None = Field(
        None,
        description="When it last had a statement or an open session of a client, to within a minute; idle time counts from it.",
    )
    restarts: Count = Field(
        0, description="Driver starts in a row that ended badly; back to 0 once a driver is stable."
    )
    failed_starts: Count = Field(
        0,
        description="Starts in a row that were given up before the driver ran: no node, no image, a quota, a webhook. They are "
        "repeated without end, from `nextStartTime` on; back to 0 once a driver is ready.",
    )
    next_start_time: Timestamp | None = Field(None, description="Not before this the next driver is started.")
    config_hash: Annotated[str, Field(max_length=64)] | None = Field(
        None, description="Hash of the configuration that the driver was started with."
    )
    observed_restart_nonce: Nonce = Field("", description="`restartNonce` that the driver was started with.")
    observed_wake: Annotated[str, Field(max_length=WAKE_CHARS)] = Field(
        "",
        description="The annotation `sparksql.dev/wake` that the session has last followed: its first 64 characters.",
    )
    kept_state: KeptState | None = Field(
        None, description="State that the next driver begins with; only while the session hibernates or wakes."
    )
    configuration: tuple[ConfigurationEntry, ...] = Field(
        (), max_length=2000, description="The merged configuration of the last driver and the layer of each value."
    )
    conditions: Conditions = Field(
        (),
        description="Ready, Reconciling, Stalled, SessionStateLost, Hibernation, VersionSkew, ExecutorsReady, ExecutorsFailing, "
        "WarmPool, LocalMode.",
    )


class SqlSession(ApiObject):
    """A Spark SQL session: a driver pod, its executors, and the SQL gateway in it."""

    KIND: ClassVar[str] = "SqlSession"
    PLURAL: ClassVar[str] = "sqlsessions"
    SHORT_NAME: ClassVar[str] = "sqlsess"

    spec: SqlSessionSpec
    status: SqlSessionStatus = SqlSessionStatus()
