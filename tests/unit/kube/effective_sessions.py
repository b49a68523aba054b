"""A session to build manifests for, one whose class uses everything that a class may say, and their pods."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sparksql.api import names
from sparksql.api.session_class import Scheduling, VolumeClaim
from sparksql.domain.session.effective_session import DriverSize, EffectiveSession, ExecutorSize
from sparksql.kube import builders

PLAIN = EffectiveSession(
    namespace="team-a",
    name="analytics",
    uid="6f0c2a9e-0000-4000-8000-000000000001",
    class_name="standard",
    image="registry.example/session:1",
    image_pull_policy="IfNotPresent",
    driver=DriverSize(cpu="500m", cores=1, heap_mib=1024, pod_mib=2008),
    executors=ExecutorSize(cpu="1", cores=1, memory_mib=2048, instances=2),
    conf={"spark.sql.shuffle.partitions": "8"},
    enforced_conf={},
    service_account="spark",
    create_service_account=True,
)

FULL = replace(
    PLAIN,
    volume_claim=VolumeClaim(name="spark-data", mount_path="/data"),
    warehouse="file:///data/warehouse",
    scheduling=Scheduling(
        scheduler_name="yunikorn", queue_label={"kueue.x-k8s.io/queue-name": "batch"}, priority_class_name="high"
    ),
    network_clients=({"podSelector": {"matchLabels": {"app": "bi"}}},),
    driver_template={
        "metadata": {
            "name": "ignored",
            "labels": {"team": "data", "sparksql.dev/session-uid": "forged"},
            "annotations": {"sidecar": "yes"},
            "finalizers": ["ignored.example/f"],
        },
        "spec": {
            "nodeSelector": {"pool": "spark"},
            "tolerations": [{"key": "spark", "operator": "Exists"}],
            "futureField": {"kept": True},
            "restartPolicy": "Always",
            "hostNetwork": True,
            "serviceAccountName": "admin",
            "securityContext": {"runAsUser": 0, "supplementalGroups": [7]},
            "volumes": [{"name": "scratch", "emptyDir": {"medium": "Memory"}}],
            "initContainers": [{"name": "fetch", "image": "fetch:1", "securityContext": {"privileged": True}}],
            "containers": [
                {"name": "sidecar", "image": "logs:1", "securityContext": {"runAsUser": 1000}},
                {
                    "name": "spark",
                    "image": "forged:1",
                    "command": ["sh"],
                    "env": [{"name": "EXTRA", "value": "1"}, {"name": "POD_IP", "value": "forged"}],
                    "volumeMounts": [
                        {"name": "scratch", "mountPath": "/var/spark/local"},
                        {"name": "scratch", "mountPath": "/etc/sparksql"},
                    ],
                    "resources": {
                        "requests": {"cpu": "64", "ephemeral-storage": "1Gi"},
                        "limits": {"cpu": "64", "memory": "1Mi", "nvidia.com/gpu": "1"},
                    },
                    "ports": [{"containerPort": 9010, "name": "jmx"}],
                    "securityContext": {
                        "privileged": True,
                        "allowPrivilegeEscalation": True,
                        "capabilities": {"add": ["SYS_ADMIN"]},
                        "readOnlyRootFilesystem": False,
                    },
                },
            ],
        },
    },
    executor_template={
        "spec": {"nodeSelector": {"pool": "spot"}, "containers": [{"name": "spark", "command": ["sh"]}]}
    },
)

BASE = names.child_base(PLAIN.name, PLAIN.uid)
OWNER = {
    "apiVersion": "sparksql.dev/v1alpha1",
    "kind": "SqlSession",
    "name": "analytics",
    "uid": PLAIN.uid,
    "controller": True,
    "blockOwnerDeletion": True,
}


def driver(session: EffectiveSession, incarnation: int = 3) -> dict[str, Any]:
    return builders.driver_pod(session, incarnation, "0123456789abcdef")


def container(pod: dict[str, Any], name: str = "spark") -> dict[str, Any]:
    found: dict[str, Any]
    [found] = [one for one in pod["spec"]["containers"] if one["name"] == name]
    return found


def mounts(pod: dict[str, Any]) -> dict[str, str]:
    """Mount path to the kind of volume behind it."""
    kinds = {volume["name"]: next(key for key in volume if key != "name") for volume in pod["spec"]["volumes"]}
    mounted = container(pod)["volumeMounts"]
    assert len({mount["mountPath"] for mount in mounted}) == len(mounted), mounted
    return {mount["mountPath"]: kinds[mount["name"]] for mount in mounted}
