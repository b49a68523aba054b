"""Rights: what is not granted is refused, by RBAC and by the admission policy, to the real service accounts."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.support.cluster_view import ApiFailure, Object
from tests.support.harness import OPERATOR_NAMESPACE, Cluster, Space

OPERATOR = f"system:serviceaccount:{OPERATOR_NAMESPACE}:spark-sql-operator"
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
EXECUTORS = "spark-role=executor"


def may(cluster: Cluster, user: str, verb: str, resource: str, namespace: str, name: str = "") -> bool:
    """`kubectl auth can-i` for `user`; a resource is `resource.group/subresource`."""
    plural, _, subresource = resource.partition("/")
    plural, _, group = plural.partition(".")
    attributes = {
        "verb": verb, "resource": plural, "group": group, "subresource": subresource, "namespace": namespace, "name": name,
    }  # fmt: skip
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{user.split(':')[2]}", "system:authenticated"]
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "groups": groups, "resourceAttributes": attributes},
    }
    answer = cluster.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    allowed: bool = answer["status"]["allowed"]
    return allowed


@pytest.mark.parametrize(
    ("verb", "resource"),
    [
        ("list", "secrets"),
        ("watch", "secrets"),
        ("list", "configmaps"),
        ("create", "pods/exec"),
        ("get", "pods/log"),
        ("update", "pods"),
        ("delete", "namespaces"),
        ("get", "nodes"),
        ("update", "sqlstatements.sparksql.dev"),
        ("create", "sqlstatements.sparksql.dev"),
        ("delete", "serviceaccounts"),
        ("create", "serviceaccounts/token"),
        ("create", "clusterroles.rbac.authorization.k8s.io"),
        ("create", "clusterrolebindings.rbac.authorization.k8s.io"),
        ("escalate", "clusterroles.rbac.authorization.k8s.io"),
        ("update", "customresourcedefinitions.apiextensions.k8s.io"),
        ("create", "deployments.apps"),
        ("impersonate", "users"),
    ],
)
def test_operator_may_not_touch_what_it_does_not_need(cluster: Cluster, verb: str, resource: str) -> None:
    assert not may(cluster, OPERATOR, verb, resource, "default")


def test_the_operator_may_bind_one_role_only(cluster: Cluster) -> None:
    roles = "clusterroles.rbac.authorization.k8s.io"
    assert may(cluster, OPERATOR, "bind", roles, "", "spark-sql-driver")
    assert not may(cluster, OPERATOR, "bind", roles, "", "cluster-admin")
    assert not may(cluster, OPERATOR, "bind", roles, "", "edit")
    assert may(cluster, OPERATOR, "create", "pods", "default")  # the question itself is asked rightly


@pytest.mark.parametrize(
    ("verb", "resource"),
    [
        ("get", "secrets"),
        ("get", "configmaps"),
        ("create", "configmaps"),
        ("create", "services"),
        ("create", "persistentvolumeclaims"),
        ("create", "pods/exec"),
        ("get", "pods/log"),
        ("update", "pods"),
        ("get", "sqlsessions.sparksql.dev"),
        ("list", "sqlstatements.sparksql.dev"),
        ("create", "sqlstatements.sparksql.dev"),
        ("patch", "sqlstatements.sparksql.dev/status"),
        ("create", "rolebindings.rbac.authorization.k8s.io"),
        ("create", "serviceaccounts/token"),
    ],
)
def test_driver_account_may_not_touch_what_it_does_not_need(main: Space, verb: str, resource: str) -> None:
    assert not may(main.cluster, f"system:serviceaccount:{main.name}:spark", verb, resource, main.name)


def test_a_driver_account_may_create_pods_in_its_own_namespace_only(main: Space) -> None:
    user = f"system:serviceaccount:{main.name}:spark"
    assert may(main.cluster, user, "create", "pods", main.name)
    for namespace in ("default", OPERATOR_NAMESPACE):
        assert not may(main.cluster, user, "create", "pods", namespace)
        assert not may(main.cluster, user, "get", "pods", namespace)


# --- real requests with the token that is mounted in a driver


@pytest.fixture(scope="module")
def driver(main: Space) -> Cluster:
    """The API server as the driver of `main` sees it."""
    assert main.rows("SELECT count(*) FROM range(0, 10, 1, 2)") == [["10"]]  # it has an executor
    token = main.cluster.kubectl("exec", "-n", main.name, main.driver_pod(), "--", "cat", TOKEN)
    return Cluster(main.cluster.kubeconfig, token=token.strip())


@pytest.fixture(scope="module")
def executor(main: Space, driver: Cluster) -> Object:
    """An executor pod as the driver makes it."""
    pod = main.cluster.list("Pod", main.name, EXECUTORS)[0]
    metadata = {key: pod["metadata"][key] for key in ("namespace", "labels", "ownerReferences")}
    spec = {key: value for key, value in pod["spec"].items() if key not in ("nodeName", "tolerations", "priority")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "name": "by-hand"}, "spec": spec}


def try_to_create(driver: Cluster, pod: Object) -> None:
    """A dry run: everything but the storing happens."""
    namespace = pod["metadata"]["namespace"]
    driver.request("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)


def refusal(driver: Cluster, method: str, path: str, body: object = None) -> ApiFailure:
    with pytest.raises(ApiFailure) as caught:
        driver.request(method, path, body)
    return caught.value


def test_an_executor_pod_is_accepted(driver: Cluster, executor: Object) -> None:
    try_to_create(driver, executor)


def with_secret_volume(pod: Object) -> None:
    pod["spec"]["volumes"].append({"name": "stolen", "secret": {"secretName": "any"}})


def with_projected_token(pod: Object) -> None:
    sources = [{"serviceAccountToken": {"path": "token"}}]
    pod["spec"]["volumes"].append({"name": "stolen", "projected": {"sources": sources}})


def with_secret_variable(pod: Object) -> None:
    source = {"secretKeyRef": {"name": "any", "key": "any"}}
    pod["spec"]["containers"][0]["env"].append({"name": "STOLEN", "valueFrom": source})


def with_all_of_a_secret(pod: Object) -> None:
    pod["spec"]["containers"][0]["envFrom"] = [{"secretRef": {"name": "any"}}]


def with_another_account(pod: Object) -> None:
    pod["spec"] |= {"serviceAccountName": "other", "serviceAccount": "other"}


def with_a_token(pod: Object) -> None:
    pod["spec"]["automountServiceAccountToken"] = True


def with_another_image(pod: Object) -> None:
    pod["spec"]["containers"][0]["image"] = "registry.example/other:1"


def as_a_driver(pod: Object) -> None:
    pod["metadata"]["labels"]["spark-role"] = "driver"


def as_the_operator(pod: Object) -> None:
    pod["metadata"]["labels"]["app.kubernetes.io/name"] = "spark-sql-operator"


def without_an_owner(pod: Object) -> None:
    del pod["metadata"]["ownerReferences"]


def of_another_driver(pod: Object) -> None:
    pod["metadata"]["ownerReferences"][0]["name"] += "0"


def on_a_chosen_node(pod: Object) -> None:
    pod["spec"]["nodeName"] = "any"


def of_another_session(pod: Object) -> None:
    pod["metadata"]["labels"]["sparksql.dev/session"] = "other"


def as_a_drivers_component(pod: Object) -> None:
    pod["metadata"]["labels"]["app.kubernetes.io/component"] = "driver"


def with_a_second_owner(pod: Object) -> None:
    owners = pod["metadata"]["ownerReferences"]
    owners.append({"apiVersion": "v1", "kind": "ConfigMap", "name": "any", "uid": "any"})


def with_capabilities(pod: Object) -> None:
    pod["spec"]["containers"][0]["securityContext"]["capabilities"] = {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}


def with_a_port_of_the_node(pod: Object) -> None:
    pod["spec"]["containers"][0]["ports"] = [{"name": "node", "containerPort": 7080, "hostPort": 7080}]


FORBIDDEN: dict[Any, str] = {
    of_another_session: "session and the incarnation",
    as_a_drivers_component: "another component",
    with_a_second_owner: "its own executor pods only",
    with_capabilities: "drop ALL capabilities",
    with_a_port_of_the_node: "hostPort",
    with_secret_volume: "emptyDir, configMap and persistentVolumeClaim volumes only",
    with_projected_token: "emptyDir, configMap and persistentVolumeClaim volumes only",
    with_secret_variable: "may read no Secret",
    with_all_of_a_secret: "may read no Secret",
    with_another_account: "no service account but its driver's",
    with_a_token: "automountServiceAccountToken",
    with_another_image: "session image only",
    as_a_driver: "executor pods only",
    as_the_operator: "name label of another component",
    without_an_owner: "its own executor pods only",
    of_another_driver: "its own executor pods only",
    on_a_chosen_node: "choose its node",
}


@pytest.mark.parametrize("change", FORBIDDEN, ids=lambda change: change.__name__)
def test_a_driver_makes_nothing_but_its_executors(main: Space, driver: Cluster, executor: Object, change: Any) -> None:
    if change is with_another_account:
        account = {"name": "other", "namespace": main.name}
        main.cluster.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    pod = copy.deepcopy(executor)
    change(pod)
    with pytest.raises(ApiFailure) as caught:
        try_to_create(driver, pod)
    assert caught.value.status in (403, 422)
    assert FORBIDDEN[change] in caught.value.message


def test_an_executor_pod_with_another_sessions_uid_is_refused(main: Space, driver: Cluster, executor: Object) -> None:
    """The API server's policy reads sessions from a watch of its own: it knows a new one a moment after it was made."""
    other = main.session("uninvolved", wait=False)
    pod = copy.deepcopy(executor)
    pod["metadata"]["labels"]["sparksql.dev/session-uid"] = other["metadata"]["uid"]
    answers: list[str] = []

    def refused() -> bool:
        try:
            try_to_create(driver, pod)
        except ApiFailure as failure:
            answers.append(failure.message)
            return True
        answers.append("accepted")
        return False

    main.cluster.wait_until(refused, "refused", 30, seen=lambda: answers)
    main.cluster.delete("SqlSession", main.name, "uninvolved")
    assert "UID of another driver's session" in answers[-1]


