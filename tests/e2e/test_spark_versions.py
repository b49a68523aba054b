"""State outlives another session image and another version of Spark, forwards and back: counts keyed and by window, in both state stores."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.streams import QUICK, SECONDS, resume, stop, stream
from tests.support.harness import Classes, Object, Space, phase

pytestmark = pytest.mark.thorough  # it makes a second session image, and takes as long as a quarter of its level

# Delta has been released for both Sparks, Iceberg has not.
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
}
FEW = {"spark.sql.shuffle.partitions": "2"}
ROCKS_DB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}
CHUNK = 100
START = 1_700_000_000  # time of event 0 in seconds; then one each second
CLOSING = 1_000_000  # id of an event eleven days later, which closes all windows before it
EVENTS = (
    f"id, CAST(id % 7 AS INT) AS k, concat('n', id) AS name, timestamp_seconds({START} + id) AS at, "
    "CAST(id % 13 AS DECIMAL(6,2)) AS amount"
)
KEYED = "k, count(*) AS n, sum(amount) AS total, avg(amount) AS mean, max_by(name, id) AS last"
WINDOWED = "window.start AS w, k, count(*) AS n, sum(amount) AS total"
WINDOW = "window(at, '20 seconds')"
KEYED_COLUMNS = "(k INT, n BIGINT, total DECIMAL(16,2), mean DECIMAL(10,6), last STRING)"
WINDOWED_COLUMNS = "(w TIMESTAMP, k INT, n BIGINT, total DECIMAL(16,2))"
TABLES = f"""
    CREATE TABLE events (id BIGINT, k INT, name STRING, at TIMESTAMP, amount DECIMAL(6,2)) USING parquet;
    CREATE TABLE keyed {KEYED_COLUMNS} USING delta;
    CREATE TABLE keyed_fork {KEYED_COLUMNS} USING delta;
    CREATE TABLE windowed {WINDOWED_COLUMNS} USING parquet;
    CREATE TABLE windowed_fork {WINDOWED_COLUMNS} USING delta;
    INSERT INTO events SELECT {EVENTS} FROM range({CHUNK})
"""
SAVED = {**QUICK, "upgradeMode": "Savepoint"}
UPSERT = {**SAVED, "outputMode": "Update", "upsert": {"keys": ["k"]}}


@pytest.fixture(scope="module")
def class_name(classes: Classes, next_image: str) -> str:
    return classes.make(defaults={"conf": DELTA}, allow={"images": ["localhost/spark-sql-session:*"]})


@pytest.fixture(scope="module")
def main(space: Space, class_name: str) -> Space:
    """A session `main` of a class of its own, with the streams' tables and the first events."""
    space.session("main", className=class_name, maxConcurrentStatements=4)
    made = space.run(TABLES)
    assert phase(made) == "Finished", made["status"]
    return space


def start_keyed(space: Space, table: str, **streaming: Any) -> None:
    sql = f"INSERT INTO {table} SELECT {KEYED} FROM STREAM events GROUP BY k"
    space.statement(sql, name=stream_into(table), conf=FEW, streaming={**UPSERT, **streaming})


def start_windowed(space: Space, table: str, **streaming: Any) -> None:
    delay = "WATERMARK at DELAY OF INTERVAL 10 SECONDS"
    sql = f"INSERT INTO {table} SELECT {WINDOWED} FROM STREAM events {delay} GROUP BY {WINDOW}, k"
    space.statement(sql, name=stream_into(table), conf={**FEW, **ROCKS_DB}, streaming={**SAVED, **streaming})


def stream_into(table: str) -> str:
    return f"into-{table.replace('_', '-')}"


def insert(space: Space, first: int, count: int = CHUNK) -> None:
    """Adds events as one file: of several, the last might be seen first, and the others be late."""
    made = space.run(f"INSERT INTO events SELECT /*+ COALESCE(1) */ {EVENTS} FROM range({first}, {first + count})")
    assert phase(made) == "Finished", made["status"]


def keyed_in(*tables: str) -> dict[str, str]:
    """What a batch computes of all events, by the query that must give the same."""
    return {f"SELECT * FROM {table}": f"SELECT {KEYED} FROM events GROUP BY k" for table in tables}


def windows_in(before: int, *queries: str) -> dict[str, str]:
    """All windows that begin earlier than event `before`, but for that of the closing event, by the queries that must give them."""
    closed = f"WHERE id < {CLOSING} GROUP BY {WINDOW}, k HAVING w < timestamp_seconds({START} + {before})"
    return dict.fromkeys(queries, f"SELECT {WINDOWED} FROM events {closed}")


