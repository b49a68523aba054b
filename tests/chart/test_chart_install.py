"""The chart on a real API server: install and upgrade."""

from __future__ import annotations

from typing import Any

import yaml

from tests.chart.helmchart import CHART, OBJECT_STORE, helm, release, set_flags
from tests.support.apiserver import ApiServer

CLASS_PATH = "/apis/sparksql.dev/v1alpha1/sqlsessionclasses/standard"
Manifest = dict[str, Any]


def test_an_upgrade_takes_over_the_default_class(installed: ApiServer) -> None:
    """The first install makes the class as a hook, since Helm did not know the kind; it must stay the same object."""
    before = installed.request("GET", CLASS_PATH)
    assert before.status == 200, before.message
    release(installed.kubeconfig, "defaultClass.description=changed")
    after = installed.request("GET", CLASS_PATH).body
    assert after["metadata"]["uid"] == before.body["metadata"]["uid"]
    assert after["spec"]["description"] == "changed"
    assert "helm.sh/hook" not in after["metadata"]["annotations"]


def test_the_default_session_class_passes_strict_validation(installed: ApiServer) -> None:
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
