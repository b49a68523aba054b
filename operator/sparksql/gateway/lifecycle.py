"""The life of a driver's process: Starting, Ready or InitFailed, Draining.

Holds what is there before Spark is, and Spark once it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sparksql.gateway.execution.executor import SparkExecutor
from sparksql.gateway.operations import audit
from sparksql.gateway.operations.events import Changes
from sparksql.gateway.operations.manager import OperationManager
from sparksql.gateway.operations.register import OperationRegister
from sparksql.gateway.operations.thread_pools import ThreadPools
from sparksql.gateway.results.store import ResultReader, ResultStore
from sparksql.gateway.settings import Settings
from sparksql.gateway.streaming.checkpoints.savepoint_jobs import SavepointAttempts
from sparksql.wire.control import GatewayState, InitFailure


@dataclass(frozen=True)
class Spark:
    """Holds what exists once Spark has started."""

    executor: SparkExecutor
    operations: OperationManager
    threads: ThreadPools
    store: ResultStore
    reader: ResultReader
    savepoints: SavepointAttempts
    version: str
    application_id: str


class Lifecycle:
    """State of the process, and what lives as long as it does. Belongs to the event loop."""

    def __init__(self, settings: Settings, boot_id: str, clock: Callable[[], datetime]) -> None:
        self.settings = settings
        self.boot_id = boot_id
        self.clock = clock
        self.started = clock()
        self.changes = Changes()
        self.register = OperationRegister(boot_id, clock, self.changes.notify, audit.statement)
        self.spark: Spark | None = None
        self.init_failure: InitFailure | None = None
        self.state_lost: str | None = None
        self.executors_wanted: int | None = None
        self.is_draining = False
        self._state = GatewayState.STARTING

    @property
    def state(self) -> GatewayState:
        """Returns the state that the process tells."""
        return GatewayState.DRAINING if self.is_draining else self._state

    def ready(self, spark: Spark) -> None:
        """Tells that Spark has started and every init statement has run."""
        self.spark = spark
        self._state = GatewayState.READY
        self.changes.notify()

    def init_failed(self, failure: InitFailure) -> None:
        """Tells that an init statement failed: the process stays, so that the reason can be read, and takes no statement."""
        self.init_failure = failure
        self._state = GatewayState.INIT_FAILED
        self.changes.notify()

    def drain(self) -> None:
        """Begins to drain: from now on no new statement is taken."""
        self.is_draining = True
        self.changes.notify()
