"""No row lost and none doubled, whatever is killed: events from Kafka, counted by windows, joined and merged by key into Iceberg.

A writer makes numbered, keyed events whose times are out of order. Meanwhile drivers, executors and the operator are killed, queries
stopped and resumed, savepoints taken and gone back to, at random. In the end each target equals what a batch makes of the topics.
`SPARKSQL_KILLS` sets how many are killed (4; the whole proof: 60), `SPARKSQL_SEED` repeats the order of a run.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable

import pytest
from broker import start_broker
from harness import Cluster, Object, Space, condition, phase
from streams import SECONDS, resume, stop, stream

from sparksql.api.names import API_VERSION

KILLS = int(os.environ.get("SPARKSQL_KILLS", "4"))
SEED = int(os.environ.get("SPARKSQL_SEED") or random.randrange(1 << 30))
ROCKS_DB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}
FEW = {"spark.sql.shuffle.partitions": "2"}
CHUNK = 200
START = 1_700_000_000_000  # time of event 0 in milliseconds; then one each 50 ms, up to 3 s late
CLOSING = 1_000_000_000  # id of an event a day later, which closes all windows
AT = f"timestamp_millis({START} + id * 50 + pmod(hash(id), 3000))"
EVENTS = f"id, CAST(id % 7 AS INT) AS k, {AT} AS at, CAST(pmod(hash(id, 1), 100) AS INT) AS amount"
PAID = f"id, {AT} + make_dt_interval(0, 0, 0, pmod(hash(id, 2), 5)) AS paid"
DELAY = "DELAY OF INTERVAL 10 SECONDS"
WINDOWED = "window.start AS w, k, count(*) AS n, sum(amount) AS total"
JOINED = "e.id, e.amount, p.paid"
ON = "e.id = p.id AND p.paid BETWEEN e.at AND e.at + INTERVAL 10 SECONDS"

STREAMS = {
    "windowed": (
        f"INSERT INTO windowed SELECT {WINDOWED} FROM STREAM events WATERMARK at {DELAY} GROUP BY window(at, '5 seconds'), k",
        {**FEW, **ROCKS_DB},
        {},
    ),
    "joined": (
        f"INSERT INTO joined SELECT {JOINED} FROM (SELECT * FROM STREAM events WATERMARK at {DELAY}) e "
        f"JOIN (SELECT * FROM STREAM payments WATERMARK paid {DELAY}) p ON {ON}",
        FEW,
        {},
    ),
    "latest": (
        "INSERT INTO latest SELECT k, id, amount FROM STREAM events",
        FEW,
        {"outputMode": "Update", "upsert": {"keys": ["k"], "orderBy": "id"}},
    ),
}
TRUTH = {
    "windowed": f"SELECT {WINDOWED} FROM events WHERE id < {CLOSING} GROUP BY window(at, '5 seconds'), k",
    "joined": f"SELECT {JOINED} FROM events e JOIN payments p ON {ON}",
    "latest": "SELECT k, max(id) AS id, max_by(amount, id) AS amount FROM events GROUP BY k",
}
FOUND = {
    "windowed": f"SELECT * FROM windowed WHERE w < timestamp_millis({START} + 86400000)",
    "joined": "SELECT * FROM joined",
    "latest": "SELECT * FROM latest",
}


class Writer(threading.Thread):
    """Writes events until it is told to stop, from a session that nobody kills."""

    def __init__(self, space: Space) -> None:
        super().__init__(name="writer")
        self._space = Space(Cluster(space.cluster.kubeconfig), space.name)  # with a connection of this thread's own
        self._enough = threading.Event()
        self.written = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._enough.wait(1.0):
                self._write(f"range({self.written}, {self.written + CHUNK})")
                self.written += CHUNK
        except BaseException as error:  # told to the test, which raises it
            self.error = error

    def _write(self, ids: str) -> None:
        for table, columns in (("events", EVENTS), ("payments", PAID)):
            made = self._space.run(
                f"INSERT INTO {table} SELECT {columns} FROM {ids} ORDER BY hash(id)", session="writer"
            )
            assert phase(made) == "Finished", made["status"]

    def close(self) -> None:
        """Stops it, and has it write the event after which all windows are closed."""
        self._enough.set()
        self.join(SECONDS)
        assert not self.is_alive(), "the writer hangs"
        if self.error is not None:
            raise self.error
        late = f"{CLOSING} AS id, 0 AS k, timestamp_millis({START} + 86400000) AS at, 0 AS amount"
        paid = f"{CLOSING} AS id, timestamp_millis({START} + 86400000) AS paid"
        for table, columns in (("events", late), ("payments", paid)):
            made = self._space.run(f"INSERT INTO {table} SELECT {columns}", session="writer")
            assert phase(made) == "Finished", made["status"]


@pytest.fixture(scope="module")
def topics(main: Space) -> Space:
    """A session `main` with the streams' targets, one `writer`, and two topics."""
    address = start_broker(main)
    main.session("writer", executors={"instances": 1, "cpu": "100m", "memory": "512Mi"})
    kafka = f"'kafka.bootstrap.servers' = '{address}', 'startingOffsets' = 'earliest', 'value.format' = 'json'"
    for sql in (
        "CREATE TABLE windowed (w TIMESTAMP, k INT, n BIGINT, total BIGINT) USING iceberg",
        "CREATE TABLE joined (id BIGINT, amount INT, paid TIMESTAMP) USING iceberg",
        "CREATE TABLE latest (k INT, id BIGINT, amount INT) USING iceberg",
        f"CREATE TABLE events (id BIGINT, k INT, at TIMESTAMP, amount INT) USING kafka OPTIONS ({kafka}, 'subscribe' = 'events')",
        f"CREATE TABLE payments (id BIGINT, paid TIMESTAMP) USING kafka OPTIONS ({kafka}, 'subscribe' = 'payments')",
    ):
        made = main.run(sql)
        assert phase(made) == "Finished", made["status"]
    return main


