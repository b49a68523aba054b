"""A live query of each kind, side by side in one session and fed from Kafka: whose driver is killed, and whose targets are in the end
what Python makes of the same events.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest

from tests.e2e import live_queries
from tests.e2e.broker import compact_topic, start_broker
from tests.e2e.database import start_database
from tests.e2e.live_queries import KNOWN, QUERIES, TITLES, Cells, Change, Fed, ordered
from tests.e2e.streams import SECONDS, stream
from tests.gateway.streaming.kafka_messages import DESCRIPTOR, proto_row
from tests.gateway.windows.window_events import Event
from tests.support.harness import Space, phase
from tests.support.postgres import PASSWORD, USER

FEW = {"spark.sql.shuffle.partitions": "2"}
QUICK = {"trigger": {"mode": "Interval", "intervalMillis": 1000}, "restart": {"backoffSeconds": 1}}


@dataclass
class Feeder:
    """Writes events and changes into their topics, feed by feed, by statements of the session."""

    space: Space
    draw: random.Random = field(default_factory=lambda: random.Random(7))
    orders: dict[int, tuple[str, Decimal]] = field(default_factory=dict)
    fed: list[tuple[Event, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._coming = live_queries.feeds_of(self.draw)

    def feed(self) -> None:
        """Writes the next feed, with as many changes."""
        self._write(self._coming.pop(0), live_queries.changes_of(self.draw, self.orders))

    def close(self) -> Fed:
        """Writes the event that closes all windows, and has a region end."""
        [closing] = self._coming
        self._write(closing, live_queries.end_of(self.orders))
        return Fed(tuple(self.fed), self.orders)

    def _write(self, events: Iterable[Event], changes: Iterable[Change]) -> None:
        self.fed.append(tuple(events))
        rows = ", ".join(f"(TIMESTAMP'{e.ts}', '{e.k}', {e.uid}, {e.item}, {e.v})" for e in self.fed[-1])
        values = ", ".join(f"('{key}', '{value}')" for key, value in changes)  # in their order: by one task
        messages = ", ".join(f"(X'{proto_row({'id': e.item, 'name': e.k}).hex()}')" for e in self.fed[-1])
        done(
            self.space,
            f"INSERT INTO events VALUES {rows}",
            f"INSERT INTO written SELECT col1 AS value FROM VALUES {messages}",
            f"INSERT INTO changes (key, value) SELECT /*+ COALESCE(1) */ * FROM VALUES {values} AS c(key, value)",
        )


def done(space: Space, *statements: str) -> None:
    made = space.run(";\n".join(statements))
    assert phase(made) == "Finished", made["status"]


@pytest.fixture(scope="module")
def feeder(space: Space) -> Feeder:
    """A session `main`, a broker, a database that knows half of the visitors, the topics' tables and a target for each query."""
    executors = {"instances": 2, "cpu": "100m", "memory": "768Mi"}
    space.session("main", wait=False, maxConcurrentStatements=4, driver={"memory": "1Gi"}, executors=executors)
    rows = ", ".join(f"({number}, '{name}')" for number, name in KNOWN.items())
    visitors = f"CREATE TABLE visitors (id int PRIMARY KEY, name text); INSERT INTO visitors VALUES {rows}"
    url = start_database(space, f"{visitors}; {live_queries.DATABASE}")
    database = f"url '{url}', user '{USER}', password '{PASSWORD}', driver 'org.postgresql.Driver'"
    kafka = f"'kafka.bootstrap.servers' = '{start_broker(space)}', 'startingOffsets' = 'earliest'"
    changelog = "'subscribe' = 'changes', 'value.format' = 'debezium', 'changelog.rows' = 'all', 'key.columns' = 'id'"
    space.wait_session("main", "Ready")
    done(
        space,
        "CREATE TABLE titles (uid INT, title STRING) USING iceberg",
        f"INSERT INTO titles SELECT uid, '{TITLES[0]}' FROM VALUES {', '.join(f'({uid})' for uid in KNOWN)} AS k(uid)",
        f"CREATE TABLE written USING kafka OPTIONS ({kafka}, 'subscribe' = 'messages')",
        f"CREATE TABLE messages (id BIGINT, name STRING) USING kafka OPTIONS ({kafka}, 'subscribe' = 'messages', "
        f"'value.format' = 'protobuf', 'value.protobuf.message' = 'shop.Value', 'value.protobuf.descriptor' = '{DESCRIPTOR}')",
        "CREATE TABLE events (ts TIMESTAMP, k STRING, uid INT, item INT, v INT, _timestamp TIMESTAMP) "
        f"USING kafka OPTIONS ({kafka}, 'subscribe' = 'events', 'value.format' = 'json')",
        f"CREATE TABLE changes USING kafka OPTIONS ({kafka}, 'subscribe' = 'changes')",
        f"CREATE TABLE orders (id BIGINT, region STRING, amount DECIMAL(10,2)) USING kafka OPTIONS ({kafka}, {changelog})",
        f"CREATE TABLE visitors USING jdbc OPTIONS ({database}, dbtable 'visitors')",
        f"CREATE TABLE dear_records USING kafka OPTIONS ({kafka}, 'subscribe' = 'dear')",
        *(each.table(kafka=kafka, database=database) for each in QUERIES),
    )
    return Feeder(space)


