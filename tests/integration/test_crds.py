"""What the API server itself promises for our resources: defaults, bounds, cross-field rules and immutability."""

from __future__ import annotations

import copy
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sparksql.api.base import ApiObject
from sparksql.api.names import API_VERSION
from sparksql.api.session import SqlSession
from sparksql.api.session_class import SqlSessionClass
from sparksql.api.statement import SqlStatement
from tests.integration.crd_examples import INVALID, KINDS, REFUSED_UPDATES, VALID, VALID_UPDATES, Invalid, Update
from tests.integration.crd_manifests import EXAMPLES, Example
from tests.integration.crd_statuses import FULL_STATUS
from tests.support.apiserver import MERGE_PATCH, ApiServer, Response, binary

CRDS = sorted((Path(__file__).parents[2] / "crds").glob("*.yaml"))
MAX_CRD_BYTES = 100 * 1024


def path(kind: type[ApiObject], namespace: str, *rest: str) -> str:
    scope = ("namespaces", namespace) if kind.NAMESPACED else ()
    return "/".join(("/apis", API_VERSION, *scope, kind.PLURAL, *rest))


def manifest(kind: type[ApiObject], namespace: str, spec: Any, name: str = "thing") -> dict[str, Any]:
    """An object of which only the spec matters; a cluster-scoped one borrows its unique name from the namespace."""
    return {
        "apiVersion": API_VERSION,
        "kind": kind.KIND,
        "metadata": {"name": name if kind.NAMESPACED else namespace},
        "spec": spec,
    }


def create(server: ApiServer, kind: type[ApiObject], namespace: str, spec: Any) -> Response:
    return server.request("POST", path(kind, namespace) + "?fieldValidation=Strict", manifest(kind, namespace, spec))


def created(server: ApiServer, kind: type[ApiObject], namespace: str, spec: Any) -> Any:
    response = create(server, kind, namespace, spec)
    assert response.status == 201, response.message
    return response.body


def replace(server: ApiServer, kind: type[ApiObject], namespace: str, old: Any, spec: Any) -> Response:
    new = {**old, "spec": spec}
    return server.request("PUT", path(kind, namespace, old["metadata"]["name"]) + "?fieldValidation=Strict", new)


def without_empty(value: Any) -> Any:
    """The object without empty lists and objects: the models state them, the API server leaves them out."""
    if isinstance(value, dict):
        inner = {key: without_empty(each) for key, each in value.items()}
        return {key: each for key, each in inner.items() if each not in ({}, [], None)}
    return [without_empty(each) for each in value] if isinstance(value, list) else value


def as_given_in_lists(value: Any, given: Any, *, in_list: bool = False) -> Any:
    """A model's object without what the manifest `given` leaves out in entries of lists."""
    if isinstance(value, dict) and isinstance(given, dict):
        kept = {key: each for key, each in value.items() if key in given or not in_list}
        return {key: as_given_in_lists(each, given.get(key), in_list=in_list) for key, each in kept.items()}
    if isinstance(value, list) and isinstance(given, list):
        return [as_given_in_lists(each, its, in_list=True) for each, its in zip(value, given, strict=True)]
    return value


@pytest.fixture
def namespace(crds: ApiServer, namespace: str) -> Iterator[str]:
    """A test's class has the name of its namespace and goes with the test: one of them is the default for all namespaces."""
    yield namespace
    crds.request("DELETE", path(SqlSessionClass, namespace, namespace))


@pytest.mark.parametrize("file", CRDS, ids=lambda file: file.stem)
def test_crd_is_small_enough_for_client_side_apply(file: Path) -> None:
    assert file.stat().st_size < MAX_CRD_BYTES


@pytest.mark.parametrize("file", CRDS, ids=lambda file: file.stem)
def test_crd_is_established_without_complaint(crds: ApiServer, file: Path) -> None:
    name = yaml.safe_load(file.read_text())["metadata"]["name"]
    state = crds.request("GET", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}").body["status"]
    conditions = {each["type"]: each["status"] for each in state["conditions"]}
    assert conditions.get("Established") == "True", conditions
    assert conditions.get("NonStructuralSchema", "False") == "False", conditions


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
@pytest.mark.parametrize("mode", [(), ("--server-side",)], ids=["client-side", "server-side"])
def test_examples_of_the_contract_are_applied_by_kubectl(
    crds: ApiServer, namespace: str, example: Example, mode: tuple[str, ...]
) -> None:
    command = [str(binary("kubectl")), "--kubeconfig", str(crds.kubeconfig), "-n", namespace, "apply", *mode, "-f", "-"]
    text = example.text.replace("NAME", namespace)
    result = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(("kind", "spec"), VALID)
