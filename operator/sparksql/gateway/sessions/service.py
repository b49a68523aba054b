"""SessionManager and statements of clients, whichever protocol they came through (FLIP-91's session and operation managers).

Each session has its own Spark session inside the driver. Its statements take the way of all others: same policy, slots,
queue limit, timeouts, cancelling and results. Invariants: a session or operation that nobody uses is closed in time, one with
a statement under way is in use; what is closed leaves nothing behind: no thread, job, result or view; submitting never waits.

Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import pyarrow as pa

from sparksql.api.gateway_settings import GatewaySettings
from sparksql.gateway.lifecycle import Lifecycle, Spark
from sparksql.gateway.operations.operation import ClientOrigin, Executor, StopRequest
from sparksql.gateway.results.store import ExpiredResultError, UnknownResultError
from sparksql.gateway.results.unbounded import UnboundedPage
from sparksql.gateway.sessions.callers import current
from sparksql.gateway.sessions.executor import ClientContext, ClientExecutor
from sparksql.gateway.sessions.external import ExternalExecution, ExternalOperation
from sparksql.gateway.sessions.flink_dialect import SPARK_KEY
from sparksql.gateway.sessions.manager import SessionManager, Usage, monotonic
from sparksql.gateway.sessions.model import ClientError, OperationInfo, Problem, SessionInfo
from sparksql.gateway.sessions.promises import checked
from sparksql.gateway.sessions.quota import Quota
from sparksql.gateway.sessions.session import ClientOperation, ClientSession, status_of
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.wire import control as wire
from sparksql.wire.clients import ClientOperationView, ClientSessionView, ClientsView
from sparksql.wire.control import (
    MAX_RESULT_ROWS,
    AnyClientProtocol,
    ClientProtocol,
    OperationError,
    OperationState,
    ResultOptions,
    SubmitRequest,
)
from sparksql.wire.front import new_handle_beside, prefix_of

log = logging.getLogger(__name__)

_KEPT = ResultOptions(max_rows=MAX_RESULT_ROWS, preview_rows=0, retention_seconds=10 * 365 * 86_400)
_CLOSED = StopRequest(OperationState.CLOSED, "the client's session was closed")

T = TypeVar("T")


class SessionService:
    """Answers the frontends: sessions, statements and results of clients."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self.settings: GatewaySettings = lifecycle.settings.gateway
        self._lifecycle = lifecycle
        self._limits = lifecycle.settings.config.clients
        self._sessions = SessionManager(lifecycle, self._retire)
        self._quota = Quota(self.settings.session_result_max_size, self.settings.result_max_size)
        self._outside: dict[str, ExternalOperation] = {}

    @property
    def usage(self) -> Usage:
        """Returns the counts of sessions so far."""
        return self._sessions.usage

    @property
    def sessions(self) -> tuple[ClientSessionView, ...]:
        """Returns the open sessions that the caller may use."""
        caller = current.get()
        return tuple(session.shown() for session in self._sessions if caller.may_use(session.user))

    @property
    def result_bytes(self) -> int:
        """Returns the bytes of results that are kept for clients."""
        return self._quota.total

    def overview(self) -> ClientsView:
        """Returns the open sessions, and their statements that have not ended."""
        operations = tuple(
            ClientOperationView(
                operation_id=view.operation_id,
                session=session.handle,
                protocol=session.protocol,
                user=session.user,
                state=view.state,
                statement_type=view.statement_type,
                submitted_time=view.submitted_time,
                start_time=view.start_time,
            )
            for session in self._sessions
            for operation in session.live
            if (view := self._lifecycle.register.get(operation.operation_id)) is not None
        )
        return ClientsView(sessions=self.sessions, operations=operations)

    async def open(
        self, protocol: AnyClientProtocol, name: str, properties: Mapping[str, str], promised: str | None = None
    ) -> SessionInfo:
        """Opens a session for a client of a protocol; one that is not the gateway's own goes by its frontend's name.

        `promised` is the handle that the client has already. Raises ClientError NOT_READY, TOO_MANY_SESSIONS, NOT_ALLOWED,
        INVALID.
        """
        return (await self._sessions.open(protocol, name, properties, promised)).view()

    def break_promise(self, handle: str, refused: ClientError) -> None:
        """Tells who asks for a handle that was promised why it stands for nothing."""
        self._sessions.broken_promises.add(handle, refused)

    def session(self, handle: str) -> SessionInfo:
        """Returns a session by its handle. Counts as use. Raises ClientError UNKNOWN_SESSION."""
        return self._sessions.use(handle).view()

    @contextlib.contextmanager
    def using(self, handle: str) -> Iterator[None]:
        """Counts as use until the block ends. Raises ClientError UNKNOWN_SESSION."""
        with self._sessions.using(handle):
            yield

    async def close(self, handle: str) -> None:
        """Stops what the session runs and frees what it keeps. Raises ClientError UNKNOWN_SESSION."""
        self._sessions.close(self._sessions.use(handle))

    def on_close(self, handle: str, on_closed: Callable[[str], None]) -> None:
        """Calls `on_closed` with the handle once the session is closed or has expired. Raises ClientError UNKNOWN_SESSION."""
        self._sessions.on_close(self._sessions.use(handle), on_closed)

    def submit(
        self,
        session: str,
        sql: str,
        *,
        conf: Mapping[str, str] | None = None,
        execution_seconds: float = 0,
        promised: str | None = None,
    ) -> str:
        """Submits a statement and returns its operation handle, at once; whatever is wrong with the SQL is told by the operation.

        `execution_seconds` 0 takes the session's default. `promised` is the handle that the client has already; what is there
        under it is not submitted again. Raises ClientError UNKNOWN_SESSION, TOO_MANY_OPERATIONS, QUEUE_FULL, INVALID.
        """
        found, spark = self._sessions.use(session), self._sessions.spark(taking=True)
        prefix = prefix_of(found.handle)
        operation_id = new_handle_beside(found.handle) if promised is None else checked(promised, prefix)
        if operation_id in found.operations:
            return operation_id
        client = ClientContext(
            driver=spark.executor.driver,
            policy=self._lifecycle.settings.config.policy,
            store=spark.store,
            executor=spark.executor,
            quota=self._quota,
            handle=found.handle,
            session=found.spark,
            property_set=lambda key, value: _set_property(found.properties, key, value),
            settings_reset=lambda: _reset_settings(found.properties),
        )
        own = {key: value for key, value in (conf or {}).items() if key.startswith("spark.")}
        request, executor = self._request(found, sql, own, execution_seconds), ClientExecutor(client, operation_id)
        with self._sessions.broken_promises.recorded(promised):
            return self._begin(spark, found, request, executor, operation_id).operation_id

    def admit(
        self,
        session: str,
        statement_type: str,
        work: ExternalExecution,
        *,
        local: bool = False,
        execution_seconds: float = 0,
    ) -> str:
        """Queues a statement that Spark executes by itself; `local`: without an executor. Raises what `submit` raises."""
        found, spark = self._sessions.use(session), self._sessions.spark(taking=True)
        executor = ExternalOperation(work, statement_type, spark.executor, local=local)
        request = self._request(found, "", {}, execution_seconds)
        operation = self._begin(spark, found, request, executor, new_handle_beside(found.handle))
        operation.work = work
        self._outside[operation.operation_id] = executor
        return operation.operation_id

    def outside_done(self, operation: str, error: OperationError | None) -> None:
        """Tells that Spark has ended a statement that was admitted; unknown ones change nothing."""
        executor = self._outside.get(operation)
        if executor is not None:
            executor.done(error)

    def operation(self, session: str, operation: str) -> OperationInfo:
        """Returns an operation as it is now. Counts as use. Raises ClientError UNKNOWN_SESSION, UNKNOWN_OPERATION."""
        return self._view(self._sessions.use(session), self._find(session, operation))

    async def wait(self, session: str, operation: str, seconds: float) -> OperationInfo:
        """Returns the operation once it has ended, or as it is after so many seconds."""
        found = self._find(session, operation)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(found.ended.wait(), seconds)
        return self.operation(session, operation)

    async def wait_for_rows(self, session: str, operation: str, seconds: float) -> OperationInfo:
        """Returns the operation once it has ended or is known to be without end, or as it is after so many seconds."""
        found = self._find(session, operation)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(found.has_rows.wait(), seconds)
        return self.operation(session, operation)

    async def run(self, session: str, sql: str, *, execution_seconds: float = 0) -> OperationInfo:
        """Submits a statement, waits for its end, and returns its view."""
        operation = self.submit(session, sql, execution_seconds=execution_seconds)
        await self._find(session, operation).ended.wait()
        return self.operation(session, operation)

    def cancel(self, session: str, operation: str) -> OperationInfo:
        """Begins to stop an operation and returns it as it is now.

        Raises ClientError ILLEGAL_TRANSITION for an operation that has ended.
        """
        found = self._find(session, operation)
        view = self.operation(session, operation)
        if view.status.is_terminal:
            message = f"Failed to convert the Operation Status from {view.status} to CANCELED."
            raise ClientError(Problem.ILLEGAL_TRANSITION, message)
        self._sessions.spark().operations.cancel(
            found.operation_id, StopRequest(OperationState.CANCELED, "the client cancelled it")
        )
        return self.operation(session, operation)

    def close_operation(self, session: str, operation: str) -> None:
        """Stops the operation if it runs and frees its result. Unknown ones are closed already."""
        found = self._sessions.use(session)
        known = found.operations.get(operation)
        if known is not None:
            self._retire(found, known)

    async def page(self, session: str, operation: str, first_row: int, max_rows: int) -> tuple[pa.Table, int | None]:
        """Returns rows of a finished operation from `first_row` on, and the next row's number.

        Raises ClientError NO_RESULT.
        """
        self._sessions.use(session)
        found, spark = self._find(session, operation), self._sessions.spark()
        try:
            result = spark.store.get(found.operation_id)
            return await spark.threads.read_page(spark.reader.read, result, first_row, max_rows)
        except (UnknownResultError, ExpiredResultError) as missing:
            raise ClientError(Problem.NO_RESULT, str(missing)) from None

    async def unbounded_page(
        self, session: str, operation: str, token: int, max_rows: int, seconds: float
    ) -> UnboundedPage | None:
        """Returns a page of a query without end, once rows have come or so many seconds have passed; None if it has ended.

        Raises UnexpectedTokenError.
        """
        found, spark = self._find(session, operation), self._sessions.spark()
        rows = spark.operations.unbounded(found.operation_id)
        if rows is None:
            return None
        with self._sessions.using(session):
            await rows.wait(token, seconds)
            found.used = monotonic()
            return await spark.threads.read_page(rows.page, spark.reader, token, max_rows)

    async def with_session(self, session: str, function: Callable[[SparkDriver, Any], T]) -> T:
        """Runs a blocking function of the driver and the client's JVM session beside the loop."""
        with self._sessions.using(session) as found:
            spark = self._sessions.spark()
            return await spark.threads.run(lambda: function(spark.executor.driver, found.spark))

    async def read_text(self, session: str, function: Callable[[SparkDriver, Any], T]) -> T:
        """Does as `with_session`, in a thread that can be given up. Raises StatementError when it takes too long."""
        with self._sessions.using(session) as found:
            spark = self._sessions.spark()
            return await spark.threads.read_text(lambda: function(spark.executor.driver, found.spark))

    async def watch(self) -> None:
        """Closes what nobody uses; ends only by being cancelled."""
        while True:
            await asyncio.sleep(self.settings.session_check_interval)
            self._sessions.expire()

    def _find(self, session: str, operation: str) -> ClientOperation:
        found = self._sessions.use(session).operations.get(operation)
        if found is None:
            self._sessions.broken_promises.check(operation)
            raise ClientError(
                Problem.UNKNOWN_OPERATION,
                f"Can not find the submitted operation in the OperationManager with the {operation}.",
            )
        found.used = monotonic()
        return found

    def _view(self, session: ClientSession, operation: ClientOperation) -> OperationInfo:
        operations = self._sessions.spark().operations
        unbounded = operations.unbounded(operation.operation_id)
        view = self._lifecycle.register.view(operation.operation_id)
        columns = () if view.result is None else view.result.columns
        return OperationInfo(
            handle=operation.operation_id,
            session=session.handle,
            status=status_of(view, being_read=operations.is_being_read(operation.operation_id)),
            statement_type=view.statement_type,
            is_query=operation.is_query,
            is_insert=operation.is_insert,
            columns=columns if unbounded is None else unbounded.columns,
            row_count=0 if view.result is None else view.result.row_count,
            unbounded=unbounded is not None,
            is_changelog=unbounded is not None and unbounded.is_changelog,
            error=view.error,
            submitted=view.submitted_time,
            started=view.start_time,
            completed=view.completion_time,
        )

    def _request(
        self, session: ClientSession, sql: str, conf: dict[str, str], execution_seconds: float
    ) -> SubmitRequest:
        limits, config = self._limits, self._lifecycle.settings.config
        seconds = execution_seconds if execution_seconds > 0 else limits.execution_seconds
        if limits.max_execution_seconds > 0:
            seconds = min(seconds, limits.max_execution_seconds) if seconds > 0 else limits.max_execution_seconds
        return SubmitRequest(
            boot_id=self._lifecycle.boot_id,
            namespace=config.namespace,
            name=f"{config.session} ({_of_whom(session)})",
            sql=sql,
            conf=conf,
            execution_seconds=seconds,
            result=_KEPT,
        )

    def _begin(
        self, spark: Spark, session: ClientSession, request: SubmitRequest, executor: Executor, operation_id: str
    ) -> ClientOperation:
        register, most = self._lifecycle.register, self.settings.operation_max_num
        if 0 < most <= len(session.operations):
            raise ClientError(Problem.TOO_MANY_OPERATIONS, f"the session has {most} operations; close some of them")
        if 0 < self._limits.max_queued <= register.count(OperationState.PENDING):
            message = f"{self._limits.max_queued} statements wait for this driver already; try again later"
            raise ClientError(Problem.QUEUE_FULL, message)
        operation = ClientOperation(operation_id, executor, monotonic())
        session.operations[operation_id] = operation
        origin = ClientOrigin(
            protocol=session.protocol,
            queue=session.handle,
            serial=session.protocol is ClientProtocol.REST,
            queue_seconds=self._limits.queue_seconds,
            user=session.user,
            on_rows=None if session.protocol is ClientProtocol.CONNECT else operation.has_rows.set,
        )
        spark.operations.begin(operation_id, request, executor, origin)
        register.watch(operation_id, lambda view: self._ended(session, operation, view))
        return operation

    def _ended(self, session: ClientSession, operation: ClientOperation, view: wire.OperationView) -> None:
        operation.ended.set()
        operation.has_rows.set()
        operation.used = session.used = monotonic()
        self._outside.pop(operation.operation_id, None)
        if operation.work is not None and view.start_time is None:  # its executor has never heard of it
            operation.work.stop(view.error.message if view.error else str(view.state))
        if operation.closing:
            asyncio.get_running_loop().call_soon(self._forget, session, operation)

    def _retire(self, session: ClientSession, operation: ClientOperation) -> None:
        """Closes one operation: from here on nobody finds it."""
        session.operations.pop(operation.operation_id, None)
        operation.closing = True
        if operation.ended.is_set():
            self._forget(session, operation)
        else:
            self._sessions.spark().operations.cancel(operation.operation_id, _CLOSED)

    def _forget(self, session: ClientSession, operation: ClientOperation) -> None:
        self._quota.free(session.handle, operation.operation_id)
        self._sessions.spark().operations.forget(operation.operation_id)


def _of_whom(session: ClientSession) -> str:
    return str(session.protocol) if session.user is None else f"{session.protocol}, {session.user}"


def _set_property(properties: dict[str, str], key: str, value: str | None) -> None:
    if value is None:
        properties.pop(key, None)
    else:
        properties[key] = value


def _reset_settings(properties: dict[str, str]) -> None:
    for key in [key for key in properties if key.startswith(SPARK_KEY)]:
        del properties[key]
