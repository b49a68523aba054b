"""Live queries side by side in one session and fed from Kafka, whose targets are in the end what Python makes of the same events:
some that show a feature each, and one of each kind with a driver that is killed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest

from tests.e2e import live_queries
from tests.e2e.broker import compact_topic, start_broker
from tests.e2e.database import start_database
from tests.e2e.live_queries import FEATURES, GONE, KNOWN, QUERIES, TITLES, Cells, Change, Fed, LiveQuery, ordered
from tests.e2e.streams import SECONDS, stream
from tests.gateway.streaming.kafka_messages import DESCRIPTOR, proto_row
from tests.gateway.windows.window_events import Event
from tests.support.harness import Space, phase
from tests.support.postgres import PASSWORD, USER

FEW = {"spark.sql.shuffle.partitions": "2"}
QUICK = {"trigger": {"mode": "Interval", "intervalMillis": 1000}, "restart": {"backoffSeconds": 1}}


@dataclass
class Live:
    """Queries of the session `main`; writes events and changes into their topics, feed by feed, by statements of the session."""

    space: Space
    queries: tuple[LiveQuery, ...]
    feeds: int
    draw: random.Random = field(default_factory=lambda: random.Random(7))
    orders: dict[int, tuple[str, Decimal]] = field(default_factory=dict)
    fed: list[tuple[Event, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._coming = live_queries.feeds_of(self.draw, self.feeds)

    def feed(self) -> None:
        """Writes the next feed, with as many changes."""
        self._write(self._coming.pop(0), live_queries.changes_of(self.draw, self.orders))

    def close(self) -> Fed:
        """Writes the event that closes all windows, and has a region end."""
        [closing] = self._coming
        self._write(closing, live_queries.end_of(self.orders))
        return Fed(tuple(self.fed), self.orders)

    def start(self) -> None:
        """Starts the queries, which read the first feed; ends when each has written it."""
        for each in self.queries:
            self.space.statement(each.sql, name=each.name, conf=FEW, streaming={**QUICK, **each.streaming})
        self.wait("with a batch committed", lambda seen: seen.get("committedBatchId", -1) >= 0)

    def rewrite(self) -> None:
        """Has `totals` compute one aggregate more: of the first feed it keeps what it had, what is added begins after it."""
        assert self.space.rows("SELECT sum(n) FROM totals") == [[str(live_queries.EVENTS)]]
        self.space.change("SqlStatement", "totals", sql=live_queries.WITH_MOST)
        self.space.cluster.wait_until(
            lambda: "rewrittenFrom" in self.told()["totals"], "rewritten", SECONDS, lambda: self.told()["totals"]
        )

    def told(self) -> dict[str, Any]:
        """What is said of each query, while all of them run."""
        found = {each.name: self.space.get(each.name) for each in self.queries}
        ended = {name: made["status"] for name, made in found.items() if phase(made) in ("Error", "Closed", "Stopped")}
        assert not ended, ended
        return {name: stream(made) for name, made in found.items()}

    def wait(self, what: str, reached: Callable[[dict[str, Any]], bool]) -> None:
        self.space.cluster.wait_until(lambda: all(map(reached, self.told().values())), what, SECONDS, self.told)

    def wait_equal(self, fed: Fed) -> None:
        """Waits until each target has what Python computes."""
        expected = {each.name: each.expected(fed) for each in self.queries}
        assert all(expected.values()) and len(expected["revenue"]) == len(live_queries.REGIONS), expected
        left: dict[str, Any] = {}

        def equal() -> bool:
            found = self._targets()
            left.clear()
            left.update({name: (rows, found[name]) for name, rows in expected.items() if rows != found[name]})
            return not left

        self.space.cluster.wait_until(equal, "equal to what Python computes", SECONDS, lambda: (left, self.told()))

    def _targets(self) -> dict[str, list[Cells]]:
        """What each target has, in one order."""
        union = " UNION ALL ".join(each.found for each in self.queries)
        printed = self.space.cluster.cli(self.space.name, "run", "-s", "main", "-e", union, "-o", "json")
        assert printed.returncode == 0, printed.stderr
        found: dict[str, list[Cells]] = {each.name: [] for each in self.queries}
        for row in json.loads(printed.stdout):
            found[row["name"]].append(row["cells"])
        return {name: ordered(rows) for name, rows in found.items()}

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


def prepared(space: Space, queries: tuple[LiveQuery, ...], feeds: int) -> Live:
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
        f"CREATE TABLE written USING kafka OPTIONS ({kafka}, 'subscribe' = 'messages')",
        f"CREATE TABLE messages (id BIGINT, name STRING) USING kafka OPTIONS ({kafka}, 'subscribe' = 'messages', "
        f"'value.format' = 'protobuf', 'value.protobuf.message' = 'shop.Value', 'value.protobuf.descriptor' = '{DESCRIPTOR}')",
        "CREATE TABLE events (ts TIMESTAMP, k STRING, uid INT, item INT, v INT, _timestamp TIMESTAMP) "
        f"USING kafka OPTIONS ({kafka}, 'subscribe' = 'events', 'value.format' = 'json')",
        f"CREATE TABLE changes USING kafka OPTIONS ({kafka}, 'subscribe' = 'changes')",
        f"CREATE TABLE orders (id BIGINT, region STRING, amount DECIMAL(10,2)) USING kafka OPTIONS ({kafka}, {changelog})",
        f"CREATE TABLE visitors USING jdbc OPTIONS ({database}, dbtable 'visitors')",
        f"CREATE TABLE dear_records USING kafka OPTIONS ({kafka}, 'subscribe' = 'dear')",
        *(each.table(kafka=kafka, database=database) for each in queries),
    )
    return Live(space, queries, feeds)


def test_curves_retractions_lookups_and_a_rewritten_state_equal_a_computation(fresh: Space) -> None:
    live = prepared(fresh, FEATURES, feeds=2)
    live.feed()
    live.start()
    assert fresh.rows(f"SELECT count(*) FROM revenue WHERE region = '{GONE}'") == [["1"]], "what is to be taken back"
    live.rewrite()
    live.feed()
    live.wait_equal(live.close())


@pytest.mark.thorough
def test_live_queries_of_each_kind_equal_a_computation_after_a_killed_driver(fresh: Space) -> None:
    live = prepared(fresh, QUERIES, feeds=3)
    done(
        fresh,
        "CREATE TABLE titles (uid INT, title STRING) USING iceberg",
        f"INSERT INTO titles SELECT uid, '{TITLES[0]}' FROM VALUES {', '.join(f'({uid})' for uid in KNOWN)} AS k(uid)",
    )
    live.feed()
    live.start()
    compact_topic(fresh, "dear")
    done(fresh, f"UPDATE titles SET title = '{TITLES[1]}'")
    live.rewrite()
    live.feed()
    before = fresh.driver_pod()
    fresh.crash_driver()
    fresh.cluster.wait_until(lambda: fresh.driver_pod() != before, "another driver", SECONDS, fresh.driver_pod)
    fresh.wait_session("main", "Ready")
    live.feed()
    live.wait_equal(live.close())
    for name, seen in live.told().items():
        assert seen["restarts"] >= 1, (name, seen)
    assert "rewrittenFrom" in live.told()["totals"]
