"""The Jobs that delete data of savepoints: how they stand, and their making.

They are always read live: a success that is not there yet must not be believed.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
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
    secret_owners,
)
from sparksql.kube.errors import Conflict, NotFound
from sparksql.kube.resources import JOBS, SECRETS

Object = dict[str, Any]

_REMEMBERED = 1000  # Jobs whose UIDs the statuses have not got


class DeletionJobs:
    """Reads and makes the deletion Jobs of savepoints.

    For each savepoint whose data is deleted there is one Job, and one Secret with the storage settings that it needs.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._made: OrderedDict[str, str] = OrderedDict()  # by the savepoint's UID: the Job's

    async def state(self, savepoint: SqlSavepoint) -> DeletionJob | DeletionFailed:
        """Returns how the Job of this object stands. Raises ApiError.

        The UID from its creation identifies it: a Job of the same name and labels from another account counts as absent.
        """
        metadata = savepoint.metadata
        uid = savepoint.status.deletion_job_uid or self._made.get(metadata.uid)
        try:
            job = await self._context.client.get(JOBS, metadata.namespace, child_base(metadata.name, metadata.uid))
        except NotFound:
            return DeletionJob.ABSENT
        return _state(job) if job["metadata"]["uid"] == uid else DeletionJob.ABSENT

    async def start(
        self, savepoint: SqlSavepoint, command: StartDeletionJob, session_class: SqlSessionClass, service_account: str
    ) -> str | None:
        """Creates the Job under `service_account`, that of the statement's session, and returns its UID. Raises ApiError.

        None if a Job of the name exists, or if the namespace is being deleted. An existing Secret of that name gets our settings.
        An existing Job has no recorded UID: an operator that ended after it had created the Job, or another account, left it.
        It is deleted, and a later call creates ours; what the first one has deleted is no error for the second.
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
        client, secret = self._context.client, deletion_secret(deletion)
        if await create_missing(client, SECRETS, secret) is None:
            with suppress(NotFound):
                await client.patch_merge(SECRETS, deletion.namespace, deletion.name, {"data": secret["data"]})
        job = await create_missing(client, JOBS, deletion_job(deletion))
        if job is None:
            await self._delete_unrecorded(deletion, savepoint.status.deletion_job_uid or self._made.get(metadata.uid))
            return None
        uid: str = job["metadata"]["uid"]
        self._made[metadata.uid] = uid
        if len(self._made) > _REMEMBERED:
            self._made.popitem(last=False)
        await client.patch_merge(SECRETS, deletion.namespace, deletion.name, secret_owners(deletion, uid))
        return uid

    async def _delete_unrecorded(self, deletion: DataDeletion, recorded: str | None) -> None:
        """Deletes the Job of this name if it has the labels of ours, and not the recorded UID."""
        client = self._context.client
        with suppress(NotFound, Conflict):  # it has gone, or another has its name: the next look decides
            job = await client.get(JOBS, deletion.namespace, deletion.name)
            uid, labels = job["metadata"]["uid"], deletion_job(deletion)["metadata"]["labels"]
            if uid != recorded and job["metadata"].get("labels", {}).items() >= labels.items():
                await client.delete(JOBS, deletion.namespace, deletion.name, uid=uid, propagation="Background")


def _state(job: Object) -> DeletionJob | DeletionFailed:
    """A Job tells its end by a condition, once none of its pods runs."""
    ends = {c["type"]: c for c in job.get("status", {}).get("conditions") or () if c.get("status") == "True"}
    if "Complete" in ends:
        return DeletionJob.SUCCEEDED
    failed = ends.get("Failed")
    if failed is None:
        return DeletionJob.RUNNING
    return DeletionFailed(failed.get("reason", "Failed"), failed.get("message", "without a message"))
