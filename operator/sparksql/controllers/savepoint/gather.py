"""Everything a decision about a savepoint needs, read in one place: the store first, the API server and driver when it must."""

from __future__ import annotations

from sparksql.api.reasons import Reason
from sparksql.api.savepoint import SavepointAttempt, SavepointPhase, SqlSavepoint
from sparksql.api.session import SqlSession
from sparksql.api.session_class import SqlSessionClass
from sparksql.api.statement import SqlStatement
from sparksql.cache.classes import find_class
from sparksql.cache.indexes import (
    SAVEPOINTS_BY_STATEMENT,
    SESSION,
    STATEMENT,
    STATEMENTS_BY_NAMESPACE,
    scoped,
)
from sparksql.cache.models import session_of
from sparksql.cache.namespaces import is_terminating
from sparksql.cache.views import StatementView
from sparksql.controllers.context import ControllerContext
from sparksql.controllers.savepoint.deletion_jobs import DeletionJobs
from sparksql.controllers.savepoint.snapshot import named_in, trigger_of
from sparksql.controllers.session.pods import is_driver_over, read_pod
from sparksql.controllers.session.snapshot import session_snapshot
from sparksql.domain.savepoint import references, retention
from sparksql.domain.savepoint.retention import RetentionDecision
from sparksql.domain.savepoint.snapshot import (
    Attempt,
    Completed,
    DeletionJob,
    Failed,
    Observation,
    Running,
    SavepointStorage,
    Snapshot,
)
from sparksql.domain.savepoint.steps import current_id
from sparksql.domain.statement.snapshot import Driver, Inputs, SavepointFacts, Unobserved
from sparksql.domain.statement.stream.spec import is_stream
from sparksql.domain.violation import Violation
from sparksql.drivers.client import GatewayRefused, GatewayUnreachable
from sparksql.kube.client import Object
from sparksql.wire.savepoints import SavepointState, SavepointView


class SavepointGatherer:
    """Reads snapshots of savepoints."""

    def __init__(self, context: ControllerContext, deletion_jobs: DeletionJobs) -> None:
        self._context = context
        self._deletion_jobs = deletion_jobs

    async def gather(self, savepoint: SqlSavepoint) -> Snapshot:
        """Returns the snapshot of a savepoint. Raises ApiError."""
        metadata, status = savepoint.metadata, savepoint.status
        is_over = status.phase is not None and status.phase.is_terminal
        obj = await self._statement(savepoint, live=not is_over)
        statement = SqlStatement.parse(obj) if obj is not None else None
        session = self._session(obj) if obj is not None else None
        return Snapshot(
            now=self._context.clock(),
            savepoint=savepoint,
            statement=statement,
            storage=self._storage(savepoint, statement, session),
            driver=session_snapshot(self._context, session).driver if session is not None else None,
            attempt=attempt_of(status.attempt) if status.attempt is not None else None,
            observation=await self._observation(savepoint, session),
            trigger=trigger_of(savepoint),
            used_by=references.used_by(savepoint, self._referring(metadata.namespace, savepoint)),
            named=self._named(savepoint) if not is_over else (),
            retention=self._retention(savepoint, statement) if is_over else None,
            deletion_job=await self._deletion_jobs.state(savepoint) if metadata.is_deleting else DeletionJob.ABSENT,
            namespace_terminating=is_terminating(self._context.store, metadata.namespace),
        )

    def _named(self, savepoint: SqlSavepoint) -> tuple[SavepointFacts, ...]:
        """Returns the other savepoints that its query may read."""
        metadata, sql = savepoint.metadata, savepoint.spec.sql
        named = named_in(self._context.store, metadata.namespace, Inputs(sql)) if sql is not None else None
        return tuple(each for each in named or () if each.name != metadata.name)

    async def _statement(self, savepoint: SqlSavepoint, *, live: bool) -> Object | None:
        namespace, name = savepoint.metadata.namespace, savepoint.spec.statement_ref.name
        obj = self._context.store.get(STATEMENT, namespace, name)
        return obj if obj is not None or not live else await self._context.status.refresh(STATEMENT, namespace, name)

    def _session(self, statement: Object) -> SqlSession | None:
        view = StatementView(statement)
        obj = self._context.store.get(SESSION, view.namespace, view.session_name)
        return session_of(obj) if obj is not None else None

    def _storage(
        self, savepoint: SqlSavepoint, statement: SqlStatement | None, session: SqlSession | None
    ) -> SavepointStorage | None:
        """Of the statement's session; once that is gone, of the class that the newest attempt was made with."""
        template = session.spec if session is not None else statement.spec.session if statement is not None else None
        attempt = savepoint.status.attempt
        if template is None and attempt is None:
            return None
        name = template.class_name if template is not None else attempt.class_name if attempt is not None else None
        session_class = find_class(self._context.store, name)
        if isinstance(session_class, Violation):
            return None
        of_template = template.service_account_name if template is not None else None
        of_attempt = attempt.service_account_name if template is None and attempt is not None else None
        account = of_template or of_attempt or session_class.spec.service_account.name
        return SavepointStorage(session_class.metadata.name, session_class.spec.storage.savepoint_root, account)

    def class_of(self, name: str) -> SqlSessionClass | None:
        """Returns the class of that name, None if there is none."""
        session_class = find_class(self._context.store, name)
        return None if isinstance(session_class, Violation) else session_class

    async def _observation(self, savepoint: SqlSavepoint, session: SqlSession | None) -> Observation | None:
        """Returns what the driver says of the attempt under way, None without one.

        A driver pod never runs two gateways, so its UID names the process.
        """
        attempt = savepoint.status.attempt
        if savepoint.status.phase is not SavepointPhase.IN_PROGRESS or attempt is None:
            return None
        pod = await read_pod(self._context, savepoint.metadata.namespace, attempt.pod_name, attempt.pod_uid)
        if is_driver_over(self._context, pod, session):
            return Unobserved.DRIVER_GONE
        client = self._context.drivers.client(attempt.pod_uid)
        if client is None:
            return Unobserved.UNREACHABLE
        try:
            view = await client.saved(current_id(savepoint))
        except (GatewayUnreachable, GatewayRefused):
            return Unobserved.UNREACHABLE
        return Unobserved.UNKNOWN if view is None else observation_of(view)

    def _referring(self, namespace: str, savepoint: SqlSavepoint) -> list[SqlStatement]:
        """Statements that may refer to it: few of a namespace's have anything to do with savepoints at all."""
        own = savepoint.spec.statement_ref.name
        return [
            SqlStatement.parse(obj)
            for obj in self._context.store.by_index(STATEMENTS_BY_NAMESPACE, namespace)
            if _refers_to_savepoints(StatementView(obj), own)
        ]

    def _retention(self, savepoint: SqlSavepoint, statement: SqlStatement | None) -> RetentionDecision | None:
        """What the retention of its statement says of it; nothing, once that is gone."""
        if statement is None or statement.spec.streaming is None or not is_stream(statement.spec):
            return None
        namespace = savepoint.metadata.namespace
        of_statement = self._context.store.by_index(SAVEPOINTS_BY_STATEMENT, scoped(namespace, statement.metadata.name))
        savepoints = [SqlSavepoint.parse(obj) for obj in of_statement]
        names = references.referenced(savepoints, self._referring(namespace, savepoint))
        decisions = retention.evaluate(
            [_entry(each) for each in savepoints if not each.metadata.is_deleting],
            statement.spec.streaming.savepoints.retention,
            self._context.clock(),
            names,
        )
        return next((each for each in decisions if each.name == savepoint.metadata.name), None)


