"""The chart on a real API server: install and upgrade, and what the admission policy lets a driver do.

Drivers are played by requests with tokens that the API server issued for a driver's pod, as the kubelet would
mount them.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPSConnection
from typing import Any

import pytest
import yaml
from apiserver import MERGE_PATCH, ApiServer
from helmchart import CHART, OBJECT_STORE, helm, release, set_flags

from sparksql.api.session_class import SqlSessionClassSpec
from sparksql.kube.builders import Cleaning, cleaner_job

CLASS_PATH = "/apis/sparksql.dev/v1alpha1/sqlsessionclasses/standard"
IMAGE = "localhost/spark-sql-session:dev"
Manifest = dict[str, Any]
Change = Callable[[Manifest], Any]


@dataclass(frozen=True)
class Driver:
    """A driver pod in its namespace, and the answers that the API server gives to its token."""

    server: ApiServer
    namespace: str
    name: str
    uid: str
    token: str

    def request(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json", token: str = ""
    ) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {token or self.token}", "Content-Type": content_type}
        context = ssl.create_default_context(cafile=str(self.server.ca_file))  # without the administrator's certificate
        connection = HTTPSConnection(self.server.url.removeprefix("https://"), context=context, timeout=60)
        try:
            connection.request(
                method,
                f"/api/v1/namespaces/{self.namespace}/{path}",
                None if body is None else json.dumps(body),
                headers,
            )
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def executor(self, name: str, change: Change | None = None) -> Manifest:
        """An executor pod as Spark makes it, then changed."""
        pod: Manifest = {
            "metadata": {
                "name": name,
                "labels": {"spark-role": "executor", "app.kubernetes.io/name": "spark-sql-executor"},
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Pod", "name": self.name, "uid": self.uid, "controller": True}
                ],
            },
            "spec": {
                "serviceAccountName": "spark",
                "automountServiceAccountToken": False,
                "restartPolicy": "Never",
                "containers": [
                    {
                        "name": "spark",
                        "image": IMAGE,
                        "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
                    }
                ],
                "volumes": [
                    {"name": "local", "emptyDir": {}},
                    {"name": "conf", "configMap": {"name": "spark-exec-conf-map"}},
                ],
            },
        }
        if change is not None:
            change(pod)
        return pod


def make(server: ApiServer, path: str, body: Manifest) -> Manifest:
    """Creates an object as the administrator and returns it."""
    response = server.request("POST", path, body)
    assert response.status == 201, response.message
    return response.body


def pod(name: str, account: str, labels: dict[str, str]) -> Manifest:
    containers = [{"name": "main", "image": IMAGE}]
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"serviceAccountName": account, "containers": containers},
    }


@pytest.fixture
def driver(installed: ApiServer) -> Driver:
    """The driver `driver` beside another one, `neighbour`, whose account is the same."""
    namespace = installed.namespace("tenant")
    core, rbac = f"/api/v1/namespaces/{namespace}", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    make(installed, f"{core}/serviceaccounts", {"metadata": {"name": "spark"}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "spark-sql-driver"}
    subjects = [{"kind": "ServiceAccount", "name": "spark", "namespace": namespace}]
    make(installed, f"{rbac}/rolebindings", {"metadata": {"name": "spark"}, "roleRef": role, "subjects": subjects})
    labels = {"app.kubernetes.io/name": "spark-sql-session"}
    made = make(installed, f"{core}/pods", pod("driver", "spark", labels))["metadata"]
    make(installed, f"{core}/pods", pod("neighbour", "spark", labels))
    bound = {"apiVersion": "v1", "kind": "Pod", "name": made["name"], "uid": made["uid"]}
    return Driver(
        installed,
        namespace,
        made["name"],
        made["uid"],
        issue_token(installed, namespace, "spark", {"boundObjectRef": bound}),
    )


def issue_token(server: ApiServer, namespace: str, account: str, spec: Manifest) -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    return make(server, path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})[
        "status"
    ]["token"]


def container(manifest: Manifest) -> Manifest:
    return manifest["spec"]["containers"][0]


def volume(**source: Any) -> Change:
    return lambda p: p["spec"]["volumes"].append({"name": "more", **source})


FORBIDDEN_EXECUTORS: dict[str, tuple[Change, str]] = {
    "no role label": (lambda p: p["metadata"]["labels"].pop("spark-role"), "executor pods only"),
    "no labels": (lambda p: p["metadata"].pop("labels"), "executor pods only"),
    "no owner": (lambda p: p["metadata"].pop("ownerReferences"), "its own executor pods only"),
    "another owner": (
        lambda p: p["metadata"]["ownerReferences"][0].update(name="neighbour"),
        "its own executor pods only",
    ),
    "a driver's name label": (
        lambda p: p["metadata"]["labels"].update({"app.kubernetes.io/name": "spark-sql-session"}),
        "name label of another component",
    ),
    "a token": (lambda p: p["spec"].pop("automountServiceAccountToken"), "automountServiceAccountToken"),
    "another account": (lambda p: p["spec"].update(serviceAccountName="admin"), "no service account but its driver's"),
    "a Secret volume": (volume(secret={"secretName": "s"}), "volumes only"),
    "a projected volume": (volume(projected={"sources": []}), "volumes only"),
    "a hostPath volume": (volume(hostPath={"path": "/"}), "volumes only"),
    "a Secret in its environment": (
        lambda p: container(p)["env"].append({"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}),
        "may read no Secret",
    ),
    "a Secret as its environment": (
        lambda p: container(p).update(envFrom=[{"secretRef": {"name": "s"}}]),
        "may read no Secret",
    ),
    "the node's network": (lambda p: p["spec"].update(hostNetwork=True), "node's namespaces"),
    "a node by name": (lambda p: p["spec"].update(nodeName="node"), "node's namespaces"),
    "another image": (lambda p: container(p).update(image="other"), "session image only"),
    "another image at its start": (
        lambda p: p["spec"].update(initContainers=[{"name": "init", "image": "other"}]),
        "session image only",
    ),
}


def test_an_upgrade_takes_over_the_default_class(installed: ApiServer) -> None:
    """The first install makes the class as a hook, since Helm did not know the kind; it must stay the same object."""
    before = installed.request("GET", CLASS_PATH)
    assert before.status == 200, before.message
    release(installed.kubeconfig, "defaultClass.description=changed")
    after = installed.request("GET", CLASS_PATH).body
    assert after["metadata"]["uid"] == before.body["metadata"]["uid"]
    assert after["spec"]["description"] == "changed"
    assert "helm.sh/hook" not in after["metadata"]["annotations"]


def test_the_default_class_fits_its_definition(installed: ApiServer) -> None:
    """Nothing that the chart writes is pruned by the API server."""
    result = helm(
        "template", "sso", str(CHART), "--show-only", "templates/default-class.yaml", *set_flags(OBJECT_STORE)
    )
    assert result.returncode == 0, result.stderr
    path = "/apis/sparksql.dev/v1alpha1/sqlsessionclasses?dryRun=All&fieldValidation=Strict"
    text = result.stdout.replace("name: standard", "name: strict", 1)
    response = installed.request("POST", path, text_to_manifest(text))
    assert response.status == 201, response.message


def text_to_manifest(text: str) -> Manifest:
    return next(each for each in yaml.safe_load_all(text) if each)


def test_a_driver_makes_labels_and_removes_its_executors(driver: Driver) -> None:
    assert driver.request("POST", "pods", driver.executor("exec-1"))[0] == 201
    assert driver.request("POST", "pods", driver.executor("exec-2"))[0] == 201
    patch = {"metadata": {"labels": {"spark-exec-inactive": "true"}}}
    assert driver.request("PATCH", "pods/exec-1", patch, MERGE_PATCH)[0] == 200
    assert driver.request("DELETE", "pods/exec-1")[0] == 200
    assert driver.request("DELETE", "pods?labelSelector=spark-role%3Dexecutor")[0] == 200


@pytest.mark.parametrize("what", FORBIDDEN_EXECUTORS)
def test_a_driver_cannot_make_a_pod_with(driver: Driver, what: str) -> None:
    change, complaint = FORBIDDEN_EXECUTORS[what]
    status, answer = driver.request("POST", "pods", driver.executor("exec-1", change))
    assert status == 422, answer
    assert complaint in answer


@pytest.mark.parametrize(
    ("pod_name", "patch", "complaint"),
    [
        ("neighbour", {"metadata": {"labels": {"spark-role": "executor"}}}, "its own executor pods only"),
        (
            "exec-1",
            {"metadata": {"labels": {"app.kubernetes.io/name": "spark-sql-operator"}}},
            "name label of another component",
        ),
        ("exec-1", {"spec": {"activeDeadlineSeconds": 1}}, "nothing else"),
    ],
)
def test_a_driver_cannot_change(driver: Driver, pod_name: str, patch: Manifest, complaint: str) -> None:
    assert driver.request("POST", "pods", driver.executor("exec-1"))[0] == 201
    status, answer = driver.request("PATCH", f"pods/{pod_name}", patch, MERGE_PATCH)
    assert status == 422, answer
    assert complaint in answer


def test_a_driver_cannot_take_over_another_pod(driver: Driver) -> None:
    disguise = {"metadata": {key: driver.executor("x")["metadata"][key] for key in ("labels", "ownerReferences")}}
    status, answer = driver.request("PATCH", "pods/neighbour", disguise, MERGE_PATCH)
    assert status == 422, answer
    assert "nothing else" in answer


@pytest.mark.parametrize("path", ["pods/neighbour", "pods"])
def test_a_driver_cannot_remove_other_pods(driver: Driver, path: str) -> None:
    status, answer = driver.request("DELETE", path)
    assert status == 422, answer
    assert driver.server.request("GET", f"/api/v1/namespaces/{driver.namespace}/pods/neighbour").status == 200


@pytest.mark.parametrize("path", ["secrets/any", "secrets", "configmaps", "services", "pods/driver/exec"])
def test_a_driver_cannot_read(driver: Driver, path: str) -> None:
    assert driver.request("GET", path)[0] == 403


def test_a_token_outside_the_driver_pod_is_of_no_use(driver: Driver) -> None:
    loose = issue_token(driver.server, driver.namespace, "spark", {})
    status, answer = driver.request("POST", "pods", driver.executor("exec-1"), token=loose)
    assert status == 422, answer
    assert "only by its pod" in answer


def test_administrators_are_not_taken_for_drivers(driver: Driver) -> None:
    namespace = driver.namespace
    make(driver.server, f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "admin"}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subjects = [{"kind": "ServiceAccount", "name": "admin", "namespace": namespace}]
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings"
    make(driver.server, path, {"metadata": {"name": "admin"}, "roleRef": role, "subjects": subjects})
    token = issue_token(driver.server, namespace, "admin", {})
    status, answer = driver.request("POST", "pods", pod("any", "admin", {}), token=token)
    assert status == 201, answer


def test_a_clean_up_job_and_its_pod_are_admitted_under_a_drivers_account(driver: Driver) -> None:
    """Also where only restricted pods are: what the Job's controller is refused, it tries in vain until the deadline."""
    server, core = driver.server, f"/api/v1/namespaces/{driver.namespace}"
    restricted = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    labelled = server.request("PATCH", core, restricted, content_type=MERGE_PATCH)
    assert labelled.status == 200, labelled.message
    place, klass = ("s3a://lake/s/a", "s3a://lake/s"), SqlSessionClassSpec(image=IMAGE)
    job = cleaner_job(Cleaning(driver.namespace, "before-release", "uid-1", *place, "spark", klass))
    make(server, f"/apis/batch/v1/namespaces/{driver.namespace}/jobs?dryRun=All&fieldValidation=Strict", job)
    template = job["spec"]["template"]
    body = {"metadata": {**template["metadata"], "name": "before-release-pod"}, "spec": template["spec"]}
    made = server.request("POST", f"{core}/pods", body, user="system:serviceaccount:kube-system:job-controller")
    assert made.status == 201, made.message
