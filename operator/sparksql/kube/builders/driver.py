"""The driver pod: one per incarnation, never restarted in place, since a driver's death must be seen as such."""

from __future__ import annotations

from typing import Any

from sparksql.api import names
from sparksql.domain.session.effective_session import EffectiveSession
from sparksql.kube.builders import pods
from sparksql.kube.builders.metadata import base_name, labels, owned
from sparksql.kube.builders.network import driver_ports
from sparksql.wire import driver as wire

# Twenty seconds to drain, some to exit: together within the session finalizer's thirty.
TERMINATION_SECONDS = 25
# The gateway answers /healthz before Spark is up, so this counts from the start of Python and needs no start-up probe.
_LIVENESS = {"periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 9}
_READINESS = {"periodSeconds": 1, "timeoutSeconds": 2, "failureThreshold": 3}


def driver_pod(session: EffectiveSession, incarnation: int, config_hash: str) -> dict[str, Any]:
    """The Pod of the driver's `incarnation`, which starts once the mounted config has `config_hash`.

    Its Secrets are the session's and the one that it shares with its executors.
    """
    own_labels = labels(session, names.DRIVER_APP_NAME, names.DRIVER_COMPONENT)
    own_labels[names.LABEL_INCARNATION] = str(incarnation)
    pod = pods.from_template(session.driver_template, own_labels, {names.ANNOTATION_CONFIG_HASH: config_hash})
    pods.schedule(pod, session.scheduling)
    name = names.driver_pod_name(session.name, session.uid, incarnation)
    pod["metadata"] |= owned(session, name, pod["metadata"]["labels"])
    spec = pod["spec"]
    spec |= {
        "restartPolicy": "Never",
        "serviceAccountName": session.service_account,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,  # a variable per Service of the namespace overflows the argument list
        "terminationGracePeriodSeconds": TERMINATION_SECONDS,
    }
    container = pods.take_container(spec)
    _fill_container(container, session, config_hash)
    pods.add_volumes(spec, container, session.volume_claim, ("/tmp", pods.LOCAL_DIR, pods.WORK_DIR))  # noqa: S108 - the pod's own
    secrets = (base_name(session), names.executor_secret_name(name))
    pods.add_config_copy(spec, container, secrets, session.image, session.image_pull_policy, config_hash)
    # A quota on limits.cpu asks every container for one. That of an init container adds nothing to the pod's.
    configure = next(each for each in spec["initContainers"] if each["name"] == pods.CONFIGURE)
    configure["resources"]["limits"] |= pods.cpu_limit(session.driver.cpu_limit)
    roots = pods.file_roots(spec, container, session.jar_prefixes)
    container["env"] = pods.put(container["env"], [roots], "name")
    pods.restrict(spec)
    return pod


def _fill_container(container: dict[str, Any], session: EffectiveSession, config_hash: str) -> None:
    container |= {
        "image": session.image,
        "imagePullPolicy": session.image_pull_policy,
        "args": ["driver"],
        "env": pods.put(container.get("env"), _environment(config_hash), "name"),
        "ports": pods.put(
            container.get("ports"),
            [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in driver_ports(session).items()],
            "containerPort",
        ),
        "resources": _resources(container.get("resources") or {}, session),
        "readinessProbe": _probe("/readyz", _READINESS),
        "livenessProbe": _probe("/healthz", _LIVENESS),
    }
    container.pop("command", None)


def _environment(config_hash: str) -> list[dict[str, Any]]:
    fields = {
        "POD_IP": "status.podIP",
        "POD_NAME": "metadata.name",
        "POD_UID": "metadata.uid",
        "POD_NAMESPACE": "metadata.namespace",
    }
    return [
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()),
        {"name": wire.CONFIG_DIR_ENV, "value": wire.DEFAULT_CONFIG_DIR},
        {"name": wire.CONFIG_HASH_ENV, "value": config_hash},
        {"name": "SPARK_LOCAL_DIRS", "value": pods.LOCAL_DIR},
        # Where Spark's UI listens; what executors dial is set to the pod's IP by the gateway.
        {"name": "SPARK_LOCAL_IP", "value": "127.0.0.1"},
    ]


def _resources(template: dict[str, Any], session: EffectiveSession) -> dict[str, Any]:
    """CPU is requested, and limited if the session says so; memory is both. Others, such as devices, are the template's."""
    size = session.driver
    memory = f"{size.pod_mib}Mi"
    limits = {name: value for name, value in (template.get("limits") or {}).items() if name != "cpu"}
    requests = {**(template.get("requests") or {}), "cpu": size.cpu, "memory": memory}
    return {**template, "requests": requests, "limits": {**limits, **pods.cpu_limit(size.cpu_limit), "memory": memory}}


def _probe(path: str, timing: dict[str, int]) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": wire.GATEWAY_PORT, "scheme": "HTTPS"}, **timing}