class Monkey:
    """What goes wrong, or is asked for, while the streams run."""

    def __init__(self, space: Space, cluster: Cluster) -> None:
        self.space, self.cluster = space, cluster
        self.random = random.Random(SEED)
        self.kills = 0
        self.savepoints = 0
        self.nonce = 0
        self.done: list[str] = []

    def act(self) -> None:
        actions: list[tuple[Callable[[], str], int]] = [
            (self._driver, 4),
            (self._executor, 5),
            (self._operator, 3),
            (self._pause, 2),
            (self._save, 2),
            (self._restore, 2),
        ]
        action = self.random.choices([each for each, _ in actions], [weight for _, weight in actions])[0]
        self.kills += action in (self._driver, self._executor, self._operator)
        self.done.append(f"{time.strftime('%H:%M:%S')} {action()}")

    def _driver(self) -> str:
        driver = self.space.get_session()["status"].get("driver") or {}
        if driver.get("podName"):
            self.cluster.delete("Pod", self.space.name, driver["podName"], grace_seconds=0)
        return "driver"

    def _executor(self) -> str:
        pods = [p for p in self.cluster.list("Pod", self.space.name, "spark-role=executor") if _is_of(p, "main")]
        if pods:
            name = self.random.choice(pods)["metadata"]["name"]
            self.cluster.delete("Pod", self.space.name, name, grace_seconds=0)
        return "executor"

    def _operator(self) -> str:
        self.cluster.kill_operator()
        return "operator"

    def _pause(self) -> str:
        name = self.random.choice(list(STREAMS))
        stop(self.space, name)
        resume(self.space, name)
        return f"stop and resume {name}"

    def _save(self, of: str | None = None) -> str:
        name = of or self.random.choice(list(STREAMS))
        self.savepoints += 1
        self.cluster.create(savepoint(self.space, f"s{self.savepoints}", name))
        return f"savepoint s{self.savepoints} of {name}"

    def _restore(self) -> str:
        """Only of what is merged by key: what is appended would rightly be there twice."""
        complete = [
            each["metadata"]["name"]
            for each in self.cluster.list("SqlSavepoint", self.space.name)
            if phase(each) == "Completed" and each["spec"]["statementRef"]["name"] == "latest"
        ]
        if not complete:
            return self._save("latest")
        self.nonce += 1
        name = self.random.choice(complete)
        back = {"startFrom": {"savepointRef": {"name": name}}, "restoreNonce": str(self.nonce)}
        self.space.change("SqlStatement", "latest", streaming=back)
        return f"restore latest from {name}"

    def heal(self) -> None:
        """What a person does about a session that was lost too often in a row."""
        session = self.space.get_session()
        if phase(session) == "Failed":
            self.space.change("SqlSession", "main", restartNonce=str(len(self.done)))


