"""Copies of a checkpoint, taken while its query runs and after it stopped: what goes on from one gives the rows of the whole."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.streaming.checkpoints.savepoint import (
    MANIFEST,
    InvalidLocationError,
    Manifest,
    Owner,
    SavepointError,
    Savepoints,
)
from tests.support.thorough import thorough_but

from ..local_spark import local_spark, run

ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
SETTINGS: dict[str, dict[str, str]] = {
    "hdfs": {},
    "rocksdb": {"spark.sql.streaming.stateStore.providerClass": ROCKS_DB},
    "changelog": {"spark.sql.streaming.stateStore.providerClass": ROCKS_DB, CHANGELOG: "true"},
}
# Spark writes whole states of the HDFS-backed store in its maintenance, as RocksDB's with a changelog.
CONF = {"spark.sql.shuffle.partitions": "2", "spark.sql.streaming.stateStore.maintenanceInterval": "300ms"}
OWNER = Owner("uid-1", "team-a", "before-release")
FORK = "00000000-0000-4000-8000-000000000001"
SECONDS = 120.0


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    folder = tmp_path_factory.mktemp("savepoints")
    with local_spark(folder, **CONF) as started:
        yield started


@pytest.fixture
def savepoints(driver: SparkDriver) -> Savepoints:
    return Savepoints(driver.jvm, driver.context._jsc.hadoopConfiguration(), str(driver.context.version))


class Counting:
    """A query that counts rows by key, from a table of its own, with its whole result in memory."""

    def __init__(self, driver: SparkDriver, name: str, settings: dict[str, str]) -> None:
        self.driver, self.name = driver, name
        self.session = driver.clone()
        for key, value in settings.items():
            self.session.conf().set(key, value)
        self.rows = 0
        run(driver, self.session, f"CREATE TABLE {name} (id INT) USING parquet")

    def add(self) -> None:
        run(
            self.driver,
            self.session,
            f"INSERT INTO {self.name} SELECT id FROM range({self.rows}, {self.rows + 10}, 1, 1)",
        )
        self.rows += 10

    def start(self, checkpoint: Path, sink: str) -> Any:
        sql = f"SELECT id % 3 AS k, count(*) AS n FROM STREAM {self.name} WITH ('maxFilesPerTrigger' = '1') GROUP BY 1"
        frame = self.driver.of_rows(self.session, self.session.sessionState().sqlParser().parsePlan(sql))
        writer = frame.writeStream().format("memory").queryName(sink).outputMode("complete")
        return writer.option("checkpointLocation", checkpoint.as_uri()).start()

    def counted(self, source: str) -> list[tuple[int, int]]:
        query = f"SELECT k, n FROM {source} ORDER BY k"
        rows = self.driver.of_rows(
            self.session, self.session.sessionState().sqlParser().parsePlan(query)
        ).collectAsList()
        return [(int(row.getInt(0)), int(row.getLong(1))) for row in rows]

    @property
    def expected(self) -> list[tuple[int, int]]:
        return self.counted(f"(SELECT id % 3 AS k, count(*) AS n FROM {self.name} GROUP BY 1)")


def wait_batch(query: Any, batch: int) -> None:
    deadline = time.monotonic() + SECONDS
    while (last := query.lastProgress()) is None or last.batchId() < batch or last.numInputRows() == 0:
        assert query.isActive(), query.exception()
        assert time.monotonic() < deadline, last
        time.sleep(0.02)


@pytest.mark.parametrize("kind", thorough_but(["changelog"], SETTINGS))
def test_a_copy_taken_from_a_running_query_goes_on_as_the_whole(
    driver: SparkDriver, savepoints: Savepoints, tmp_path: Path, kind: str
) -> None:
    counting = Counting(driver, f"live_{kind}", SETTINGS[kind])
    for _ in range(4):
        counting.add()
    query = counting.start(tmp_path / "c", f"first_{kind}")
    wait_batch(query, 2)
    for _ in range(3):
        counting.add()
    target = (tmp_path / "s").as_uri()
    manifest = savepoints.take((tmp_path / "c").as_uri(), target, OWNER)
    for _ in range(3):
        counting.add()
    query.processAllAvailable()
    query.stop()
    assert counting.counted(f"first_{kind}") == counting.expected
    assert manifest.batch_id >= 2
    assert manifest.query_id == str(query.id())
    assert manifest.size_bytes > 0

    assert savepoints.inspect(target) == manifest
    savepoints.restore(target, (tmp_path / "r").as_uri(), FORK)
    again = counting.start(tmp_path / "r", f"second_{kind}")
    again.processAllAvailable()
    again.stop()
    assert str(again.id()) == FORK != manifest.query_id
    assert min(int(progress.batchId()) for progress in again.recentProgress()) == manifest.batch_id + 1
    assert counting.counted(f"second_{kind}") == counting.expected


@pytest.mark.parametrize("reverse", thorough_but([False], [False, True]))
@pytest.mark.parametrize("kind", thorough_but(["changelog"], SETTINGS))
def test_batches_committed_while_files_are_listed_do_not_tear_the_copy(
    driver: SparkDriver,
    savepoints: Savepoints,
    tmp_path: Path,
    kind: str,
    reverse: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One before each folder is looked into, in whatever order a file system gives them."""
    counting = Counting(driver, f"torn_{kind}_{reverse}", SETTINGS[kind])
    counting.add()
    query = counting.start(tmp_path / "c", f"torn_first_{kind}_{reverse}")
    query.processAllAvailable()
    listed = savepoints._children

    def children(folder: str) -> list[Any]:
        if folder.rpartition("/")[2] in ("c", "commits", "state"):
            counting.add()
            query.processAllAvailable()
        return sorted(listed(folder), key=lambda status: str(status.getPath().getName()), reverse=reverse)

    monkeypatch.setattr(savepoints, "_children", children)
    target = (tmp_path / "s").as_uri()
    savepoints.take((tmp_path / "c").as_uri(), target, OWNER)
    query.stop()
    monkeypatch.undo()
    savepoints.restore(target, (tmp_path / "r").as_uri(), FORK)
    again = counting.start(tmp_path / "r", f"torn_second_{kind}_{reverse}")
    again.processAllAvailable()
    again.stop()
    assert counting.counted(f"torn_second_{kind}_{reverse}") == counting.expected


