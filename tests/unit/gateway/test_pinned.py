"""Which files of a checkpoint the copy of one batch needs."""

from __future__ import annotations

import io
import json
import re
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.gateway.streaming.checkpoints.batch_files import File, belongs, certain_state, files_of, last_committed


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
def test_files_of_a_batch_belong_to_it_by_their_paths(path: str, is_part: bool) -> None:
    assert belongs(path, 7) is is_part


@given(st.lists(st.integers(0, 500), unique=True, min_size=1))
def test_the_newest_commit_is_the_batch_of_a_checkpoint_copy(batches: list[int]) -> None:
    paths = [f"{folder}/{batch}" for batch in batches for folder in ("offsets", "commits")]
    newest = last_committed([*paths, f"offsets/{max(batches) + 1}", "commits/.9999.crc", "commits/x", "metadata"])
    assert newest == max(batches)
    assert belongs(f"offsets/{newest}", newest)
    assert belongs(f"commits/{newest}", newest)
    assert last_committed(["offsets/3", "metadata"]) is None


def archive(*names: str) -> bytes:
    """A `.zip` as RocksDB's store writes it."""
    files = [{"localFileName": f"{name[:6]}.sst", "dfsSstFileName": name, "sizeBytes": 1} for name in names]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as opened:
        opened.writestr("metadata", "v1\n" + json.dumps({"sstFiles": files, "numKeys": 3}))
        opened.writestr("CURRENT", "MANIFEST-000013")
    return made.getvalue()


def chosen(paths: list[str], batch: int, archives: dict[str, bytes] | None = None) -> set[str]:
    files = [File(path, 1) for path in paths]
    found = files_of(files, batch, lambda asked: [(archives or {}).get(path) for path in asked])
    return {file.path for file in found}


def test_changes_before_the_newest_whole_state_are_left_out() -> None:
    store, other = "state/0/0", "state/0/1"
    deltas = [f"{folder}/{version}.delta" for folder in (store, other) for version in range(1, 12)]
    found = chosen([*deltas, f"{store}/3.snapshot", f"{store}/7.snapshot", f"{store}/10.snapshot"], 8)
    assert found == {f"{store}/{name}" for name in ("7.delta", "8.delta", "9.delta", "7.snapshot")} | {
        f"{other}/{version}.delta" for version in range(1, 10)
    }


def test_a_checkpoint_copy_has_the_rocksdb_files_that_its_version_names() -> None:
    store = "state/0/0/default"
    paths = [f"{store}/{name}" for name in ("2.zip", "5.zip", "9.zip", "4.changelog", "6.changelog", "7.changelog")]
    sst = [f"{store}/SSTs/{name}" for name in ("000008-a.sst", "000009-b.sst", "000012-c.sst")]
    kept = {f"{store}/{name}" for name in ("5.zip", "6.changelog", "7.changelog")}
    archives = {f"{store}/5.zip": archive("000008-a.sst", "000012-c.sst")}
    assert chosen(paths + sst, 6, archives) == kept | {sst[0], sst[2]}
    # It is gone meanwhile: then which files it names is not known, and the copy has all.
    assert chosen(paths + sst, 6) == kept | set(sst)


def test_versions_with_an_id_are_kept_whatever_their_age() -> None:
    names = ("3_a.zip", "5_b.zip", "5_c.zip", "4_a.changelog", "6_c.changelog", "SSTs/000008-a.sst")
    paths = [f"state/0/0/{name}" for name in names]
    assert chosen(paths, 6) == set(paths)
    assert certain_state(paths) == set()


def test_no_file_of_a_state_without_ids_may_be_missing() -> None:
    state = {"state/0/0/5.zip", "state/0/0/6.changelog", "state/0/0/SSTs/000008-a.sst", "state/0/_metadata/metadata"}
    assert certain_state({*state, "sources/0/3", "metadata"}) == state


@given(
    st.sets(st.integers(1, 40)),
    st.integers(0, 40),
    st.sampled_from([("delta", "snapshot"), ("changelog", "zip")]),
)
def test_spark_finds_every_version_from_the_whole_one_on(whole: set[int], batch: int, kinds: tuple[str, str]) -> None:
    change, snapshot = kinds
    paths = [f"state/0/0/{version}.{change}" for version in range(1, 42)]
    paths += [f"state/0/0/{version}.{snapshot}" for version in whole]
    found = chosen(paths, batch)
    version = batch + 1
    while version > 0 and f"state/0/0/{version}.{snapshot}" not in found:
        assert f"state/0/0/{version}.{change}" in found
        version -= 1
    assert version == max((each for each in whole if each <= batch + 1), default=0)
    assert all(version <= int(re.findall(r"([0-9]+)[.]", path)[0]) <= batch + 1 for path in found)
