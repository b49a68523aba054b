"""SqlStatement: gather -> decide -> status -> act.

The order of acting is the exactly-once protocol: finalizer on, then the status (the intent) guarded by resourceVersion, and
only when that write has succeeded the request to the driver. Any step may be repeated after a crash: the operation id is
the same, and the gateway runs one id at most once.
"""

from __future__ import annotations

import contextlib
import logging
from datetime import datetime
from typing import assert_never

from sparksql.api.names import API_VERSION
from sparksql.api.reasons import Reason
from sparksql.api.savepoint import SavepointTrigger
from sparksql.api.session import SqlSession
from sparksql.api.statement import SqlStatement
from sparksql.api.statement import StatementPhase as Phase
from sparksql.cache.indexes import SAVEPOINT, SESSION, STATEMENT, key_of, session_name_of
from sparksql.controllers.context import ControllerContext
from sparksql.controllers.savepoint.facts import savepoint_body
from sparksql.controllers.statement.gather import StatementFacts
from sparksql.controllers.statement.questions import Questions
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
from sparksql.drivers.client import GatewayRefused, GatewayUnreachable, OtherBoot
from sparksql.engine.errors import Waiting
from sparksql.engine.key import Key
from sparksql.kube.client import Object
from sparksql.kube.errors import AlreadyExists, Conflict, Forbidden, NotFound
from sparksql.kube.finalizers import add_finalizer, remove_finalizer
from sparksql.kube.resources import SAVEPOINTS, SESSIONS, STATEMENTS
from sparksql.wire.control import CancelRequest, OperationState, SubmitRequest

MAX_PASSES = 4  # a pass that changed the facts is followed by another one at once, so often at most
RETRY_SECONDS = 1.0
ARRIVED_SECONDS = 0.25  # look again at a statement that the driver took and does not run yet

logger = logging.getLogger(__name__)


