"""Driver pods for tests of the admission policies, played by requests with tokens that the API server issued for them.

Their executors are pods as Spark makes them from our own template.
"""

from __future__ import annotations

import json
import ssl
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from http.client import HTTPSConnection
from typing import Any

from sparksql.api import names
from sparksql.domain.session.effective_session import DriverSize, EffectiveSession, ExecutorSize
from sparksql.kube.builders import executor_template
from tests.support.apiserver import MERGE_PATCH, ApiServer

IMAGE = "localhost/spark-sql-session:dev"
SESSIONS = "/apis/sparksql.dev/v1alpha1/namespaces/{namespace}/sqlsessions"
ACCOUNT = "spark"
Manifest = dict[str, Any]
Change = Callable[[Manifest], Any]


@dataclass(frozen=True)
class Driver:
    """A driver pod in its namespace, and the answers that the API server gives to its token."""

    server: ApiServer
    session: EffectiveSession
    name: str
    uid: str
    token: str

    @property
    def namespace(self) -> str:
        return self.session.namespace

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

    def executor(self, name: str, change: Change | None = None, **session: Any) -> Manifest:
        """An executor pod as Spark makes it from the template of the session (with `session` changed), then changed."""
        incarnation = self.name.rpartition("-")[2]
        pod = executor_template(replace(self.session, **session), int(incarnation))
        metadata, spec = pod["metadata"], pod["spec"]
        metadata["name"] = name
        metadata["labels"] |= {
            "spark-role": "executor",
            "spark-app-selector": "spark-0123456789abcdef",
            "spark-exec-id": "1",
            "spark-exec-resourceprofile-id": "0",
            names.LABEL_INCARNATION: incarnation,
        }
        owner = {"apiVersion": "v1", "kind": "Pod", "name": self.name, "uid": self.uid, "controller": True}
        metadata["ownerReferences"] = [owner]
        spec["hostname"] = name
        spec["volumes"].append({"name": "spark-local-dir-1", "emptyDir": {}})
        spark = spec["containers"][0]
        spark |= {"image": IMAGE, "imagePullPolicy": "IfNotPresent", "args": ["executor"]}
        spark["ports"] = [{"name": "blockmanager", "containerPort": 7079, "protocol": "TCP"}]
        spark["env"] = [
            {"name": "SPARK_EXECUTOR_POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "SPARK_USER", "value": "spark"},
        ]
        spark["resources"] = {"requests": {"cpu": "1", "memory": "1408Mi"}, "limits": {"memory": "1408Mi"}}
        if change is not None:
            change(pod)
        return pod


def make(server: ApiServer, path: str, body: Manifest) -> Manifest:
    """Creates an object as the administrator and returns it."""
    response = server.request("POST", path, body)
    assert response.status == 201, response.message
    made: Manifest = response.body
    return made


def prepare(server: ApiServer, namespace: str) -> None:
    """The account of the namespace's drivers, bound to their role."""
    core, rbac = f"/api/v1/namespaces/{namespace}", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    make(server, f"{core}/serviceaccounts", {"metadata": {"name": ACCOUNT}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": names.DRIVER_CLUSTER_ROLE}
    subjects = [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}]
    make(server, f"{rbac}/rolebindings", {"metadata": {"name": ACCOUNT}, "roleRef": role, "subjects": subjects})


def start_driver(server: ApiServer, namespace: str, name: str, incarnation: int = 1) -> Driver:
    """A session with its driver pod, as the operator makes both."""
    path = SESSIONS.format(namespace=namespace)
    made = make(
        server, path, {"apiVersion": names.API_VERSION, "kind": "SqlSession", "metadata": {"name": name}, "spec": {}}
    )
    uid = made["metadata"]["uid"]
    pod_name = names.driver_pod_name(name, uid, incarnation)
    status = {"status": {"driver": {"podName": pod_name, "incarnation": incarnation}}}
    written = server.request("PATCH", f"{path}/{name}/status", status, content_type=MERGE_PATCH)
    assert written.status == 200, written.message
    labels = {"app.kubernetes.io/name": names.DRIVER_APP_NAME}
    pod = make(server, f"/api/v1/namespaces/{namespace}/pods", plain_pod(pod_name, ACCOUNT, labels))["metadata"]
    bound = {"apiVersion": "v1", "kind": "Pod", "name": pod["name"], "uid": pod["uid"]}
    token = issue_token(server, namespace, ACCOUNT, {"boundObjectRef": bound})
    return Driver(server, session_of(namespace, name, uid), pod["name"], pod["uid"], token)


def session_of(namespace: str, name: str, uid: str) -> EffectiveSession:
    """What a driver of this name and UID is made from."""
    return EffectiveSession(
        namespace=namespace,
        name=name,
        uid=uid,
        class_name="standard",
        image=IMAGE,
        image_pull_policy="IfNotPresent",
        driver=DriverSize(cpu="1", cores=1, heap_mib=1024, pod_mib=2008),
        executors=ExecutorSize(cpu="1", cores=1, memory_mib=1024),
        conf={},
        enforced_conf={},
        service_account=ACCOUNT,
        create_service_account=True,
    )


def start_pool_driver(server: ApiServer, namespace: str, class_name: str) -> Driver:
    """A class with one driver in its warm pool, as the operator makes both."""
    path = f"/apis/{names.API_VERSION}/sqlsessionclasses"
    body = {"apiVersion": names.API_VERSION, "kind": "SqlSessionClass", "metadata": {"name": class_name}}
    make(server, path, {**body, "spec": {"image": IMAGE}})
    uid, name = str(uuid.uuid4()), names.pool_member_name(class_name)
    pod_name = names.driver_pod_name(name, uid, 1)
    labels = {"app.kubernetes.io/name": names.DRIVER_APP_NAME, names.LABEL_WARM_POOL: class_name}
    pod = make(server, f"/api/v1/namespaces/{namespace}/pods", plain_pod(pod_name, ACCOUNT, labels))["metadata"]
    member = {"namespace": namespace, "uid": uid, "podName": pod_name, "podUID": pod["uid"], "key": "k"}
    status = {"status": {"warmPool": {"ready": 0, "starting": 1, "members": [member]}}}
    written = server.request("PATCH", f"{path}/{class_name}/status", status, content_type=MERGE_PATCH)
    assert written.status == 200, written.message
    bound = {"apiVersion": "v1", "kind": "Pod", "name": pod["name"], "uid": pod["uid"]}
    token = issue_token(server, namespace, ACCOUNT, {"boundObjectRef": bound})
    return Driver(server, session_of(namespace, name, uid), pod["name"], pod["uid"], token)


def plain_pod(name: str, account: str, labels: dict[str, str]) -> Manifest:
    containers = [{"name": "main", "image": IMAGE}]
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"serviceAccountName": account, "containers": containers},
    }


def issue_token(server: ApiServer, namespace: str, account: str, spec: Manifest) -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    made = make(server, path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})
    return str(made["status"]["token"])