@pytest.mark.parametrize("kind", thorough_but(["changelog"], SETTINGS))
def test_a_checkpoint_copy_has_one_snapshot_of_each_state_store_and_no_history(
    driver: SparkDriver, savepoints: Savepoints, tmp_path: Path, kind: str
) -> None:
    often = {"spark.sql.streaming.stateStore.minDeltasForSnapshot": "3"}
    counting = Counting(driver, f"old_{kind}", SETTINGS[kind] | often)
    checkpoint = tmp_path / "c"
    query = counting.start(checkpoint, f"old_first_{kind}")
    deadline = time.monotonic() + SECONDS
    while not wholes(checkpoint, before=2):  # Spark's maintenance makes them in the background
        assert time.monotonic() < deadline, sorted(checkpoint.rglob("state/*/*/*"))
        counting.add()
        query.processAllAvailable()
    query.stop()
    before = wholes(checkpoint)
    manifest = savepoints.take(checkpoint.as_uri(), (tmp_path / "s").as_uri(), OWNER)
    after = wholes(checkpoint)  # maintenance goes on without the query
    copy = tmp_path / "s" / "checkpoint"
    copied = wholes(copy)
    assert copied.keys() == before.keys()
    for store, (version, *history) in copied.items():
        assert not history
        assert max(before[store]) <= version <= max(after[store])
        changes = {path.name for path in (copy / store).glob("*.*") if path.suffix in (".delta", ".changelog")}
        assert {int(name.partition(".")[0]) for name in changes} <= set(range(version, manifest.batch_id + 2))
    counting.add()
    savepoints.restore((tmp_path / "s").as_uri(), (tmp_path / "r").as_uri(), FORK)
    again = counting.start(tmp_path / "r", f"old_second_{kind}")
    again.processAllAvailable()
    for _ in range(4):
        counting.add()
        again.processAllAvailable()
    again.stop()
    assert counting.counted(f"old_second_{kind}") == counting.expected


def wholes(checkpoint: Path, before: int = 0) -> dict[str, list[int]]:
    """Versions that are there as a whole, of each store. Empty while one has no more than `before` of them."""
    found: dict[str, list[int]] = {}
    for store in (path for path in checkpoint.glob("state/0/*") if path.name.isdecimal()):
        versions = [int(path.stem) for path in store.iterdir() if path.suffix in (".snapshot", ".zip")]
        if len(versions) <= before:
            return {}
        found[str(store.relative_to(checkpoint))] = sorted(versions)
    return found


