"""The settings of a session that take part in the configuration layers.

A class's `defaults`, a session and a statement's dedicated session share this shape. Nothing here has a default: `None`
(an empty `conf`) means "not set, ask the layer below", and a default would hide that layer.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from sparksql.api.base import ApiModel, cel, validated
from sparksql.api.fields import INT32_MAX, Cpu, Memory, Seconds, SparkConf

ExecutorCount = Annotated[int, Field(ge=0, le=10_000)]

# Spark and Hive take no other characters in the name of a database.
_DATABASE = r"^[A-Za-z0-9_]*(\{namespace\}[A-Za-z0-9_]*)?$"
_DATABASE_MESSAGE = (
    "database must be of letters, digits and '_', with {namespace} for the session's namespace ('-' becomes '_') at most once, "
    "for instance {namespace} or sales; empty means default"
)


def _checked_database(value: str) -> str:
    if re.fullmatch(_DATABASE, value) is None:
        raise ValueError(_DATABASE_MESSAGE)
    return value


DatabaseName = Annotated[
    str,
    AfterValidator(_checked_database),
    Field(
        max_length=64,  # 128 is Hive's limit, of which a namespace takes up to 63
        json_schema_extra={
            "x-kubernetes-validations": [cel(f"self.matches(r'{_DATABASE}')", _DATABASE_MESSAGE)],
        },
    ),
]
"""A template of a database's name; see `resolve.database_name`."""


class IdleAction(StrEnum):
    """What happens to a session that nobody has used for a while."""

    HIBERNATE = "Hibernate"
    CLOSE = "Close"


class DriverResources(ApiModel):
    cpu: Cpu | None = Field(
        None,
        description="CPU request of the driver pod, a decimal in quotes. Spark counts this rounded up, at least 1.",
    )
    cpu_limit: Cpu | None = Field(
        None,
        description="CPU limit of the driver pod; it must not be below `cpu`. A driver without a limit may use spare cores of the "
        "node. Set it where a ResourceQuota limits `limits.cpu`.",
    )
    memory: Memory | None = Field(
        None,
        description="JVM heap of the driver. The pod gets more: max(384Mi, 10 %) + 600Mi for Python and off-heap use.",
    )


class ExecutorResources(ApiModel):
    """Either a fixed number of executors (`instances`) or a range (`min`, `max`) for dynamic allocation."""

    model_config = validated(
        cel(
            "!has(self.instances) || (!has(self.min) && !has(self.max))",
            "set either instances (a fixed number) or min and max (dynamic allocation), not both",
        ),
        cel("!has(self.min) || has(self.max)", "min needs max: set max to the largest number of executors"),
        cel("!has(self.min) || !has(self.max) || self.min <= self.max", "min must not be greater than max"),
    )

    instances: int | None = Field(None, ge=1, le=10_000, description="Fixed number of executors.")
    min: ExecutorCount | None = Field(None, description="Fewest executors with dynamic allocation; needs `max`.")
    max: int | None = Field(None, ge=1, le=10_000, description="Most executors with dynamic allocation.")
    cpu: Cpu | None = Field(
        None, description="CPU request of each executor, a decimal in quotes. Spark counts this rounded up, at least 1."
    )
    cpu_limit: Cpu | None = Field(
        None, description="CPU limit of each executor; it must not be below `cpu`. The default is no limit."
    )
    memory: Memory | None = Field(None, description="JVM heap of each executor.")


class Idle(ApiModel):
    timeout_seconds: Seconds | None = Field(None, description="Idle time after which the action is taken; 0 = never.")
    action: IdleAction | None = Field(
        None,
        description="Close ends the session for good. Hibernate ends its driver and keeps the object: the next statement, a client of "
        "`kubectl sparksql` or the annotation `sparksql.dev/wake` starts another one. A session that holds what would be "
        "lost (temporary views, settings, variables) stays up, and its condition `Hibernation` says so.",
    )
    restore_state: bool | None = Field(
        None,
        description="Hibernate a session also if statements have changed it: those that did, of SqlStatement objects, are kept in a "
        "Secret of the session and run again at the wake, after `init`.",
    )


class StatementTimeouts(ApiModel):
    queue_seconds: Seconds | None = Field(
        None, description="Longest wait from being accepted to running, then TimedOut/QueueTimeout; 0 = no limit."
    )
    execution_seconds: Seconds | None = Field(
        None, description="Longest run, then cancelled as TimedOut/ExecutionTimeout; 0 = no limit."
    )


class Endpoints(ApiModel):
    rest: bool | None = Field(None, description="SQL gateway REST API (Flink SQL Gateway shape), port 8443.")
    connect: bool | None = Field(None, description="Spark Connect, port 15002.")
    thrift: bool | None = Field(None, description="HiveServer2 Thrift, for JDBC and beeline, port 10000.")


class SessionSettings(ApiModel):
    """Settings that take part in the configuration layers."""

    driver: DriverResources | None = Field(None, description="Size of the driver.")
    executors: ExecutorResources | None = Field(None, description="Number and size of the executors.")
    conf: SparkConf = Field(
        default_factory=dict, description="Spark configuration; merged key by key with the other layers."
    )
    database: DatabaseName | None = Field(
        None,
        description="Database in which statements and clients begin, made at the driver's start if it is not there. "
        "`{namespace}` stands for the session's namespace, with `_` for `-`; empty means `default`.",
    )
    idle: Idle | None = Field(None, description="What to do with a session that is not used.")
    statement_timeouts: StatementTimeouts | None = Field(
        None,
        description="Timeouts of statements that set none of their own; clients' statements follow a change at the next driver.",
    )
    max_lifetime_seconds: Seconds | None = Field(
        None, description="Age at which the session is closed, whatever it does; 0 = unlimited."
    )
    max_concurrent_statements: int | None = Field(
        None, ge=1, le=256, description="Batch statements that run at the same time; others wait in Initialized."
    )
    max_queued_statements: int | None = Field(
        None, ge=0, le=INT32_MAX, description="Statements that may wait; one more is refused with LimitExceeded."
    )
    endpoints: Endpoints | None = Field(None, description="Protocols by which clients may use the session.")
