"""SqlStatement: what it adds to a reconcile (`controllers.reconciler`).

The request to the driver follows the status that announces it, and may be repeated after a crash: the operation id is the
same, and the gateway runs one id at most once.
"""

from __future__ import annotations

import contextlib
import logging
from typing import assert_never

from sparksql.api.names import dedicated_session_name
from sparksql.api.statement import SqlStatement, SqlStatementStatus
from sparksql.api.statement import StatementPhase as Phase
from sparksql.cache.indexes import SAVEPOINT, SESSION, STATEMENT
from sparksql.cache.models import session_of
from sparksql.controllers.children import create_watched
from sparksql.controllers.context import ControllerContext
from sparksql.controllers.reconciler import GATEWAY_RETRY_SECONDS, Again, Controller, Done, Outcome
from sparksql.controllers.statement.gather import StatementGatherer
from sparksql.controllers.statement.questions import Questions
from sparksql.controllers.statement.refusals import Refusals
from sparksql.domain.event import Event
from sparksql.domain.ownership import STATEMENT_OWNER, owned_by
from sparksql.domain.statement.decide import decide
from sparksql.domain.statement.decision import (
    Ask,
    Cancel,
    Command,
    CreateSavepoint,
    CreateSession,
    Decision,
    DeleteSavepoint,
    DeleteSelf,
    DeleteSession,
    NeedsInputs,
    Question,
    Submit,
)
from sparksql.domain.statement.phases import HANDED_OVER, is_ended
from sparksql.domain.violation import Violation
from sparksql.drivers.client import GatewayClient, GatewayError, GatewayRefused, GatewayUnreachable, OtherBoot
from sparksql.engine.errors import Waiting
from sparksql.engine.key import Key, log_extra
from sparksql.kube.builders.statement_children import dedicated_session, savepoint_of
from sparksql.kube.client import Object
from sparksql.kube.errors import NotFound
from sparksql.kube.resources import SAVEPOINTS, SESSIONS, STATEMENTS
from sparksql.wire.control import CancelRequest, OperationState, SubmitRequest

ARRIVED_SECONDS = 0.25  # look again at a statement that the driver took and does not run yet
NOT_READY = 503  # of a driver that starts or drains: it takes the statement later, or goes

logger = logging.getLogger(__name__)


