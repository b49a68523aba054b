"""An owner is one of ours by API group, kind, UID and control, and as the only owner."""

from __future__ import annotations

from typing import Any

import pytest

from sparksql.domain.ownership import (
    CLASS_OWNER,
    POD_OWNER,
    SESSION_OWNER,
    driver_of,
    goes_with,
    owned_by,
    owner_name,
    owner_uid,
)

OWNER = {"apiVersion": "sparksql.dev/v1alpha1", "kind": "SqlSession", "name": "s", "uid": "u", "controller": True}


def child(*owners: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "child", "ownerReferences": list(owners)}}


@pytest.mark.parametrize("version", ["v1alpha1", "v1"])
def test_owner_of_any_version_of_the_group_owns_its_object(version: str) -> None:
    obj = child({**OWNER, "apiVersion": f"sparksql.dev/{version}"})
    assert owned_by(obj, SESSION_OWNER, "u") and goes_with(obj, SESSION_OWNER, "u")
    assert (owner_uid(obj, SESSION_OWNER), owner_name(obj, SESSION_OWNER)) == ("u", "s")


@pytest.mark.parametrize(
    "other",
    [
        {"apiVersion": "example.com/v1alpha1"},
        {"apiVersion": "x.sparksql.dev/v1alpha1"},
        {"apiVersion": "sparksql.dev"},
        {"apiVersion": ""},
        {"apiVersion": None},
        {"kind": "SqlStatement"},
    ],
    ids=repr,
)
def test_owner_of_another_group_or_kind_owns_nothing_of_ours(other: dict[str, Any]) -> None:
    obj = child({**OWNER, **other})
    assert not owned_by(obj, SESSION_OWNER, "u") and not goes_with(obj, SESSION_OWNER, "u")
    assert (owner_uid(obj, SESSION_OWNER), owner_name(obj, SESSION_OWNER)) == (None, None)


def test_owner_that_does_not_control_its_object_only_has_it_deleted() -> None:
    obj = child({**OWNER, "controller": False})
    assert goes_with(obj, SESSION_OWNER, "u") and not owned_by(obj, SESSION_OWNER, "u")


@pytest.mark.parametrize("uid", ["", "another"])
def test_owner_with_another_uid_owns_nothing(uid: str) -> None:
    assert not owned_by(child(OWNER), SESSION_OWNER, uid) and not owned_by(child(OWNER), CLASS_OWNER, "u")
    assert not owned_by(child(), SESSION_OWNER, uid)


def test_object_with_a_second_owner_is_not_ours() -> None:
    second = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c"}
    assert not owned_by(child(OWNER, second), SESSION_OWNER, "u")


def test_executor_of_a_pod_of_another_group_has_no_driver() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "name": "d", "uid": "d", "controller": True}
    assert driver_of(child(pod)) == pod
    assert driver_of(child({**pod, "apiVersion": "metrics.k8s.io/v1"})) is None
    assert goes_with(child({**pod, "controller": None}), POD_OWNER, "d")
