"""Everything a decision about a savepoint needs, read in one place: the store first, the API server and driver when it must."""

from __future__ import annotations

from sparksql.api.savepoint import SavepointAttempt, SavepointPhase, SqlSavepoint
from sparksql.api.session import SqlSession
from sparksql.api.session_class import SqlSessionClass
from sparksql.api.statement import SqlStatement
from sparksql.cache.classes import find_class
from sparksql.cache.indexes import (
    NAMESPACE,
    SAVEPOINTS_BY_STATEMENT,
    SESSION,
    STATEMENT,
    STATEMENTS_BY_NAMESPACE,
    scoped,
    session_name_of,
)
from sparksql.controllers.context import ControllerContext
from sparksql.controllers.savepoint.delete_job import Cleaners
from sparksql.controllers.savepoint.facts import trigger_of
from sparksql.controllers.session.facts import session_facts
from sparksql.controllers.session.pods import is_driver_over, read_pod
from sparksql.domain.savepoint import references, retention
from sparksql.domain.savepoint.retention import RetentionDecision
from sparksql.domain.savepoint.snapshot import (
    Attempt,
    Cleaner,
    Completed,
    Failed,
    Observation,
    Running,
    SavepointStorage,
    Snapshot,
)
from sparksql.domain.savepoint.steps import current_id
from sparksql.domain.statement.snapshot import Driver, Unobserved
from sparksql.domain.statement.stream.spec import is_stream
from sparksql.domain.violation import Violation
from sparksql.drivers.client import GatewayRefused, GatewayUnreachable
from sparksql.kube.client import Object
from sparksql.wire.savepoints import SavepointState, SavepointView