def targets(space: Space) -> dict[str, list[Cells]]:
    """What each target has, in one order."""
    union = " UNION ALL ".join(each.found for each in QUERIES)
    printed = space.cluster.cli(space.name, "run", "-s", "main", "-e", union, "-o", "json")
    assert printed.returncode == 0, printed.stderr
    found: dict[str, list[Cells]] = {each.name: [] for each in QUERIES}
    for row in json.loads(printed.stdout):
        found[row["name"]].append(row["cells"])
    return {name: ordered(rows) for name, rows in found.items()}


def all_of(space: Space) -> dict[str, Any]:
    """What is said of each query, while all of them run."""
    found = {each.name: space.get(each.name) for each in QUERIES}
    ended = {name: made["status"] for name, made in found.items() if phase(made) in ("Error", "Closed", "Stopped")}
    assert not ended, ended
    return {name: stream(made) for name, made in found.items()}


def wait_all(space: Space, what: str, reached: Any) -> None:
    space.cluster.wait_until(lambda: all(map(reached, all_of(space).values())), what, SECONDS, lambda: all_of(space))


@pytest.mark.thorough
def test_live_queries_of_each_kind_equal_a_computation_after_a_killed_driver(feeder: Feeder) -> None:
    space = feeder.space
    feeder.feed()
    for each in QUERIES:
        space.statement(each.sql, name=each.name, conf=FEW, streaming={**QUICK, **each.streaming})
    wait_all(space, "with a batch committed", lambda seen: seen.get("committedBatchId", -1) >= 0)
    compact_topic(space, "dear")
    done(space, f"UPDATE titles SET title = '{TITLES[1]}'")
    # Its change is between the feeds: what is kept is of the first one, what is added is not.
    first = space.rows("SELECT sum(n) FROM totals")
    assert first == [[str(live_queries.EVENTS)]]
    space.change("SqlStatement", "totals", sql=live_queries.WITH_MOST)
    space.cluster.wait_until(
        lambda: "rewrittenFrom" in all_of(space)["totals"], "rewritten", SECONDS, lambda: all_of(space)["totals"]
    )
    feeder.feed()
    before = space.driver_pod()
    space.crash_driver()
    space.cluster.wait_until(lambda: space.driver_pod() != before, "another driver", SECONDS, space.driver_pod)
    space.wait_session("main", "Ready")
    feeder.feed()
    fed = feeder.close()
    expected = {each.name: each.expected(fed) for each in QUERIES}
    assert all(expected.values()) and len(expected["revenue"]) == len(live_queries.REGIONS), expected
    left: dict[str, Any] = {}

    def equal() -> bool:
        found = targets(space)
        left.clear()
        left.update({name: (rows, found[name]) for name, rows in expected.items() if rows != found[name]})
        return not left

    space.cluster.wait_until(equal, "equal to what Python computes", SECONDS, lambda: (left, all_of(space)))
    for name, seen in all_of(space).items():
        assert seen["restarts"] >= 1, (name, seen)
    assert "rewrittenFrom" in all_of(space)["totals"]
