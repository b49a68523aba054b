"""The Job that deletes a savepoint's data, and the Secret with the storage settings that it needs.

It runs the session image under the service account of the sessions, with the class's driver template underneath, so that it
reaches what drivers reach. Nothing owns the Job: a clean-up that was begun goes on when the object had to be let go, and one
that failed can be looked at, until its time to live is over. The SqlSavepoint owns the Secret.
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

DEADLINE_SECONDS = 55  # within the savepoint finalizer's sixty
BACKOFF_LIMIT = 2
TTL_SECONDS = 600  # how long a person can look at one that failed
TERMINATION_SECONDS = 1  # there is nothing to drain
# Measured with the program's heap of 192 MiB: 190 MiB for local files, 290 MiB with s3a, Python's 20 MiB among them.
_RESOURCES = {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"memory": "512Mi"}}
_SETTINGS = "spark.hadoop."
_OF_A_DRIVER = ("command", "ports", "lifecycle", "readinessProbe", "livenessProbe", "startupProbe")


@dataclass(frozen=True)
class Cleaning:
    """One clean-up: `target` is deleted if it lies below `root` and its marker file names `uid`, the SqlSavepoint's.

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


def cleaner_secret(cleaning: Cleaning) -> dict[str, Any]:
    """The settings of file systems that the class gives, which may hold keys; nothing else of its configuration."""
    session_class = cleaning.session_class
    conf = {**cleaning.operator_conf, **session_class.defaults.conf, **session_class.enforced_conf}
    settings = {key: value for key, value in conf.items() if key.startswith(_SETTINGS)}
    owner = {"apiVersion": names.API_VERSION, "kind": "SqlSavepoint", "name": cleaning.savepoint, "uid": cleaning.uid}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {**_metadata(cleaning), "ownerReferences": [owner]},
        "type": "Opaque",
        "data": {CONF_FILE: base64.b64encode(json.dumps(settings, sort_keys=True).encode()).decode()},
    }


def cleaner_job(cleaning: Cleaning) -> dict[str, Any]:
    """The Job. It tries again after a failure, but not after a violation, and ends within DEADLINE_SECONDS."""
    violation = {"containerName": pods.CONTAINER, "operator": "In", "values": [REFUSED_CODE]}
    pod = _pod(cleaning)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(cleaning),
        "spec": {
            "activeDeadlineSeconds": DEADLINE_SECONDS,
            "backoffLimit": BACKOFF_LIMIT,
            "ttlSecondsAfterFinished": TTL_SECONDS,
            "podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": violation}]},
            "template": {"metadata": pod["metadata"], "spec": pod["spec"]},
        },
    }


def is_cleaner_of(job: Mapping[str, Any], uid: str) -> bool:
    """Whether a Job was made for the SqlSavepoint of this UID."""
    return (job["metadata"].get("labels") or {}).get(LABEL_SAVEPOINT_UID) == uid


def _metadata(cleaning: Cleaning) -> dict[str, Any]:
    return {"name": cleaning.name, "namespace": cleaning.namespace, "labels": _labels(cleaning)}


def _labels(cleaning: Cleaning) -> dict[str, str]:
    return {
        names.LABEL_NAME: APP_NAME,
        names.LABEL_COMPONENT: COMPONENT,
        names.LABEL_MANAGED_BY: names.MANAGED_BY,
        LABEL_SAVEPOINT: cleaning.savepoint,
        LABEL_SAVEPOINT_UID: cleaning.uid,
    }


def _pod(cleaning: Cleaning) -> dict[str, Any]:
    pod = pods.from_template(cleaning.session_class.pod_template.driver, _labels(cleaning), {})
    pods.schedule(pod, cleaning.session_class.scheduling)
    spec = pod["spec"]
    spec |= {
        "restartPolicy": "Never",
        "serviceAccountName": cleaning.service_account,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": TERMINATION_SECONDS,
    }
    container = pods.take_container(spec)
    spec["containers"] = [container]  # a sidecar that does not end by itself would keep the Job from its end
    _fill_container(container, cleaning)
    pods.add_volumes(spec, container, cleaning.session_class.storage.volume_claim, ("/tmp",))  # noqa: S108 - the pod's own
    # A mounted Secret will do here: the program deletes one folder, and nothing that it reads is shown to anybody.
    pods.add_secret(spec, container, cleaning.name)
    container["env"] = pods.put(container.get("env"), [pods.file_roots(spec, container)], "name")
    pods.restrict(spec)
    return pod


def _fill_container(container: dict[str, Any], cleaning: Cleaning) -> None:
    program = ["python3", "-m", "sparksql.gateway.clean"]
    place = [f"--target={cleaning.target}", f"--root={cleaning.root}", f"--owner-uid={cleaning.uid}"]
    for field_of_a_driver in _OF_A_DRIVER:
        container.pop(field_of_a_driver, None)
    container |= {
        "image": cleaning.session_class.image,
        "imagePullPolicy": str(cleaning.session_class.image_pull_policy),
        "args": [*program, *place, f"--conf={wire.DEFAULT_CONFIG_DIR}/{CONF_FILE}"],
        "resources": _RESOURCES,
    }
