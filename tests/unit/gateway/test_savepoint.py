"""What the manifest of a savepoint says."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sparksql.gateway.streaming.checkpoints.batch_files import File
from sparksql.gateway.streaming.checkpoints.savepoint import InvalidLocationError, Manifest, Owner, SavepointError

MANIFEST = Manifest(Owner("u", "n", "s"), "q", 7, "4.1.4", (File("metadata", 45), File("offsets/7", 100)))


@pytest.mark.parametrize("text", [None, "h" * 32])
def test_a_manifest_is_read_as_it_was_written(text: str | None) -> None:
    manifest = replace(MANIFEST, sql_hash=text)
    assert Manifest.from_json(manifest.to_json()) == manifest
    assert manifest.size_bytes == 145


def test_a_manifest_without_a_hash_of_the_text_is_read() -> None:
    """Those of the first drivers had none."""
    raw = json.loads(MANIFEST.to_json())
    del raw["sql_hash"]
    assert Manifest.from_json(json.dumps(raw)) == MANIFEST


def test_a_savepoint_manifest_of_another_version_is_refused_naming_it() -> None:
    with pytest.raises(InvalidLocationError, match="version 2, this driver supports 1"):
        Manifest.from_json(replace(MANIFEST, version=2).to_json())


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"version": 1}', MANIFEST.to_json().replace('"batch_id": 7,', ""), "null", "7"]
)
def test_a_malformed_savepoint_manifest_is_refused_for_good(text: str) -> None:
    """It would be the same the next time: no further attempt is worth it."""
    with pytest.raises(InvalidLocationError) as refused:
        Manifest.from_json(text)
    assert isinstance(refused.value, SavepointError)
