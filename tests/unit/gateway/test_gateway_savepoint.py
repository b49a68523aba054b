"""Which files of a checkpoint belong to the copy of a batch, and what a manifest says."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.gateway.streaming.savepoint import (
    File,
    LocationInvalid,
    Manifest,
    Owner,
    SavepointError,
    belongs,
    last_committed,
)

MANIFEST = Manifest(Owner("u", "n", "s"), "q", 7, "4.1.4", (File("metadata", 45), File("offsets/7", 100)))


@pytest.mark.parametrize(
    ("path", "is_part"),
    [
        ("metadata", True),
        (".metadata.crc", False),
        ("offsets/7", True),
        ("offsets/6", True),
        ("offsets/5", False),
        ("offsets/8", False),
        ("offsets/.7.crc", False),
        ("offsets/.8.8c1f.tmp", False),
        ("commits/7", True),
        ("commits/8", False),
        ("sources/0/0", True),
        ("sources/0/7", True),
        ("sources/0/8", False),
        ("sources/0/9.compact", False),
        ("sources/1/0.compact", True),
        ("state/0/_metadata/metadata", True),
        ("state/0/_metadata/v2/7", True),
        ("state/0/_metadata/v2/8", False),
        ("state/0/0/_metadata/schema", True),
        ("state/0/0/8.delta", True),
        ("state/0/0/9.delta", False),
        ("state/0/0/8.snapshot", True),
        ("state/0/1/8.zip", True),
        ("state/0/1/9.zip", False),
        ("state/0/1/8_0f3a-11.changelog", True),
        ("state/0/1/9_0f3a-11.changelog", False),
        ("state/0/1/SSTs/000012-0f3a.sst", True),
        ("state/0/1/left-keyToNumValues/3.delta", True),
        ("state/0/1/left-keyToNumValues/.3.delta.tmp", False),
    ],
)
def test_files_of_batch_seven(path: str, is_part: bool) -> None:
    assert belongs(path, 7) is is_part


@given(st.lists(st.integers(0, 500), unique=True, min_size=1))
def test_the_newest_commit_is_the_batch_and_its_files_are_part_of_it(batches: list[int]) -> None:
    paths = [f"{folder}/{batch}" for batch in batches for folder in ("offsets", "commits")]
    newest = last_committed([*paths, f"offsets/{max(batches) + 1}", "commits/.9999.crc", "commits/x", "metadata"])
    assert newest == max(batches)
    assert belongs(f"offsets/{newest}", newest)
    assert belongs(f"commits/{newest}", newest)
    assert last_committed(["offsets/3", "metadata"]) is None


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


def test_a_manifest_of_another_form_is_refused_by_its_number() -> None:
    with pytest.raises(LocationInvalid, match="version 2, this driver knows 1"):
        Manifest.from_json(replace(MANIFEST, version=2).to_json())


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"version": 1}', MANIFEST.to_json().replace('"batch_id": 7,', ""), "null", "7"]
)
def test_what_is_no_manifest_is_refused_for_good(text: str) -> None:
    """It would be the same the next time: no further attempt is worth it."""
    with pytest.raises(LocationInvalid) as refused:
        Manifest.from_json(text)
    assert isinstance(refused.value, SavepointError)
