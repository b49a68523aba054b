"""Clean-up Jobs on a real API server. No Job controller runs: their ends are written by hand, as it would."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
import pytest_asyncio

from sparksql.api.names import child_base
from sparksql.api.savepoint import SqlSavepoint
from sparksql.api.session_class import SqlSessionClass
from sparksql.controllers.context import ControllerContext
from sparksql.controllers.savepoint.deletion_jobs import DeletionJobs
from sparksql.domain.savepoint.snapshot import DeletionFailed, DeletionJob, StartDeletionJob
from sparksql.kube.builders.deletion import CONF_FILE, LABEL_SAVEPOINT_UID
from sparksql.kube.client import KubeClient
from sparksql.kube.credentials import Credentials
from sparksql.kube.errors import NotFound
from sparksql.kube.resources import JOBS, NAMESPACES, SAVEPOINTS, SECRETS
from sparksql.process.config import OperatorConfig
from tests.support.apiserver import ApiServer

ROOT = "s3a://lake/savepoints"
KLASS = SqlSessionClass.parse(
    {
        "metadata": {"name": "standard"},
        "spec": {"image": "registry.example/session:1", "enforcedConf": {"spark.hadoop.fs.s3a.secret.key": "hidden"}},
    }
)


@dataclass(frozen=True)
class Scene:
    """A SqlSavepoint as the API server has it, and its clean-up."""

    client: KubeClient
    deletion_jobs: DeletionJobs
    savepoint: SqlSavepoint

    @property
    def namespace(self) -> str:
        return self.savepoint.metadata.namespace

    @property
    def name(self) -> str:
        return child_base(self.savepoint.metadata.name, self.savepoint.metadata.uid)

    async def start(self) -> None:
        uid = self.savepoint.metadata.uid
        command = StartDeletionJob(f"{ROOT}/{self.namespace}/orders/before-release-{uid}", ROOT, uid)
        await self.deletion_jobs.start(self.savepoint, command, KLASS, "spark")

    async def state(self) -> DeletionJob | DeletionFailed:
        return await self.deletion_jobs.state(self.savepoint)

    async def report(self, status: dict[str, Any]) -> None:
        await self.client.patch_merge(JOBS, self.namespace, self.name, {"status": status}, subresource="status")


@pytest_asyncio.fixture
async def scene(crds: ApiServer, namespace: str) -> AsyncIterator[Scene]:
    async with KubeClient(Credentials.from_kubeconfig(crds.kubeconfig)) as client:
        spec = {"statementRef": {"name": "orders"}, "reclaimPolicy": "Delete"}
        body = {"apiVersion": SAVEPOINTS.api_version, "kind": "SqlSavepoint", "metadata": {"name": "before-release"}}
        made = await client.create(SAVEPOINTS, namespace, {**body, "spec": spec})
        context = cast(ControllerContext, SimpleNamespace(client=client, config=OperatorConfig()))
        yield Scene(client, DeletionJobs(context), SqlSavepoint.parse(made))


def _condition(type_: str, status: str = "True") -> dict[str, str]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"type": type_, "status": status, "lastTransitionTime": now, "lastProbeTime": now}


def _times(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))


async def test_a_cleanup_job_is_created_once_with_its_settings_in_a_secret(scene: Scene) -> None:
    assert await scene.state() is DeletionJob.ABSENT
    await scene.start()
    assert await scene.state() is DeletionJob.RUNNING
    job = await scene.client.get(JOBS, scene.namespace, scene.name)
    await scene.start()
    assert (await scene.client.get(JOBS, scene.namespace, scene.name))["metadata"]["uid"] == job["metadata"]["uid"]
    assert "hidden" not in str(job)
    secret = await scene.client.get(SECRETS, scene.namespace, scene.name)
    # The Job outlives the SqlSavepoint when storage is away, and its later pods need the settings.
    owners = [owner["uid"] for owner in secret["metadata"]["ownerReferences"]]
    assert owners == [scene.savepoint.metadata.uid, job["metadata"]["uid"]]
    assert "ownerReferences" not in job["metadata"]


async def test_a_cleanup_job_has_succeeded_only_with_the_complete_condition(scene: Scene) -> None:
    await scene.start()
    await scene.report({"active": 1, **_times("startTime")})
    assert await scene.state() is DeletionJob.RUNNING
    await scene.report({"active": 0, "succeeded": 1, "conditions": [_condition("SuccessCriteriaMet")]})
    assert await scene.state() is DeletionJob.RUNNING
    ended = [_condition("SuccessCriteriaMet"), _condition("Complete")]
    await scene.report({"conditions": ended, **_times("completionTime")})
    assert await scene.state() is DeletionJob.SUCCEEDED


async def test_a_failed_job_is_told(scene: Scene) -> None:
    await scene.start()
    why = {"reason": "BackoffLimitExceeded", "message": "it was tried often enough"}
    conditions = [{**_condition(each), **why} for each in ("FailureTarget", "Failed")]
    await scene.report({"failed": 1, "conditions": conditions, **_times("startTime")})
    assert await scene.state() == DeletionFailed("BackoffLimitExceeded", "it was tried often enough")


async def test_the_end_of_anothers_job_is_not_believed(scene: Scene) -> None:
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": scene.name}}
    await scene.client.create(JOBS, scene.namespace, {**body, "spec": {"template": {"spec": spec}}})
    conditions = [_condition("SuccessCriteriaMet"), _condition("Complete")]
    await scene.report({"succeeded": 1, "conditions": conditions, **_times("startTime", "completionTime")})
    assert await scene.state() is DeletionJob.ABSENT
    await scene.start()
    assert await scene.state() is DeletionJob.ABSENT


async def test_the_end_of_a_job_with_the_labels_of_ours_is_not_believed(scene: Scene) -> None:
    """Its maker has taken the names of Job and Secret first, and says that the data is gone."""
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    metadata = {"name": scene.name, "labels": {LABEL_SAVEPOINT_UID: scene.savepoint.metadata.uid}}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
    await scene.client.create(JOBS, scene.namespace, {**body, "spec": {"template": {"spec": spec}}})
    secret = {"metadata": metadata, "data": {CONF_FILE: base64.b64encode(b"{}").decode()}}
    await scene.client.create(SECRETS, scene.namespace, secret)
    conditions = [_condition("SuccessCriteriaMet"), _condition("Complete")]
    await scene.report({"succeeded": 1, "conditions": conditions, **_times("startTime", "completionTime")})
    assert await scene.state() is DeletionJob.ABSENT
    await scene.start()
    assert await scene.state() is DeletionJob.ABSENT
    settings = (await scene.client.get(SECRETS, scene.namespace, scene.name))["data"][CONF_FILE]
    assert "hidden" in base64.b64decode(settings).decode()


async def test_no_cleanup_job_or_secret_is_created_in_a_terminating_namespace(scene: Scene) -> None:
    await scene.client.delete(NAMESPACES, "", scene.namespace)  # it stays: no namespace controller runs
    await scene.start()
    assert await scene.state() is DeletionJob.ABSENT
    with pytest.raises(NotFound):
        await scene.client.get(SECRETS, scene.namespace, scene.name)
