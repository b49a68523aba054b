"""What one statement of an operation is run with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sparksql.gateway.operations.operation import Operation
from sparksql.gateway.results.collector import Collector
from sparksql.gateway.results.store import StoredResult
from sparksql.gateway.spark.shapes import Dataset, JvmSession


@dataclass(frozen=True)
class Scope:
    """An operation, the JVM session that it runs in, and the collector of that session's rows.

    `use` is what becomes of the rows of a query that nobody reads.
    """

    operation: Operation
    session: JvmSession
    collector: Collector
    use: Callable[[Scope, Dataset], StoredResult] | None = None
