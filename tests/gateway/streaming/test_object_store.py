"""A checkpoint in an object store: of two drivers that write the plan of one batch the store refuses one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.streaming.checkpoints.conditional import MANAGER, MANAGER_KEY, create_conditionally
from tests.support.default_class import image_connectors
from tests.support.object_store import ROOT, ObjectStore, object_store

from ..local_spark import local_spark, run


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with object_store(tmp_path_factory.mktemp("store")) as started:
        yield started


@pytest.fixture(scope="module")
def driver(store: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    with local_spark(tmp_path_factory.mktemp("spark"), image_connectors(), **store.conf) as started:
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


@pytest.mark.parametrize("provider", ["HDFSBackedStateStoreProvider", "RocksDBStateStoreProvider"])
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
