"""Two drivers that write one batch, of which the first woke up late: the checkpoint's store and the table's commit refuse one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from sparksql.api.execution import Upsert
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.streaming.checkpoints.conditional import MANAGER, MANAGER_KEY, create_conditionally
from sparksql.gateway.streaming.commit_once import SINK_KEYS, guarded, start_into
from sparksql.gateway.streaming.upsert.merge import MergeWriter
from sparksql.gateway.streaming.upsert.target import upsert_target
from tests.support.default_class import image_connectors
from tests.support.object_store import ROOT, ObjectStore, object_store
from tests.support.thorough import thorough_but

from ..connectors import conf
from ..local_spark import local_spark, run


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with object_store(tmp_path_factory.mktemp("store")) as started:
        yield started


@pytest.fixture(scope="module")
def driver(store: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    folder = tmp_path_factory.mktemp("spark")
    with local_spark(folder, image_connectors(), **store.conf, **conf(folder)) as started:
        yield started


def files_of(driver: SparkDriver) -> HadoopFiles:
    return HadoopFiles(driver.jvm, driver.context._jsc.hadoopConfiguration())


def manager(driver: SparkDriver, folder: str) -> Any:
    """As a query of a session makes it."""
    path, conf = driver.jvm.org.apache.hadoop.fs.Path(folder), driver.context._jsc.hadoopConfiguration()
    return driver.jvm.dev.sparksql.streaming.ConditionalCheckpointFileManager(path, conf)


def refusal_of(call: Any) -> str:
    with pytest.raises(Py4JJavaError) as refused:
        call()
    return str(refused.value.java_exception.getClass().getSimpleName())


def test_the_second_plan_of_a_batch_is_refused_by_the_store(driver: SparkDriver) -> None:
    uri = f"{ROOT}/two/offsets/1"
    path = driver.jvm.org.apache.hadoop.fs.Path(uri)
    managers = [manager(driver, f"{ROOT}/two") for _ in range(2)]
    first, second, given_up = (each.createAtomic(path, False) for each in (*managers, managers[0]))
    for stream, text in ((first, "first"), (second, "second"), (given_up, "third")):
        stream.write(bytearray(text.encode()))
    given_up.cancel()
    assert not files_of(driver).exists(uri)
    first.close()
    assert refusal_of(second.close) == "FileAlreadyExistsException"
    second.cancel()  # as Spark does then
    assert files_of(driver).read_text(uri) == "first"
    assert refusal_of(lambda: managers[1].createAtomic(path, False)) == "FileAlreadyExistsException"
    over = managers[1].createAtomic(path, True)
    over.write(bytearray(b"over"))
    over.close()
    assert files_of(driver).read_text(uri) == "over"


def test_only_a_checkpoint_whose_store_can_is_written_so(driver: SparkDriver, tmp_path: Path) -> None:
    def chosen(checkpoint: str, before: str | None = None) -> str | None:
        session = driver.base.cloneSession()
        if before is not None:
            session.conf().set(MANAGER_KEY, before)
        create_conditionally(session, checkpoint, files_of(driver))
        found = session.conf().getOption(MANAGER_KEY)
        return str(found.get()) if found.isDefined() else None

    assert chosen(f"{ROOT}/c") == MANAGER
    assert chosen(f"{ROOT}/c", "of.the.Class") == "of.the.Class"
    assert chosen(tmp_path.as_uri()) is None


PROVIDERS = ["HDFSBackedStateStoreProvider", "RocksDBStateStoreProvider"]


@pytest.mark.parametrize("provider", thorough_but(PROVIDERS[:1], PROVIDERS))
def test_a_stateful_query_goes_on_from_a_checkpoint_in_the_store(
    driver: SparkDriver, store: ObjectStore, tmp_path: Path, provider: str
) -> None:
    checkpoint = f"{ROOT}/{provider}"
    session = driver.base.cloneSession()
    session.conf().set(
        "spark.sql.streaming.stateStore.providerClass", f"org.apache.spark.sql.execution.streaming.state.{provider}"
    )
    create_conditionally(session, checkpoint, files_of(driver))
    run(
        driver,
        session,
        "DROP TABLE IF EXISTS words",
        f"CREATE TABLE words (w STRING) USING parquet LOCATION '{tmp_path}/words'",
    )

    def counted(values: str) -> list[tuple[str, int]]:
        """One run over what is new."""
        run(driver, session, f"INSERT INTO words VALUES {values}")
        stream = session.sql("SELECT w, count(*) AS n FROM STREAM words GROUP BY w")
        writer = stream.writeStream().outputMode("complete").format("memory").queryName("counts")
        writer = writer.option("checkpointLocation", checkpoint)
        query = writer.trigger(driver.jvm.org.apache.spark.sql.streaming.Trigger.AvailableNow()).start()
        query.awaitTermination()
        rows = session.table("counts").collect()
        return sorted((str(row.getString(0)), int(row.getLong(1))) for row in rows)

    assert counted("('a'), ('b'), ('a')") == [("a", 2), ("b", 1)]
    assert counted("('b'), ('c')") == [("a", 2), ("b", 2), ("c", 1)]
    written = store.folder / provider
    assert sorted(each.name for each in (written / "offsets").iterdir()) == ["0", "1"]
    assert [each for each in written.rglob("*") if each.name.endswith(".tmp")] == []


def test_an_appended_batch_is_looked_for_in_the_commit(driver: SparkDriver) -> None:
    session = driver.base.cloneSession()
    run(driver, session, "CREATE TABLE lake.d.appended (id INT) USING iceberg")

    def append(query: str, batch: int) -> Any:
        """An append of another driver, prepared and not committed."""
        table = guarded(driver.jvm, session.table("lake.d.appended").logicalPlan(), SINK_KEYS)
        assert table is not None
        return table.table.table().newFastAppend().set(SINK_KEYS[0], query).set(SINK_KEYS[1], str(batch))

    first, frozen, earlier = append("q", 7), append("q", 7), append("q", 6)
    first.commit()
    run(driver, session, "INSERT INTO lake.d.appended VALUES (1)")
    for late in (frozen, earlier, append("q", 7)):
        assert refusal_of(late.commit) == "ValidationException"
    next_one = append("q", 8)
    append("another", 7).commit()
    next_one.commit()
    assert len(list(session.table("lake.d.appended.snapshots").collect())) == 4


def test_a_stream_is_started_into_a_table_whose_commit_looks(driver: SparkDriver, tmp_path: Path) -> None:
    session = driver.base.cloneSession()
    run(
        driver,
        session,
        "CREATE TABLE lake.d.streamed (id INT) USING iceberg",
        f"CREATE TABLE events (id INT) USING parquet LOCATION '{tmp_path}/events'",
        "INSERT INTO events VALUES (1), (2)",
    )
    writer = session.sql("SELECT id FROM STREAM events").writeStream()
    writer = writer.option("checkpointLocation", f"{tmp_path.as_uri()}/c")
    writer = writer.trigger(driver.jvm.org.apache.spark.sql.streaming.Trigger.AvailableNow())
    query = start_into(driver.jvm, session, writer, "lake.d.streamed")
    query.awaitTermination()
    operations = query.streamingQuery().sink().table().operations()
    assert "Proxy" in str(operations.getClass().getSimpleName())
    [snapshot] = session.table("lake.d.streamed.snapshots").collect()
    assert str(query.id()) in str(snapshot)
    assert session.table("lake.d.streamed").count() == 2


MERGES = [("copy-on-write", "is in the table already"), ("merge-on-read", "Found new conflicting")]


@pytest.mark.parametrize(("mode", "refusal"), thorough_but(MERGES[1:], MERGES))
def test_a_merged_batch_is_looked_for_in_the_commit(
    driver: SparkDriver, monkeypatch: pytest.MonkeyPatch, mode: str, refusal: str
) -> None:
    """A driver is frozen after it has looked, and wakes when the batch and the next one are there.

    Iceberg itself refuses such a MERGE in places: with delete files, and in the default isolation, which is serializable.
    """
    session = driver.base.cloneSession()
    name = f"lake.d.merged_{mode.replace('-', '_')}"
    run(
        driver,
        session,
        f"CREATE TABLE {name} (id INT, v STRING) USING iceberg "
        f"TBLPROPERTIES ('write.merge.mode' = '{mode}', 'write.merge.isolation-level' = 'snapshot')",
    )
    session.sparkContext().setLocalProperty("sql.streaming.queryId", "q")
    target = upsert_target(name, session.table(name).logicalPlan())

    def writer() -> MergeWriter:
        return MergeWriter(driver, Upsert(keys=("id",)), target)

    def merge(with_: MergeWriter, batch: int, values: str) -> None:
        with_.write(session.cloneSession().sql(f"SELECT * FROM VALUES {values} AS b (id, v)"), batch)

    frozen, other = writer(), writer()
    marks = frozen._marks

    def sleep(*arguments: Any) -> dict[str, str]:
        merge(other, 0, "(1, 'a'), (2, 'b')")
        merge(other, 1, "(1, 'later')")
        return marks(*arguments)

    monkeypatch.setattr(frozen, "_marks", sleep)
    with pytest.raises(Py4JJavaError, match=refusal):
        merge(frozen, 0, "(1, 'a'), (2, 'b')")
    merge(other, 2, "(2, 'c')")
    merge(frozen, 1, "(1, 'again')")  # as from a copy of the checkpoint, by hand
    rows = session.sql(f"SELECT id, v FROM {name} ORDER BY id").collect()
    assert [(int(row.getInt(0)), str(row.getString(1))) for row in rows] == [(1, "later"), (2, "c")]