def wait_equal(space: Space, truths: dict[str, str]) -> None:
    """Until each query has the rows of its truth, and no others."""
    queries = dict.fromkeys((*truths, *truths.values()))
    rows = "count(*), md5(to_json(sort_array(collect_list(struct(*)))))"
    sql = " UNION ALL ".join(f"SELECT {number}, {rows} FROM ({query})" for number, query in enumerate(queries))
    found: dict[str, list[str | None]] = {}

    def equal() -> bool:
        told = {int(number or 0): row for number, *row in space.rows(sql, conf=FEW)}
        found.update({query: told[number] for number, query in enumerate(queries)})
        return all(found[query] == found[truth] for query, truth in truths.items())

    def seen() -> Any:
        statements = space.cluster.list("SqlStatement", space.name)
        return found, [each["status"] for each in statements if "streaming" in each["spec"]]

    space.cluster.wait_until(equal, "equal to the batch", SECONDS, seen)


def wait_first_batch(space: Space, table: str) -> None:
    """So that the rows which are there make a batch of their own."""

    def is_committed(statement: Object | None) -> bool:
        running = statement is not None and phase(statement) == "Running"
        return running and stream(statement or {}).get("committedBatchId", -1) >= 0

    space.cluster.wait("SqlStatement", space.name, stream_into(table), is_committed, "at batch 0", SECONDS)


def session_on(space: Space, version: str, image: str, incarnation: int) -> None:
    """Waits for the session's driver of that number, and checks what it runs."""

    def is_ready(session: Object | None) -> bool:
        return phase(session) == "Ready" and (session or {})["status"]["driver"]["incarnation"] >= incarnation

    seen = space.cluster.wait("SqlSession", space.name, "main", is_ready, f"Ready with driver {incarnation}", SECONDS)
    driver = seen["status"]["driver"]
    assert driver["sparkVersion"] == version
    pod = space.cluster.get("Pod", space.name, driver["podName"])
    assert pod is not None
    assert [each["image"] for each in pod["spec"]["containers"]] == [image]


def stopped_with_savepoint(space: Space, table: str, version: str) -> str:
    """Stops the stream into a table. The name of the savepoint that was taken before."""
    last: str = stream(stop(space, stream_into(table)))["lastSavepoint"]["name"]
    taken = space.cluster.get("SqlSavepoint", space.name, last)
    assert taken is not None and phase(taken) == "Completed"
    assert taken["status"]["sparkVersion"] == version
    return last


def test_state_goes_to_the_next_spark_and_back(main: Space, class_name: str, next_image: str) -> None:
    klass = main.cluster.get("SqlSessionClass", "", class_name)
    assert klass is not None
    image, windows = klass["spec"]["image"], "SELECT * FROM windowed"
    session_on(main, "4.1.4", image, 1)
    start_keyed(main, "keyed")
    start_windowed(main, "windowed")
    for table in ("keyed", "windowed"):
        wait_first_batch(main, table)
    insert(main, CHUNK)
    wait_equal(main, keyed_in("keyed") | windows_in(180, windows))
    keyed, windowed = (stopped_with_savepoint(main, table, "4.1.4") for table in ("keyed", "windowed"))
    origins = {table: stream(main.get(stream_into(table))) for table in ("keyed", "windowed")}

    # With its savepoints behind it, by the class: the next driver takes the class's image.
    main.cluster.patch("SqlSessionClass", "", class_name, {"spec": {"image": next_image}})
    main.change("SqlSession", "main", restartNonce="next")
    session_on(main, "4.2.1", next_image, 2)
    # A fork of windows has those only that close from now on.
    kept = main.run("CREATE TABLE windowed_before USING delta AS SELECT * FROM windowed")
    assert phase(kept) == "Finished", kept["status"]
    for table in ("keyed", "windowed"):
        resume(main, stream_into(table))
    start_keyed(main, "keyed_fork", startFrom={"savepointRef": {"name": keyed}})
    start_windowed(main, "windowed_fork", startFrom={"savepointRef": {"name": windowed}})
    insert(main, 2 * CHUNK)
    forked = "SELECT * FROM windowed_before UNION ALL SELECT * FROM windowed_fork"
    wait_equal(main, keyed_in("keyed", "keyed_fork") | windows_in(280, windows, forked))
    stopped_with_savepoint(main, "keyed", "4.2.1")
    resume(main, stream_into("keyed"))

    # Under the running streams, by the session: back on the image that it came from.
    main.change("SqlSession", "main", image=image)
    session_on(main, "4.1.4", image, 3)
    insert(main, 3 * CHUNK)
    insert(main, CLOSING, 1)
    wait_equal(main, keyed_in("keyed", "keyed_fork") | windows_in(CLOSING, windows, forked))
    for table, origin in origins.items():
        now = stream(main.get(stream_into(table)))
        for field in ("queryId", "checkpointLocation"):
            assert now[field] == origin[field]
        assert now["committedBatchId"] > origin["committedBatchId"]
    for table, savepoint in (("keyed_fork", keyed), ("windowed_fork", windowed)):
        taken = main.cluster.get("SqlSavepoint", main.name, savepoint)
        assert taken is not None
        assert stream(main.get(stream_into(table)))["restoredFrom"] == taken["status"]["location"]
