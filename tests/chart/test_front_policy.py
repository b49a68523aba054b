"""Policies for the marks of sessions of users and for the Leases of the front, on a real API server."""

from __future__ import annotations

import time
from typing import Any

import pytest

from sparksql.api import names
from sparksql.front.directory import ANNOTATION_SHARE
from sparksql.front.quota import lease_name
from tests.chart.drivers import SESSIONS, make
from tests.support.apiserver import MERGE_PATCH, ApiServer, Response

FRONT = "system:serviceaccount:sys:spark-sql-front"
TENANT = "system:serviceaccount:{namespace}:tenant"
LABEL = {"labels": {names.LABEL_FRONT_USER: "hash"}}
USER = {"annotations": {names.ANNOTATION_FRONT_USER: "ada"}}
SHARE = {"annotations": {ANNOTATION_SHARE: "Connection"}}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/sys/leases"
Manifest = dict[str, Any]


@pytest.fixture(scope="module")
def tenants(installed: ApiServer) -> str:
    """A namespace whose account `tenant` has the role `admin` there."""
    namespace = installed.namespace("tenant")
    make(installed, f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "tenant"}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "sso-spark-sql-operator-edit"}
    subjects = [{"kind": "ServiceAccount", "name": "tenant", "namespace": namespace}]
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings"
    make(installed, path, {"metadata": {"name": "tenant"}, "roleRef": role, "subjects": subjects})
    tried = f"{SESSIONS.format(namespace=namespace)}?dryRun=All"
    deadline = time.monotonic() + 60
    while (
        installed.request("POST", tried, session("tried", **USER), user=TENANT.format(namespace=namespace)).status
        != 422
    ):
        assert time.monotonic() < deadline, "the API server does not know the new policy"
        time.sleep(0.1)
    return namespace


def session(name: str, **metadata: Any) -> Manifest:
    return {"apiVersion": names.API_VERSION, "kind": "SqlSession", "metadata": {"name": name, **metadata}, "spec": {}}


def created(server: ApiServer, namespace: str, user: str, body: Manifest) -> Response:
    return server.request("POST", SESSIONS.format(namespace=namespace), body, user=user.format(namespace=namespace))


def changed(server: ApiServer, namespace: str, name: str, metadata: Manifest) -> Response:
    path = f"{SESSIONS.format(namespace=namespace)}/{name}"
    body = {"metadata": metadata}
    return server.request("PATCH", path, body, content_type=MERGE_PATCH, user=TENANT.format(namespace=namespace))


@pytest.mark.parametrize("marks", [LABEL, USER, SHARE], ids=["label", "user", "share"])
def test_tenant_that_marks_a_session_as_a_users_is_refused(installed: ApiServer, tenants: str, marks: Manifest) -> None:
    answer = created(installed, tenants, TENANT, session("forged", **marks))
    assert answer.status == 422 and "only the front may set" in answer.message, answer.message
    name = f"plain-{next(iter(marks))}-{len(str(marks))}"
    assert created(installed, tenants, TENANT, session(name)).status == 201
    answer = changed(installed, tenants, name, marks)
    assert answer.status == 422 and "only the front may set" in answer.message, answer.message
    assert changed(installed, tenants, name, {"annotations": {names.ANNOTATION_WAKE: "now"}}).status == 200


def test_tenant_may_change_a_session_of_the_front_but_not_whose_it_is(installed: ApiServer, tenants: str) -> None:
    made = created(installed, tenants, FRONT, session("of-ada", **LABEL, **USER))
    assert made.status == 201, made.message
    assert changed(installed, tenants, "of-ada", {"annotations": {"note": "mine"}}).status == 200
    for marks in ({"labels": {names.LABEL_FRONT_USER: None}}, {"annotations": {names.ANNOTATION_FRONT_USER: "bob"}}):
        answer = changed(installed, tenants, "of-ada", marks)
        assert answer.status == 422 and "only the front may set" in answer.message, answer.message


def test_front_writes_leases_of_its_users_and_no_other(installed: ApiServer) -> None:
    def lease(name: str) -> Manifest:
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": {}}

    assert installed.request("POST", LEASES, lease(lease_name("ada")), user=FRONT).status == 201
    answer = installed.request("POST", LEASES, lease("spark-sql-operator"), user=FRONT)
    assert answer.status == 422 and "front-user-*" in answer.message, answer.message
