"""Manifests of a session's children: what is ours always holds, what is the template's is never lost."""

from __future__ import annotations

import base64
import copy
from dataclasses import replace
from typing import Any

import pytest

from sparksql.api import names
from sparksql.domain.session.effective_session import EffectiveSession
from sparksql.kube import builders
from sparksql.wire.driver import OpenEndpoints
from tests.unit.kube.effective_sessions import FULL, PLAIN

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
    for child in (build_secret(session), builders.service(session, 3), builders.network_policy(session, "system")):
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
    (OpenEndpoints(), {"https": 8443}),
    (OpenEndpoints(connect=True), {"https": 8443, "connect": 15002}),
    (OpenEndpoints(rest=False, thrift=True), {"thrift": 10000}),
    (OpenEndpoints(rest=False), {}),
]


def test_service_is_headless_and_selects_this_sessions_driver_before_it_is_ready() -> None:
    spec = builders.service(PLAIN, 3)["spec"]
    assert {key: value for key, value in spec.items() if key != "ports"} == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {
            "sparksql.dev/session-uid": PLAIN.uid,
            "app.kubernetes.io/component": "driver",
            "sparksql.dev/incarnation": "3",
        },
    }
    assert spec["ports"][0] == {"name": "https", "port": 8443, "targetPort": 8443, "protocol": "TCP"}


@pytest.mark.parametrize(("endpoints", "client_ports"), ENDPOINTS)
def test_service_and_pod_have_the_ports_of_what_is_on(endpoints: OpenEndpoints, client_ports: dict[str, int]) -> None:
    session = replace(PLAIN, endpoints=endpoints)
    ports = {"https": 8443, **client_ports, **OWN_PORTS}  # the operator's port is there whatever clients may use
    assert {port["name"]: port["port"] for port in builders.service(session, 3)["spec"]["ports"]} == ports
    assert {port["name"]: port["containerPort"] for port in container(driver(session))["ports"]} == ports


def test_network_policy_of_a_session_admits_its_pods_operator_and_clients() -> None:
    own_pods = {"matchLabels": {"sparksql.dev/session-uid": FULL.uid}}
    operator = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "system"}},
        "podSelector": {
            "matchLabels": {
                "app.kubernetes.io/name": "spark-sql-operator",
                "app.kubernetes.io/component": "operator",
            }
        },
    }
    assert builders.network_policy(FULL, "system")["spec"] == {
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


@pytest.mark.parametrize("session", [PLAIN, FULL])
def test_network_policy_admits_no_operator_pod_if_the_operator_runs_in_no_pod(session: EffectiveSession) -> None:
    rules = builders.network_policy(session, None)["spec"]["ingress"]
    assert rules == builders.network_policy(session, "system")["spec"]["ingress"][1:]
    assert all("namespaceSelector" not in peer for rule in rules for peer in rule["from"])


def test_an_operators_peer_without_a_namespace_is_no_peer() -> None:
    with pytest.raises(ValueError, match="namespace is empty"):
        builders.operator_peer("")


@pytest.mark.parametrize("peers", [FULL.network_clients, ()])
@pytest.mark.parametrize(("endpoints", "client_ports"), ENDPOINTS)
def test_clients_of_the_class_reach_what_is_on_and_nothing_else(
    endpoints: OpenEndpoints, client_ports: dict[str, int], peers: tuple[dict[str, Any], ...]
) -> None:
    session = replace(FULL, endpoints=endpoints, network_clients=peers)
    operator = builders.operator_peer("system")
    ingress = builders.network_policy(session, "system")["spec"]["ingress"]
    assert all(rule["from"] for rule in ingress), "a rule without peers lets everybody in"
    reachable = {port["port"] for rule in ingress for port in rule["ports"] if rule["from"] == [*peers]}
    assert reachable == (set(client_ports.values()) if peers else set())
    assert [rule["ports"] for rule in ingress if operator in rule["from"]] == [[{"protocol": "TCP", "port": 8443}]]


def test_the_networks_labels_are_on_driver_and_executors() -> None:
    for pod in (driver(FULL), builders.executor_template(FULL, 3)):
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


def test_spark_conf_of_a_plain_session_is_exactly_this() -> None:
    assert builders.spark_conf(PLAIN, 3) == {
        "spark.app.name": "team-a/analytics",
        "spark.authenticate": "true",
        "spark.authenticate.secret.driver.file": "/etc/sparksql/executor-secret",
        "spark.authenticate.secret.executor.file": "/etc/sparksql-executor/executor-secret",
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
def test_spark_conf_value_is_that_of_the_strongest_layer(key: str, layers: dict[str, str], wins: str) -> None:
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
        "spark.dynamicAllocation.shuffleTracking.timeout": "120s",
    }
    assert "spark.executor.instances" not in conf


@pytest.mark.parametrize(
    ("layers", "wins"),
    [
        ({}, "120s"),
        ({"conf": "900s"}, "900s"),
        ({"conf": "900s", "enforced_conf": "60s"}, "60s"),
    ],
)
def test_executors_with_shuffle_files_are_given_back_after_a_time_that_class_and_session_may_change(
    layers: dict[str, str], wins: str
) -> None:
    key = "spark.dynamicAllocation.shuffleTracking.timeout"
    said = {layer: {key: value} for layer, value in layers.items()}
    dynamic = replace(PLAIN, executors=replace(PLAIN.executors, dynamic=(0, 10)))
    assert builders.spark_conf(replace(dynamic, **said), 1)[key] == wins
    assert key not in builders.spark_conf(PLAIN, 1)
