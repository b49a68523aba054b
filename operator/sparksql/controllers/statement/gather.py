"""Everything a decision about a statement needs, read in one place: the store first, the API server and driver when it must."""

from __future__ import annotations

from dataclasses import replace

from sparksql.api.session import SqlSession
from sparksql.api.statement import SqlStatement, StatementPhase
from sparksql.cache.classes import find_class
from sparksql.cache.indexes import SESSION, SESSIONS_BY_NAMESPACE, STATEMENT, STATEMENTS_BY_NAMESPACE
from sparksql.cache.models import session_of
from sparksql.cache.namespaces import is_terminating
from sparksql.cache.views import ObjectView, StatementView
from sparksql.controllers.context import ControllerContext
from sparksql.controllers.savepoint.snapshot import named_in, savepoints_of, start_of
from sparksql.controllers.session.pods import is_driver_over, read_pod
from sparksql.controllers.session.snapshot import session_snapshot
from sparksql.controllers.statement.questions import Questions
from sparksql.controllers.statement.queue import StatementQueue
from sparksql.controllers.statement.references import read_inputs
from sparksql.controllers.statement.refusals import Refusals
from sparksql.domain.admission import Turn, exceeds_queue, turn
from sparksql.domain.session.configuration_layers import OPERATOR_DEFAULTS
from sparksql.domain.session.resolve import settings_of
from sparksql.domain.statement import dependencies, settings
from sparksql.domain.statement.phases import HANDED_OVER, is_ended
from sparksql.domain.statement.snapshot import Inputs, Settings, Snapshot, StateFacts, Unobserved
from sparksql.domain.statement.stream.compatibility import question
from sparksql.domain.statement.stream.spec import is_stream
from sparksql.domain.violation import Violation
from sparksql.drivers.client import GatewayRefused, GatewayUnreachable
from sparksql.engine.key import Key
from sparksql.kube.client import Object
from sparksql.wire.control import OperationView

_NO_TURN = Turn(granted=False)
_ALWAYS = Turn(granted=True)


