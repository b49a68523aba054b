"""Manifests of driver and executor pods: what is ours always holds, what is the template's is never lost."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from sparksql.domain.session.effective_session import EffectiveSession
from sparksql.kube import builders
from sparksql.kube.builders.conf import spark_conf
from sparksql.kube.builders.driver import driver_pod
from sparksql.kube.builders.executor import executor_pod
from tests.unit.kube.effective_sessions import BASE, FULL, OWNER, PLAIN, container, driver, mounts


def probe(path: str, **timing: int) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": 8443, "scheme": "HTTPS"}, **timing}


DRIVER_SPEC = {
    "restartPolicy": "Never",
    "serviceAccountName": "spark",
    "automountServiceAccountToken": True,
    "enableServiceLinks": False,
    "terminationGracePeriodSeconds": 25,
    "securityContext": {
        "fsGroupChangePolicy": "OnRootMismatch",
        "runAsNonRoot": True,
        "runAsUser": 185,
        "runAsGroup": 185,
        "fsGroup": 185,
        "seccompProfile": {"type": "RuntimeDefault"},
    },
}
DRIVER_CONTAINER = {
    "name": "spark",
    "image": "registry.example/session:1",
    "imagePullPolicy": "IfNotPresent",
    "args": ["driver"],
    "resources": {"requests": {"cpu": "500m", "memory": "2008Mi"}, "limits": {"memory": "2008Mi"}},
    "readinessProbe": probe("/readyz", periodSeconds=1, timeoutSeconds=2, failureThreshold=3),
    "livenessProbe": probe("/healthz", periodSeconds=10, timeoutSeconds=5, failureThreshold=9),
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "privileged": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": 185,
        "readOnlyRootFilesystem": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    },
}
DRIVER_ENVIRONMENT = {
    "POD_IP": "status.podIP",
    "POD_NAME": "metadata.name",
    "POD_UID": "metadata.uid",
    "POD_NAMESPACE": "metadata.namespace",
    "SPARKSQL_CONFIG_DIR": "/etc/sparksql",
    "SPARKSQL_CONFIG_HASH": "0123456789abcdef",
    "SPARK_LOCAL_DIRS": "/var/spark/local",
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARKSQL_FILE_ROOTS": "/opt/spark/work-dir:/tmp:/var/spark/local",
}
CONFIGURE = {
    "name": "sparksql-configure",
    "image": "registry.example/session:1",
    "imagePullPolicy": "IfNotPresent",
    "args": ["configure", "/etc/sparksql-secrets", "/etc/sparksql"],
    "env": [{"name": "SPARKSQL_CONFIG_HASH", "value": "0123456789abcdef"}],
    "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "64Mi"}},
    "volumeMounts": [
        {"name": "sparksql-secrets", "mountPath": "/etc/sparksql-secrets", "readOnly": True},
        {"name": "sparksql-config", "mountPath": "/etc/sparksql"},
    ],
    "securityContext": DRIVER_CONTAINER["securityContext"],
}


def test_driver_pod_without_a_template_golden() -> None:
    pod = driver(PLAIN)
    assert pod["metadata"]["name"] == f"{BASE}-3"
    assert pod["metadata"]["labels"]["sparksql.dev/incarnation"] == "3"
    assert pod["metadata"]["annotations"] == {"sparksql.dev/config-hash": "0123456789abcdef"}
    assert pod["metadata"]["ownerReferences"] == [OWNER]
    spec = pod["spec"]
    assert {
        key: value for key, value in spec.items() if key not in ("containers", "initContainers", "volumes")
    } == DRIVER_SPEC
    assert mounts(pod) == {
        "/tmp": "emptyDir",
        "/var/spark/local": "emptyDir",
        "/opt/spark/work-dir": "emptyDir",
        "/etc/sparksql": "emptyDir",
    }
    assert spec["initContainers"] == [CONFIGURE]
    [spark] = spec["containers"]
    ours = {key: value for key, value in spark.items() if key not in ("env", "volumeMounts", "ports")}
    assert ours == DRIVER_CONTAINER
    environment = {env["name"]: env.get("value") or env["valueFrom"]["fieldRef"]["fieldPath"] for env in spark["env"]}
    assert environment == DRIVER_ENVIRONMENT


@pytest.mark.parametrize("session", [PLAIN, FULL])
def test_only_the_init_container_sees_the_secrets_of_a_driver(session: EffectiveSession) -> None:
    spec = driver(session)["spec"]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    [secrets] = [name for name, volume in volumes.items() if "projected" in volume]
    sources = [{"secret": {"name": BASE}}, {"secret": {"name": f"{BASE}-3-executor"}}]
    assert volumes[secrets]["projected"] == {"sources": sources, "defaultMode": 0o440}
    assert not [volume for volume in spec["volumes"] if "secret" in volume]
    users = [
        one["name"]
        for one in (*spec["initContainers"], *spec["containers"])
        if any(mount["name"] == secrets for mount in one.get("volumeMounts", ()))
    ]
    assert users == ["sparksql-configure"]
    [copy_mount] = [
        mount for mount in container(driver(session))["volumeMounts"] if mount["mountPath"] == "/etc/sparksql"
    ]
    assert volumes[copy_mount["name"]]["emptyDir"] == {"medium": "Memory", "sizeLimit": "4Mi"}
    assert "readOnly" not in copy_mount, "the gateway removes what it has read"


def test_executors_share_one_secret_of_their_drivers_incarnation() -> None:
    made = builders.executor_secret(PLAIN, 3, b"\x00\xff")
    assert made["metadata"]["name"] == f"{BASE}-3-executor" == f"{driver(PLAIN)['metadata']['name']}-executor"
    assert made["metadata"]["ownerReferences"] == [OWNER]
    assert (made["immutable"], made["data"]) == (True, {"executor-secret": "AP8="})
    spec = builders.executor_template(PLAIN, 3)["spec"]
    [volume] = [volume for volume in spec["volumes"] if "emptyDir" not in volume]
    assert volume == {
        "name": "sparksql-config",
        "secret": {"secretName": f"{BASE}-3-executor", "defaultMode": 0o440},
    }
    conf = builders.spark_conf(PLAIN, 3)
    assert conf["spark.authenticate.secret.executor.file"] == "/etc/sparksql-executor/executor-secret"
    assert conf["spark.authenticate.secret.driver.file"] == "/etc/sparksql/executor-secret"


DATA_AND_OTHERS = [
    ({"emptyDir": {}}, True),
    ({"persistentVolumeClaim": {"claimName": "c"}}, True),
    ({"nfs": {"server": "s", "path": "/"}}, True),
    ({"ephemeral": {"volumeClaimTemplate": {}}}, True),
    ({"secret": {"secretName": "s"}}, False),
    ({"configMap": {"name": "c"}}, False),
    ({"projected": {"sources": []}}, False),
    ({"csi": {"driver": "secrets-store.csi.k8s.io"}}, False),
    ({"hostPath": {"path": "/"}}, False),
    ({"futureKind": {}}, False),
]


@pytest.mark.parametrize(("source", "is_data"), DATA_AND_OTHERS)
def test_sql_sees_folders_of_data_and_no_others(source: dict[str, Any], is_data: bool) -> None:
    mount = {"name": "spark", "volumeMounts": [{"name": "mine", "mountPath": "/mine"}]}
    template = {"spec": {"volumes": [{"name": "mine", **source}], "containers": [mount]}}
    session = replace(PLAIN, driver_template=template, executor_template=template)
    for pod in (driver(session), builders.executor_template(session, 3)):
        [roots] = [env["value"] for env in container(pod)["env"] if env["name"] == "SPARKSQL_FILE_ROOTS"]
        assert ("/mine" in roots.split(":")) == is_data
        assert not any(root.startswith("/etc") for root in roots.split(":"))


def test_sql_sees_the_volume_claim_and_local_jar_folders() -> None:
    prefixes = ("file:///opt/spark/extra/", "file:/opt/more/my-", "file:///", "s3a://b/jars/", "local:///opt/x/")
    session = replace(FULL, jar_prefixes=prefixes)
    [roots] = [env["value"] for env in container(driver(session))["env"] if env["name"] == "SPARKSQL_FILE_ROOTS"]
    own = {"/data", "/opt/spark/work-dir", "/tmp", "/var/spark/local"}
    assert set(roots.split(":")) == {*own, "/opt/spark/extra", "/opt/more"}


def test_driver_pod_keeps_what_the_template_may_say() -> None:
    pod = driver(FULL)
    spec, spark = pod["spec"], container(pod)
    assert pod["metadata"]["labels"]["team"] == "data"
    assert pod["metadata"]["annotations"]["sidecar"] == "yes"
    assert spec["nodeSelector"] == {"pool": "spark"}
    assert spec["tolerations"] == [{"key": "spark", "operator": "Exists"}]
    assert spec["futureField"] == {"kept": True}
    assert spec["securityContext"]["supplementalGroups"] == [7]
    assert [one["name"] for one in spec["initContainers"]] == ["fetch", "sparksql-configure"]
    assert container(pod, "sidecar")["image"] == "logs:1"
    assert container(pod, "sidecar")["securityContext"]["runAsUser"] == 1000
    assert {"name": "EXTRA", "value": "1"} in spark["env"]
    assert {"containerPort": 9010, "name": "jmx"} in spark["ports"]
    assert spark["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert spark["resources"]["requests"]["ephemeral-storage"] == "1Gi"


def test_driver_pod_overrules_what_the_template_may_not_say() -> None:
    pod = driver(FULL)
    spec, spark = pod["spec"], container(pod)
    assert pod["metadata"]["name"] == f"{BASE}-3"
    assert "finalizers" not in pod["metadata"]
    assert pod["metadata"]["labels"]["sparksql.dev/session-uid"] == FULL.uid
    assert spec["restartPolicy"] == "Never"
    assert spec["serviceAccountName"] == "spark"
    assert "hostNetwork" not in spec
    assert spec["securityContext"]["runAsUser"] == 185
    assert spark["image"] == "registry.example/session:1"
    assert "command" not in spark
    assert [env for env in spark["env"] if env["name"] == "POD_IP"] == [
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    ]
    assert spark["resources"]["requests"]["cpu"] == "500m"
    assert spark["resources"]["limits"] == {"memory": "2008Mi", "nvidia.com/gpu": "1"}
    for one in (*spec["initContainers"], *spec["containers"]):
        context = one["securityContext"]
        assert (context["privileged"], context["allowPrivilegeEscalation"]) == (False, False), one["name"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context["runAsNonRoot"] is True
    assert spark["securityContext"]["readOnlyRootFilesystem"] is True


def test_driver_volumes_with_a_claim_and_the_templates_own_scratch() -> None:
    pod = driver(FULL)
    assert mounts(pod) == {
        "/tmp": "emptyDir",
        "/var/spark/local": "emptyDir",
        "/opt/spark/work-dir": "emptyDir",
        "/data": "persistentVolumeClaim",
        "/etc/sparksql": "emptyDir",
    }
    [scratch] = [mount for mount in container(pod)["volumeMounts"] if mount["mountPath"] == "/var/spark/local"]
    assert scratch["name"] == "scratch"


def test_cpu_limit_is_set_on_every_container_that_the_operator_makes() -> None:
    """A quota on limits.cpu refuses a pod of which one container has none."""
    limited = replace(
        PLAIN, driver=replace(PLAIN.driver, cpu_limit="2"), executors=replace(PLAIN.executors, cpu_limit="3")
    )
    driver, executor = driver_pod(limited, 1, "hash")["spec"], executor_pod(limited, 1)["spec"]
    containers = (*driver["initContainers"], *driver["containers"], *executor["containers"])
    assert [each["resources"]["limits"]["cpu"] for each in containers] == ["2", "2", "3"]
    assert spark_conf(limited, 1)["spark.kubernetes.executor.limit.cores"] == "3"
    plain = driver_pod(PLAIN, 1, "hash")["spec"]
    assert all("cpu" not in each["resources"]["limits"] for each in (*plain["initContainers"], *plain["containers"]))


def test_queue_and_priority_reach_driver_and_executors() -> None:
    for pod in (driver(FULL), builders.executor_template(FULL, 3)):
        assert pod["spec"]["schedulerName"] == "yunikorn"
        assert pod["spec"]["priorityClassName"] == "high"
        assert pod["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "batch"
    assert "schedulerName" not in driver(PLAIN)["spec"]


def test_executor_template_has_no_token_and_the_executors_labels() -> None:
    template = builders.executor_template(FULL, 3)
    spec = template["spec"]
    assert (template["apiVersion"], template["kind"]) == ("v1", "Pod")
    assert template["metadata"]["labels"]["app.kubernetes.io/name"] == "spark-sql-executor"
    assert template["metadata"]["labels"]["app.kubernetes.io/component"] == "executor"
    assert spec["automountServiceAccountToken"] is False
    assert spec["nodeSelector"] == {"pool": "spot"}
    assert mounts(template) == {
        "/tmp": "emptyDir",
        "/opt/spark/work-dir": "emptyDir",
        "/data": "persistentVolumeClaim",
        "/etc/sparksql-executor": "secret",
    }
    spark = container(template)
    assert "command" not in spark
    assert spark["securityContext"]["readOnlyRootFilesystem"] is True
    assert spec["securityContext"]["runAsUser"] == 185


def test_building_leaves_the_template_alone() -> None:
    before = copy.deepcopy((FULL.driver_template, FULL.executor_template))
    driver(FULL)
    builders.executor_template(FULL, 3)
    assert (FULL.driver_template, FULL.executor_template) == before
