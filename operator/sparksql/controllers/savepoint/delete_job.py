"""Clean-up Jobs as facts, and their making. Always read live: a success that is not there yet must not be believed."""

from __future__ import annotations

from typing import Any

from sparksql.api.names import child_base
from sparksql.api.savepoint import SqlSavepoint
from sparksql.api.session_class import SqlSessionClass
from sparksql.controllers.context import ControllerContext
from sparksql.domain.savepoint.snapshot import Cleaner, StartCleaner
from sparksql.kube.builders.cleaner import Cleaning, cleaner_job, cleaner_secret, is_cleaner_of
from sparksql.kube.errors import AlreadyExists, Forbidden, NotFound
from sparksql.kube.resources import JOBS, SECRETS, Resource

Object = dict[str, Any]


class Cleaners:
    def __init__(self, runtime: ControllerContext) -> None:
        self._rt = runtime

    async def state(self, savepoint: SqlSavepoint) -> Cleaner:
        """The Job of this object. One of the same name that was not made for it counts as absent. Raises ApiError."""
        metadata = savepoint.metadata
        try:
            job = await self._rt.client.get(JOBS, metadata.namespace, child_base(metadata.name, metadata.uid))
        except NotFound:
            return Cleaner.ABSENT
        return _state(job) if is_cleaner_of(job, metadata.uid) else Cleaner.ABSENT

    async def start(
        self, savepoint: SqlSavepoint, command: StartCleaner, session_class: SqlSessionClass, service_account: str
    ) -> None:
        """Makes the Job under `service_account`, that of the statement's session. Idempotent; in a namespace that goes away
        nothing is made. Raises ApiError."""
        metadata = savepoint.metadata
        cleaning = Cleaning(
            namespace=metadata.namespace,
            savepoint=metadata.name,
            uid=command.owner_uid,
            target=command.target,
            root=command.root,
            service_account=service_account,
            session_class=session_class.spec,
            operator_conf=self._rt.config.defaults.conf,
        )
        try:
            await self._create(SECRETS, cleaner_secret(cleaning))
            await self._create(JOBS, cleaner_job(cleaning))
        except Forbidden as error:
            if not error.namespace_terminating:
                raise

    async def _create(self, resource: Resource, body: Object) -> None:
        try:
            await self._rt.client.create(resource, body["metadata"]["namespace"], body)
        except AlreadyExists:
            return


def _state(job: Object) -> Cleaner:
    """A Job tells its end by a condition, once none of its pods runs."""
    ends = {c["type"] for c in job.get("status", {}).get("conditions") or () if c.get("status") == "True"}
    if "Complete" in ends:
        return Cleaner.SUCCEEDED
    return Cleaner.FAILED if "Failed" in ends else Cleaner.RUNNING