@pytest.mark.parametrize("source", ["savepoint", "checkpoint"])
def test_a_fork_of_a_stopped_query_has_another_identity(
    driver: SparkDriver, savepoints: Savepoints, tmp_path: Path, source: str
) -> None:
    counting = Counting(driver, f"forked_{source}", {})
    counting.add()
    query = counting.start(tmp_path / "c", f"origin_{source}")
    query.processAllAvailable()
    query.stop()
    target = (tmp_path / "s").as_uri()
    manifest = savepoints.take((tmp_path / "c").as_uri(), target, OWNER)
    place = target if source == "savepoint" else (tmp_path / "c").as_uri()
    found = savepoints.inspect(place)
    assert (found.batch_id, found.query_id) == (manifest.batch_id, manifest.query_id)
    assert (found.owner is None, found.spark_version is None) == (source == "checkpoint",) * 2
    (tmp_path / "f" / "offsets").mkdir(parents=True)
    (tmp_path / "f" / "offsets" / "99").write_text("left behind by a restore that did not come to its end")
    savepoints.restore(place, (tmp_path / "f").as_uri(), FORK)
    counting.add()
    fork = counting.start(tmp_path / "f", f"fork_{source}")
    fork.processAllAvailable()
    fork.stop()
    assert str(fork.id()) == FORK != manifest.query_id
    assert counting.counted(f"fork_{source}") == counting.expected
    assert savepoints.read(target) == manifest
    before = sorted(path.name for path in (tmp_path / "f" / "commits").iterdir())
    savepoints.restore(place, (tmp_path / "f").as_uri(), "00000000-0000-4000-8000-000000000002")
    assert sorted(path.name for path in (tmp_path / "f" / "commits").iterdir()) == before


def test_a_savepoint_is_taken_once_and_only_into_a_folder_of_its_own(
    driver: SparkDriver, savepoints: Savepoints, tmp_path: Path
) -> None:
    counting = Counting(driver, "owned", {})
    counting.add()
    checkpoint, target = (tmp_path / "c").as_uri(), tmp_path / "s"
    with pytest.raises(SavepointError, match="no committed batch"):
        savepoints.take(checkpoint, (tmp_path / "none").as_uri(), OWNER)
    query = counting.start(tmp_path / "c", "owned_rows")
    query.processAllAvailable()
    query.stop()
    manifest = savepoints.take(checkpoint, target.as_uri(), OWNER)
    assert savepoints.take(checkpoint, target.as_uri(), OWNER) == manifest
    stranger = Owner("uid-2", "team-a", "before-release")
    with pytest.raises(SavepointError, match="another object"):
        savepoints.take(checkpoint, target.as_uri(), stranger)
    (target / MANIFEST).unlink()  # as an attempt leaves it that did not come to its end
    assert savepoints.read(target.as_uri()) is None
    with pytest.raises(SavepointError, match="not this savepoint's"):
        savepoints.take(checkpoint, target.as_uri(), stranger)
    for nothing in (target, tmp_path / "nowhere"):
        with pytest.raises(InvalidLocationError, match="neither a complete savepoint"):
            savepoints.restore(nothing.as_uri(), (tmp_path / "r").as_uri(), FORK)
    assert not (tmp_path / "r").exists()
    (target / "checkpoint" / "offsets" / "99").write_text("left behind")
    assert savepoints.take(checkpoint, target.as_uri(), OWNER) == manifest
    assert not (target / "checkpoint" / "offsets" / "99").exists()
    (tmp_path / "plain").mkdir()
    with pytest.raises(SavepointError, match="not this savepoint's"):
        savepoints.take(checkpoint, (tmp_path / "plain").as_uri(), OWNER)
    lost = next(path for path in (target / "checkpoint" / "sources").rglob("[0-9]*") if path.is_file())
    content = lost.read_bytes()
    lost.unlink()
    with pytest.raises(InvalidLocationError, match="lacks sources/"):
        savepoints.inspect(target.as_uri())
    lost.write_bytes(content)
    assert savepoints.inspect(target.as_uri()) == manifest
    assert Manifest.from_json((target / MANIFEST).read_text()) == manifest