class StatementController:
    def __init__(self, runtime: ControllerContext) -> None:
        self._rt = runtime
        self._questions = Questions()
        self._facts = StatementFacts(runtime, self._questions)

    async def reconcile(self, key: Key) -> float | None:
        """Seconds until the next look, None when only a change can make a difference."""
        obj = self._rt.store.get(STATEMENT, key.namespace, key.name)
        for _ in range(MAX_PASSES):
            if obj is None:
                self._questions.forget(key)
                return None
            try:
                obj, again, after = await self._pass(obj)
            except Conflict:
                obj = await self._rt.status.refresh(STATEMENT, key.namespace, key.name)
                continue
            except NotFound:
                await self._rt.status.refresh(STATEMENT, key.namespace, key.name)
                return None
            except (GatewayUnreachable, GatewayRefused) as error:
                status = str(error.status) if isinstance(error, GatewayRefused) else ""
                fields = _fields(key, error=type(error).__name__, status=status)
                logger.warning("gateway does not take the request", extra=fields)
                raise Waiting(RETRY_SECONDS) from error
            if not again:
                return after
        return 0.0

    async def _pass(self, obj: Object) -> tuple[Object | None, bool, float | None]:
        """One gather-decide-act: the object afterwards, whether the facts have changed by it, and the next wake-up."""
        statement = SqlStatement.parse(obj)
        decision = await self._decide(obj, statement)
        if decision.finalizer and statement.metadata.deletion_timestamp is None:
            obj = await add_finalizer(self._rt.client, self._rt.store, STATEMENT, obj)
        obj = await self._rt.status.write(STATEMENT, obj, decision.status.to_dict())
        self._announce(obj, statement, decision)
        again = False
        for command in decision.commands:
            again = await self._act(command, obj, SqlStatement.parse(obj)) or again
        if not decision.finalizer:
            await remove_finalizer(self._rt.client, self._rt.store, STATEMENT, obj)
            return None, False, None
        return obj, again, decision.requeue_after

    async def _decide(self, obj: Object, statement: SqlStatement) -> Decision:
        """The decision about it; ConfigMaps and Secrets are read only for one that turns on them."""
        snapshot = await self._facts.gather(obj, statement)
        decision = decide(snapshot)
        if not isinstance(decision, NeedsInputs):
            self._questions.forget(key_of(STATEMENT, obj))
            return decision
        decision = decide(await self._facts.with_inputs(obj, snapshot))
        assert not isinstance(decision, NeedsInputs)
        return decision

    async def _act(self, command: Command, obj: Object, statement: SqlStatement) -> bool:
        """Do it; True when the answer is news that the next pass should look at at once."""
        match command:
            case Submit(operation_id, request):
                return await self._submit(obj, statement, operation_id, request)
            case Cancel(operation_id, request):
                return await self._cancel(statement, operation_id, request)
            case Ask(question):
                return await self._ask(key_of(STATEMENT, obj), statement, question)
            case CreateSession():
                await self._create_session(obj, statement)
            case DeleteSession():
                await self._delete_session(obj, statement)
            case CreateSavepoint(name, trigger):
                await self._create_savepoint(statement, name, trigger)
            case DeleteSavepoint(name):
                await self._delete_savepoint(statement, name)
            case DeleteSelf():
                await self._rt.client.delete(
                    STATEMENTS, statement.metadata.namespace, statement.metadata.name, uid=statement.metadata.uid
                )
            case other:
                assert_never(other)
        return False

    async def _submit(self, obj: Object, statement: SqlStatement, operation_id: str, request: SubmitRequest) -> bool:
        session = statement.status.session
        client = self._rt.drivers.client(session.pod_uid or "") if session else None
        if client is None or session is None:
            raise Waiting(RETRY_SECONDS)
        try:
            view = await client.submit(operation_id, request)
        except OtherBoot:
            return True
        self._rt.drivers.update_view(session.pod_uid or "", view)
        if view.state is OperationState.PENDING:  # most run a moment later: their kind is written together with that
            self._rt.queue.add_after(key_of(STATEMENT, obj), ARRIVED_SECONDS)
            return False
        return True

    async def _cancel(self, statement: SqlStatement, operation_id: str, request: CancelRequest) -> bool:
        session = statement.status.session
        client = self._rt.drivers.client(session.pod_uid or "") if session else None
        if client is None or session is None:
            return False
        try:
            view = await client.cancel(operation_id, request)
        except OtherBoot:
            return True
        except GatewayUnreachable:
            return False
        self._rt.drivers.update_view(session.pod_uid or "", view)
        return view.state.is_terminal

    async def _ask(self, key: Key, statement: SqlStatement, question: Question) -> bool:
        session = statement.status.session
        client = self._rt.drivers.client(session.pod_uid or "") if session else None
        if client is None:
            return False
        try:
            return await self._questions.ask(key, question, client)
        except (OtherBoot, GatewayUnreachable, GatewayRefused):
            return False

    async def _create_session(self, obj: Object, statement: SqlStatement) -> None:
        metadata = statement.metadata
        assert statement.spec.session is not None
        owner = {
            "apiVersion": API_VERSION,
            "kind": STATEMENT,
            "name": metadata.name,
            "uid": metadata.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
        body = {
            "apiVersion": API_VERSION,
            "kind": SESSION,
            "metadata": {"name": session_name_of(obj), "namespace": metadata.namespace, "ownerReferences": [owner]},
            "spec": statement.spec.session.to_dict(),
        }
        try:
            self._rt.store.apply(SESSION, await self._rt.client.create(SESSIONS, metadata.namespace, body))
        except AlreadyExists:
            await self._rt.status.refresh(SESSION, metadata.namespace, session_name_of(obj))
        except Forbidden as error:
            if not error.namespace_terminating:
                raise

    async def _create_savepoint(self, statement: SqlStatement, name: str, trigger: SavepointTrigger) -> None:
        metadata = statement.metadata
        body = savepoint_body(name, metadata.namespace, metadata.name, trigger)
        try:
            self._rt.store.apply(SAVEPOINT, await self._rt.client.create(SAVEPOINTS, metadata.namespace, body))
        except AlreadyExists:
            await self._rt.status.refresh(SAVEPOINT, metadata.namespace, name)
        except Forbidden as error:
            if not error.namespace_terminating:
                raise

    async def _delete_savepoint(self, statement: SqlStatement, name: str) -> None:
        namespace = statement.metadata.namespace
        found = self._rt.store.get(SAVEPOINT, namespace, name)
        if found is not None:
            with contextlib.suppress(NotFound):
                await self._rt.client.delete(SAVEPOINTS, namespace, name, uid=found["metadata"]["uid"])

    async def _delete_session(self, obj: Object, statement: SqlStatement) -> None:
        found = self._rt.store.get(SESSION, statement.metadata.namespace, session_name_of(obj))
        if found is None:
            return
        session = SqlSession.parse(found)
        owned = any(owner.uid == statement.metadata.uid for owner in session.metadata.owner_references)
        if not owned or session.metadata.deletion_timestamp is not None:
            return
        try:
            await self._rt.client.delete(
                SESSIONS, session.metadata.namespace, session.metadata.name, uid=session.metadata.uid
            )
        except NotFound:
            self._rt.store.delete(SESSION, session.metadata.namespace, session.metadata.name, session.metadata.uid)

    def _announce(self, obj: Object, before: SqlStatement, decision: Decision) -> None:
        """Event, log line and metrics of what has just been written."""
        status = decision.status
        for event in decision.events:
            self._rt.events.emit(obj, event.type, event.reason, event.message)
            if event.reason is Reason.FINALIZER_DEADLINE:
                self._rt.metrics.orphans.labels(STATEMENT).inc()
        if status.phase is before.status.phase and status.attempt == before.status.attempt:
            return
        key = Key(STATEMENT, before.metadata.namespace, before.metadata.name)
        extra = _fields(key, phase=status.phase or "", operation_id=status.operation_id or "")
        logger.info("statement changed phase", extra=extra)
        old = before.status
        if old.phase in HANDED_OVER and old.session is not None and status.phase not in HANDED_OVER:
            self._rt.drivers.forget(old.session.pod_uid or "", old.operation_id or "")
        if is_ended(status.phase) and status.phase is not None and decision.events:
            self._rt.metrics.ended.labels(key.namespace, status.phase.value, decision.events[0].reason.value).inc()
        _observe_times(
            self._rt, old.phase, status.phase, status.submitted_time, status.start_time, status.completion_time
        )


def _observe_times(
    rt: ControllerContext,
    before: Phase | None,
    after: Phase | None,
    submitted: datetime | None,
    started: datetime | None,
    completed: datetime | None,
) -> None:
    if before is not Phase.RUNNING and submitted is not None and started is not None:
        rt.metrics.waited.observe(max(0.0, (started - submitted).total_seconds()))
    if is_ended(after) and started is not None and completed is not None:
        rt.metrics.ran.observe(max(0.0, (completed - started).total_seconds()))


def _fields(key: Key, **more: str) -> dict[str, dict[str, str]]:
    return {"fields": {"kind": key.kind, "namespace": key.namespace, "name": key.name, **more}}
