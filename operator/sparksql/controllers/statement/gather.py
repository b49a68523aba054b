"""Everything a decision about a statement needs, read in one place: the store first, the API server and driver when it must."""

from __future__ import annotations

from dataclasses import replace

from sparksql.api.session import SqlSession
from sparksql.api.statement import SqlStatement
from sparksql.cache.classes import find_class
from sparksql.cache.indexes import NAMESPACE, SESSION, STATEMENT, key_of, session_name_of
from sparksql.controllers.context import ControllerContext
from sparksql.controllers.savepoint.facts import savepoints_of, start_of
from sparksql.controllers.session.facts import session_facts
from sparksql.controllers.session.pods import is_driver_over, read_pod
from sparksql.controllers.statement.questions import Questions
from sparksql.controllers.statement.queue import StatementQueue
from sparksql.controllers.statement.references import read_inputs
from sparksql.domain.admission import Turn, exceeds_queue, turn
from sparksql.domain.session.configuration_layers import OPERATOR_DEFAULTS
from sparksql.domain.session.resolve import settings_of
from sparksql.domain.statement import dependencies, settings
from sparksql.domain.statement.phases import HANDED_OVER, is_ended
from sparksql.domain.statement.snapshot import Settings, Snapshot, StateFacts, Unobserved
from sparksql.domain.statement.stream.changes import question
from sparksql.domain.statement.stream.spec import is_stream
from sparksql.domain.violation import Violation
from sparksql.drivers.client import GatewayRefused, GatewayUnreachable
from sparksql.engine.key import Key
from sparksql.kube.client import Object
from sparksql.wire.control import OperationView

_NO_TURN = Turn(granted=False)
_ALWAYS = Turn(granted=True)