def test_a_driver_removes_nothing_but_its_executors(main: Space, driver: Cluster) -> None:
    main.cluster.idle_pod(main.name, "bystander", labels={"spark-role": "executor"})
    for name in ("bystander", main.driver_pod()):
        failure = refusal(driver, "DELETE", f"/api/v1/namespaces/{main.name}/pods/{name}?dryRun=All")
        assert "executor pods only" in failure.message
    main.cluster.delete("Pod", main.name, "bystander", grace_seconds=0)


def test_a_token_that_is_no_drivers_is_refused(main: Space, driver: Cluster, executor: Object) -> None:
    """Whoever may make tokens of the account still has no driver's pod."""
    loose = main.cluster.kubectl("create", "token", "spark", "-n", main.name).strip()
    with pytest.raises(ApiFailure) as caught:
        try_to_create(Cluster(main.cluster.kubeconfig, token=loose), executor)
    # Two policies refuse it, and the API server tells of either.
    told = caught.value.message
    assert "only by its pod" in told or "the UID of another driver's session" in told, told


def test_a_driver_reads_nothing_of_ours(main: Space, driver: Cluster) -> None:
    ours = f"/apis/sparksql.dev/v1alpha1/namespaces/{main.name}"
    core = f"/api/v1/namespaces/{main.name}"
    for path in (f"{ours}/sqlstatements", f"{ours}/sqlsessions/main", f"{core}/secrets", f"{core}/configmaps"):
        assert refusal(driver, "GET", path).status == 403


def test_executors_have_no_token(executor: Object) -> None:
    assert executor["spec"]["automountServiceAccountToken"] is False
    mounts = {m["mountPath"] for c in executor["spec"]["containers"] for m in c.get("volumeMounts", ())}
    assert not [path for path in mounts if path.startswith("/var/run/secrets")]
