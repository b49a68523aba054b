"""What one statement of an operation is run with."""

from __future__ import annotations

from dataclasses import dataclass

from sparksql.gateway.operations.operation import Operation
from sparksql.gateway.results.collector import Collector
from sparksql.gateway.spark.shapes import JvmSession


@dataclass(frozen=True)
class Scope:
    """An operation, the JVM session that it runs in, and the collector of that session's rows."""

    operation: Operation
    session: JvmSession
    collector: Collector
