"""What the chart renders: identities, rights, restricted pods, resource definitions, and what its schema refuses."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
import yaml

from sparksql.front.config import load as load_front
from tests.chart.helmchart import CHART, OBJECT_STORE, ROOT, Rendered, helm, render, set_flags

NAME = "sso-spark-sql-operator"
FRONT = "spark-sql-front"
WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "Pod")

Rule = tuple[str, str, str, frozenset[str]]  # group, resource, resource name, verbs


def verbs(text: str) -> frozenset[str]:
    return frozenset(text.split())


NAMESPACED_RIGHTS: set[Rule] = {
    ("sparksql.dev", "sqlsessions", "", verbs("get list watch patch create delete")),
    ("sparksql.dev", "sqlstatements", "", verbs("get list watch patch delete")),
    ("sparksql.dev", "sqlsavepoints", "", verbs("get list watch patch create delete")),
    ("sparksql.dev", "sqlsessions/status", "", verbs("patch")),
    ("sparksql.dev", "sqlstatements/status", "", verbs("patch")),
    ("sparksql.dev", "sqlsavepoints/status", "", verbs("patch")),
    ("sparksql.dev", "sqlsessions/finalizers", "", verbs("update")),
    ("sparksql.dev", "sqlstatements/finalizers", "", verbs("update")),
    ("", "pods", "", verbs("get list watch create delete patch")),
    ("", "secrets", "", verbs("get create patch delete")),
    ("", "configmaps", "", verbs("get")),
    ("", "services", "", verbs("get create patch delete")),
    ("networking.k8s.io", "networkpolicies", "", verbs("get create patch delete")),
    ("", "persistentvolumeclaims", "", verbs("get")),
    ("batch", "jobs", "", verbs("get create delete")),
    ("", "serviceaccounts", "", verbs("get create")),
    ("rbac.authorization.k8s.io", "rolebindings", "", verbs("get create")),
    ("rbac.authorization.k8s.io", "clusterroles", "spark-sql-driver", verbs("bind")),
    ("", "events", "", verbs("create patch list")),
}
CLUSTER_RIGHTS: set[Rule] = {
    ("sparksql.dev", "sqlsessionclasses", "", verbs("get list watch")),
    ("sparksql.dev", "sqlsessionclasses/status", "", verbs("patch")),
    ("", "namespaces", "", verbs("get list watch")),
}
LEADER_RIGHTS: set[Rule] = {
    ("coordination.k8s.io", "leases", "", verbs("create")),
    ("coordination.k8s.io", "leases", NAME, verbs("get update")),
}
FRONT_SECRET_RIGHTS: set[Rule] = {("", "secrets", "", verbs("create")), ("", "secrets", FRONT, verbs("get"))}
FRONT_RIGHTS: set[Rule] = {
    ("authentication.k8s.io", "tokenreviews", "", verbs("create")),
    ("authorization.k8s.io", "subjectaccessreviews", "", verbs("create")),
    ("sparksql.dev", "sqlsessions", "", verbs("get list watch create patch delete")),
    ("sparksql.dev", "sqlsessionclasses", "", verbs("get list watch")),
}
FRONT_LEASE_RIGHTS: set[Rule] = {("coordination.k8s.io", "leases", "", verbs("get create update"))}
DRIVER_RIGHTS: set[Rule] = {
    ("", "pods", "", verbs("create get list watch patch delete deletecollection")),
    ("policy.sparksql.dev", "executors", "", verbs("launch")),
}


def rights(role: dict[str, Any]) -> set[Rule]:
    """Rules of a role, one per group, resource and name, with the verbs of several rules joined."""
    joined: dict[tuple[str, str, str], set[str]] = {}
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for name in rule.get("resourceNames", [""]):
                    joined.setdefault((group, resource, name), set()).update(rule["verbs"])
    return {(*key, frozenset(value)) for key, value in joined.items()}


def pod_templates(rendered: Rendered) -> dict[str, dict[str, Any]]:
    """Pod templates by the name of their workload."""
    return {
        each["metadata"]["name"]: each["spec"]["template"] for each in rendered.objects if each["kind"] in WORKLOADS
    }


def operator_config(rendered: Rendered) -> dict[str, Any]:
    return json.loads(rendered.one("ConfigMap", NAME)["data"]["config.yaml"])


def test_lint_accepts_the_default_values() -> None:
    result = helm("lint", str(CHART), "--strict")
    assert result.returncode == 0, result.stdout + result.stderr


def test_only_operator_pods_carry_the_operator_labels(rendered_demo: Rendered) -> None:
    names = {
        name: (
            template["metadata"]["labels"]["app.kubernetes.io/name"],
            template["metadata"]["labels"]["app.kubernetes.io/component"],
        )
        for name, template in pod_templates(rendered_demo).items()
    }
    assert names == {
        NAME: ("spark-sql-operator", "operator"),
        f"{NAME}-metastore": ("spark-sql-metastore", "metastore"),
        f"{NAME}-objectstore": ("spark-sql-objectstore", "objectstore"),
        FRONT: ("spark-sql-front", "front"),
    }


def test_user_labels_cannot_replace_the_operator_labels() -> None:
    template = pod_templates(render("podLabels.app\\.kubernetes\\.io/component=other", "podLabels.team=data"))[NAME]
    assert template["metadata"]["labels"]["team"] == "data"
    assert template["metadata"]["labels"]["app.kubernetes.io/component"] == "operator"


def test_every_pod_is_restricted_and_sized(rendered_demo: Rendered) -> None:
    for name, template in pod_templates(rendered_demo).items():
        spec = template["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert all("hostPath" not in volume for volume in spec["volumes"]), name
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, name
            assert {"requests", "limits"} <= container["resources"].keys(), name


def test_only_operator_and_front_get_a_token(rendered_demo: Rendered) -> None:
    automount = {
        n: t["spec"].get("automountServiceAccountToken", True) for n, t in pod_templates(rendered_demo).items()
    }
    assert automount == {NAME: True, FRONT: True, f"{NAME}-metastore": False, f"{NAME}-objectstore": False}


def test_the_operator_has_these_rights_and_no_more(rendered: Rendered) -> None:
    assert rights(rendered.one("ClusterRole", NAME)) == CLUSTER_RIGHTS | NAMESPACED_RIGHTS
    assert rights(rendered.one("Role", f"{NAME}-leader")) == LEADER_RIGHTS
    assert rights(rendered.one("Role", f"{NAME}-front")) == FRONT_SECRET_RIGHTS
    roles = {each["metadata"]["name"] for each in rendered.of_kind("Role")}
    assert roles == {f"{NAME}-leader", f"{NAME}-front", f"{FRONT}-users"}


def test_the_front_has_these_rights_and_no_more(rendered: Rendered) -> None:
    assert rights(rendered.one("ClusterRole", FRONT)) == FRONT_RIGHTS
    assert rights(rendered.one("Role", f"{FRONT}-users")) == FRONT_LEASE_RIGHTS


def test_the_front_can_be_left_out() -> None:
    without = render("front.enabled=false")
    assert FRONT not in pod_templates(without)
    assert not [each for each in without.objects if "front" in each["metadata"]["name"]]


def test_the_front_accepts_its_configuration(rendered: Rendered, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(rendered.one("ConfigMap", FRONT)["data"]["config.yaml"])
    assert load_front(str(file)).hold_seconds == 180


def test_a_namespace_list_narrows_the_rights_to_these_namespaces() -> None:
    narrowed = render("operator.watchNamespaces={team-a,team-b}")
    assert rights(narrowed.one("ClusterRole", NAME)) == CLUSTER_RIGHTS
    roles = {
        role["metadata"]["namespace"]: rights(role)
        for role in narrowed.of_kind("Role")
        if role["metadata"]["name"] == NAME
    }
    assert roles == {"team-a": NAMESPACED_RIGHTS, "team-b": NAMESPACED_RIGHTS}
    assert operator_config(narrowed)["watchNamespaces"] == ["team-a", "team-b"]


def test_drivers_have_these_rights_and_no_more(rendered: Rendered) -> None:
    assert rights(rendered.one("ClusterRole", "spark-sql-driver")) == DRIVER_RIGHTS


def test_user_roles_never_reach_a_status(rendered: Rendered) -> None:
    for role in ("view", "edit"):
        found = rights(rendered.one("ClusterRole", f"{NAME}-{role}"))
        assert {resource for _, resource, _, _ in found} == {"sqlsessions", "sqlstatements", "sqlsavepoints"}
    labels = rendered.one("ClusterRole", f"{NAME}-view")["metadata"]["labels"]
    assert labels["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    edit = rendered.one("ClusterRole", f"{NAME}-edit")["metadata"]["labels"]
    assert "rbac.authorization.k8s.io/aggregate-to-view" not in edit


def test_resource_definitions_are_copies_and_are_kept(rendered: Rendered) -> None:
    check = subprocess.run(
        [sys.executable, str(ROOT / "charts" / "sync_crds.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert check.returncode == 0, check.stderr
    originals = {
        crd["metadata"]["name"]: crd
        for crd in (yaml.safe_load(path.read_text()) for path in (ROOT / "crds").glob("*.yaml"))
    }
    shown = {each["metadata"]["name"]: each for each in rendered.of_kind("CustomResourceDefinition")}
    assert {name: each["spec"] for name, each in shown.items()} == {
        name: each["spec"] for name, each in originals.items()
    }
    assert {each["metadata"]["annotations"]["helm.sh/resource-policy"] for each in shown.values()} == {"keep"}


def test_resource_definitions_can_be_left_out_or_not_kept() -> None:
    assert render("crds.enabled=false").of_kind("CustomResourceDefinition") == []
    for each in render("crds.keep=false").of_kind("CustomResourceDefinition"):
        assert "helm.sh/resource-policy" not in each["metadata"].get("annotations", {})


def test_the_operator_accepts_its_configuration(rendered: Rendered) -> None:
    config = operator_config(rendered)
    assert config["lease"] == {"name": NAME, "namespace": "sys"}
    assert config["deadlines"]["schedulingSeconds"] == 300
    assert config["limits"] == {"sessions": 0}
    assert config["defaults"]["idle"] == {"timeoutSeconds": 300, "action": "Hibernate", "restoreState": False}
    assert config["watchNamespaces"] == []


def test_a_changed_configuration_restarts_the_operator(rendered: Rendered) -> None:
    def checksum(of: Rendered) -> str:
        return pod_templates(of)[NAME]["metadata"]["annotations"]["checksum/config"]

    assert checksum(render("operator.workers=3")) != checksum(rendered)
    assert checksum(render("replicaCount=2")) == checksum(rendered)


def test_no_default_class_without_storage(rendered: Rendered) -> None:
    assert rendered.of_kind("SqlSessionClass") == []


def test_the_default_class_knows_metastore_and_object_store(rendered_demo: Rendered) -> None:
    default = rendered_demo.one("SqlSessionClass", "standard")
    assert default["metadata"]["annotations"]["sparksql.dev/is-default-class"] == "true"
    spec = default["spec"]
    conf = spec["defaults"]["conf"]
    assert spec["defaults"]["driver"] == {"cpu": "100m", "memory": "1Gi"}
    assert conf["spark.sql.catalogImplementation"] == "hive"
    assert conf["spark.hadoop.hive.metastore.uris"] == f"thrift://{NAME}-metastore.sys.svc:9083"
    assert conf["spark.hadoop.fs.s3a.endpoint"] == f"http://{NAME}-objectstore.sys.svc:7070"
    assert conf["spark.sql.catalog.spark_catalog.cache-enabled"] == "false"
    assert spec["defaults"]["database"] == "{namespace}"
    assert spec["storage"] == {
        "warehouse": "s3a://warehouse/tables",
        "checkpointRoot": "s3a://warehouse/checkpoints",
        "savepointRoot": "s3a://warehouse/savepoints",
        "resultRoot": "s3a://warehouse/results",
    }


def test_the_metastore_has_a_pool_of_connections_that_spark_brings(rendered_demo: Rendered) -> None:
    """Hive's default is not there: its listener would fail in each DROP DATABASE, and the client would drop once more."""
    chart = rendered_demo.one("Secret", f"{NAME}-metastore")["stringData"]["hive-site.xml"]
    image = (ROOT / "images" / "session" / "conf" / "metastore" / "hive-site.xml").read_text()
    for site in (chart, image):
        values = {each.findtext("name"): each.findtext("value") for each in ElementTree.fromstring(site)}
        assert values["datanucleus.connectionPoolingType"] == "HikariCP"