def test_valid_spec_is_stored_as_the_model_understands_it(
    crds: ApiServer, namespace: str, kind: type[ApiObject], spec: Any
) -> None:
    """Both defaulting the same way but in entries of lists, into which the API server adds nothing."""
    stored = created(crds, kind, namespace, spec)
    model = kind.parse(manifest(kind, namespace, spec))
    assert without_empty(stored["spec"]) == without_empty(as_given_in_lists(model.to_dict()["spec"], spec))


@pytest.mark.parametrize("case", INVALID, ids=lambda case: f"{case.kind.KIND}-{case.name}")
def test_invalid_spec_is_refused_and_told_why(crds: ApiServer, namespace: str, case: Invalid) -> None:
    response = create(crds, case.kind, namespace, case.spec)
    assert response.status == 422, response
    assert case.message in response.message


QUANTITIES = (
    (SqlSession, ("driver", "cpu")),
    (SqlSession, ("executors", "memory")),
    (SqlStatement, ("session", "executors", "cpu")),
    (SqlSessionClass, ("defaults", "driver", "memory")),
    (SqlSessionClass, ("limits", "executors", "cpu")),
)


@pytest.mark.parametrize(("kind", "field"), QUANTITIES, ids=lambda part: getattr(part, "KIND", None) or ".".join(part))
def test_decimal_quantity_without_quotes_is_refused_by_one_line_with_field_and_types(
    crds: ApiServer, namespace: str, kind: type[ApiObject], field: tuple[str, ...]
) -> None:
    """The second line is the API server's own about the rules that it did not come to."""
    value: Any = 0.5
    for name in reversed(field):
        value = {name: value}
    base = {"sql": "SELECT 1"} if kind is SqlStatement else KINDS[kind]
    command = [str(binary("kubectl")), "--kubeconfig", str(crds.kubeconfig), "-n", namespace, "apply", "-f", "-"]
    text = yaml.safe_dump(manifest(kind, namespace, {**base, **value}))
    result = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)
    place = f"spec.{'.'.join(field)}"
    lines = result.stderr.strip().splitlines()[1:]
    assert result.returncode == 1
    assert lines[0].endswith(f'{place} in body must be of type integer,string: "number"'), result.stderr
    assert [line for line in lines[1:] if "some validation rules were not checked" not in line] == []


def test_client_side_apply_of_entries_without_types_finds_no_difference(crds: ApiServer, namespace: str) -> None:
    spec = {
        **KINDS[SqlStatement],
        "parameters": [{"name": "a", "value": "1"}],
        "streaming": {"lookups": [{"table": "t"}]},
    }
    kubectl = [str(binary("kubectl")), "--kubeconfig", str(crds.kubeconfig), "-n", namespace]
    text = yaml.safe_dump(manifest(SqlStatement, namespace, spec))
    for command in ("apply", "diff"):
        result = subprocess.run([*kubectl, command, "-f", "-"], input=text, capture_output=True, text=True, timeout=60)
        assert (result.returncode, result.stdout if command == "diff" else "") == (0, ""), result
    stored = crds.request("GET", path(SqlStatement, namespace, "thing")).body["spec"]
    assert stored["parameters"] == spec["parameters"]
    assert stored["streaming"]["lookups"] == [{"table": "t"}]


@pytest.mark.parametrize("case", REFUSED_UPDATES, ids=lambda case: f"{case.kind.KIND}-{case.name}")
def test_update_of_an_immutable_field_is_refused(crds: ApiServer, namespace: str, case: Update) -> None:
    old = created(crds, case.kind, namespace, case.before)
    response = replace(crds, case.kind, namespace, old, case.after)
    assert response.status == 422, response
    assert case.message in response.message
    assert "immutable" in response.message
    now = crds.request("GET", path(case.kind, namespace, old["metadata"]["name"])).body
    assert now["spec"] == old["spec"]


@pytest.mark.parametrize("case", VALID_UPDATES, ids=lambda case: f"{case.kind.KIND}-{case.name}")
def test_update_of_a_mutable_field_is_accepted(crds: ApiServer, namespace: str, case: Update) -> None:
    old = created(crds, case.kind, namespace, case.before)
    response = replace(crds, case.kind, namespace, old, case.after)
    assert response.status == 200, response.message


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.KIND)
def test_new_object_is_not_taken_for_done(crds: ApiServer, namespace: str, kind: type[ApiObject]) -> None:
    """Whatever status the manifest brings, it is replaced by one that no generation matches."""
    body = manifest(kind, namespace, KINDS[kind]) | {"status": {"observedGeneration": 1}}
    response = crds.request("POST", path(kind, namespace), body)
    assert response.status == 201, response.message
    assert response.body["status"] == {"observedGeneration": -1}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.KIND)
