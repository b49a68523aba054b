"""Paths of schemas in an operator's metadata, which lead to the folder that it is in."""

from __future__ import annotations

import json

import pytest

from sparksql.gateway.streaming.checkpoints.schema_paths import has_paths, relocated

SCHEMA = "state/0/_stateSchema/default/0_5e1c"


def metadata(*paths: str) -> str:
    return "v2\n" + json.dumps({"operatorInfo": {"operatorId": 0}, "stateStoreInfo": [{"storeName": "default", "stateSchemaFilePaths": list(paths)}]})  # fmt: skip


@pytest.mark.parametrize("old", ["file:/old", "file:///state/old", "s3a://bucket/a/state/0/b"])
def test_paths_of_schemas_lead_to_the_new_checkpoint(old: str) -> None:
    assert relocated(metadata(f"{old}/{SCHEMA}"), "s3a://bucket/new", {SCHEMA}) == metadata(
        f"s3a://bucket/new/{SCHEMA}"
    )


def test_schema_that_is_not_in_the_copy_keeps_its_path() -> None:
    assert relocated(metadata(f"file:/old/{SCHEMA}"), "file:/new", set()) == metadata(f"file:/old/{SCHEMA}")


def test_metadata_of_the_first_version_stays_as_it_is() -> None:
    text = 'v1\n{"operatorInfo":{},"stateStoreInfo":[{"storeName":"default"}]}'
    assert relocated(text, "file:/new", {SCHEMA}) == text


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("state/0/_metadata/v2/3", True), ("state/0/_metadata/metadata", False), ("state/0/1/2.delta", False),
        (SCHEMA, False), ("offsets/0", False),
    ],
)  # fmt: skip
def test_files_with_paths_are_those_of_operators_metadata(path: str, expected: bool) -> None:
    assert has_paths(path) is expected
