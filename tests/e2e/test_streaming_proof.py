"""No row lost and none doubled, whatever is killed: events from Kafka, counted by windows, joined and merged by key into Iceberg,
each with its state in files and in RocksDB.

A writer makes numbered, keyed events whose times are out of order. Meanwhile drivers, executors and the operator are killed, queries
stopped and resumed, savepoints taken and gone back to, at random. In the end each target equals what a batch makes of the topics.
`SPARKSQL_KILLS` sets how many are killed (3; the whole proof: 60), `SPARKSQL_SEED` repeats the order of a run.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterable

import pytest

from tests.e2e.broker import start_broker
from tests.e2e.proof_streams import PROOFS, TOPICS
from tests.e2e.streams import SECONDS, ask_savepoint, resume, stop, stream
from tests.support.harness import Cluster, Object, Space, condition, phase

KILLS = int(os.environ.get("SPARKSQL_KILLS", "3"))
SEED = int(os.environ.get("SPARKSQL_SEED") or random.randrange(1 << 30))
CHUNK = 200

pytestmark = pytest.mark.operator_lost


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
        for table, (columns, _) in TOPICS.items():
            done(self._space, f"INSERT INTO {table} SELECT {columns} FROM {ids} ORDER BY hash(id)", "writer")

    def close(self) -> None:
        """Stops it, and has it write the event after which all windows are closed."""
        self._enough.set()
        self.join(SECONDS)
        assert not self.is_alive(), "the writer hangs"
        if self.error is not None:
            raise self.error
        for table, (_, closing) in TOPICS.items():
            done(self._space, f"INSERT INTO {table} SELECT {closing}", "writer")


def done(space: Space, sql: str, session: str = "main") -> None:
    made = space.run(sql, session=session)
    assert phase(made) == "Finished", made["status"]


@pytest.fixture(scope="module")
def topics(space: Space) -> Space:
    """A session `main` with the streams' targets, one `writer`, and two topics."""
    address = start_broker(space)
    executors = {"instances": 2, "cpu": "100m", "memory": "768Mi"}
    space.session("main", wait=False, maxConcurrentStatements=4, driver={"memory": "1Gi"}, executors=executors)
    space.session("writer", executors={"instances": 1, "cpu": "100m", "memory": "512Mi"})
    kafka = f"'kafka.bootstrap.servers' = '{address}', 'startingOffsets' = 'earliest', 'value.format' = 'json'"
    tables = (
        *(f"CREATE TABLE {proof.table} ({proof.columns}) USING iceberg" for proof in PROOFS.values()),
        f"CREATE TABLE events (id BIGINT, k INT, at TIMESTAMP, amount INT) USING kafka OPTIONS ({kafka}, 'subscribe' = 'events')",
        f"CREATE TABLE payments (id BIGINT, paid TIMESTAMP) USING kafka OPTIONS ({kafka}, 'subscribe' = 'payments')",
    )
    done(space, ";\n".join(tables), "writer")
    space.wait_session("main", "Ready")
    return space


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
            (self._driver, 3),
            (self._lost_driver, 1),
            (self._executor, 5),
            (self._operator, 3),
            (self._pause, 2),
            (self._save, 2),
            (self._restore, 2),
            (self._breathe, 2),
        ]
        action = self.random.choices([each for each, _ in actions], [weight for _, weight in actions])[0]
        self.kills += action in (self._driver, self._lost_driver, self._executor, self._operator)
        self.done.append(f"{time.strftime('%H:%M:%S')} {action()}")

    def _driver(self) -> str:
        """Its JVM; there may be none at the moment."""
        self.space.crash_driver(check=False)
        return "driver"

    def _lost_driver(self) -> str:
        """Its pod, by force: nobody sees its end, and its streams start later."""
        self.space.kill_driver()
        return "lost driver"

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
        name = self.random.choice(list(PROOFS))
        stop(self.space, name)
        resume(self.space, name)
        return f"stop and resume {name}"

    def _save(self, of: str | None = None) -> str:
        name = of or self.random.choice(list(PROOFS))
        self.savepoints += 1
        ask_savepoint(self.space, f"s{self.savepoints}", name, reclaimPolicy="Delete")
        return f"savepoint s{self.savepoints} of {name}"

    def _restore(self) -> str:
        """Only of what is merged by key: what is appended would rightly be there twice."""
        complete = [
            each
            for each in self.cluster.list("SqlSavepoint", self.space.name)
            if phase(each) == "Completed" and PROOFS[_statement(each)].upsert
        ]
        if not complete:
            return self._save(self.random.choice([name for name, proof in PROOFS.items() if proof.upsert]))
        self.nonce += 1
        chosen = self.random.choice(complete)
        name, statement = chosen["metadata"]["name"], _statement(chosen)
        back = {"startFrom": {"savepointRef": {"name": name}}, "restoreNonce": str(self.nonce)}
        self.space.change("SqlStatement", statement, streaming=back)
        return f"restore {statement} from {name}"

    def _breathe(self) -> str:
        """Each commits a batch, so that what comes next meets queries at work. After a restore its number is a lower one."""
        before = committed(self.space)

        def moved() -> bool:
            self.heal()
            now = committed(self.space)
            return all(now[name] != batch for name, batch in before.items())

        self.space.cluster.wait_until(moved, f"beyond batches {before}", SECONDS, lambda: committed(self.space))
        return "a batch of each"

    def heal(self) -> None:
        """What a person does about a session that was lost too often in a row."""
        session = self.space.get_session()
        if phase(session) == "Failed":
            self.space.change("SqlSession", "main", restartNonce=str(len(self.done)))