def test_own_storage_and_metastore_are_used_instead() -> None:
    own = render(
        "defaultClass.storage.warehouse=s3a://lake/tables", "metastore.externalUris=thrift://hms.data.svc:9083"
    )
    spec = own.one("SqlSessionClass", "standard")["spec"]
    assert spec["storage"]["warehouse"] == "s3a://lake/tables"
    assert spec["defaults"]["conf"]["spark.hadoop.hive.metastore.uris"] == "thrift://hms.data.svc:9083"
    assert {*pod_templates(own)} == {NAME, FRONT}


@pytest.mark.parametrize(
    ("warehouse", "parent"),
    [
        ("s3a://lake/tables", "s3a://lake"),
        ("s3a://lake/prod/tables/", "s3a://lake/prod"),
        ("s3a://lake", "s3a://lake"),
        ("s3a://lake/", "s3a://lake"),
        ("hdfs://name:8020/warehouse", "hdfs://name:8020"),
        ("file:///data/warehouse", "file:///data"),
    ],
)
def test_default_class_with_a_warehouse_alone_has_the_other_roots_beside_it(warehouse: str, parent: str) -> None:
    storage = render(f"defaultClass.storage.warehouse={warehouse}").one("SqlSessionClass", "standard")["spec"][
        "storage"
    ]
    assert storage == {
        "warehouse": warehouse,
        "checkpointRoot": f"{parent}/checkpoints",
        "savepointRoot": f"{parent}/savepoints",
        "resultRoot": f"{parent}/results",
    }


