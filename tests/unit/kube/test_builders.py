"""Manifests of a session's children: what is ours always holds, what is the template's is never lost."""

from __future__ import annotations

import base64
import copy
from dataclasses import replace
from typing import Any

import pytest
from session_samples import FULL, PLAIN

from sparksql.api import names
from sparksql.domain.session.effective import EffectiveSession, Endpoints
from sparksql.kube import builders

BASE = names.child_base(PLAIN.name, PLAIN.uid)
OWNER = {
    "apiVersion": "sparksql.dev/v1alpha1",
    "kind": "SqlSession",
    "name": "analytics",
    "uid": PLAIN.uid,
    "controller": True,
    "blockOwnerDeletion": True,
}


def build_secret(session: EffectiveSession) -> dict[str, Any]:
    return builders.secret(
        session, token="t", cert_pem="CERT", key_pem="KEY", config_json="{}", executor_template_json='{"kind": "Pod"}'
    )


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


@pytest.mark.parametrize("session", [PLAIN, FULL])
def test_stable_children_are_named_from_the_session_and_owned_by_it(session: EffectiveSession) -> None:
    peer = builders.operator_peer("system")
    for child in (build_secret(session), builders.service(session), builders.network_policy(session, peer)):
        assert child["metadata"]["name"] == BASE
        assert child["metadata"]["namespace"] == "team-a"
        assert child["metadata"]["ownerReferences"] == [OWNER]
        assert child["metadata"]["labels"] == {
            "app.kubernetes.io/name": "spark-sql-session",
            "app.kubernetes.io/component": "driver",
            "app.kubernetes.io/managed-by": "spark-sql-operator",
            "sparksql.dev/session": "analytics",
            "sparksql.dev/session-uid": session.uid,
        }


def test_secret_holds_the_files_of_the_driver() -> None:
    data = {name: base64.b64decode(value).decode() for name, value in build_secret(PLAIN)["data"].items()}
    assert data == {
        "token": "t",
        "tls.crt": "CERT",
        "tls.key": "KEY",
        "config.json": "{}",
        "executor.json": '{"kind": "Pod"}',
    }


OWN_PORTS = {"driver-rpc": 7078, "blockmanager": 7079}
ENDPOINTS = [
    (Endpoints(), {"https": 8443}),
    (Endpoints(connect=True), {"https": 8443, "connect": 15002}),
    (Endpoints(rest=False, thrift=True), {"thrift": 10000}),
    (Endpoints(rest=False), {}),
]


def test_service_is_headless_and_selects_this_sessions_driver_before_it_is_ready() -> None:
    spec = builders.service(PLAIN)["spec"]
    assert {key: value for key, value in spec.items() if key != "ports"} == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"sparksql.dev/session-uid": PLAIN.uid, "app.kubernetes.io/component": "driver"},
    }
    assert spec["ports"][0] == {"name": "https", "port": 8443, "targetPort": 8443, "protocol": "TCP"}


@pytest.mark.parametrize(("endpoints", "client_ports"), ENDPOINTS)
def test_service_and_pod_have_the_ports_of_what_is_on(endpoints: Endpoints, client_ports: dict[str, int]) -> None:
    session = replace(PLAIN, endpoints=endpoints)
    ports = {"https": 8443, **client_ports, **OWN_PORTS}  # the operator's port is there whatever clients may use
    assert {port["name"]: port["port"] for port in builders.service(session)["spec"]["ports"]} == ports
    assert {port["name"]: port["containerPort"] for port in container(driver(session))["ports"]} == ports


@pytest.mark.parametrize(
    ("namespace", "selector"),
    [("system", {"matchLabels": {"kubernetes.io/metadata.name": "system"}}), ("", {})],
)
def test_network_policy(namespace: str, selector: dict[str, Any]) -> None:
    own_pods = {"matchLabels": {"sparksql.dev/session-uid": FULL.uid}}
    operator = {
        "namespaceSelector": selector,
        "podSelector": {
            "matchLabels": {
                "app.kubernetes.io/name": "spark-sql-operator",
                "app.kubernetes.io/component": "operator",
            }
        },
    }
    assert builders.network_policy(FULL, builders.operator_peer(namespace))["spec"] == {
        "podSelector": own_pods,
        "policyTypes": ["Ingress"],
        "ingress": [
            {"from": [operator], "ports": [{"protocol": "TCP", "port": 8443}]},
            {
                "from": [{"podSelector": own_pods}],
                "ports": [{"protocol": "TCP", "port": 7078}, {"protocol": "TCP", "port": 7079}],
            },
            {"from": [*FULL.network_clients], "ports": [{"protocol": "TCP", "port": 8443}]},
        ],
    }


