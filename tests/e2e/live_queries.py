"""One query of each kind: what it streams, into which table, and what Python makes of the same events and changes.

Nothing is ever late: a feed spans less than the watermarks wait.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any

from tests.gateway.windows.dynamic_curves import Shape, curves
from tests.gateway.windows.window_events import BASE, Event, cumulate, tumble

EVENTS = 80  # of a feed, twelve minutes apart and at most an hour out of order
CLOSING = Event(BASE + timedelta(days=30), "end", 0, 1000, 1)  # closes all windows of the others
DATABASE = "CREATE TABLE revenue (region text PRIMARY KEY, n bigint, total numeric(20,2))"
VISITORS = 12
KNOWN = {visitor: f"visitor {visitor}" for visitor in range(1, VISITORS, 2)}  # whom the database knows
TITLES = ("guest", "member")  # of those, during the first feed and after it
REGIONS = ("north", "south", "west")
GONE = "gone"  # a region all of whose orders are deleted
WATERMARK = "TABLE(FROM STREAM events WATERMARK ts DELAY OF INTERVAL 1 DAY)"
LIVE = Shape(timedelta(hours=1), timedelta(hours=3))

Cells = list[str | None]
Change = tuple[int, str]  # an order's number, and what Debezium writes of it


@dataclass(frozen=True)
class Fed:
    """All that has been written into the topics."""

    feeds: tuple[tuple[Event, ...], ...]
    orders: dict[int, tuple[str, Decimal]]
    """Regions and amounts of the orders that are left."""

    @property
    def events(self) -> list[Event]:
        return [event for feed in self.feeds for event in feed]

    @property
    def over(self) -> list[Event]:
        """Those whose windows are closed in the end."""
        return [event for event in self.events if event != CLOSING]


@dataclass(frozen=True)
class LiveQuery:
    """A streaming statement; `rows` computes what its target has in the end, in any order.

    The target is an Iceberg table of these columns, or what `made` says, with {kafka} and {database} for the options of the two.
    """

    name: str
    columns: str
    query: str
    rows: Callable[[Fed], Iterable[tuple[Any, ...]]]
    streaming: dict[str, Any] = field(default_factory=dict)
    made: str = ""
    kept: str = ""
    """A query of the target's rows, if it is not the target itself."""

    @property
    def sql(self) -> str:
        return f"INSERT INTO {self.name} {self.query}"

    @property
    def found(self) -> str:
        """A query of the target: its name and its cells as text."""
        names = (column.split()[0] for column in self.columns.split(", "))
        cells = ", ".join(f"CAST({name} AS STRING)" for name in names)
        return f"SELECT '{self.name}' AS name, array({cells}) AS cells FROM {self.kept or self.name}"

    def table(self, **options: str) -> str:
        """The statement that makes the target."""
        return f"CREATE TABLE {self.name} {self.made.format_map(options) or f'({self.columns}) USING iceberg'}"

    def expected(self, fed: Fed) -> list[Cells]:
        return ordered([None if cell is None else str(cell) for cell in row] for row in self.rows(fed))


def ordered(rows: Iterable[Cells]) -> list[Cells]:
    return sorted(rows, key=repr)


def _curve(fed: Fed) -> Iterator[tuple[Any, ...]]:
    seen = defaultdict[Any, list[Event]](list)
    for event in fed.over:
        assert event.ts is not None
        for window in cumulate(event.ts, timedelta(hours=6), timedelta(days=1)):
            seen[*window, event.k].append(event)
    return ((*key, len(events), len({event.uid for event in events})) for key, events in seen.items())


def _live(fed: Fed) -> Iterator[tuple[Any, ...]]:
    return ((k, start, end, n, uids) for k, start, end, n, _, uids in curves(fed.over, LIVE))


def _best(fed: Fed) -> Iterator[tuple[Any, ...]]:
    spent = defaultdict[Any, dict[int, int]](lambda: defaultdict(int))
    for event in fed.over:
        assert event.ts is not None
        for window in tumble(event.ts, timedelta(hours=12)):
            spent[window][event.uid] += event.v
    for window, by_visitor in spent.items():
        best = sorted(by_visitor.items(), key=lambda each: (-each[1], each[0]))[:3]
        yield from ((*window, uid, total, place) for place, (uid, total) in enumerate(best, 1))


