"""What the admission policies let a driver do, on a real API server."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from sparksql.api.session_class import Scheduling, SqlSessionClassSpec, VolumeClaim
from sparksql.kube.builders import DataDeletion, deletion_job
from tests.chart.drivers import (
    IMAGE,
    Change,
    Driver,
    Manifest,
    issue_token,
    make,
    plain_pod,
    prepare,
    start_driver,
    start_pool_driver,
)
from tests.chart.executors import FORBIDDEN, OWN, UID_LABEL, label, projected, said, token, volume
from tests.support.apiserver import MERGE_PATCH, ApiServer


@pytest.fixture(scope="module")
def both(installed: ApiServer) -> tuple[Driver, Driver]:
    """Drivers of two sessions of a namespace, whose account is the same."""
    namespace = installed.namespace("tenant")
    prepare(installed, namespace)
    return start_driver(installed, namespace, "mine", 12), start_driver(installed, namespace, "theirs")


@pytest.fixture
def driver(both: tuple[Driver, Driver]) -> Driver:
    return both[0]


@pytest.fixture
def neighbour(both: tuple[Driver, Driver]) -> Driver:
    return both[1]


@pytest.fixture
def executor(driver: Driver) -> str:
    """Name of an executor that the driver has made."""
    name = f"{driver.name}-exec-{next(_NUMBERS)}"
    status, answer = driver.request("POST", "pods", driver.executor(name))
    assert status == 201, answer
    return name


_NUMBERS = iter(range(1, 1000))


def attempt(driver: Driver, change: Change | None = None, **session: Any) -> tuple[int, str]:
    return driver.request("POST", "pods?dryRun=All&fieldValidation=Strict", driver.executor("tried", change, **session))


# --- what passes


def test_a_driver_may_create_label_and_delete_its_executor_pods(driver: Driver, executor: str) -> None:
    patch = {"metadata": {"labels": {"spark-exec-inactive": "true"}}}
    assert driver.request("PATCH", f"pods/{executor}", patch, MERGE_PATCH)[0] == 200
    assert driver.request("DELETE", f"pods/{executor}")[0] == 200
    assert driver.request("POST", "pods", driver.executor("exec-again"))[0] == 201
    status, answer = driver.request(
        "DELETE", f"pods?labelSelector=spark-role%3Dexecutor,{UID_LABEL}%3D{driver.session.uid}"
    )
    assert status == 200, answer


RICH: Manifest = {
    "metadata": {"labels": {"team": "data"}, "annotations": {"sidecar": "yes"}},
    "spec": {
        "nodeSelector": {"pool": "spot"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["lake"]}],
        "imagePullSecrets": [{"name": "registry"}],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"},
        ],
        "securityContext": {"supplementalGroups": [7]},
        "volumes": [{"name": "scratch", "emptyDir": {"medium": "Memory"}}],
        "initContainers": [{"name": "fetch", "image": IMAGE, "securityContext": {"privileged": True}}],
        "containers": [
            {"name": "sidecar", "image": IMAGE, "securityContext": {"runAsUser": 1000}},
            {"name": "spark", "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]},
        ],
    },
}


@pytest.mark.parametrize(
    "session",
    [
        {},
        {"executor_template": RICH},
        {"volume_claim": VolumeClaim(name="spark-data", mount_path="/data")},
        {"scheduling": Scheduling(scheduler_name="yunikorn", queue_label={"kueue.x-k8s.io/queue-name": "batch"})},
    ],
    ids=["plain", "a template", "a claim", "a queue"],
)
def test_an_executor_pod_configured_by_its_session_class_is_admitted(driver: Driver, session: Manifest) -> None:
    status, answer = attempt(driver, **session)
    assert status == 201, answer


def test_an_executor_pod_with_a_queue_systems_finalizer_and_gate_is_admitted(driver: Driver) -> None:
    def held(pod: Manifest) -> None:
        pod["metadata"]["finalizers"] = ["kueue.x-k8s.io/managed"]
        pod["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]

    status, answer = attempt(driver, held)
    assert status == 201, answer


def test_an_executor_pod_mounts_its_drivers_executor_secret_once_and_no_other(
    driver: Driver, neighbour: Driver
) -> None:
    """The template of its session has it; no other one, and not a second time."""

    def mounted(pod: Manifest) -> list[Manifest]:
        return [each["secret"] for each in pod["spec"]["volumes"] if "secret" in each]

    def of_another(pod: Manifest) -> None:
        mounted(pod)[0]["secretName"] = f"{neighbour.name}-executor"

    assert [each["secretName"] for each in mounted(driver.executor("e"))] == [f"{driver.name}-executor"]
    assert attempt(driver)[0] == 201
    for change in (of_another, volume(secret={"secretName": f"{driver.name}-executor"})):
        status, answer = attempt(driver, change)
        assert status == 422 and "volumes only" in answer, answer


@pytest.mark.parametrize("audience", ["sts.amazonaws.com", "pods.eks.amazonaws.com", "api://AzureADTokenExchange"])
def test_executor_pod_with_the_projected_token_of_a_cloud_identity_is_created(driver: Driver, audience: str) -> None:
    status, answer = attempt(driver, projected(token(audience)))
    assert status == 201, answer


# --- what does not


@pytest.mark.parametrize("what", FORBIDDEN)
def test_a_driver_cannot_make_a_pod_with(driver: Driver, what: str) -> None:
    change, complaint = FORBIDDEN[what]
    status, answer = attempt(driver, change)
    assert status == 422, answer
    assert complaint in answer


def test_an_executor_pod_with_another_sessions_uid_is_refused(driver: Driver, neighbour: Driver) -> None:
    """Else the other session's Service and network policy would select it."""
    status, answer = attempt(driver, label(UID_LABEL, neighbour.session.uid))
    assert status == 422, answer
    assert "UID of another driver's session" in answer