@pytest.mark.parametrize("peers", [FULL.network_clients, ()])
@pytest.mark.parametrize(("endpoints", "client_ports"), ENDPOINTS)
def test_clients_of_the_class_reach_what_is_on_and_nothing_else(
    endpoints: Endpoints, client_ports: dict[str, int], peers: tuple[dict[str, Any], ...]
) -> None:
    session = replace(FULL, endpoints=endpoints, network_clients=peers)
    operator = builders.operator_peer("system")
    ingress = builders.network_policy(session, operator)["spec"]["ingress"]
    assert all(rule["from"] for rule in ingress), "a rule without peers lets everybody in"
    reachable = {port["port"] for rule in ingress for port in rule["ports"] if rule["from"] == [*peers]}
    assert reachable == (set(client_ports.values()) if peers else set())
    assert [rule["ports"] for rule in ingress if operator in rule["from"]] == [[{"protocol": "TCP", "port": 8443}]]


def test_the_networks_labels_are_on_driver_and_executors() -> None:
    for pod in (driver(FULL), builders.executor_template(FULL)):
        assert pod["metadata"]["labels"]["sparksql.dev/session-uid"] == FULL.uid


def test_service_account_and_binding_belong_to_nobody_and_bind_the_one_role() -> None:
    account, binding = builders.service_account("team-a", "spark"), builders.role_binding("team-a", "spark")
    assert account["automountServiceAccountToken"] is False
    assert "ownerReferences" not in account["metadata"] | binding["metadata"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "spark", "namespace": "team-a"}]
    assert binding["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "spark-sql-driver",
    }


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
}


def test_driver_pod_without_a_template_golden() -> None:
    pod = driver(PLAIN)
    assert pod["metadata"]["name"] == f"{BASE}-3"
    assert pod["metadata"]["labels"]["sparksql.dev/incarnation"] == "3"
    assert pod["metadata"]["annotations"] == {"sparksql.dev/config-hash": "0123456789abcdef"}
    assert pod["metadata"]["ownerReferences"] == [OWNER]
    spec = pod["spec"]
    assert {key: value for key, value in spec.items() if key not in ("containers", "volumes")} == DRIVER_SPEC
    assert mounts(pod) == {
        "/tmp": "emptyDir",
        "/var/spark/local": "emptyDir",
        "/opt/spark/work-dir": "emptyDir",
        "/etc/sparksql": "secret",
    }
    [config] = [volume for volume in spec["volumes"] if "secret" in volume]
    assert config["secret"] == {"secretName": BASE, "defaultMode": 0o440}
    [spark] = spec["containers"]
    ours = {key: value for key, value in spark.items() if key not in ("env", "volumeMounts", "ports")}
    assert ours == DRIVER_CONTAINER
    environment = {env["name"]: env.get("value") or env["valueFrom"]["fieldRef"]["fieldPath"] for env in spark["env"]}
    assert environment == DRIVER_ENVIRONMENT


def test_driver_pod_keeps_what_the_template_may_say() -> None:
    pod = driver(FULL)
    spec, spark = pod["spec"], container(pod)
    assert pod["metadata"]["labels"]["team"] == "data"
    assert pod["metadata"]["annotations"]["sidecar"] == "yes"
    assert spec["nodeSelector"] == {"pool": "spark"}
    assert spec["tolerations"] == [{"key": "spark", "operator": "Exists"}]
    assert spec["futureField"] == {"kept": True}
    assert spec["securityContext"]["supplementalGroups"] == [7]
    assert [one["name"] for one in spec["initContainers"]] == ["fetch"]
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
        "/etc/sparksql": "secret",
    }
    [scratch] = [mount for mount in container(pod)["volumeMounts"] if mount["mountPath"] == "/var/spark/local"]
    assert scratch["name"] == "scratch"