def _is_of(pod: Object, session: str) -> bool:
    return bool(pod["metadata"]["name"].startswith(f"{session}-"))


def savepoint(space: Space, name: str, statement: str) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": "SqlSavepoint",
        "metadata": {"name": name, "namespace": space.name},
        "spec": {"statementRef": {"name": statement}, "reclaimPolicy": "Delete"},
    }


def committed(space: Space) -> dict[str, int]:
    return {name: stream(space.get(name)).get("committedBatchId", -1) for name in STREAMS}


def difference(space: Space, name: str) -> int:
    """Rows that are in one of truth and target and not in the other."""
    truth, found = TRUTH[name], FOUND[name]
    sql = f"SELECT count(*) FROM (({truth} EXCEPT ALL {found}) UNION ALL ({found} EXCEPT ALL {truth}))"
    [[count]] = space.rows(sql, session="writer")
    return int(count or 0)


def test_every_target_equals_the_batch_after_all_that(topics: Space, cluster: Cluster) -> None:
    writer, monkey = Writer(topics), Monkey(topics, cluster)
    writer.start()
    patient = {"trigger": {"mode": "Interval", "intervalMillis": 500}, "restart": {"limit": 1000, "backoffSeconds": 1}}
    for name, (sql, conf, more) in STREAMS.items():
        topics.statement(sql, name=name, conf=conf, streaming={**patient, **more})
    try:
        _wait_all(topics, monkey, dict.fromkeys(STREAMS, 0))
        while monkey.kills < KILLS:
            monkey.act()
            monkey.heal()
            time.sleep(monkey.random.uniform(0.5, 4))  # not for a state: the next fault meets whatever there is now
        writer.close()
        cluster.wait_operator()
        _wait_equal(topics, monkey)
    finally:
        writer._enough.set()
        print(f"seed {SEED}, {writer.written} events", *monkey.done, sep="\n  ")
    for name in STREAMS:
        statement = topics.get(name)
        assert phase(statement) == "Running", statement["status"]
        assert condition(statement, "Finished") == "False"


def _wait_all(space: Space, monkey: Monkey, wanted: dict[str, int]) -> None:
    def reached() -> bool:
        monkey.heal()
        now = committed(space)
        return all(now[name] >= batch for name, batch in wanted.items())

    space.cluster.wait_until(reached, f"at batches {wanted}", SECONDS, lambda: committed(space))


def _wait_equal(space: Space, monkey: Monkey) -> None:
    """Until all that was written is through: what differs then differs for good."""
    left = dict.fromkeys(STREAMS, -1)

    def equal() -> bool:
        monkey.heal()
        for name in [name for name, rows in left.items() if rows]:
            left[name] = difference(space, name)
        return not any(left.values())

    space.cluster.wait_until(equal, "equal to the batch", SECONDS, lambda: (left, monkey.done, committed(space)))
