"""What GitOps tools make of the resources, said by themselves: kstatus' library (Flux), the Lua of the docs (Argo CD), Kustomize."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import pytest
import yaml
from lupa.lua51 import LuaRuntime  # Argo CD's engine is one of Lua 5.1

from tests.chart.gitops_objects import Case, cases
from tests.chart.helmchart import ROOT
from tests.support.apiserver import ApiServer, binary

KUSTOMIZE = ROOT / "examples" / "kustomize"
SECONDS = 60
PATHS = {"SqlSession": "sqlsessions", "SqlStatement": "sqlstatements", "ConfigMap": "configmaps"}
ALL = cases()


def documented_lua() -> str:
    (script,) = re.findall(r"```lua\n(.*?)```", (ROOT / "docs" / "operations.md").read_text(), re.DOTALL)
    return str(script)


@pytest.fixture(scope="module")
def verdicts() -> dict[str, str]:
    """What kstatus says of each case, in one call."""
    given = json.dumps([case.object for case in ALL])
    command = [str(binary("kstatus"))]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    return {case.name: answer["status"] for case, answer in zip(ALL, answers, strict=True)}


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_kstatus_says_what_was_asked_for(case: Case, verdicts: dict[str, str]) -> None:
    assert verdicts[case.name] == case.kstatus


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_the_documented_health_check_says_the_same(case: Case) -> None:
    lua = LuaRuntime(unpack_returned_tuples=True)
    lua.globals().obj = lua.table_from(case.object, recursive=True)
    health = lua.execute(documented_lua())
    assert health["status"] == case.argo
    assert isinstance(health["message"], str)


def kustomized(folder: str) -> list[dict[str, Any]]:
    command = [str(binary("kubectl")), "kustomize", str(KUSTOMIZE / folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


@pytest.mark.parametrize("folder", ["base", "production"])
def test_kustomized_manifests_are_accepted(installed: ApiServer, folder: str) -> None:
    namespace = f"kustomize-{folder}"
    response = installed.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    assert response.status in (201, 409), response.message
    for manifest in kustomized(folder):
        manifest["metadata"]["namespace"] = namespace
        group = "apis" if "/" in manifest["apiVersion"] else "api"
        path = f"/{group}/{manifest['apiVersion']}/namespaces/{namespace}/{PATHS[manifest['kind']]}"
        response = installed.request("POST", f"{path}?dryRun=All&fieldValidation=Strict", manifest)
        assert response.status == 201, f"{manifest['metadata']['name']}: {response.message}"


def test_kustomize_knows_which_fields_hold_names() -> None:
    made = {(each["kind"], each["metadata"]["name"]): each for each in kustomized("production")}
    assert {each["metadata"]["namespace"] for each in made.values()} == {"production"}
    statement = made["SqlStatement", "prod-revenue"]["spec"]
    assert statement["sessionRef"]["name"] == "prod-reports"
    assert statement["dependsOn"] == [{"name": "prod-orders"}]
    assert ("ConfigMap", statement["sqlFrom"]["configMapKeyRef"]["name"]) in made
    assert made["SqlSession", "prod-reports"]["spec"]["executors"]["instances"] == 4


def test_references_are_the_same_in_every_folder() -> None:
    assert len({(KUSTOMIZE / folder / "references.yaml").read_text() for folder in ("base", "production")}) == 1
