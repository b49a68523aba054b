"""Who may make an object that one of our kinds controls, on a real API server."""

from __future__ import annotations

import time
from typing import Any

import pytest

from sparksql.api import names
from tests.chart.drivers import make
from tests.support.apiserver import MERGE_PATCH, ApiServer, Response

OPERATOR = "system:serviceaccount:sys:sso-spark-sql-operator"
CONTAINERS = {"containers": [{"name": "c", "image": "i"}]}
CORE, SPARK, POLICIES = "/api/v1", f"/apis/{names.API_VERSION}", "/apis/networking.k8s.io/v1"
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "pods": (CORE, {"spec": CONTAINERS}),
    "secrets": (CORE, {"data": {}}),
    "services": (CORE, {"spec": {"clusterIP": "None", "ports": [{"port": 1}]}}),
    "configmaps": (CORE, {"data": {}}),
    "jobs": ("/apis/batch/v1", {"spec": {"template": {"spec": {**CONTAINERS, "restartPolicy": "Never"}}}}),
    "leases": ("/apis/coordination.k8s.io/v1", {"spec": {"holderIdentity": "h"}}),
    "networkpolicies": (POLICIES, {"spec": {"podSelector": {}}}),
    "sqlsessions": (SPARK, {"apiVersion": names.API_VERSION, "kind": "SqlSession", "spec": {}}),
    "sqlsavepoints": (
        SPARK,
        {"apiVersion": names.API_VERSION, "kind": "SqlSavepoint", "spec": {"statementRef": {"name": "s"}}},
    ),
}
OWNERS = ("SqlSession", "SqlSessionClass", "SqlStatement", "SqlSavepoint")
Manifest = dict[str, Any]


def owner(kind: str, **more: Any) -> Manifest:
    return {"apiVersion": names.API_VERSION, "kind": kind, "name": "o", "uid": "uid-o", "controller": True, **more}


def send(
    server: ApiServer, namespace: str, resource: str, metadata: Manifest, user: str, *, dry: bool = True
) -> Response:
    root, body = KINDS[resource]
    path = f"{root}/namespaces/{namespace}/{resource}" + ("?dryRun=All" if dry else "")
    return server.request("POST", path, {**body, "metadata": {"name": "o", **metadata}}, user=user)


@pytest.fixture(scope="module")
def tenant(installed: ApiServer) -> tuple[str, str]:
    """A namespace, and a user with all rights on what it holds of these kinds."""
    namespace, user = installed.namespace("tenant"), "tenant"
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    groups = ["", "networking.k8s.io", "sparksql.dev", "batch", "coordination.k8s.io"]
    rule = {"apiGroups": groups, "resources": [*KINDS, "services/status", "jobs/status"], "verbs": ["*"]}
    make(installed, f"{rbac}/roles", {"metadata": {"name": "all"}, "rules": [rule]})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "all"}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]
    make(installed, f"{rbac}/rolebindings", {"metadata": {"name": "all"}, "roleRef": role, "subjects": subjects})
    make(installed, f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "default"}})
    deadline = time.monotonic() + 60
    forged = {"ownerReferences": [owner("SqlSession")]}
    while send(installed, namespace, "pods", forged, user).status != 422:
        assert time.monotonic() < deadline, "the API server does not know the new policy"
        time.sleep(0.1)
    return namespace, user


@pytest.mark.parametrize("resource", KINDS)
def test_object_that_a_tenant_makes_as_a_child_of_ours_is_refused(
    installed: ApiServer, tenant: tuple[str, str], resource: str
) -> None:
    namespace, user = tenant
    for kind in OWNERS:
        answer = send(installed, namespace, resource, {"ownerReferences": [owner(kind)]}, user)
        assert answer.status == 422 and "only the operator" in answer.message, answer.message
    plain = send(installed, namespace, resource, {"ownerReferences": [owner("SqlSession", controller=False)]}, user)
    assert plain.status == 201, plain.message


@pytest.mark.parametrize("resource", ["pods", "secrets"])
def test_object_of_a_tenant_that_is_changed_into_a_child_of_ours_is_refused(
    installed: ApiServer, tenant: tuple[str, str], resource: str
) -> None:
    namespace, user = tenant
    made = send(installed, namespace, resource, {"name": "own"}, user, dry=False)
    assert made.status == 201, made.message
    path = f"{KINDS[resource][0]}/namespaces/{namespace}/{resource}/own"
    change = {"metadata": {"ownerReferences": [owner("SqlSession")]}}
    answer = installed.request("PATCH", path, change, content_type=MERGE_PATCH, user=user)
    assert answer.status == 422 and "only the operator" in answer.message, answer.message


@pytest.mark.parametrize("resource", ["services", "jobs"])
def test_object_of_a_tenant_whose_status_makes_it_a_child_of_ours_is_refused(
    installed: ApiServer, tenant: tuple[str, str], resource: str
) -> None:
    namespace, user = tenant
    made = send(installed, namespace, resource, {"name": "reported"}, user, dry=False)
    assert made.status == 201, made.message
    path = f"{KINDS[resource][0]}/namespaces/{namespace}/{resource}/reported/status"
    change = {"metadata": {"ownerReferences": [owner("SqlSession")]}}
    answer = installed.request("PATCH", path, change, content_type=MERGE_PATCH, user=user)
    assert answer.status == 422 and "only the operator" in answer.message, answer.message


def test_savepoint_that_a_tenant_marks_as_made_by_the_operator_is_refused(
    installed: ApiServer, tenant: tuple[str, str]
) -> None:
    namespace, user = tenant
    marks = {"annotations": {names.ANNOTATION_TRIGGER: "Periodic"}}
    answer = send(installed, namespace, "sqlsavepoints", marks, user)
    assert answer.status == 422 and "may set the annotation sparksql.dev/savepoint-trigger" in answer.message, (
        answer.message
    )


def test_child_that_the_operator_makes_is_admitted_and_may_be_labelled_by_others(
    installed: ApiServer, tenant: tuple[str, str]
) -> None:
    namespace, user = tenant
    metadata = {"name": "child", "ownerReferences": [owner("SqlSession")]}
    made = send(installed, namespace, "pods", metadata, OPERATOR, dry=False)
    assert made.status == 201, made.message
    path = f"{CORE}/namespaces/{namespace}/pods/child"
    change = {"metadata": {"labels": {"team": "data"}}}
    assert installed.request("PATCH", path, change, content_type=MERGE_PATCH, user=user).status == 200