class StatementController(Controller[SqlStatement, SqlStatementStatus, Command]):
    """Hands statements to the drivers of their sessions, and brings home how they end."""

    kind = STATEMENT

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._questions = Questions(context.clock)
        self._refusals = Refusals()
        self._gatherer = StatementGatherer(context, self._questions, self._refusals)

    def parse(self, obj: Object) -> SqlStatement:
        """Returns the model of a raw SqlStatement. Raises ValueError if the CRD would refuse it."""
        return SqlStatement.parse(obj)

    async def decide(self, obj: Object, parsed: SqlStatement, refusal: Violation | None) -> Decision:
        """Reads ConfigMaps and Secrets only for a decision that turns on them."""
        snapshot = await self._gatherer.gather(obj, parsed)
        decision = decide(snapshot)
        if not isinstance(decision, NeedsInputs):
            self._questions.forget(_key(parsed))
            return decision
        decision = decide(await self._gatherer.with_inputs(snapshot))
        assert not isinstance(decision, NeedsInputs)
        return decision

    def forget(self, key: Key) -> None:
        """Drops the question that a driver was asked about the statement, and that one refused it."""
        self._questions.forget(key)
        self._refusals.forget(key)

    def observe(self, before: SqlStatement, status: SqlStatementStatus, events: tuple[Event, ...]) -> None:
        """Logs another phase or attempt, counts ends, records waits and runs, and drops the driver's word on what is over."""
        old = before.status
        if status.phase is old.phase and status.attempt == old.attempt:
            return
        fields = {"phase": status.phase or "", "operation_id": status.operation_id or ""}
        logger.info("statement changed phase", extra=log_extra(_key(before), **fields))
        if old.phase in HANDED_OVER and old.session is not None and status.phase not in HANDED_OVER:
            self._context.drivers.forget(old.session.pod_uid or "", old.operation_id or "")
        if is_ended(status.phase) and status.phase is not None and events:
            labels = (before.metadata.namespace, status.phase.value, events[0].reason.value)
            self._context.metrics.ended.labels(*labels).inc()
        self._observe_times(old, status)

    def _observe_times(self, before: SqlStatementStatus, after: SqlStatementStatus) -> None:
        submitted, started, completed = after.submitted_time, after.start_time, after.completion_time
        if before.phase is not Phase.RUNNING and submitted is not None and started is not None:
            self._context.metrics.waited.observe(max(0.0, (started - submitted).total_seconds()))
        if is_ended(after.phase) and started is not None and completed is not None:
            self._context.metrics.ran.observe(max(0.0, (completed - started).total_seconds()))

    async def act(self, command: Command, parsed: SqlStatement) -> Outcome:
        """Carries out a command at the driver or at the API server. Raises ApiError, GatewayError, Waiting."""
        match command:
            case Submit(operation_id, request):
                return await self._submit(parsed, operation_id, request)
            case Cancel(operation_id, request):
                return await self._cancel(parsed, operation_id, request)
            case Ask(question, pod_uid):
                return await self._ask(parsed, question, pod_uid)
            case CreateSession():
                await create_watched(self._context, dedicated_session(parsed))
            case DeleteSession():
                await self._delete_session(parsed)
            case CreateSavepoint(name, trigger):
                await create_watched(self._context, savepoint_of(parsed, name, trigger))
            case DeleteSavepoint(name):
                await self._delete_savepoint(parsed, name)
            case DeleteSelf():
                metadata = parsed.metadata
                await self._context.client.delete(STATEMENTS, metadata.namespace, metadata.name, uid=metadata.uid)
            case other:
                assert_never(other)
        return Done()

    async def _submit(self, statement: SqlStatement, operation_id: str, request: SubmitRequest) -> Outcome:
        pod_uid, client = self._driver(statement)
        if client is None:
            raise Waiting(GATEWAY_RETRY_SECONDS)
        try:
            view = await client.submit(operation_id, request)
        except OtherBoot:
            return Again()
        except GatewayRefused as refused:
            if refused.status != NOT_READY:
                self._refusals.note(_key(statement), operation_id, str(refused), self._context.clock())
            raise
        self._refusals.forget(_key(statement))
        self._context.drivers.update_view(pod_uid, view)
        # Most run a moment later: their kind is written together with that.
        return Done(ARRIVED_SECONDS) if view.state is OperationState.PENDING else Again()

    async def _cancel(self, statement: SqlStatement, operation_id: str, request: CancelRequest) -> Outcome:
        pod_uid, client = self._driver(statement)
        if client is None:
            return Done()
        try:
            view = await client.cancel(operation_id, request)
        except OtherBoot:
            return Again()
        except GatewayUnreachable:
            return Done()
        self._context.drivers.update_view(pod_uid, view)
        return Again() if view.state.is_terminal else Done()

    async def _ask(self, statement: SqlStatement, question: Question, pod_uid: str | None) -> Outcome:
        client = self._driver(statement)[1] if pod_uid is None else self._context.drivers.client(pod_uid)
        if client is None:
            return Done()
        try:
            is_answered = await self._questions.ask(_key(statement), question, client)
        except GatewayError:
            return Done()
        return Again() if is_answered else Done()

    def _driver(self, statement: SqlStatement) -> tuple[str, GatewayClient | None]:
        """UID of the pod that the statement was handed to, and the way to its gateway, None if it is not followed."""
        session = statement.status.session
        pod_uid = (session.pod_uid if session is not None else None) or ""
        return pod_uid, self._context.drivers.client(pod_uid)

    async def _delete_savepoint(self, statement: SqlStatement, name: str) -> None:
        namespace = statement.metadata.namespace
        savepoint = self._context.store.get(SAVEPOINT, namespace, name)
        if savepoint is not None:
            with contextlib.suppress(NotFound):
                await self._context.client.delete(SAVEPOINTS, namespace, name, uid=savepoint["metadata"]["uid"])

    async def _delete_session(self, statement: SqlStatement) -> None:
        owner = statement.metadata
        obj = self._context.store.get(SESSION, owner.namespace, dedicated_session_name(owner.name, owner.uid))
        if obj is None:
            return
        metadata = session_of(obj).metadata
        if not owned_by(obj, STATEMENT_OWNER, owner.uid) or metadata.is_deleting:
            return
        try:
            await self._context.client.delete(SESSIONS, metadata.namespace, metadata.name, uid=metadata.uid)
        except NotFound:
            self._context.store.delete(SESSION, metadata.namespace, metadata.name, metadata.uid)


def _key(statement: SqlStatement) -> Key:
    return Key(STATEMENT, statement.metadata.namespace, statement.metadata.name)
