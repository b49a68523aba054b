"""The pod template that Spark makes executors from.

Spark itself adds image, name, arguments, ports, sizes, its own labels, local directories and the owner reference to the
driver pod (BasicExecutorFeatureStep and its neighbours in Spark's resource-managers/kubernetes); all else is said here.
"""

from __future__ import annotations

from typing import Any

from sparksql.api import names
from sparksql.domain.session.effective import EffectiveSession
from sparksql.kube.builders import pods
from sparksql.kube.builders.metadata import labels


def executor_template(session: EffectiveSession) -> dict[str, Any]:
    """A Pod, for `spark.kubernetes.executor.podTemplateFile`. Executors get no token of the API server."""
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
    pods.restrict(spec)
    return pod
