"""SqlSavepoint: gather -> decide -> status -> act.

The intent (location, driver, statement) is in the status before a driver is asked, and the attempt's id follows from the status:
whoever goes on after a crash asks for the same attempt, which a driver makes at most once.
"""

from __future__ import annotations

import logging
from typing import assert_never

from sparksql.api.reasons import Reason
from sparksql.api.savepoint import SqlSavepoint
from sparksql.cache.indexes import SAVEPOINT
from sparksql.controllers.context import ControllerContext
from sparksql.controllers.savepoint.delete_job import Cleaners
from sparksql.controllers.savepoint.gather import SavepointGatherer, recorded
from sparksql.domain.savepoint.decide import decide
from sparksql.domain.savepoint.snapshot import (
    CancelCopy,
    Command,
    Decision,
    DeleteSelf,
    StartCleaner,
    StartCopy,
    VerifyExisting,
)
from sparksql.domain.statement.snapshot import Driver
from sparksql.drivers.client import GatewayClient, GatewayRefused, GatewayUnreachable, OtherBoot
from sparksql.engine.errors import Waiting
from sparksql.engine.key import Key
from sparksql.kube.client import Object
from sparksql.kube.errors import Conflict, NotFound
from sparksql.kube.finalizers import add_finalizer, remove_finalizer
from sparksql.kube.resources import SAVEPOINTS
from sparksql.wire.savepoints import SavepointRequest

MAX_PASSES = 3  # after a conflict the object is read again and decided on anew, so often at most
RETRY_SECONDS = 1.0

logger = logging.getLogger(__name__)


class SavepointController:
    def __init__(self, runtime: ControllerContext) -> None:
        self._rt = runtime
        self._cleaners = Cleaners(runtime)
        self._gatherer = SavepointGatherer(runtime, self._cleaners)

    async def reconcile(self, key: Key) -> float | None:
        """Seconds until the next look, None when only a change can make a difference."""
        obj = self._rt.store.get(SAVEPOINT, key.namespace, key.name)
        for _ in range(MAX_PASSES):
            if obj is None:
                return None
            try:
                return await self._pass(obj)
            except Conflict:
                obj = await self._rt.status.refresh(SAVEPOINT, key.namespace, key.name)
            except NotFound:
                await self._rt.status.refresh(SAVEPOINT, key.namespace, key.name)
                return None
            except (GatewayUnreachable, GatewayRefused) as error:
                raise Waiting(RETRY_SECONDS) from error
        return 0.0

    async def _pass(self, obj: Object) -> float | None:
        savepoint = SqlSavepoint.parse(obj)
        decision = decide(await self._gatherer.gather(savepoint))
        if decision.finalizer and not savepoint.metadata.is_deleting:
            obj = await add_finalizer(self._rt.client, self._rt.store, SAVEPOINT, obj)
        status = decision.status
        if decision.attempt is not None:
            status = status.replace(attempt=recorded(decision.attempt))
        obj = await self._rt.status.write(SAVEPOINT, obj, status.to_dict())
        self._announce(obj, savepoint, decision)
        for command in decision.commands:
            await self._act(command, SqlSavepoint.parse(obj))
        if not decision.finalizer:
            await remove_finalizer(self._rt.client, self._rt.store, SAVEPOINT, obj)
            return None
        return decision.requeue_after

    async def _act(self, command: Command, savepoint: SqlSavepoint) -> None:
        metadata = savepoint.metadata
        match command:
            case StartCopy(id_, driver, checkpoint, target, _, sql_hash):
                await self._ask(savepoint, id_, driver, target, checkpoint, sql_hash)
            case VerifyExisting(id_, driver, location):
                await self._ask(savepoint, id_, driver, location)
            case CancelCopy(id_, driver, _):
                client = self._client(driver)
                if client is not None:
                    await client.cancel_save(id_)
            case StartCleaner():
                await self._clean(savepoint, command)
            case DeleteSelf():
                await self._rt.client.delete(SAVEPOINTS, metadata.namespace, metadata.name, uid=metadata.uid)
            case other:
                assert_never(other)

    async def _ask(
        self,
        savepoint: SqlSavepoint,
        id_: str,
        driver: Driver,
        target: str,
        checkpoint: str | None = None,
        sql_hash: str | None = None,
    ) -> None:
        client, metadata = self._client(driver), savepoint.metadata
        if client is None:
            raise Waiting(RETRY_SECONDS)
        request = SavepointRequest(
            boot_id=driver.boot_id,
            checkpoint=checkpoint,
            target=target,
            uid=metadata.uid,
            namespace=metadata.namespace,
            name=metadata.name,
            sql_hash=sql_hash,
        )
        try:
            await client.save(id_, request)
        except OtherBoot as error:
            raise Waiting(RETRY_SECONDS) from error

    async def _clean(self, savepoint: SqlSavepoint, command: StartCleaner) -> None:
        """Without its class nobody knows image and credentials: the finalizer's deadline then ends the wait."""
        attempt = savepoint.status.attempt
        session_class = self._gatherer.class_of(attempt.class_name) if attempt is not None else None
        if attempt is not None and session_class is not None:
            await self._cleaners.start(savepoint, command, session_class, attempt.service_account_name)

    def _client(self, driver: Driver) -> GatewayClient | None:
        return self._rt.drivers.client(driver.pod_uid)

    def _announce(self, obj: Object, before: SqlSavepoint, decision: Decision) -> None:
        """Event, log line and metrics of what has just been written."""
        status = decision.status
        for event in decision.events:
            self._rt.events.emit(obj, event.type, event.reason, event.message)
            if event.reason is Reason.FINALIZER_DEADLINE:
                self._rt.metrics.orphans.labels(SAVEPOINT).inc()
        if status.phase is before.status.phase:
            return
        metadata = before.metadata
        fields = {
            "kind": SAVEPOINT,
            "namespace": metadata.namespace,
            "name": metadata.name,
            "phase": status.phase or "",
        }
        logger.info("savepoint changed phase", extra={"fields": fields})
