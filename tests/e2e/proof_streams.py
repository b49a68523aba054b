"""The queries of the proof: what each streams, on which store its state is, and what a batch makes of the same topics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

START = 1_700_000_000_000  # time of event 0 in milliseconds; then one each 50 ms, up to 3 s late
CLOSING = 1_000_000_000  # id of an event a day later, which closes all windows
LATE = f"timestamp_millis({START + 86_400_000})"
AT = f"timestamp_millis({START} + id * 50 + pmod(hash(id), 3000))"
# What is written of a range of ids into each topic, and what is written at the end.
TOPICS = {
    "events": (
        f"id, CAST(id % 7 AS INT) AS k, {AT} AS at, CAST(pmod(hash(id, 1), 100) AS INT) AS amount",
        f"{CLOSING} AS id, 0 AS k, {LATE} AS at, 0 AS amount",
    ),
    "payments": (
        f"id, {AT} + make_dt_interval(0, 0, 0, pmod(hash(id, 2), 5)) AS paid",
        f"{CLOSING} AS id, {LATE} AS paid",
    ),
}
# A chunk of the writer spans 10 s, is written in any order, and may be read in parts; events are 3 s late at most, payments 7 s.
DELAY = "DELAY OF INTERVAL 20 SECONDS"
WINDOW = "window.start AS w, k, count(*) AS n, sum(amount) AS total"
BY_WINDOW = "GROUP BY window(at, '5 seconds'), k"
WINDOW_COLUMNS = "w TIMESTAMP, k INT, n BIGINT, total BIGINT"
PAID = "e.id, e.amount, p.paid"
ON = "e.id = p.id AND p.paid BETWEEN e.at AND e.at + INTERVAL 10 SECONDS"

_ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STORES = {"hdfs": {}, "rocks": {"spark.sql.streaming.stateStore.providerClass": _ROCKS_DB}}


@dataclass(frozen=True)
class Proof:
    """A query and its target: `query` streams what `truth` recomputes. Without a `store` it keeps no state."""

    name: str
    columns: str
    query: str
    truth: str
    store: str = ""
    upsert: dict[str, Any] = field(default_factory=dict)

    @property
    def table(self) -> str:
        return self.name.replace("-", "_")

    @property
    def sql(self) -> str:
        return f"INSERT INTO {self.table} {self.query}"

    @property
    def conf(self) -> dict[str, str]:
        return {"spark.sql.shuffle.partitions": "2", **(STORES[self.store] if self.store else {})}

    @property
    def streaming(self) -> dict[str, Any]:
        return {"outputMode": "Update", "upsert": self.upsert} if self.upsert else {}

    @property
    def difference(self) -> str:
        """The rows that are in one of truth and target and not in the other."""
        truth, found = f"SELECT * FROM ({self.truth})", f"SELECT * FROM {self.table}"
        return f"({truth} EXCEPT ALL {found}) UNION ALL ({found} EXCEPT ALL {truth})"


def _windowed(store: str) -> Proof:
    query = f"SELECT {WINDOW} FROM STREAM events WATERMARK at {DELAY} {BY_WINDOW}"
    truth = f"SELECT {WINDOW} FROM events WHERE id < {CLOSING} {BY_WINDOW}"  # the last window stays open
    return Proof(f"windowed-{store}", WINDOW_COLUMNS, query, truth, store)


def _joined(store: str) -> Proof:
    query = (
        f"SELECT {PAID} FROM (SELECT * FROM STREAM events WATERMARK at {DELAY}) e "
        f"JOIN (SELECT * FROM STREAM payments WATERMARK paid {DELAY}) p ON {ON}"
    )
    truth = f"SELECT {PAID} FROM events e JOIN payments p ON {ON}"
    return Proof(f"joined-{store}", "id BIGINT, amount INT, paid TIMESTAMP", query, truth, store)


def _merged(store: str) -> Proof:
    """Windows that are merged as they grow. Without an order: the last state is what the table has, whatever it had before."""
    query = f"SELECT {WINDOW} FROM STREAM events WATERMARK at {DELAY} {BY_WINDOW}"
    truth = f"SELECT {WINDOW} FROM events {BY_WINDOW}"
    return Proof(f"merged-{store}", WINDOW_COLUMNS, query, truth, store, {"keys": ["w", "k"]})


def _curve(store: str) -> Proof:
    """Windows of a common start, with distinct counts."""
    counted = (
        "SELECT window_start, window_end, k, count(*) AS n, sum(amount) AS total, count(DISTINCT amount) AS amounts"
    )
    by_step = "DESCRIPTOR(at), INTERVAL '5' SECOND, INTERVAL '20' SECOND"
    by_window = "GROUP BY window_start, window_end, k"
    query = f"{counted} FROM CUMULATE(TABLE(FROM STREAM events WATERMARK at {DELAY}), {by_step}) {by_window}"
    truth = f"{counted} FROM CUMULATE(TABLE events, {by_step}) WHERE id < {CLOSING} {by_window}"
    columns = "window_start TIMESTAMP, window_end TIMESTAMP, k INT, n BIGINT, total BIGINT, amounts BIGINT"
    return Proof(f"curve-{store}", columns, query, truth, store)


def _first(store: str) -> Proof:
    """The keys with the most of each hopping window, whose aggregation is made of panes."""
    first = (
        "SELECT window_start, window_end, k, total, place FROM (SELECT *, row_number() OVER (PARTITION BY window_start, window_end "
        "ORDER BY total DESC, k) AS place FROM (SELECT window_start, window_end, k, sum(amount) AS total FROM {source} "
        "GROUP BY window_start, window_end, k)) WHERE place <= 3"
    )
    lengths = "DESCRIPTOR(at), INTERVAL '5' SECOND, INTERVAL '15' SECOND"
    query = first.format(source=f"HOP(TABLE(FROM STREAM events WATERMARK at {DELAY}), {lengths})")
    truth = first.format(source=f"HOP(TABLE(SELECT * FROM events WHERE id < {CLOSING}), {lengths})")
    columns = "window_start TIMESTAMP, window_end TIMESTAMP, k INT, total BIGINT, place INT"
    return Proof(f"first-{store}", columns, query, truth, store)


def _latest() -> Proof:
    truth = "SELECT k, max(id) AS id, max_by(amount, id) AS amount FROM events GROUP BY k"
    query = "SELECT k, id, amount FROM STREAM events"
    return Proof("latest", "k INT, id BIGINT, amount INT", query, truth, upsert={"keys": ["k"], "orderBy": "id"})


PROOFS = {
    proof.name: proof
    for proof in (
        *(make(store) for make in (_windowed, _joined, _merged) for store in STORES),
        _curve("rocks"),
        _first("hdfs"),
        _latest(),
    )
}
