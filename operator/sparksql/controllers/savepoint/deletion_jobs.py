"""The Jobs that delete data of savepoints: how they stand, and their making.

They are always read live: a success that is not there yet must not be believed.
"""

from __future__ import annotations

from typing import Any

from sparksql.api.names import child_base
from sparksql.api.savepoint import SqlSavepoint
from sparksql.api.session_class import SqlSessionClass
from sparksql.controllers.children import create_missing
from sparksql.controllers.context import ControllerContext
from sparksql.domain.savepoint.snapshot import DeletionFailed, DeletionJob, StartDeletionJob
from sparksql.kube.builders.deletion import (
    DataDeletion,
    deletion_job,
    deletion_secret,
    is_deletion_job_of,
    secret_owners,
)
from sparksql.kube.errors import NotFound
from sparksql.kube.resources import JOBS, SECRETS

Object = dict[str, Any]


class DeletionJobs:
    """Reads and makes the deletion Jobs of savepoints.

    For each savepoint whose data is deleted there is one Job, and one Secret with the storage settings that it needs.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def state(self, savepoint: SqlSavepoint) -> DeletionJob | DeletionFailed:
        """Returns how the Job of this object stands. Raises ApiError.

        A Job of the same name that was not made for this object counts as absent.
        """
        metadata = savepoint.metadata
        try:
            job = await self._context.client.get(JOBS, metadata.namespace, child_base(metadata.name, metadata.uid))
        except NotFound:
            return DeletionJob.ABSENT
        return _state(job) if is_deletion_job_of(job, metadata.uid) else DeletionJob.ABSENT

    async def start(
        self, savepoint: SqlSavepoint, command: StartDeletionJob, session_class: SqlSessionClass, service_account: str
    ) -> None:
        """Creates the Job under `service_account`, that of the statement's session. Raises ApiError.

        Idempotent. In a namespace that goes away nothing is created.
        """
        metadata = savepoint.metadata
        deletion = DataDeletion(
            namespace=metadata.namespace,
            savepoint=metadata.name,
            uid=command.owner_uid,
            target=command.target,
            root=command.root,
            service_account=service_account,
            session_class=session_class.spec,
            operator_conf=self._context.config.defaults.conf,
        )
        await create_missing(self._context.client, SECRETS, deletion_secret(deletion))
        job = await create_missing(self._context.client, JOBS, deletion_job(deletion))
        if job is not None:
            owners = secret_owners(deletion, job["metadata"]["uid"])
            await self._context.client.patch_merge(SECRETS, deletion.namespace, deletion.name, owners)


def _state(job: Object) -> DeletionJob | DeletionFailed:
    """A Job tells its end by a condition, once none of its pods runs."""
    ends = {c["type"]: c for c in job.get("status", {}).get("conditions") or () if c.get("status") == "True"}
    if "Complete" in ends:
        return DeletionJob.SUCCEEDED
    failed = ends.get("Failed")
    if failed is None:
        return DeletionJob.RUNNING
    return DeletionFailed(f"{failed.get('reason', 'Failed')}: {failed.get('message', 'without a message')}")
