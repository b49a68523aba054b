"""SqlSavepoint: what it adds to a reconcile (`controllers.reconciler`).

The intent (location, driver, statement) is in the status before a driver is asked, and the attempt's id follows from the status:
whoever goes on after a crash asks for the same attempt, which a driver makes at most once.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import assert_never

from sparksql.api.savepoint import SqlSavepoint, SqlSavepointStatus
from sparksql.cache.indexes import SAVEPOINT
from sparksql.controllers.context import ControllerContext
from sparksql.controllers.reconciler import GATEWAY_RETRY_SECONDS, Controller, Done, Outcome
from sparksql.controllers.savepoint.deletion_jobs import DeletionJobs
from sparksql.controllers.savepoint.gather import SavepointGatherer, attempt_status
from sparksql.domain.event import Event
from sparksql.domain.savepoint.decide import decide
from sparksql.domain.savepoint.snapshot import (
    CancelCopy,
    Command,
    Decision,
    DeleteSelf,
    StartCopy,
    StartDeletionJob,
    StartQuery,
    VerifyExisting,
)
from sparksql.domain.statement.snapshot import Driver
from sparksql.domain.violation import Violation
from sparksql.drivers.client import GatewayClient
from sparksql.engine.errors import Waiting
from sparksql.engine.key import Key, log_extra
from sparksql.kube.client import Object
from sparksql.kube.resources import SAVEPOINTS
from sparksql.wire.savepoints import SavepointRequest, StateQuery

logger = logging.getLogger(__name__)


class SavepointController(Controller[SqlSavepoint, SqlSavepointStatus, Command]):
    """Has drivers take savepoints, and has the data of those that go deleted."""

    kind = SAVEPOINT

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._deletion_jobs = DeletionJobs(context)
        self._gatherer = SavepointGatherer(context, self._deletion_jobs)

    def parse(self, obj: Object) -> SqlSavepoint:
        """Returns the model of a raw SqlSavepoint. Raises ValueError if the CRD would refuse it."""
        return SqlSavepoint.parse(obj)

    async def decide(self, obj: Object, parsed: SqlSavepoint, refusal: Violation | None) -> Decision:
        """The attempt is part of the status: what was decided on it is written in one."""
        decision = decide(await self._gatherer.gather(parsed))
        if decision.attempt is None:
            return decision
        return replace(decision, status=decision.status.replace(attempt=attempt_status(decision.attempt)))

    def observe(self, before: SqlSavepoint, status: SqlSavepointStatus, events: tuple[Event, ...]) -> None:
        """Logs a change of phase."""
        if status.phase is not before.status.phase:
            key = Key(SAVEPOINT, before.metadata.namespace, before.metadata.name)
            logger.info("savepoint changed phase", extra=log_extra(key, phase=status.phase or ""))

    async def act(self, command: Command, parsed: SqlSavepoint) -> Outcome:
        """Asks the driver, starts the deletion Job or deletes the object, as `command` says. Raises ApiError, GatewayError."""
        match command:
            case StartCopy(id_, driver, checkpoint, target, _, sql_hash):
                await self._ask(parsed, id_, driver, target, checkpoint, sql_hash)
            case StartQuery(id_, driver, copied, target, _, query, sql_hash):
                await self._ask(parsed, id_, driver, target, copied, sql_hash, query)
            case VerifyExisting(id_, driver, location):
                await self._ask(parsed, id_, driver, location)
            case CancelCopy(id_, driver, _):
                client = self._client(driver)
                if client is not None:
                    await client.cancel_save(id_)
            case StartDeletionJob():
                await self._delete_data(parsed, command)
            case DeleteSelf():
                metadata = parsed.metadata
                await self._context.client.delete(SAVEPOINTS, metadata.namespace, metadata.name, uid=metadata.uid)
            case other:
                assert_never(other)
        return Done()

    async def _ask(
        self,
        savepoint: SqlSavepoint,
        id_: str,
        driver: Driver,
        target: str,
        checkpoint: str | None = None,
        sql_hash: str | None = None,
        query: StateQuery | None = None,
    ) -> None:
        client, metadata = self._client(driver), savepoint.metadata
        if client is None:
            raise Waiting(GATEWAY_RETRY_SECONDS)
        request = SavepointRequest(
            boot_id=driver.boot_id,
            checkpoint=checkpoint,
            target=target,
            uid=metadata.uid,
            namespace=metadata.namespace,
            name=metadata.name,
            sql_hash=sql_hash,
            query=query,
        )
        await client.save(id_, request)

    async def _delete_data(self, savepoint: SqlSavepoint, command: StartDeletionJob) -> None:
        """Without its class nobody knows image and credentials: the finalizer's deadline then ends the wait."""
        attempt = savepoint.status.attempt
        session_class = self._gatherer.class_of(attempt.class_name) if attempt is not None else None
        if attempt is None or session_class is None:
            return
        uid = await self._deletion_jobs.start(savepoint, command, session_class, attempt.service_account_name)
        obj = self._context.store.get(SAVEPOINT, savepoint.metadata.namespace, savepoint.metadata.name)
        if uid is not None and obj is not None:
            status = savepoint.status.replace(deletion_job_uid=uid)
            await self._context.status.write(SAVEPOINT, obj, status.to_dict())

    def _client(self, driver: Driver) -> GatewayClient | None:
        return self._context.drivers.client(driver.pod_uid)