def _is_of(pod: Object, session: str) -> bool:
    return bool(pod["metadata"]["name"].startswith(f"{session}-"))


def _statement(savepoint_: Object) -> str:
    return str(savepoint_["spec"]["statementRef"]["name"])


def committed(space: Space) -> dict[str, int]:
    return {name: stream(space.get(name)).get("committedBatchId", -1) for name in PROOFS}


def differences(space: Space, names: Iterable[str]) -> dict[str, int]:
    """For each query how many rows are in one of truth and target and not in the other."""
    counts = (f"SELECT '{name}', count(*) FROM ({PROOFS[name].difference})" for name in names)
    return {str(name): int(count or 0) for name, count in space.rows(" UNION ALL ".join(counts), session="writer")}


def test_every_stream_target_equals_the_batch_after_random_kills_and_stops(topics: Space, cluster: Cluster) -> None:
    writer, monkey = Writer(topics), Monkey(topics, cluster)
    writer.start()
    patient = {"trigger": {"mode": "Interval", "intervalMillis": 1000}, "restart": {"limit": 1000, "backoffSeconds": 1}}
    for name, proof in PROOFS.items():
        topics.statement(proof.sql, name=name, conf=proof.conf, streaming={**patient, **proof.streaming})
    try:
        _wait_all(topics, monkey, dict.fromkeys(PROOFS, 0))
        while monkey.kills < KILLS:
            monkey.act()
            monkey.heal()
            time.sleep(monkey.random.uniform(0.5, 4))  # not for a state: the next fault meets whatever there is now
        writer.close()
        cluster.wait_operator()
        _wait_equal(topics, monkey)
    except AssertionError:
        print(cluster.logs(topics.name, topics.driver_pod("main"))[-8000:])
        raise
    finally:
        writer._enough.set()
        print(f"seed {SEED}, {writer.written} events", *monkey.done, sep="\n  ")
    for name in PROOFS:
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
    left = dict.fromkeys(PROOFS, -1)

    def equal() -> bool:
        monkey.heal()
        left.update(differences(space, [name for name, rows in left.items() if rows]))
        return not any(left.values())

    def seen() -> object:
        differing = {name: space.rows(PROOFS[name].difference, session="writer") for name, rows in left.items() if rows}
        return left, differing, monkey.done, committed(space)

    space.cluster.wait_until(equal, "equal to the batch", 2 * SECONDS, seen)
