"""The gateway as a whole: its state from Starting on, and what it answers before, while and after Spark is there."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sparksql.gateway import audit
from sparksql.gateway.attempt import Ending
from sparksql.gateway.clients.service import ClientService
from sparksql.gateway.config import Settings
from sparksql.gateway.engine import Engine
from sparksql.gateway.events import Changes
from sparksql.gateway.execution import SparkRunner
from sparksql.gateway.operations import OperationRegister
from sparksql.gateway.results import ResultReader, ResultStore
from sparksql.gateway.streaming.attempts import SavepointAttempts
from sparksql.wire.control import (
    CancelRequest,
    GatewayInfo,
    GatewayState,
    InitFailure,
    OperationState,
    OperationView,
    SubmitRequest,
)
from sparksql.wire.savepoints import SavepointRequest, SavepointView
from sparksql.wire.versions import OLDEST_OPERATOR, PROTOCOL_VERSION

log = logging.getLogger(__name__)


class Refused(Exception):
    """A request that cannot be served now: `status` is the HTTP status, `code` its machine-readable name."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass(frozen=True)
class Spark:
    """What exists once Spark has started."""

    runner: SparkRunner
    engine: Engine
    store: ResultStore
    reader: ResultReader
    savepoints: SavepointAttempts
    version: str
    application_id: str


class Gateway:
    """See the module. Belongs to the event loop."""

    def __init__(self, settings: Settings, boot_id: str, clock: Callable[[], datetime]) -> None:
        self.settings = settings
        self.boot_id = boot_id
        self.clock = clock
        self.changes = Changes()
        self.register = OperationRegister(boot_id, clock, self.changes.notify, audit.statement)
        self.spark: Spark | None = None
        self._state = GatewayState.STARTING
        self._draining = False
        self._init_failure: InitFailure | None = None
        self._started = clock()
        self.clients = ClientService(self)

    @property
    def state(self) -> GatewayState:
        return GatewayState.DRAINING if self._draining else self._state

    def ready(self, spark: Spark) -> None:
        """Spark has started and every init statement has run."""
        self.spark = spark
        self._state = GatewayState.READY
        self.changes.notify()

    def init_failed(self, failure: InitFailure) -> None:
        """An init statement failed: the process stays, so that the reason can be read, and takes no statement."""
        self._init_failure = failure
        self._state = GatewayState.INIT_FAILED
        self.changes.notify()

    def drain(self) -> None:
        """From now on no new statement is taken."""
        self._draining = True
        self.changes.notify()

    async def submit(self, operation_id: str, request: SubmitRequest) -> OperationView:
        """Raises Refused."""
        self._check_boot(request.boot_id)
        if self._draining and self.register.get(operation_id) is None:
            raise Refused(503, "Draining", "the gateway takes no new statements")
        if self.spark is None:
            known = self.register.get(operation_id)  # a tombstone
            if known is not None:
                return known
            raise Refused(503, str(self.state), "the gateway is not ready")
        return await self.spark.engine.submit(operation_id, request)

    def cancel(self, operation_id: str, request: CancelRequest) -> OperationView:
        """Raises Refused."""
        self._check_boot(request.boot_id)
        if self.spark is None:
            known = self.register.get(operation_id)
            return known or self.register.tombstone(operation_id, request.outcome)
        return self.spark.engine.cancel(operation_id, Ending(OperationState(request.outcome), request.reason))

    def save(self, attempt_id: str, request: SavepointRequest) -> SavepointView:
        """Begins an attempt to make a savepoint. Raises Refused."""
        self._check_boot(request.boot_id)
        return self._ready_spark().savepoints.begin(attempt_id, request)

    def cancel_save(self, attempt_id: str) -> SavepointView:
        """Ends an attempt, or leaves a tombstone for one that never came. Raises Refused."""
        return self._ready_spark().savepoints.cancel(attempt_id)

    def _ready_spark(self) -> Spark:
        if self.spark is None:
            raise Refused(503, str(self.state), "the gateway is not ready")
        return self.spark

    def info(self) -> GatewayInfo:
        spark = self.spark
        return GatewayInfo(
            protocol_version=PROTOCOL_VERSION,
            oldest_operator_version=OLDEST_OPERATOR,
            boot_id=self.boot_id,
            incarnation=self.settings.config.incarnation,
            config_hash=self.settings.config_hash,
            state=self.state,
            spark_version=None if spark is None else spark.version,
            spark_application_id=None if spark is None else spark.application_id,
            start_time=self._started,
            pending=self.register.count(OperationState.PENDING),
            running=self.register.count(OperationState.RUNNING),
            client_sessions=len(self.clients.sessions),
            client_pending=self.register.count_of_clients(OperationState.PENDING),
            client_running=self.register.count_of_clients(OperationState.RUNNING),
            streams=sum(view.streaming for view in self.register.live()),
            compares_states=True,
            has_session_state=spark is not None and spark.runner.has_session_state,
            last_activity_time=None if spark is None else spark.engine.last_activity,
            init_failure=self._init_failure,
        )

    def _check_boot(self, boot_id: str) -> None:
        if boot_id != self.boot_id:
            raise Refused(412, "OtherBoot", "this gateway has another boot id: the driver that was meant is gone")