def test_default_class_keeps_a_given_root_beside_derived_ones() -> None:
    own = render("defaultClass.storage.warehouse=s3a://lake/tables", "defaultClass.storage.resultRoot=s3a://scratch/r")
    storage = own.one("SqlSessionClass", "standard")["spec"]["storage"]
    assert (storage["resultRoot"], storage["checkpointRoot"]) == ("s3a://scratch/r", "s3a://lake/checkpoints")


def test_image_without_a_tag_has_the_version_of_the_chart() -> None:
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    repositories = (
        "image.repository=r.example/operator", "sessionImage.repository=r.example/session",
        "objectStore.image.repository=r.example/store",
    )  # fmt: skip
    result = helm("template", "sso", str(CHART), *set_flags((*OBJECT_STORE, *repositories)))
    assert result.returncode == 0, result.stderr
    assert f"image: r.example/operator:{version}" in result.stdout.replace('"', "")
    assert f"image: r.example/session:{version}" in result.stdout.replace('"', "")
    assert ":dev" not in result.stdout


@pytest.mark.parametrize(
    ("component", "clients"),
    [
        ("objectstore", {"spark-sql-session", "spark-sql-executor", "spark-sql-cleaner", "spark-sql-metastore"}),
        ("metastore", {"spark-sql-session", "spark-sql-executor"}),
    ],
)
def test_storage_and_metastore_admit_these_pods_only(
    rendered_demo: Rendered, component: str, clients: set[str]
) -> None:
    [rule] = rendered_demo.one("NetworkPolicy", f"{NAME}-{component}")["spec"]["ingress"]
    [peer] = rule["from"]
    [expression] = peer["podSelector"]["matchExpressions"]
    assert (expression["key"], expression["operator"]) == ("app.kubernetes.io/name", "In")
    assert set(expression["values"]) == clients


