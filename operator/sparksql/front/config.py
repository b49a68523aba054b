"""The front's own configuration: one file, written by the chart from its values.

`$SPARKSQL_FRONT_CONFIG` names the file (YAML or JSON); without it the defaults below hold.
"""

from __future__ import annotations

import os
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

CONFIG_ENV = "SPARKSQL_FRONT_CONFIG"


class Ports(BaseModel):
    """Where the front listens; 0 takes a free port (tests)."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid")

    rest: int = Field(8443, ge=0, le=65535)
    thrift: int = Field(10000, ge=0, le=65535)
    connect: int = Field(15002, ge=0, le=65535)
    http: int = Field(8081, ge=0, le=65535)


class FrontConfig(BaseModel):
    """Unknown keys are refused: a misspelt value must not be ignored silently.

    `default_namespace` is where users who are no service accounts have their own sessions; empty means that they must name a
    namespace. `review_seconds` is how long an answer of the cluster about a token or a right is used. `tls_directory` and
    `key_file` are those of the front's Secret; without a directory it speaks no TLS (tests).
    """

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid")

    watch_namespaces: tuple[str, ...] = ()  # empty = all
    default_namespace: str = ""
    log_level: str = "info"
    address: str = "0.0.0.0"  # noqa: S104 - of a pod
    ports: Ports = Ports()
    key_file: Path = Path("/etc/spark-sql-front/secret/key")
    tls_directory: Path | None = Path("/etc/spark-sql-front/tls")
    review_seconds: float = Field(10.0, gt=0, le=60)
    hold_seconds: float = Field(180.0, gt=0, le=3600)
    max_connections: int = Field(1000, ge=1, le=100_000)
    drain_seconds: float = Field(20.0, ge=0)


def load(path: str | None = None) -> FrontConfig:
    """The configuration of `path`, or of `$SPARKSQL_FRONT_CONFIG`. Raises ValueError naming the wrong key."""
    path = path or os.environ.get(CONFIG_ENV)
    if not path:
        return FrontConfig()
    return FrontConfig.model_validate(yaml.safe_load(Path(path).read_text()) or {})
