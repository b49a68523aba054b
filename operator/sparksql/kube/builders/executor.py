"""The pod template that Spark makes executors from.

Spark itself adds image, name, arguments, ports, sizes, its own labels, local directories and the owner reference to the
driver pod (BasicExecutorFeatureStep and its neighbours in Spark's resource-managers/kubernetes); all else is said here.
"""

from __future__ import annotations

from typing import Any

from sparksql.api import names
from sparksql.domain.session.effective_session import EffectiveSession
from sparksql.domain.session.memory import pod_mib
from sparksql.kube.builders import pods
from sparksql.kube.builders.metadata import labels
from sparksql.wire import driver as wire


def executor_template(session: EffectiveSession, incarnation: int) -> dict[str, Any]:
    """A Pod, for `spark.kubernetes.executor.podTemplateFile`. Executors get no token of the API server, and one Secret.

    It stands in no variable of the pod: who may see pods would see it.
    """
    own_labels = labels(session, names.EXECUTOR_APP_NAME, names.EXECUTOR_COMPONENT)
    pod = pods.from_template(session.executor_template, own_labels, {})
    pods.schedule(pod, session.scheduling)
    spec = pod["spec"]
    spec |= {
        "restartPolicy": "Never",
        "serviceAccountName": session.service_account,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
    }
    container = pods.take_container(spec)
    container.pop("command", None)
    pods.add_volumes(spec, container, session.volume_claim, ("/tmp", pods.WORK_DIR))  # noqa: S108 - the pod's own
    driver = names.driver_pod_name(session.name, session.uid, incarnation)
    pods.add_secret(spec, container, names.executor_secret_name(driver), wire.EXECUTOR_SECRET_DIR)
    container["env"] = pods.put(container.get("env"), [pods.file_roots(spec, container, session.jar_prefixes)], "name")
    pods.restrict(spec)
    return pod


def executor_pod(session: EffectiveSession, incarnation: int) -> dict[str, Any]:
    """Returns an executor pod much as Spark makes it from the template: what quotas and policies look at is the same.

    For a check of the API server alone: the name is one that Spark gives no executor.
    """
    pod, size = executor_template(session, incarnation), session.executors
    driver = names.driver_pod_name(session.name, session.uid, incarnation)
    pod["metadata"] |= {"name": f"{driver}-exec-check", "namespace": session.namespace}
    container = pods.take_container(pod["spec"])
    memory = f"{pod_mib(size.memory_mib, {**session.conf, **session.enforced_conf})}Mi"
    resources = container.get("resources") or {}
    container |= {
        "image": session.image,
        "imagePullPolicy": session.image_pull_policy,
        "args": ["executor"],
        "resources": {
            **resources,
            "requests": {**(resources.get("requests") or {}), "cpu": size.cpu, "memory": memory},
            "limits": {**(resources.get("limits") or {}), **pods.cpu_limit(size.cpu_limit), "memory": memory},
        },
    }
    return pod