class StatementGatherer:
    """Reads snapshots of statements."""

    def __init__(self, context: ControllerContext, questions: Questions, refusals: Refusals) -> None:
        self._context = context
        self._queue = StatementQueue(context.store, context.drivers, context.clock)
        self._questions = questions
        self._refusals = refusals

    async def gather(self, obj: Object, statement: SqlStatement) -> Snapshot:
        """Returns the snapshot of a statement, without its inputs: `with_inputs` reads these for a decision that needs them.

        Raises ApiError.
        """
        namespace = statement.metadata.namespace
        phase = statement.status.phase
        if is_ended(phase):
            return self._ended(statement)
        session_obj = self._context.store.get(SESSION, namespace, StatementView(obj).session_name)
        session = session_of(session_obj) if session_obj is not None else None
        of_session = session_snapshot(self._context, session) if session is not None else None
        layered = self._settings(statement, session)
        operation = await self._operation(statement, session) if phase in HANDED_OVER else None
        outcome: dependencies.Outcome = dependencies.Met()
        admission, is_full = _NO_TURN, False
        if phase not in HANDED_OVER:
            outcome = self._queue.dependency_outcome(obj)
            admission, is_full = self._turn(statement, session)
        return Snapshot(
            now=self._context.clock(),
            statement=statement,
            session=of_session,
            settings=layered,
            dependencies=outcome,
            turn=admission,
            queue_full=is_full,
            operation=operation,
            last_view=self._last_view(statement) if operation is Unobserved.DRIVER_GONE else None,
            refusal=self._refusals.of(
                Key(STATEMENT, namespace, statement.metadata.name), statement.status.operation_id
            ),
            is_disrupted=self._is_disrupted(statement),
            is_deleted=self._is_deleted(statement),
            namespace_terminating=is_terminating(self._context.store, namespace),
            savepoints=savepoints_of(self._context.store, statement),
            start_from=start_of(self._context.store, statement),
            state=self._state(statement),
            sessions=self._sessions(statement) if session is None and phase not in HANDED_OVER else (),
            statements=self._others(statement) if isinstance(outcome, dependencies.Unmet) and outcome.missing else (),
        )

    async def with_inputs(self, s: Snapshot) -> Snapshot:
        """Returns the snapshot with its inputs read, and with what the driver of a query says of the change that they make.

        Raises ApiError.
        """
        inputs = await read_inputs(self._context.client, s.statement)
        s = replace(s, inputs=inputs)
        if isinstance(inputs, Inputs):
            s = replace(s, named=named_in(self._context.store, s.statement.metadata.namespace, inputs))
        if s.statement.status.phase not in HANDED_OVER | {StatementPhase.STOPPED}:
            return s
        key = Key(STATEMENT, s.statement.metadata.namespace, s.statement.metadata.name)
        answer = self._questions.answer(key, question(s))
        return replace(s, answer=answer, inquired=self._questions.inquired(key))

    def _names(self, index: str, namespace: str) -> tuple[str, ...]:
        return tuple(ObjectView(obj).name for obj in self._context.store.by_index(index, namespace))

    def _sessions(self, statement: SqlStatement) -> tuple[str, ...]:
        """Names of the sessions of the namespace, for a statement that names one."""
        if statement.spec.session_ref is None:
            return ()
        return self._names(SESSIONS_BY_NAMESPACE, statement.metadata.namespace)

    def _others(self, statement: SqlStatement) -> tuple[str, ...]:
        """Names of the other statements of the namespace."""
        own = statement.metadata.name
        return tuple(n for n in self._names(STATEMENTS_BY_NAMESPACE, statement.metadata.namespace) if n != own)

    def _state(self, statement: SqlStatement) -> StateFacts | None:
        """What `validateAgainst` names."""
        against = statement.spec.validate_against
        if against is None:
            return None
        obj = self._context.store.get(STATEMENT, statement.metadata.namespace, against.statement_ref.name)
        if obj is None:
            return None
        other = SqlStatement.parse(obj)
        streaming = other.status.streaming
        location = streaming.checkpoint_location if streaming is not None else None
        return StateFacts(other.metadata.name, other.spec.streaming, location)

    def _ended(self, statement: SqlStatement) -> Snapshot:
        """The snapshot of an ended statement, which needs no more than itself and who waits for it."""
        return Snapshot(
            now=self._context.clock(),
            statement=statement,
            session=None,
            settings=None,
            dependencies=dependencies.Met(),
            turn=_NO_TURN,
            awaited=self._queue.is_awaited(statement.metadata.namespace, statement.metadata.name),
            namespace_terminating=is_terminating(self._context.store, statement.metadata.namespace),
            savepoints=savepoints_of(self._context.store, statement),
        )

    def _settings(self, statement: SqlStatement, session: SqlSession | None) -> Settings | Violation | None:
        template = session.spec if session is not None else statement.spec.session
        if template is None:
            return None
        session_class = find_class(self._context.store, template.class_name)
        if isinstance(session_class, Violation):
            return None
        return settings.resolve(statement.spec, template, session_class, self._context.config.defaults)

    def _turn(self, statement: SqlStatement, session: SqlSession | None) -> tuple[Turn, bool]:
        """The statement's turn in the session's queue, and whether the queue is too full for it."""
        name, namespace = statement.metadata.name, statement.metadata.namespace
        if session is None:
            return _NO_TURN, False
        if is_stream(statement.spec):
            return _ALWAYS, False
        entries = [*self._queue.entries(namespace, session.metadata.name)]
        session_class = find_class(self._context.store, session.spec.class_name)
        if isinstance(session_class, Violation):
            return _NO_TURN, False
        layers = settings_of(session.spec, session_class, self._context.config.defaults)
        slots = layers.max_concurrent_statements or OPERATOR_DEFAULTS.max_concurrent_statements or 1
        limits = [layers.max_queued_statements, session_class.spec.limits.queued_statements_per_session]
        limit = min(limit for limit in (*limits, 2**31) if limit is not None)
        own = turn(name, entries, slots)
        # A statement that may go at once takes no place in the queue.
        return own, not own.granted and exceeds_queue(name, entries, max(limit, 0))

    async def _operation(self, statement: SqlStatement, owner: SqlSession | None) -> OperationView | Unobserved:
        """The last word of the driver that the attempt was handed to, or why there is none."""
        session, operation = statement.status.session, statement.status.operation_id or ""
        if session is None or not session.pod_uid or not session.pod_name:
            return Unobserved.DRIVER_GONE
        view = self._context.drivers.view(session.pod_uid, operation)
        if view is not None and view.state.is_terminal:
            return view
        pod = await read_pod(self._context, statement.metadata.namespace, session.pod_name, session.pod_uid)
        if is_driver_over(self._context, pod, owner):
            return Unobserved.DRIVER_GONE
        info = self._context.drivers.info(Key(SESSION, statement.metadata.namespace, session.name))
        if info is not None and self._is_followed(statement) and info.boot_id != session.boot_id:
            return Unobserved.DRIVER_GONE
        if view is not None:
            return view
        return await self._ask(session.pod_uid, operation)

    def _last_view(self, statement: SqlStatement) -> OperationView | None:
        session, operation = statement.status.session, statement.status.operation_id
        if session is None or not session.pod_uid or not operation:
            return None
        return self._context.drivers.view(session.pod_uid, operation)

    def _is_disrupted(self, statement: SqlStatement) -> bool:
        session = statement.status.session
        if session is None or not session.pod_uid:
            return False
        return self._context.terminations.disruption_of(session.pod_uid) is not None

    def _is_deleted(self, statement: SqlStatement) -> bool:
        session = statement.status.session
        return session is not None and self._context.terminations.was_deleted(session.pod_uid or "")

    def _is_followed(self, statement: SqlStatement) -> bool:
        session = statement.status.session
        assert session is not None
        key = Key(SESSION, statement.metadata.namespace, session.name)
        return self._context.drivers.followed_pod(key) == session.pod_uid

    async def _ask(self, pod_uid: str, operation: str) -> OperationView | Unobserved:
        client = self._context.drivers.client(pod_uid)
        if client is None:
            return Unobserved.UNREACHABLE
        try:
            view = await client.get(operation)
        except (GatewayUnreachable, GatewayRefused):
            return Unobserved.UNREACHABLE
        if view is None:
            return Unobserved.UNKNOWN
        self._context.drivers.update_view(pod_uid, view)
        return view