def attempt_of(status: SavepointAttempt) -> Attempt:
    """Returns the attempt that a status keeps."""
    driver = Driver(status.pod_name, status.pod_uid, status.boot_id)
    return Attempt(driver, status.statement_uid, status.class_name, status.service_account_name)


def attempt_status(attempt: Attempt) -> SavepointAttempt:
    """Returns the attempt as a status keeps it."""
    return SavepointAttempt(
        pod_name=attempt.driver.pod_name,
        pod_uid=attempt.driver.pod_uid,
        boot_id=attempt.driver.boot_id,
        statement_uid=attempt.statement_uid,
        class_name=attempt.class_name,
        service_account_name=attempt.service_account,
    )


def observation_of(view: SavepointView) -> Observation:
    """Returns what a gateway's view of an attempt means."""
    match view.state:
        case SavepointState.RUNNING:
            return Running()
        case SavepointState.COMPLETED:
            return Completed(
                batch_id=view.batch_id or 0,
                query_id=view.query_id or "",
                spark_version=view.spark_version,
                size_bytes=view.size_bytes or 0,
                file_count=view.file_count or 0,
                sql_hash=view.sql_hash,
            )
        case SavepointState.FAILED:
            return Failed(view.message or "the driver gave no reason", _final(view))


def _final(view: SavepointView) -> Reason | None:
    """The reason of a failure that comes again; a later driver may have reasons that this operator does not know."""
    if view.location_invalid:
        return Reason.LOCATION_INVALID
    if view.refusal is None:
        return None
    try:
        return Reason(view.refusal)
    except ValueError:
        return Reason.SAVEPOINT_FAILED


def _refers_to_savepoints(statement: StatementView, own: str) -> bool:
    is_restored = statement.start_from is not None or bool(statement.restored_from)
    return statement.name == own or is_restored


def _entry(savepoint: SqlSavepoint) -> retention.Savepoint:
    status, spec = savepoint.status, savepoint.spec
    return retention.Savepoint(
        name=savepoint.metadata.name,
        phase=status.phase or SavepointPhase.PENDING,
        ended=status.completion_time,
        trigger=trigger_of(savepoint),
        source=spec.source,
        pinned=spec.pinned,
    )