@pytest.mark.parametrize("component", ["objectstore", "metastore"])
def test_storage_and_metastore_admit_pods_of_the_watched_namespaces_only(
    rendered_demo: Rendered, component: str
) -> None:
    def namespaces(chart: Rendered) -> dict[str, object]:
        [rule] = chart.one("NetworkPolicy", f"{NAME}-{component}")["spec"]["ingress"]
        [peer] = rule["from"]
        selector: dict[str, object] = peer["namespaceSelector"]
        return selector

    assert namespaces(rendered_demo) == {}
    listed = render(*OBJECT_STORE, "operator.watchNamespaces={team-a,team-b}")
    among = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["team-a", "team-b", "sys"]}
    assert namespaces(listed) == {"matchExpressions": [among]}


def test_hadoop_files_escape_their_values() -> None:
    secret = render(*OBJECT_STORE[:2], 'objectStore.secretKey=a<b&"c').one("Secret", f"{NAME}-metastore")
    assert "<value>a&lt;b&amp;&#34;c</value>" in secret["stringData"]["core-site.xml"]


def test_the_admission_policy_can_be_left_out() -> None:
    assert render("admissionPolicy.enabled=false").of_kind("ValidatingAdmissionPolicy") == []


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("replicaCount=many", "/replicaCount"),
        ("unknown=1", "additional properties 'unknown' not allowed"),
        ("operator.unknown=1", "additional properties 'unknown' not allowed"),
        ("image.digest=latest", "/image/digest"),
        ("image.pullPolicy=Sometimes", "/image/pullPolicy"),
        ("operator.logLevel=loud", "/operator/logLevel"),
        ("operator.watchNamespaces={A_B}", "/operator/watchNamespaces/0"),
        ("operator.deadlines.schedulingSeconds=0", "/operator/deadlines/schedulingSeconds"),
        ("operator.limits.sessions=-1", "/operator/limits/sessions"),
        ("defaultClass.defaults.idle.action=Sleep", "/defaultClass/defaults/idle/action"),
        ("defaultClass.storage.warehouse=relative/path", "/defaultClass/storage/warehouse"),
        ("metastore.externalUris=http://hms", "/metastore/externalUris"),
        ("objectStore.buckets={A}", "/objectStore/buckets/0"),
        ("admissionPolicy.executorImages={a'b}", "/admissionPolicy/executorImages/0"),
    ],
)
def test_schema_of_the_chart_refuses_wrong_values(value: str, complaint: str) -> None:
    result = helm("template", "sso", str(CHART), *set_flags((value,)))
    assert result.returncode != 0, result.stdout[:500]
    assert complaint in result.stderr