def test_executor_pod_with_the_uid_of_another_driver_of_a_warm_pool_is_refused(
    installed: ApiServer, driver: Driver
) -> None:
    waiting, other = (start_pool_driver(installed, driver.namespace, name) for name in ("warm", "warmer"))
    for each in (waiting, other):  # each makes its own executors before a session has it
        answer = _eventually(lambda each=each: attempt(each), lambda answer: answer[0] == 201)  # type: ignore[misc]
        assert answer[0] == 201, answer
    for of, uid in ((driver, waiting), (waiting, other), (waiting, driver)):
        change = label(UID_LABEL, uid.session.uid)
        refused = _eventually(lambda of=of, change=change: attempt(of, change), lambda answer: answer[0] == 422)  # type: ignore[misc]
        assert refused[0] == 422 and "UID of another driver" in refused[1], refused


def test_executor_pod_with_the_uid_of_a_driver_that_another_session_has_taken_is_refused(
    installed: ApiServer, driver: Driver
) -> None:
    taken = start_pool_driver(installed, driver.namespace, "taken")
    path = f"/apis/sparksql.dev/v1alpha1/namespaces/{driver.namespace}/sqlsessions"
    make(
        installed,
        path,
        {"apiVersion": "sparksql.dev/v1alpha1", "kind": "SqlSession", "metadata": {"name": "taker"}, "spec": {}},
    )
    holds = {"status": {"driver": {"podName": taken.name, "incarnation": 1, "poolUID": taken.session.uid}}}
    assert installed.request("PATCH", f"{path}/taker/status", holds, content_type=MERGE_PATCH).status == 200
    gone = {"status": {"warmPool": None}}
    classes = "/apis/sparksql.dev/v1alpha1/sqlsessionclasses/taken/status"
    assert installed.request("PATCH", classes, gone, content_type=MERGE_PATCH).status == 200
    change = label(UID_LABEL, taken.session.uid)
    refused = _eventually(lambda: attempt(driver, change), lambda answer: "driver's session" in answer[1])
    assert refused[0] == 422 and "another driver's session" in refused[1], refused
    assert attempt(taken)[0] == 201


