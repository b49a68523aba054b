"""The store's own checks of our kinds, by the cases that the API server's are held by (tests/integration/test_crds.py)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sparksql.api.base import ApiObject
from sparksql.api.crd import KINDS, object_schema
from sparksql.api.names import API_VERSION
from sparksql.kube.errors import ApiError, Invalid
from sparksql.local.objects.admission import admitted
from sparksql.local.objects.rules import RULES
from tests.integration import crd_examples
from tests.integration.crd_examples import INVALID, REFUSED_UPDATES, VALID, VALID_UPDATES, Update
from tests.integration.crd_statuses import FULL_STATUS


def _object(kind: type[ApiObject], spec: Any) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind.KIND, "metadata": {"name": "thing"}, "spec": spec}


def _rules(schema: Any) -> Iterator[str]:
    for rule in schema.get("x-kubernetes-validations", ()):
        yield rule["rule"]
    for inner in (*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")):
        if isinstance(inner, dict):
            yield from _rules(inner)


def test_rules_of_the_crds_have_a_predicate_each() -> None:
    assert {rule for kind in KINDS for rule in _rules(object_schema(kind))} == RULES.keys()


@pytest.mark.parametrize(("kind", "spec"), VALID)
def test_valid_object_is_admitted(kind: type[ApiObject], spec: dict[str, Any]) -> None:
    obj = admitted(kind.KIND, _object(kind, spec), None, strict=True)
    assert obj["status"] == {"observedGeneration": -1}


@pytest.mark.parametrize("case", INVALID, ids=lambda case: case.name)
def test_invalid_object_is_refused_with_the_message_of_the_rule(case: crd_examples.Invalid) -> None:
    with pytest.raises(Invalid) as refused:
        admitted(case.kind.KIND, _object(case.kind, case.spec), None)
    assert case.message in refused.value.message


def _updated(case: Update) -> dict[str, Any]:
    current = admitted(case.kind.KIND, _object(case.kind, case.before), None)
    return admitted(case.kind.KIND, {**current, "spec": case.after}, current)


@pytest.mark.parametrize("case", REFUSED_UPDATES, ids=lambda case: case.name)
def test_update_of_an_immutable_field_is_refused_with_the_message_of_the_rule(case: Update) -> None:
    with pytest.raises(Invalid) as refused:
        _updated(case)
    assert case.message in refused.value.message


@pytest.mark.parametrize("case", VALID_UPDATES, ids=lambda case: case.name)
def test_valid_update_is_admitted(case: Update) -> None:
    assert _updated(case)["kind"] == case.kind.KIND


@pytest.mark.parametrize("kind", FULL_STATUS)
def test_full_status_is_stored_whole(kind: type[ApiObject]) -> None:
    status = FULL_STATUS[kind].to_dict()
    obj = {**_object(kind, crd_examples.KINDS[kind]), "status": status}
    assert admitted(kind.KIND, obj, None, strict=True)["status"] == status


def test_unknown_field_is_refused_where_manifests_are_strict_and_left_out_otherwise() -> None:
    kind, _ = VALID[1]
    obj = _object(kind, {"drivers": {}})
    with pytest.raises(ApiError, match=r'unknown field "spec\.drivers"'):
        admitted(kind.KIND, obj, None, strict=True)
    assert "drivers" not in admitted(kind.KIND, obj, None)["spec"]