def test_status_is_stored_whole_and_only_through_its_subresource(
    crds: ApiServer, namespace: str, kind: type[ApiObject]
) -> None:
    old = created(crds, kind, namespace, KINDS[kind])
    status = FULL_STATUS[kind].to_dict()
    address = path(kind, namespace, old["metadata"]["name"])
    assert crds.request("PATCH", address, {"status": status}, content_type=MERGE_PATCH).status == 200
    old = crds.request("GET", address).body
    assert old["status"] == {"observedGeneration": -1}
    response = crds.request("PUT", f"{address}/status", {**old, "status": status, "spec": {}})
    assert response.status == 200, response.message
    assert response.body["status"] == status
    assert response.body["spec"] == old["spec"]
    assert response.body["metadata"]["generation"] == old["metadata"]["generation"]


def test_status_written_by_the_operator_gets_no_defaults(crds: ApiServer, namespace: str) -> None:
    kind = SqlStatement
    old = created(crds, kind, namespace, KINDS[kind])
    address = path(kind, namespace, old["metadata"]["name"]) + "/status"
    response = crds.request("PUT", address, {**old, "status": {"phase": "Initialized"}})
    assert response.body["status"] == {"phase": "Initialized"}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.KIND)
@pytest.mark.parametrize(
    ("name", "accepted"), [("a" * 50, True), ("a" * 51, False), ("a.b", False), ("1-a", True)], ids=str
)
def test_names_are_labels_of_at_most_50_characters(
    crds: ApiServer, namespace: str, kind: type[ApiObject], name: str, accepted: bool
) -> None:
    body = manifest(kind, namespace, KINDS[kind]) | {"metadata": {"name": name}}
    response = crds.request("POST", path(kind, namespace) + "?dryRun=All", body)
    assert (response.status == 201) is accepted, response
    assert accepted or "DNS label of at most 50 characters" in response.message


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.KIND)
def test_spec_is_required_and_unknown_fields_are_refused(
    crds: ApiServer, namespace: str, kind: type[ApiObject]
) -> None:
    body = manifest(kind, namespace, None)
    del body["spec"]
    assert "spec: Required value" in crds.request("POST", path(kind, namespace), body).message
    response = create(crds, kind, namespace, {**copy.deepcopy(KINDS[kind]), "namespace": "elsewhere"})
    assert 'unknown field "spec.namespace"' in response.message


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.KIND)
def test_kubectl_knows_short_name_and_category(crds: ApiServer, namespace: str, kind: type[ApiObject]) -> None:
    resources = crds.request("GET", f"/apis/{API_VERSION}").body["resources"]
    resource = next(each for each in resources if each["name"] == kind.PLURAL)
    assert resource["shortNames"] == [kind.SHORT_NAME]
    assert resource["categories"] == ["sparksql"]
    assert resource["namespaced"] is kind.NAMESPACED


def test_statements_are_selected_by_session_and_phase(crds: ApiServer, namespace: str) -> None:
    kind = SqlStatement
    for name, session in (("one", "a"), ("two", "b")):
        body = manifest(kind, namespace, {"sql": "SELECT 1", "sessionRef": {"name": session}}, name)
        assert crds.request("POST", path(kind, namespace), body).status == 201
    found = crds.request("GET", path(kind, namespace) + "?fieldSelector=spec.sessionRef.name%3Db,status.phase%3D").body
    assert [each["metadata"]["name"] for each in found["items"]] == ["two"]


def test_kubectl_columns_of_a_statement_show_phase_session_type_and_rows(crds: ApiServer, namespace: str) -> None:
    kind = SqlStatement
    old = created(crds, kind, namespace, KINDS[kind])
    address = path(kind, namespace, "thing") + "/status"
    assert crds.request("PUT", address, {**old, "status": FULL_STATUS[kind].to_dict()}).status == 200
    command = [str(binary("kubectl")), "--kubeconfig", str(crds.kubeconfig), "-n", namespace, "get", "sqlstmt"]
    seen = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.splitlines()
    assert seen[0].split() == [
        "NAME",
        "PHASE",
        "SESSION",
        "TYPE",
        "ROWS",
        "WRITTEN",
        "DURATION-MS",
        "LAG",
        "REASON",
        "MESSAGE",
        "AGE",
    ]
    assert seen[1].split()[:6] == ["thing", "Finished", "analytics", "INSERT", "1", "1500"]
