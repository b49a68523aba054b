"""The Job that deletes a savepoint's data, and the Secret with the storage settings that it needs.

It runs the session image under the service account of the sessions, with the class's driver template underneath, so that it
reaches what drivers reach. Nothing owns the Job: a clean-up that was begun goes on when the object had to be let go, and one
that failed can be looked at, until its time to live is over. The SqlSavepoint owns the Secret, and the Job as soon as it is
there: Kubernetes takes the Secret away with the last of them, so that a pod which the Job makes later finds it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparksql.api import names
from sparksql.api.session_class import SqlSessionClassSpec
from sparksql.kube.builders import pods
from sparksql.wire import driver as wire

APP_NAME = "spark-sql-cleaner"
COMPONENT = "cleaner"
LABEL_SAVEPOINT = f"{names.GROUP}/savepoint"
LABEL_SAVEPOINT_UID = f"{names.GROUP}/savepoint-uid"
CONF_FILE = "hadoop.json"
REFUSED_CODE = 2  # exit code of `sparksql.gateway.clean` for what another attempt would refuse as well

# Beyond the savepoint finalizer's 60 s: what storage that was away has kept from being deleted goes when it is back.
DEADLINE_SECONDS = 600
BACKOFF_LIMIT = 6  # Kubernetes' default; with waits of 10, 20, 40 ... s as many as the deadline leaves time for
TTL_SECONDS = 600  # how long a person can look at one that failed
TERMINATION_SECONDS = 1  # there is nothing to drain
# Measured with the program's heap of 192 MiB: 190 MiB for local files, 290 MiB with s3a, Python's 20 MiB among them.
_RESOURCES = {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"memory": "512Mi"}}
_SETTINGS = "spark.hadoop."
_OF_A_DRIVER = ("command", "ports", "lifecycle", "readinessProbe", "livenessProbe", "startupProbe")


@dataclass(frozen=True)
class DataDeletion:
    """Describes one deletion: `target` is deleted if it lies below `root` and its marker file names `uid`, the SqlSavepoint's.

    `service_account` is that of the sessions; `operator_conf` the Spark configuration that lies below the class's.
    """

    namespace: str
    savepoint: str
    uid: str
    target: str
    root: str
    service_account: str
    session_class: SqlSessionClassSpec
    operator_conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the Job and of its Secret."""
        return names.child_base(self.savepoint, self.uid)


def deletion_secret(deletion: DataDeletion) -> dict[str, Any]:
    """Returns the Secret with the settings of file systems that the class gives, which may hold keys.

    Nothing else of the class's configuration is in it.
    """
    session_class = deletion.session_class
    conf = {**deletion.operator_conf, **session_class.defaults.conf, **session_class.enforced_conf}
    settings = {key: value for key, value in conf.items() if key.startswith(_SETTINGS)}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {**_metadata(deletion), "ownerReferences": [_savepoint_reference(deletion)]},
        "type": "Opaque",
        "data": {CONF_FILE: base64.b64encode(json.dumps(settings, sort_keys=True).encode()).decode()},
    }


def deletion_job(deletion: DataDeletion) -> dict[str, Any]:
    """Returns the Job. It tries again after a failure, but not after a refusal, and ends within DEADLINE_SECONDS."""
    refusal = {"containerName": pods.CONTAINER, "operator": "In", "values": [REFUSED_CODE]}
    pod = _pod(deletion)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(deletion),
        "spec": {
            "activeDeadlineSeconds": DEADLINE_SECONDS,
            "backoffLimit": BACKOFF_LIMIT,
            "ttlSecondsAfterFinished": TTL_SECONDS,
            "podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": refusal}]},
            "template": {"metadata": pod["metadata"], "spec": pod["spec"]},
        },
    }


def secret_owners(deletion: DataDeletion, job_uid: str) -> dict[str, Any]:
    """Returns a merge patch by which the Secret belongs to the Job of this UID as well."""
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": deletion.name, "uid": job_uid}
    return {"metadata": {"ownerReferences": [_savepoint_reference(deletion), job]}}


def _savepoint_reference(deletion: DataDeletion) -> dict[str, str]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": "SqlSavepoint",
        "name": deletion.savepoint,
        "uid": deletion.uid,
    }


def _metadata(deletion: DataDeletion) -> dict[str, Any]:
    return {"name": deletion.name, "namespace": deletion.namespace, "labels": _labels(deletion)}


def _labels(deletion: DataDeletion) -> dict[str, str]:
    return {
        names.LABEL_NAME: APP_NAME,
        names.LABEL_COMPONENT: COMPONENT,
        names.LABEL_MANAGED_BY: names.MANAGED_BY,
        LABEL_SAVEPOINT: deletion.savepoint,
        LABEL_SAVEPOINT_UID: deletion.uid,
    }


def _pod(deletion: DataDeletion) -> dict[str, Any]:
    pod = pods.from_template(deletion.session_class.pod_template.driver, _labels(deletion), {})
    pods.schedule(pod, deletion.session_class.scheduling)
    spec = pod["spec"]
    spec |= {
        "restartPolicy": "Never",
        "serviceAccountName": deletion.service_account,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": TERMINATION_SECONDS,
    }
    container = pods.take_container(spec)
    spec["containers"] = [container]  # a sidecar that does not end by itself would keep the Job from its end
    _fill_container(container, deletion)
    pods.add_volumes(spec, container, deletion.session_class.storage.volume_claim, ("/tmp",))  # noqa: S108 - the pod's own
    # A mounted Secret will do here: the program deletes one folder, and nothing that it reads is shown to anybody.
    pods.add_secret(spec, container, deletion.name)
    container["env"] = pods.put(container.get("env"), [pods.file_roots(spec, container)], "name")
    pods.restrict(spec)
    return pod


def _fill_container(container: dict[str, Any], deletion: DataDeletion) -> None:
    program = ["python3", "-m", "sparksql.gateway.clean"]
    place = [f"--target={deletion.target}", f"--root={deletion.root}", f"--owner-uid={deletion.uid}"]
    for field_of_a_driver in _OF_A_DRIVER:
        container.pop(field_of_a_driver, None)
    container |= {
        "image": deletion.session_class.image,
        "imagePullPolicy": str(deletion.session_class.image_pull_policy),
        "args": [*program, *place, f"--conf={wire.DEFAULT_CONFIG_DIR}/{CONF_FILE}"],
        "resources": _RESOURCES,
    }
