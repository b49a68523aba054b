"""How the cluster tests look at a cluster, on a real API server: what is read and written is what the server has."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

import pytest
import yaml

from tests.support.apiserver import ApiServer, running_apiserver
from tests.support.cluster_view import ApiFailure, ClusterView, Object
from tests.support.crds import CRD_API, CRDS

STATEMENT = "SqlStatement"


@pytest.fixture
def view(crds: ApiServer) -> ClusterView:
    return ClusterView(crds.kubeconfig)


def statement(namespace: str, name: str = "one") -> Object:
    return {
        "apiVersion": "sparksql.dev/v1alpha1",
        "kind": STATEMENT,
        "metadata": {"name": name, "namespace": namespace, "labels": {"set": "mine"}},
        "spec": {"sessionRef": {"name": "s"}, "sql": "SELECT 1"},
    }


def test_view_shows_what_it_wrote(view: ClusterView, namespace: str) -> None:
    made = view.create(statement(namespace))
    assert view.get(STATEMENT, namespace, "one") == made
    labels = {"metadata": {"labels": {"set": None, "new": "x"}}}
    assert view.patch(STATEMENT, namespace, "one", labels)["metadata"]["labels"] == {"new": "x"}
    status = {"status": {"phase": "Pending", "observedGeneration": 1}}
    assert view.patch(STATEMENT, namespace, "one", status, "status")["status"]["phase"] == "Pending"
    view.delete(STATEMENT, namespace, "one")
    view.delete(STATEMENT, namespace, "one")
    assert view.get(STATEMENT, namespace, "one") is None


def test_view_lists_by_namespace_and_labels(view: ClusterView, crds: ApiServer, namespace: str) -> None:
    other = crds.namespace()
    for where, name in ((namespace, "a"), (namespace, "b"), (other, "c")):
        view.create(statement(where, name))
    view.patch(STATEMENT, namespace, "b", {"metadata": {"labels": {"set": "other"}}})
    assert [each["metadata"]["name"] for each in view.list(STATEMENT, namespace)] == ["a", "b"]
    assert [each["metadata"]["name"] for each in view.list(STATEMENT, namespace, "set=mine")] == ["a"]
    assert {"a", "c"} <= {each["metadata"]["name"] for each in view.list(STATEMENT, "", "set=mine")}
    assert {namespace, other} <= {each["metadata"]["name"] for each in view.list("Namespace")}
    assert view.list("Event", namespace) == []


def test_view_follows_an_object_until_it_is_deleted(view: ClusterView, crds: ApiServer, namespace: str) -> None:
    view.create(statement(namespace))

    def change() -> None:
        for number in range(3):
            view.patch(STATEMENT, namespace, "one", {"metadata": {"annotations": {"n": str(number)}}})
        view.delete(STATEMENT, namespace, "one")

    changing = threading.Thread(target=change)
    seen = []
    for each in view.follow(STATEMENT, namespace, "one"):
        seen.append(each["metadata"].get("annotations", {}).get("n"))
        if len(seen) == 1:
            changing.start()
    changing.join()
    assert seen == [None, "0", "1", "2"]


def test_view_ends_following_in_time(view: ClusterView, namespace: str) -> None:
    view.create(statement(namespace))
    assert len(list(view.follow(STATEMENT, namespace, "one", seconds=1))) == 1


def test_refusal_has_status_and_message(view: ClusterView, namespace: str) -> None:
    view.create(statement(namespace))
    with pytest.raises(ApiFailure, match="already exists") as refused:
        view.create(statement(namespace))
    assert refused.value.status == 409
    with pytest.raises(ApiFailure) as refused:
        view.request("GET", "/api/v1/namespaces/none/pods/none")
    assert (refused.value.status, "not found" in refused.value.message) == (404, True)


def test_request_takes_any_path(view: ClusterView, namespace: str) -> None:
    assert view.request("GET", "/readyz") == "ok"
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    made = view.request("POST", f"{path}?dryRun=All", {"metadata": {"name": "dry"}, "data": {"k": "v"}})
    assert made["data"] == {"k": "v"}
    assert view.get("ConfigMap", namespace, "dry") is None
    view.request("POST", path, {"metadata": {"name": "real"}, "data": {"k": "v"}})
    changed = view.request("PATCH", f"{path}/real", {"data": {"k": None}}, "application/merge-patch+json")
    assert "data" not in changed


def test_view_with_a_token_has_the_rights_of_the_token_alone(
    view: ClusterView, crds: ApiServer, namespace: str
) -> None:
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    view.request("POST", accounts, {"metadata": {"name": "nobody"}})
    token = view.request("POST", f"{accounts}/nobody/token", {"spec": {}})["status"]["token"]
    other = ClusterView(crds.kubeconfig, token=token)
    with pytest.raises(ApiFailure, match=f"system:serviceaccount:{namespace}:nobody") as refused:
        other.get("Secret", namespace, "any")
    assert refused.value.status == 403
    with pytest.raises(ApiFailure, match=f"system:serviceaccount:{namespace}:nobody"):
        other.request("GET", f"/api/v1/namespaces/{namespace}/secrets/any")


def test_view_finds_kinds_that_come_after_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running_apiserver(tmp_path_factory.mktemp("bare")) as server:
        view = ClusterView(server.kubeconfig)
        assert view.list("Pod") == []
        for file in sorted(CRDS.glob("*.yaml")):
            assert server.request("POST", CRD_API, yaml.safe_load(file.read_text())).status == 201
        for file in sorted(CRDS.glob("*.yaml")):
            name = yaml.safe_load(file.read_text())["metadata"]["name"]
            while not any(
                condition["type"] == "Established" and condition["status"] == "True"
                for condition in view.request("GET", f"{CRD_API}/{name}").get("status", {}).get("conditions", ())
            ):
                pass
        assert view.list(STATEMENT) == []


def test_discovery_is_not_shared_through_a_file(view: ClusterView) -> None:
    before = set(Path(tempfile.gettempdir()).glob("osrcp-*"))
    view.list("Pod")
    assert set(Path(tempfile.gettempdir()).glob("osrcp-*")) == before
