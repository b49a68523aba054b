"""Objects that break a rule which came after them can still be changed, as long as the change breaks no other rule."""

from __future__ import annotations

import copy
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from sparksql.api.base import ApiObject
from tests.integration.crd_examples import WITHOUT_EFFECT, Invalid
from tests.support.apiserver import ApiServer, Response
from tests.support.crds import CRD_API

CRDS = Path(__file__).resolve().parents[2] / "crds"
GROUP, VERSION = "ratcheting.sparksql.dev", "v1alpha1"  # copies of the kinds, so that no other test meets the change
RULES = "x-kubernetes-validations"
SECONDS = 60.0


def definition(kind: type[ApiObject]) -> dict[str, Any]:
    made: dict[str, Any] = yaml.safe_load((CRDS / f"sparksql.dev_{kind.PLURAL}.yaml").read_text())
    made["metadata"]["name"] = f"{kind.PLURAL}.{GROUP}"
    made["spec"]["group"] = GROUP
    del made["spec"]["names"]["shortNames"]
    return made


def without_rules(node: Any) -> Any:
    """The schema as it was before the rules that ratchet."""
    if isinstance(node, list):
        return [without_rules(each) for each in node]
    if not isinstance(node, dict):
        return node
    found = {key: without_rules(value) for key, value in node.items() if key != RULES}
    kept = [rule for rule in node.get(RULES, ()) if not rule.get("optionalOldSelf")]
    return found | ({RULES: kept} if kept else {})


class Kind:
    """A kind of the copied group on a server."""

    def __init__(self, server: ApiServer, kind: type[ApiObject], namespace: str) -> None:
        self._server, self._kind, self._name = server, kind, namespace
        scope = f"/namespaces/{namespace}" if kind.NAMESPACED else ""
        self._path = f"/apis/{GROUP}/{VERSION}{scope}/{kind.PLURAL}"

    def define(self, schema: dict[str, Any]) -> None:
        if self._server.request("POST", CRD_API, schema).status == 201:
            return
        path = f"{CRD_API}/{schema['metadata']['name']}"
        known = self._server.request("GET", path).body
        answer = self._server.request("PUT", path, {**known, "spec": schema["spec"]})
        assert answer.status == 200, answer.message

    def create(self, name: str, spec: dict[str, Any], query: str = "") -> Response:
        body = {"apiVersion": f"{GROUP}/{VERSION}", "kind": self._kind.KIND, "spec": spec}
        return self._server.request("POST", self._path + query, {**body, "metadata": {"name": f"{self._name}-{name}"}})

    def answers(self, name: str, spec: dict[str, Any], status: int) -> None:
        """Waits until a creation is answered so: a new definition is served a little later."""
        deadline = time.monotonic() + SECONDS
        while (seen := self.create(name, spec, "?dryRun=All")).status != status:
            assert time.monotonic() < deadline, seen
            time.sleep(0.1)

    def replace(self, stored: dict[str, Any], spec: dict[str, Any]) -> Response:
        path = f"{self._path}/{stored['metadata']['name']}"
        live = self._server.request("GET", path).body
        return self._server.request("PUT", path, {**live, "spec": spec})


@pytest.mark.parametrize("case", WITHOUT_EFFECT, ids=lambda case: case.name)
def test_stored_object_that_breaks_a_later_rule_can_be_changed(crds: ApiServer, namespace: str, case: Invalid) -> None:
    kind, schema = Kind(crds, case.kind, namespace), definition(case.kind)
    kind.define(without_rules(copy.deepcopy(schema)))
    kind.answers("old", case.spec, 201)
    stored = kind.create("old", case.spec).body
    kind.define(schema)
    kind.answers("new", case.spec, 422)
    changed = copy.deepcopy(stored["spec"])
    if "streaming" in changed:
        changed["streaming"] |= {"upgradeMode": "Stateless"}
        changed["streaming"]["savepoints"].setdefault("schedule", {"intervalSeconds": 60})["jitterSeconds"] = 5
        changed["streaming"]["trigger"]["maxRowsPerTrigger"] = 5
    else:
        changed |= {"description": "changed"}
        changed["front"]["maxSessionsPerUser"] = 2
    answer = kind.replace(stored, changed)
    assert answer.status == 200, answer.message