def test_queue_and_priority_reach_driver_and_executors() -> None:
    for pod in (driver(FULL), builders.executor_template(FULL)):
        assert pod["spec"]["schedulerName"] == "yunikorn"
        assert pod["spec"]["priorityClassName"] == "high"
        assert pod["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "batch"
    assert "schedulerName" not in driver(PLAIN)["spec"]


def test_executor_template_has_no_token_and_the_executors_labels() -> None:
    template = builders.executor_template(FULL)
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
    }
    spark = container(template)
    assert "command" not in spark
    assert spark["securityContext"]["readOnlyRootFilesystem"] is True
    assert spec["securityContext"]["runAsUser"] == 185


def test_building_leaves_the_template_alone() -> None:
    before = copy.deepcopy((FULL.driver_template, FULL.executor_template))
    driver(FULL)
    builders.executor_template(FULL)
    assert (FULL.driver_template, FULL.executor_template) == before


def test_spark_conf_golden() -> None:
    assert builders.spark_conf(PLAIN, 3) == {
        "spark.app.name": "team-a/analytics",
        "spark.authenticate": "true",
        "spark.blockManager.port": "7079",
        "spark.driver.blockManager.port": "7079",
        "spark.driver.cores": "1",
        "spark.driver.port": "7078",
        "spark.dynamicAllocation.enabled": "false",
        "spark.executor.cores": "1",
        "spark.executor.instances": "2",
        "spark.executor.memory": "2048m",
        "spark.kubernetes.authenticate.executor.serviceAccountName": "spark",
        "spark.kubernetes.container.image": "registry.example/session:1",
        "spark.kubernetes.container.image.pullPolicy": "IfNotPresent",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.kubernetes.executor.disableConfigMap": "true",
        "spark.kubernetes.executor.label.sparksql.dev/incarnation": "3",
        "spark.kubernetes.executor.podNamePrefix": f"{BASE}-3",
        "spark.kubernetes.executor.podTemplateContainerName": "spark",
        "spark.kubernetes.executor.podTemplateFile": "/etc/sparksql/executor.json",
        "spark.kubernetes.executor.request.cores": "1",
        "spark.kubernetes.namespace": "team-a",
        "spark.master": "k8s://https://kubernetes.default.svc",
        "spark.sql.shuffle.partitions": "8",
        "spark.ui.killEnabled": "false",
    }


@pytest.mark.parametrize(
    ("key", "layers", "wins"),
    [
        ("spark.sql.shuffle.partitions", {"conf": "1"}, "1"),
        ("spark.sql.shuffle.partitions", {"conf": "1", "enforced_conf": "2"}, "2"),
        ("spark.sql.warehouse.dir", {"conf": "file:///elsewhere"}, "file:///data/warehouse"),
        ("spark.executor.memory", {"conf": "64g"}, "2048m"),
        ("spark.executor.memory", {"enforced_conf": "4g"}, "4g"),
        ("spark.authenticate", {"conf": "false", "enforced_conf": "false"}, "true"),
        ("spark.master", {"conf": "local[*]", "enforced_conf": "local[*]"}, "k8s://https://kubernetes.default.svc"),
        ("spark.kubernetes.executor.podTemplateFile", {"conf": "/tmp/x"}, "/etc/sparksql/executor.json"),
    ],
)
def test_spark_conf_layers(key: str, layers: dict[str, str], wins: str) -> None:
    session = replace(
        FULL,
        conf={key: layers["conf"]} if "conf" in layers else {},
        enforced_conf={key: layers["enforced_conf"]} if "enforced_conf" in layers else {},
    )
    assert builders.spark_conf(session, 1)[key] == wins


def test_spark_conf_with_dynamic_allocation() -> None:
    conf = builders.spark_conf(replace(PLAIN, executors=replace(PLAIN.executors, dynamic=(0, 10))), 1)
    allocation = {key: value for key, value in conf.items() if key.startswith("spark.dynamicAllocation.")}
    assert allocation == {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "0",
        "spark.dynamicAllocation.initialExecutors": "0",
        "spark.dynamicAllocation.maxExecutors": "10",
    }
    assert "spark.executor.instances" not in conf