class SavepointGatherer:
    def __init__(self, runtime: ControllerContext, cleaners: Cleaners) -> None:
        self._rt = runtime
        self._cleaners = cleaners

    async def gather(self, savepoint: SqlSavepoint) -> Snapshot:
        metadata, status = savepoint.metadata, savepoint.status
        is_over = status.phase is not None and status.phase.is_terminal
        found = await self._statement(savepoint, live=not is_over)
        statement = SqlStatement.parse(found) if found is not None else None
        session_obj = self._rt.store.get(SESSION, metadata.namespace, session_name_of(found)) if found else None
        session = SqlSession.parse(session_obj) if session_obj is not None else None
        asks = status.phase is SavepointPhase.IN_PROGRESS and status.attempt is not None
        return Snapshot(
            now=self._rt.clock(),
            savepoint=savepoint,
            statement=statement,
            storage=self._storage(savepoint, statement, session),
            driver=session_facts(self._rt, session).driver if session is not None else None,
            attempt=attempt_of(status.attempt) if status.attempt is not None else None,
            observation=await self._observation(savepoint, status.attempt, session)
            if asks and status.attempt is not None
            else None,
            trigger=trigger_of(savepoint),
            used_by=references.used_by(savepoint, self._referring(metadata.namespace, savepoint)),
            retention=self._retention(savepoint, statement) if is_over else None,
            cleaner=await self._cleaners.state(savepoint) if metadata.is_deleting else Cleaner.ABSENT,
            namespace_terminating=self._terminating(metadata.namespace),
        )

    async def _statement(self, savepoint: SqlSavepoint, *, live: bool) -> Object | None:
        namespace, name = savepoint.metadata.namespace, savepoint.spec.statement_ref.name
        found = self._rt.store.get(STATEMENT, namespace, name)
        return found if found is not None or not live else await self._rt.status.refresh(STATEMENT, namespace, name)

    def _storage(
        self, savepoint: SqlSavepoint, statement: SqlStatement | None, session: SqlSession | None
    ) -> SavepointStorage | None:
        """Of the statement's session; once that is gone, of the class that the newest attempt was made with."""
        template = session.spec if session is not None else statement.spec.session if statement is not None else None
        attempt = savepoint.status.attempt
        if template is None and attempt is None:
            return None
        name = template.class_name if template is not None else attempt.class_name if attempt is not None else None
        session_class = find_class(self._rt.store, name)
        if isinstance(session_class, Violation):
            return None
        account = template.service_account_name if template is not None else None
        known = attempt.service_account_name if template is None and attempt is not None else None
        used = account or known or session_class.spec.service_account.name
        return SavepointStorage(session_class.metadata.name, session_class.spec.storage.savepoint_root, used)

    def class_of(self, name: str) -> SqlSessionClass | None:
        session_class = find_class(self._rt.store, name)
        return None if isinstance(session_class, Violation) else session_class

    async def _observation(
        self, savepoint: SqlSavepoint, attempt: SavepointAttempt, session: SqlSession | None
    ) -> Observation:
        """What the driver says of the present attempt. A driver pod never runs two gateways: its UID is the process."""
        pod = await read_pod(self._rt, savepoint.metadata.namespace, attempt.pod_name, attempt.pod_uid)
        if is_driver_over(self._rt, pod, session):
            return Unobserved.DRIVER_GONE
        client = self._rt.drivers.client(attempt.pod_uid)
        if client is None:
            return Unobserved.UNREACHABLE
        try:
            view = await client.saved(current_id(savepoint))
        except (GatewayUnreachable, GatewayRefused):
            return Unobserved.UNREACHABLE
        return Unobserved.UNKNOWN if view is None else observation_of(view)

    def _referring(self, namespace: str, savepoint: SqlSavepoint) -> list[SqlStatement]:
        """Statements that may refer to it: few of a namespace's have anything to do with savepoints at all."""
        named = savepoint.spec.statement_ref.name
        return [
            SqlStatement.parse(obj)
            for obj in self._rt.store.by_index(STATEMENTS_BY_NAMESPACE, namespace)
            if obj["metadata"]["name"] == named or _restores(obj)
        ]

    def _retention(self, savepoint: SqlSavepoint, statement: SqlStatement | None) -> RetentionDecision | None:
        """What the retention of its statement says of it; nothing, once that is gone."""
        if statement is None or statement.spec.streaming is None or not is_stream(statement.spec):
            return None
        namespace = savepoint.metadata.namespace
        of_statement = self._rt.store.by_index(SAVEPOINTS_BY_STATEMENT, scoped(namespace, statement.metadata.name))
        savepoints = [SqlSavepoint.parse(obj) for obj in of_statement]
        kept = references.referenced(savepoints, self._referring(namespace, savepoint))
        decisions = retention.evaluate(
            [_entry(each) for each in savepoints if not each.metadata.is_deleting],
            statement.spec.streaming.savepoints.retention,
            self._rt.clock(),
            kept,
        )
        return next((each for each in decisions if each.name == savepoint.metadata.name), None)

    def _terminating(self, namespace: str) -> bool:
        obj = self._rt.store.get(NAMESPACE, "", namespace)
        return obj is not None and obj["metadata"].get("deletionTimestamp") is not None


def attempt_of(known: SavepointAttempt) -> Attempt:
    driver = Driver(known.pod_name, known.pod_uid, known.boot_id)
    return Attempt(driver, known.statement_uid, known.class_name, known.service_account_name)


def recorded(attempt: Attempt) -> SavepointAttempt:
    """The attempt as the status keeps it."""
    return SavepointAttempt(
        pod_name=attempt.driver.pod_name,
        pod_uid=attempt.driver.pod_uid,
        boot_id=attempt.driver.boot_id,
        statement_uid=attempt.statement_uid,
        class_name=attempt.class_name,
        service_account_name=attempt.service_account,
    )


def observation_of(view: SavepointView) -> Observation:
    """What a gateway's view of an attempt means."""
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
            return Failed(view.message or "the driver gave no reason", view.location_invalid)


def _restores(statement: Object) -> bool:
    spec = statement["spec"].get("streaming") or {}
    return bool(spec.get("startFrom") or statement.get("status", {}).get("streaming", {}).get("restoredFrom"))


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