def test_the_object_store_pod_is_told_the_names_of_its_buckets() -> None:
    template = pod_templates(render(*OBJECT_STORE, "objectStore.buckets={warehouse,tpch}"))[f"{NAME}-objectstore"]
    environment = {each["name"]: each.get("value") for each in template["spec"]["containers"][0]["env"]}
    assert environment["BUCKETS"] == "warehouse tpch"


@pytest.mark.parametrize("changed", ["objectStore.accessKey=other", "objectStore.secretKey=other"])
def test_changed_object_store_keys_restart_object_store_and_metastore(changed: str) -> None:
    before, after = pod_templates(render(*OBJECT_STORE)), pod_templates(render(*OBJECT_STORE, changed))
    for name in (f"{NAME}-objectstore", f"{NAME}-metastore"):
        assert before[name]["metadata"]["annotations"] != after[name]["metadata"]["annotations"], name


def test_an_object_store_without_access_key_does_not_render() -> None:
    result = helm("template", "sso", str(CHART), "--set", "objectStore.enabled=true")
    assert result.returncode != 0
    assert "objectStore.accessKey is required" in result.stderr


def test_every_value_of_the_chart_is_described() -> None:
    """The schema has a property with a description for each default value, down to free-form maps."""
    schema = json.loads((CHART / "values.schema.json").read_text())

    def undescribed(values: dict[str, Any], node: dict[str, Any], path: str) -> list[str]:
        if "$ref" in node:
            node = schema["$defs"][node["$ref"].removeprefix("#/$defs/")]
        properties = node.get("properties")
        if properties is None:
            return []
        missing = [f"{path}.{key}" for key in values if not properties.get(key, {}).get("description")]
        for key, value in values.items():
            if isinstance(value, dict) and key in properties:
                missing += undescribed(value, properties[key], f"{path}.{key}")
        return missing

    assert undescribed(yaml.safe_load((CHART / "values.yaml").read_text()), schema, "") == []
