"""What the operator asks of a driver: to run a statement, to end one, to make a savepoint, and how the driver is."""

from __future__ import annotations

from sparksql.gateway.lifecycle import Lifecycle, Spark
from sparksql.gateway.operations.operation import StopRequest
from sparksql.gateway.sessions.service import SessionService
from sparksql.protocols.budget import DRIVER_BYTES, DRIVER_CALLS, Budget
from sparksql.wire.control import (
    CancelRequest,
    GatewayInfo,
    OperationState,
    OperationView,
    SubmitRequest,
)
from sparksql.wire.savepoints import SavepointRequest, SavepointView
from sparksql.wire.session_state import SessionState
from sparksql.wire.versions import OLDEST_OPERATOR, PROTOCOL_VERSION


class ControlError(Exception):
    """A request that cannot be served now: `status` is the HTTP status, `code` its machine-readable name."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class ControlService:
    """Answers in each state of the process. Belongs to the event loop.

    `budget` is what all ports of the driver take from.
    """

    def __init__(self, lifecycle: Lifecycle, clients: SessionService) -> None:
        self.lifecycle = lifecycle
        self.clients = clients
        self.budget = Budget.of(DRIVER_BYTES, DRIVER_CALLS)

    async def submit(self, operation_id: str, request: SubmitRequest) -> OperationView:
        """Takes a statement and returns its view; an id that is known is answered and not run again. Raises ControlError.

        While the process drains a new one is answered as Closed without a start, for ever: another driver may have it.
        """
        self._check_boot(request.boot_id)
        if self.lifecycle.is_draining and self.lifecycle.register.get(operation_id) is None:
            return self.lifecycle.register.tombstone(operation_id, OperationState.CLOSED)
        if self.lifecycle.spark is None:
            known = self.lifecycle.register.get(operation_id)  # a tombstone
            if known is not None:
                return known
            raise ControlError(503, str(self.lifecycle.state), "the gateway is not ready")
        return await self.lifecycle.spark.operations.submit(operation_id, request)

    def cancel(self, operation_id: str, request: CancelRequest) -> OperationView:
        """Begins to end a statement, or leaves a tombstone for one that never came; returns its view. Raises ControlError."""
        self._check_boot(request.boot_id)
        if self.lifecycle.spark is None:
            known = self.lifecycle.register.get(operation_id)
            return known or self.lifecycle.register.tombstone(operation_id, request.outcome)
        return self.lifecycle.spark.operations.cancel(
            operation_id, StopRequest(OperationState(request.outcome), request.reason)
        )

    def save(self, attempt_id: str, request: SavepointRequest) -> SavepointView:
        """Begins an attempt to make a savepoint. Raises ControlError."""
        self._check_boot(request.boot_id)
        return self._ready_spark().savepoints.begin(attempt_id, request)

    def cancel_save(self, attempt_id: str) -> SavepointView:
        """Ends an attempt, or leaves a tombstone for one that never came. Raises ControlError."""
        return self._ready_spark().savepoints.cancel(attempt_id)

    async def session_state(self) -> SessionState:
        """Returns what brings the session's state back in another driver. Raises ControlError."""
        spark = self._ready_spark()
        return await spark.threads.run(spark.executor.changes.state)

    def _ready_spark(self) -> Spark:
        if self.lifecycle.spark is None:
            raise ControlError(503, str(self.lifecycle.state), "the gateway is not ready")
        return self.lifecycle.spark

    def info(self) -> GatewayInfo:
        """Returns how the driver is."""
        spark, pair = self.lifecycle.spark, self.lifecycle.settings.tls_pair
        return GatewayInfo(
            protocol_version=PROTOCOL_VERSION,
            oldest_operator_version=OLDEST_OPERATOR,
            boot_id=self.lifecycle.boot_id,
            incarnation=self.lifecycle.settings.config.incarnation,
            config_hash=self.lifecycle.settings.config_hash,
            state=self.lifecycle.state,
            spark_version=None if spark is None else spark.version,
            spark_application_id=None if spark is None else spark.application_id,
            start_time=self.lifecycle.started,
            pending=self.lifecycle.register.count(OperationState.PENDING),
            running=self.lifecycle.register.count(OperationState.RUNNING),
            client_sessions=len(self.clients.sessions),
            client_pending=self.lifecycle.register.count_of_clients(OperationState.PENDING),
            client_running=self.lifecycle.register.count_of_clients(OperationState.RUNNING),
            streams=sum(view.streaming for view in self.lifecycle.register.live()),
            compares_states=True,
            previews_states=True,
            plans_streams=True,
            makes_states=True,
            has_session_state=spark is not None and spark.executor.changes.is_changed,
            restorable_statements=0 if spark is None else len(spark.executor.changes.kept),
            state_obstacle=None if spark is None else spark.executor.changes.obstacle,
            state_lost=self.lifecycle.state_lost,
            executors_wanted=self.lifecycle.executors_wanted,
            last_activity_time=None if spark is None else spark.operations.last_activity,
            init_failure=self.lifecycle.init_failure,
            certificate=None if pair is None else pair.certificate.decode(),
        )

    def _check_boot(self, boot_id: str) -> None:
        if boot_id != self.lifecycle.boot_id:
            raise ControlError(
                412, "OtherBoot", "this gateway has another boot id: the requested driver no longer exists"
            )