def test_a_driver_that_its_session_has_given_up_makes_no_more_executors(installed: ApiServer, driver: Driver) -> None:
    old = start_driver(installed, driver.namespace, "moved", 1)
    assert attempt(old)[0] == 201
    path = f"/apis/sparksql.dev/v1alpha1/namespaces/{driver.namespace}/sqlsessions/moved/status"
    following = {"status": {"driver": {"podName": old.name[:-1] + "2", "incarnation": 2}}}
    assert installed.request("PATCH", path, following, content_type=MERGE_PATCH).status == 200
    refused = _eventually(lambda: attempt(old), lambda answer: answer[0] == 422)
    assert "another driver's session" in refused[1]


def test_a_system_priority_is_refused(driver: Driver) -> None:
    status, answer = attempt(driver, said(priorityClassName="system-node-critical"))
    assert status in (403, 422), answer
    assert "system-" in answer


# --- changes


@pytest.mark.parametrize(
    ("patch", "complaint"),
    [
        ({"metadata": {"labels": {"app.kubernetes.io/name": "spark-sql-operator"}}}, "name label of another component"),
        ({"metadata": {"labels": {"app.kubernetes.io/component": "driver"}}}, "another component"),
        ({"metadata": {"labels": {"sparksql.dev/session": "theirs"}}}, "session and the incarnation"),
        ({"metadata": {"labels": {UID_LABEL: None}}}, "session's UID"),
        ({"metadata": {"finalizers": ["example.org/stays"]}}, "nothing else"),
        ({"metadata": {"ownerReferences": []}}, OWN),
        ({"spec": {"activeDeadlineSeconds": 1}}, "nothing else"),
    ],
)
def test_a_driver_cannot_change_its_executors(driver: Driver, executor: str, patch: Manifest, complaint: str) -> None:
    status, answer = driver.request("PATCH", f"pods/{executor}", patch, MERGE_PATCH)
    assert status == 422, answer
    assert complaint in answer


def test_a_driver_cannot_give_its_executor_to_another_session(driver: Driver, neighbour: Driver, executor: str) -> None:
    patch = {"metadata": {"labels": {UID_LABEL: neighbour.session.uid}}}
    status, answer = driver.request("PATCH", f"pods/{executor}", patch, MERGE_PATCH)
    assert status == 422, answer
    assert "another driver's session" in answer


def test_a_driver_cannot_change_another_driver(driver: Driver, neighbour: Driver) -> None:
    patch = {"metadata": {"labels": {"spark-role": "executor"}}}
    status, answer = driver.request("PATCH", f"pods/{neighbour.name}", patch, MERGE_PATCH)
    assert status == 422, answer
    assert OWN in answer


def test_a_driver_cannot_take_over_another_pod(driver: Driver, neighbour: Driver) -> None:
    disguise = {"metadata": {key: driver.executor("x")["metadata"][key] for key in ("labels", "ownerReferences")}}
    status, answer = driver.request("PATCH", f"pods/{neighbour.name}", disguise, MERGE_PATCH)
    assert status == 422, answer
    assert "nothing else" in answer


@pytest.mark.parametrize("path", ["pods/{neighbour}", "pods"])
def test_a_driver_cannot_remove_other_pods(driver: Driver, neighbour: Driver, path: str) -> None:
    status, answer = driver.request("DELETE", path.format(neighbour=neighbour.name))
    assert status == 422, answer
    found = driver.server.request("GET", f"/api/v1/namespaces/{driver.namespace}/pods/{neighbour.name}")
    assert found.status == 200


# --- further rights


@pytest.mark.parametrize("path", ["secrets/any", "secrets", "configmaps", "services", "pods/{driver}/exec"])
def test_driver_account_cannot_read_other_objects(driver: Driver, path: str) -> None:
    assert driver.request("GET", path.format(driver=driver.name))[0] == 403


SUBRESOURCES = ("attach", "binding", "ephemeralcontainers", "eviction", "exec", "status")


