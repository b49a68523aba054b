"""The operator's own configuration: one file, written by the chart from its values.

`$SPARKSQL_OPERATOR_CONFIG` names the file (YAML or JSON); without it the defaults below hold.
"""

from __future__ import annotations

import os
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from sparksql.api.settings import SessionSettings
from sparksql.domain.session.snapshot import Deadlines

CONFIG_ENV = "SPARKSQL_OPERATOR_CONFIG"


class _Section(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid")


class Lease(_Section):
    """Name and namespace of the Lease that lets one replica act; no namespace means a single operator without a Lease."""

    name: str = "spark-sql-operator"
    namespace: str = ""


class Front(_Section):
    """Tells whether there is a front, and its name: that of its Service and of the Secret beside the operator."""

    enabled: bool = False
    name: str = "spark-sql-front"


class OperatorLimits(_Section):
    """Bounds all that the operator looks after together.

    `sessions` is how many sessions have a driver at the same time; 0 = no limit.
    """

    sessions: int = Field(0, ge=0)


class OperatorConfig(_Section):
    """Unknown keys are refused: a misspelt value must not be ignored silently."""

    watch_namespaces: tuple[str, ...] = ()  # empty = all
    workers: int = Field(8, ge=1, le=256)
    log_level: str = "info"
    lease: Lease = Lease()
    front: Front = Front()
    defaults: SessionSettings = SessionSettings()
    deadlines: Deadlines = Deadlines()
    limits: OperatorLimits = OperatorLimits()
    max_driver_restarts: int = Field(3, ge=0)
    resync_seconds: float = Field(300, ge=1)
    stale_watch_seconds: float = Field(900, ge=10)
    http_port: int = Field(8080, ge=1, le=65535)


def load(path: str | None = None) -> OperatorConfig:
    """The configuration of `path`, or of `$SPARKSQL_OPERATOR_CONFIG`. Raises ValueError naming the wrong key."""
    path = path or os.environ.get(CONFIG_ENV)
    if not path:
        return OperatorConfig()
    return OperatorConfig.model_validate(yaml.safe_load(Path(path).read_text()) or {})
