"""Which claims get a volume, which volumes are recycled."""

from pathlib import Path
from typing import Any

import pytest
from localkube.storage import released, volume, waiting


def claim(phase: str = "Pending", **spec: Any) -> dict[str, Any]:
    request = {
        "storageClassName": "local",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    metadata = {"namespace": "a", "name": "data", "uid": "1234"}
    return {"metadata": metadata, "spec": {**request, **spec}, "status": {"phase": phase}}


def test_a_waiting_claim_gets_one_volume_bound_to_it() -> None:
    made = volume(claim(), Path("/volumes/pvc-1234"))
    assert made["metadata"]["name"] == "pvc-1234"
    assert made["spec"]["claimRef"]["uid"] == "1234"
    assert made["spec"]["capacity"] == {"storage": "1Gi"}
    assert waiting([claim()], []) == [claim()]
    assert waiting([claim()], [made]) == []


@pytest.mark.parametrize(
    "other", [claim("Bound"), claim(storageClassName="other"), claim(storageClassName=""), claim(volumeName="v")]
)
def test_claim_that_is_bound_or_names_another_class_or_a_volume_gets_no_volume(other: dict[str, Any]) -> None:
    assert waiting([other], []) == []


@pytest.mark.parametrize(
    ("phase", "storage_class", "expected"),
    [
        ("Released", "local", True),
        ("Failed", "local", True),
        ("Bound", "local", False),
        ("Available", "local", False),
        ("Released", "other", False),
    ],
)
def test_only_our_released_volumes_are_recycled(phase: str, storage_class: str, expected: bool) -> None:
    item = {"metadata": {"name": "pvc-1"}, "spec": {"storageClassName": storage_class}, "status": {"phase": phase}}
    assert bool(released([item])) is expected