def _revenue(fed: Fed) -> Iterator[tuple[Any, ...]]:
    amounts = defaultdict[str, list[Decimal]](list)
    for region, amount in fed.orders.values():
        amounts[region].append(amount)
    return ((region, len(each), sum(each)) for region, each in amounts.items())


def _dear(fed: Fed) -> Iterator[tuple[Any, ...]]:
    return ((key, region, amount) for key, (region, amount) in fed.orders.items() if amount >= 20)


def _titled(fed: Fed) -> Iterator[tuple[Any, ...]]:
    """Of each feed the title that there was when it came."""
    for number, feed in enumerate(fed.feeds):
        title = TITLES[min(number, 1)]
        yield from ((event.item, title if event.uid in KNOWN else None) for event in feed)


def _decoded(fed: Fed) -> Iterator[tuple[Any, ...]]:
    return ((event.item, event.k) for event in fed.events)


def _named(fed: Fed) -> Iterator[tuple[Any, ...]]:
    return ((event.item, event.uid, KNOWN.get(event.uid)) for event in fed.events)


def _totals(fed: Fed) -> Iterator[tuple[Any, ...]]:
    """What is added begins behind the first feed."""
    later = [event for feed in fed.feeds[1:] for event in feed]
    for k in {event.k for event in fed.events}:
        values = [event.v for event in fed.events if event.k == k]
        yield k, len(values), sum(values), max((event.v for event in later if event.k == k), default=None)


TOTALS = "SELECT k, count(*) AS n, sum(v) AS total, {} AS most FROM STREAM events GROUP BY k"
DEAR = "id BIGINT, region STRING, amount DECIMAL(10,2)"  # of orders in a compacted topic, whose rows are the newest of each key
WITH_MOST = f"INSERT INTO totals {TOTALS.format('max(v)')}"

QUERIES = (
    LiveQuery(
        "curve",
        "window_start TIMESTAMP, window_end TIMESTAMP, k STRING, n BIGINT, visitors BIGINT",
        "SELECT window_start, window_end, k, count(*), count(DISTINCT uid) "
        f"FROM CUMULATE({WATERMARK}, DESCRIPTOR(ts), INTERVAL 6 HOURS, INTERVAL 1 DAY) GROUP BY window_start, window_end, k",
        _curve,
    ),
    LiveQuery(
        "live",
        "k STRING, window_start TIMESTAMP, window_end TIMESTAMP, n BIGINT, visitors BIGINT",
        "SELECT k, window_start, window_end, count(*), count(DISTINCT uid) FROM CUMULATE(DATA => "
        f"{WATERMARK} PARTITION BY k, TIMECOL => DESCRIPTOR(ts), {LIVE.arguments}) GROUP BY k, window_start, window_end",
        _live,
    ),
    LiveQuery(
        "best",
        "window_start TIMESTAMP, window_end TIMESTAMP, uid INT, total BIGINT, place INT",
        "SELECT window_start, window_end, uid, total, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end "
        "ORDER BY total DESC, uid) AS rn FROM (SELECT window_start, window_end, uid, sum(v) AS total "
        f"FROM TUMBLE({WATERMARK}, DESCRIPTOR(ts), INTERVAL 12 HOURS) GROUP BY window_start, window_end, uid)) WHERE rn <= 3",
        _best,
    ),
    LiveQuery(
        "revenue",
        "region STRING, n BIGINT, total DECIMAL(20,2)",
        "SELECT region, count(*) AS n, sum(amount) AS total FROM STREAM orders GROUP BY region",
        _revenue,
        {"outputMode": "Update", "upsert": {"keys": ["region"]}},
        "USING jdbc OPTIONS ({database}, dbtable 'revenue')",
    ),
    LiveQuery(
        "dear",
        DEAR,
        "SELECT id, region, amount FROM STREAM orders WHERE amount >= 20",
        _dear,
        {"outputMode": "Update", "upsert": {"keys": ["id"]}},
        f"({DEAR}) USING kafka OPTIONS ({{kafka}}, 'subscribe' = 'dear', 'value.format' = 'json')",
        f"(SELECT row.* FROM (SELECT from_json(max_by(CAST(value AS STRING), offset), '{DEAR}') AS row FROM dear_records GROUP BY key) "
        "WHERE row IS NOT NULL)",
    ),
    LiveQuery(
        "named",
        "item INT, uid INT, name STRING",
        "SELECT /*+ MINI_BATCH(visitors, ttl('1 minute')) */ e.item, e.uid, v.name "
        "FROM STREAM events AS e LEFT JOIN visitors AS v ON e.uid = v.id",
        _named,
    ),
    LiveQuery(
        "titled",
        "item INT, title STRING",
        "SELECT e.item, t.title FROM STREAM events AS e LEFT JOIN titles FOR SYSTEM_TIME AS OF e._timestamp AS t ON e.uid = t.uid",
        _titled,
    ),
    LiveQuery("decoded", "id BIGINT, name STRING", "SELECT id, name FROM STREAM messages", _decoded),
    LiveQuery(
        "totals",
        "k STRING, n BIGINT, total BIGINT, most INT",
        TOTALS.format("CAST(NULL AS INT)"),
        _totals,
        {"outputMode": "Update", "upsert": {"keys": ["k"]}},
    ),
)


