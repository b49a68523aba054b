"""The example manifests are accepted as they are: no unknown field, no broken rule."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.chart.helmchart import ROOT
from tests.support.apiserver import ApiServer

EXAMPLES = sorted((ROOT / "examples").glob("*/[0-9]*.yaml"))
PATHS = {
    "SqlSessionClass": "sqlsessionclasses",
    "SqlSession": "namespaces/{namespace}/sqlsessions",
    "SqlStatement": "namespaces/{namespace}/sqlstatements",
    "SqlSavepoint": "namespaces/{namespace}/sqlsavepoints",
    "Service": "namespaces/{namespace}/services",
    "Deployment": "namespaces/{namespace}/deployments",
    "ServiceAccount": "namespaces/{namespace}/serviceaccounts",
    "Role": "namespaces/{namespace}/roles",
    "RoleBinding": "namespaces/{namespace}/rolebindings",
}


@pytest.fixture(scope="module")
def demo(installed: ApiServer) -> ApiServer:
    for name in ("demo", "demo-neighbour"):
        response = installed.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        assert response.status == 201, response.message
    return installed


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_manifests_are_accepted(demo: ApiServer, file: Path) -> None:
    manifests = list(yaml.safe_load_all(file.read_text()))
    assert manifests
    for manifest in manifests:
        group = "apis" if "/" in manifest["apiVersion"] else "api"
        place = PATHS[manifest["kind"]].format(namespace=manifest["metadata"].get("namespace"))
        path = f"/{group}/{manifest['apiVersion']}/{place}"
        response = demo.request("POST", f"{path}?dryRun=All&fieldValidation=Strict", manifest)
        assert response.status == 201, f"{manifest['metadata']['name']}: {response.message}"


def test_examples_of_manifests_are_found() -> None:
    assert EXAMPLES