@pytest.mark.parametrize(
    ("verb", "subresource", "body"),
    [
        ("POST", "binding", {"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": "node"}}),
        ("POST", "eviction", {"apiVersion": "policy/v1", "kind": "Eviction"}),
        ("PATCH", "ephemeralcontainers", {"spec": {"ephemeralContainers": [{"name": "e", "image": IMAGE}]}}),
        ("PATCH", "status", {"status": {"phase": "Running"}}),
        ("POST", "exec?command=sh&stdout=true", None),
        ("POST", "attach?stdout=true", None),
    ],
)
def test_a_driver_is_refused_pod_subresources_even_if_another_role_grants_them(
    installed: ApiServer, verb: str, subresource: str, body: Manifest | None
) -> None:
    namespace = installed.namespace("careless")
    prepare(installed, namespace)
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    rule = {"apiGroups": [""], "resources": [f"pods/{name}" for name in SUBRESOURCES], "verbs": ["*"]}
    make(installed, f"{rbac}/roles", {"metadata": {"name": "careless"}, "rules": [rule]})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "careless"}
    subjects = [{"kind": "ServiceAccount", "name": "spark", "namespace": namespace}]
    make(installed, f"{rbac}/rolebindings", {"metadata": {"name": "careless"}, "roleRef": role, "subjects": subjects})
    own = start_driver(installed, namespace, "mine")
    if body is not None and verb == "POST":
        body = {**body, "metadata": {"name": own.name}}
    kind = MERGE_PATCH if verb == "PATCH" else "application/json"
    answered = _eventually(
        lambda: own.request(verb, f"pods/{own.name}/{subresource}", body, kind), lambda a: "cannot" not in a[1]
    )
    assert answered[0] == 422, answered
    assert "no subresource of pods" in answered[1]


def test_a_token_outside_the_driver_pod_is_of_no_use(driver: Driver) -> None:
    loose = issue_token(driver.server, driver.namespace, "spark", {})
    status, answer = driver.request("POST", "pods", driver.executor("exec-1"), token=loose)
    assert status == 422, answer
    # Two policies refuse it, and the API server tells of the one that it has asked first.
    assert "only by its pod" in answer or "the UID of another driver's session" in answer, answer


def test_administrators_are_not_taken_for_drivers(driver: Driver) -> None:
    namespace = driver.namespace
    make(driver.server, f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "admin"}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subjects = [{"kind": "ServiceAccount", "name": "admin", "namespace": namespace}]
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings"
    make(driver.server, path, {"metadata": {"name": "admin"}, "roleRef": role, "subjects": subjects})
    token = issue_token(driver.server, namespace, "admin", {})
    status, answer = driver.request("POST", "pods", plain_pod("any", "admin", {}), token=token)
    assert status == 201, answer


def test_a_clean_up_job_and_its_pod_are_admitted_under_a_drivers_account(installed: ApiServer) -> None:
    """Also where only restricted pods are: what the Job's controller is refused, it tries in vain until the deadline."""
    namespace = installed.namespace("cleaned")
    prepare(installed, namespace)
    core = f"/api/v1/namespaces/{namespace}"
    restricted = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    labelled = installed.request("PATCH", core, restricted, content_type=MERGE_PATCH)
    assert labelled.status == 200, labelled.message
    place, klass = ("s3a://lake/s/a", "s3a://lake/s"), SqlSessionClassSpec(image=IMAGE)
    job = deletion_job(DataDeletion(namespace, "before-release", "uid-1", *place, "spark", klass))
    make(installed, f"/apis/batch/v1/namespaces/{namespace}/jobs?dryRun=All&fieldValidation=Strict", job)
    template = job["spec"]["template"]
    body = {"metadata": {**template["metadata"], "name": "before-release-pod"}, "spec": template["spec"]}
    made = installed.request("POST", f"{core}/pods", body, user="system:serviceaccount:kube-system:job-controller")
    assert made.status == 201, made.message


def _eventually(ask: Callable[[], tuple[int, str]], wanted: Callable[[tuple[int, str]], bool]) -> tuple[int, str]:
    """What the policies and the rights know is a moment behind what was written."""
    deadline = time.monotonic() + 30
    while not wanted(answer := ask()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return answer