# A curve of what begins and ends, a changelog that takes rows back, a lookup in a database, and a state that is rewritten.
FEATURES = tuple(each for each in QUERIES if each.name in ("live", "revenue", "named", "totals"))


def feeds_of(draw: random.Random, number: int) -> list[list[Event]]:
    """Events as they come: of pages that are visited for some hours, and then silent for some."""
    made = []
    for item in range(number * EVENTS):
        hour = item // 5
        k = "abc"[(hour // 5 + draw.choice((0, 0, 1))) % 3]
        ts = BASE + timedelta(minutes=item * 12, seconds=draw.randrange(700))
        made.append(Event(ts, k, draw.randrange(VISITORS), item, draw.randint(1, 99)))
    coming = [
        sorted(made[at : at + EVENTS], key=lambda event: _comes(event, draw)) for at in range(0, len(made), EVENTS)
    ]
    return [*coming, [CLOSING]]


def _comes(event: Event, draw: random.Random) -> Any:
    assert event.ts is not None
    return event.ts + timedelta(minutes=draw.uniform(0, 60))


def changes_of(draw: random.Random, orders: dict[int, tuple[str, Decimal]], number: int = 40) -> list[Change]:
    """More changes of `orders`, which they bring up to date: new ones, others that move or cost another sum, deleted ones."""
    made = []
    for _ in range(number):
        known = draw.choice(sorted(orders)) if orders else 0
        kind = draw.choice("ccuud") if orders else "c"
        key = max(orders, default=0) + draw.randint(1, 3) if kind == "c" else known
        after = None if kind == "d" else (draw.choice((*REGIONS, GONE)), Decimal(draw.randint(100, 9999)).scaleb(-2))
        made.append(_changed(orders, key, after))
    return made


def end_of(orders: dict[int, tuple[str, Decimal]]) -> list[Change]:
    """The changes that delete all orders of one region."""
    return [_changed(orders, key, None) for key, (region, _) in list(orders.items()) if region == GONE]


def _changed(orders: dict[int, tuple[str, Decimal]], key: int, after: tuple[str, Decimal] | None) -> Change:
    def row(of: tuple[str, Decimal] | None) -> dict[str, Any] | None:
        return None if of is None else {"id": key, "region": of[0], "amount": str(of[1])}

    before = orders.pop(key, None)
    if after is not None:
        orders[key] = after
    kind = "c" if before is None else "d" if after is None else "u"
    return key, json.dumps({"before": row(before), "after": row(after), "op": kind, "ts_ms": 1})