class StatementFacts:
    def __init__(self, runtime: ControllerContext, questions: Questions) -> None:
        self._rt = runtime
        self._turns = StatementQueue(runtime.store, runtime.drivers, runtime.clock)
        self._questions = questions

    async def gather(self, obj: Object, statement: SqlStatement) -> Snapshot:
        """The snapshot of a statement, without its inputs: `with_inputs` reads these for a decision that needs them."""
        namespace = statement.metadata.namespace
        phase = statement.status.phase
        if is_ended(phase):
            return self._idle(statement)
        session_obj = self._rt.store.get(SESSION, namespace, session_name_of(obj))
        session = SqlSession.parse(session_obj) if session_obj is not None else None
        facts = session_facts(self._rt, session) if session is not None else None
        ruling = self._settings(statement, session)
        operation = await self._operation(statement, session) if phase in HANDED_OVER else None
        outcome: dependencies.Outcome = dependencies.Met()
        place, full = _NO_TURN, False
        if phase not in HANDED_OVER:
            outcome = self._turns.dependency_outcome(namespace, obj)
            place, full = self._turn(statement, session, obj)
        return Snapshot(
            now=self._rt.clock(),
            statement=statement,
            session=facts,
            settings=ruling,
            dependencies=outcome,
            turn=place,
            queue_full=full,
            operation=operation,
            namespace_terminating=self._terminating(namespace),
            savepoints=savepoints_of(self._rt.store, statement),
            start_from=start_of(self._rt.store, statement),
            state=self._state(statement),
        )

    async def with_inputs(self, obj: Object, s: Snapshot) -> Snapshot:
        """The snapshot with its inputs read, and with what the driver of a query says of the change that they make."""
        s = replace(s, inputs=await read_inputs(self._rt.client, s.statement))
        if s.statement.status.phase not in HANDED_OVER:
            return s
        return replace(s, answer=self._questions.answer(key_of(STATEMENT, obj), question(s)))

    def _state(self, statement: SqlStatement) -> StateFacts | None:
        """What `validateAgainst` names."""
        against = statement.spec.validate_against
        found = (
            self._rt.store.get(STATEMENT, statement.metadata.namespace, against.statement_ref.name) if against else None
        )
        if found is None:
            return None
        other = SqlStatement.parse(found)
        streaming = other.status.streaming
        location = streaming.checkpoint_location if streaming is not None else None
        return StateFacts(other.metadata.name, other.spec.streaming, location)

    def _idle(self, statement: SqlStatement) -> Snapshot:
        """An ended statement needs no facts beyond itself and who waits for it."""
        return Snapshot(
            now=self._rt.clock(),
            statement=statement,
            session=None,
            settings=None,
            dependencies=dependencies.Met(),
            turn=_NO_TURN,
            awaited=self._turns.is_awaited(statement.metadata.namespace, statement.metadata.name),
            namespace_terminating=self._terminating(statement.metadata.namespace),
            savepoints=savepoints_of(self._rt.store, statement),
        )

    def _settings(self, statement: SqlStatement, session: SqlSession | None) -> Settings | Violation | None:
        template = session.spec if session is not None else statement.spec.session
        if template is None:
            return None
        session_class = find_class(self._rt.store, template.class_name)
        if isinstance(session_class, Violation):
            return None
        return settings.resolve(statement.spec, template, session_class, self._rt.config.defaults)

    def _turn(self, statement: SqlStatement, session: SqlSession | None, obj: Object) -> tuple[Turn, bool]:
        name, namespace = statement.metadata.name, statement.metadata.namespace
        if session is None:
            return _NO_TURN, False
        if is_stream(statement.spec):
            return _ALWAYS, False
        line = [*self._turns.line(namespace, session.metadata.name)]
        session_class = find_class(self._rt.store, session.spec.class_name)
        if isinstance(session_class, Violation):
            return _NO_TURN, False
        layers = settings_of(session.spec, session_class, self._rt.config.defaults)
        slots = layers.max_concurrent_statements or OPERATOR_DEFAULTS.max_concurrent_statements or 1
        limits = [layers.max_queued_statements, session_class.spec.limits.queued_statements_per_session]
        queue = min(limit for limit in (*limits, 2**31) if limit is not None)
        granted = turn(name, line, slots)
        # A statement that may go at once takes no place in the queue.
        return granted, not granted.granted and exceeds_queue(name, line, max(queue, 0))

    async def _operation(self, statement: SqlStatement, owner: SqlSession | None) -> OperationView | Unobserved:
        """The last word of the driver that the attempt was handed to, or why there is none."""
        session, operation = statement.status.session, statement.status.operation_id or ""
        if session is None or not session.pod_uid or not session.pod_name:
            return Unobserved.DRIVER_GONE
        view = self._rt.drivers.view(session.pod_uid, operation)
        if view is not None and view.state.is_terminal:
            return view
        pod = await read_pod(self._rt, statement.metadata.namespace, session.pod_name, session.pod_uid)
        if is_driver_over(self._rt, pod, owner):
            return Unobserved.DRIVER_GONE
        info = self._rt.drivers.info(Key(SESSION, statement.metadata.namespace, session.name))
        if info is not None and self._is_linked(statement) and info.boot_id != session.boot_id:
            return Unobserved.DRIVER_GONE
        if view is not None:
            return view
        return await self._ask(session.pod_uid, operation)

    def _is_linked(self, statement: SqlStatement) -> bool:
        session = statement.status.session
        assert session is not None
        key = Key(SESSION, statement.metadata.namespace, session.name)
        return self._rt.drivers.followed_pod(key) == session.pod_uid

    async def _ask(self, pod_uid: str, operation: str) -> OperationView | Unobserved:
        client = self._rt.drivers.client(pod_uid)
        if client is None:
            return Unobserved.UNREACHABLE
        try:
            view = await client.get(operation)
        except (GatewayUnreachable, GatewayRefused):
            return Unobserved.UNREACHABLE
        if view is None:
            return Unobserved.UNKNOWN
        self._rt.drivers.update_view(pod_uid, view)
        return view

    def _terminating(self, namespace: str) -> bool:
        obj = self._rt.store.get(NAMESPACE, "", namespace)
        return obj is not None and obj["metadata"].get("deletionTimestamp") is not None
