"""Windows over drawn rows and queries: what a batch and a stream answer is what plain Python computes.

A seed draws everything: types, zones and their changes of clocks, lengths, rows of which some are late, how they are cut into
batches, and whether the stream is stopped between them and started again.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.sql.errors import PlacedError
from tests.support.thorough import thorough_but

from ..local_spark import local_spark
from .window_draws import (
    BY_WINDOW,
    CHANGES,
    drawn_call,
    drawn_middle,
    drawn_query,
    drawn_setting,
    drawn_top,
    plainly_grouped,
)
from .window_model import (
    DAY,
    HOUR,
    MINUTE,
    NEVER,
    SECOND,
    Batch,
    Call,
    Kept,
    Query,
    Row,
    in_batch,
    in_stream,
    sessions_in_batch,
    sessions_in_stream,
)
from .window_runs import Bench, Setting, blank_row, drawn_rows

Answer = Iterable[tuple[Any, ...]]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    with local_spark(tmp_path_factory.mktemp("spark"), **{"spark.sql.shuffle.partitions": "2"}) as started:
        yield started


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables")


def check(what: str, found: Answer, wanted: Answer) -> None:
    """Both have the same rows; else the first that differ are told."""
    have, want = Counter(found), Counter(wanted)
    surplus, missing = ((one - other).elements() for one, other in ((have, want), (want, have)))
    few = [sorted(rows, key=repr)[:4] for rows in (surplus, missing)]
    assert have == want, f"{what}\nnot expected: {few[0]}\nmissing: {few[1]}"


@dataclass(frozen=True)
class Case:
    """A text over a table, what it answers in a batch and in a stream, and how the stream goes."""

    setting: Setting
    files: Sequence[Sequence[Row]]
    delay: int
    cut: int | None
    text: Callable[[str], str]
    in_batch: Callable[[Sequence[Batch]], Answer]
    in_stream: Callable[[Sequence[Batch]], Answer]

    def run(self, driver: SparkDriver, folder: Path, name: str) -> None:
        """Compares the answers of Spark with these."""
        bench = Bench(driver, folder, name, self.setting)
        text, streams = self.text(bench.streamed(self.delay)), self.setting.kind == "TIMESTAMP"
        what = f"{name} {self.setting} started again behind file {self.cut}\n{text}\n"
        batches: Sequence[Batch] = [Batch(tuple(rows), NEVER) for rows in self.files]
        for part in [self.files] if self.cut is None else [self.files[: self.cut], self.files[self.cut :]]:
            bench.write(part)
            if streams:
                told(what, lambda: bench.run_stream(text))
        found = told(what, lambda: bench.batch(self.text(bench.name)))
        check(f"{what}in a batch", found, self.in_batch(batches))
        if streams:
            check(f"{what}in a stream", bench.stream_rows(), self.in_stream(bench.batches()))


def told(what: str, does: Callable[[], Any]) -> Any:
    """An exception's text is the JVM's, which is gone when pytest prints it."""
    try:
        return does()
    except Exception as raised:
        message = f"{what}{type(raised).__name__} {str(raised)[:2000]}"
    raise AssertionError(message)


def case(
    draw: random.Random,
    setting: Setting,
    length: int,
    span: int,
    text: Callable[[str], str],
    answers: tuple[Callable[[Sequence[Batch]], Answer], Callable[[Sequence[Batch]], Answer]],
) -> Case:
    files = drawn_rows(draw, drawn_middle(draw, setting.zone), span, (length, HOUR, DAY), draw.randint(3, 5))
    delay = draw.choice((0, 0, length // 1000, span // 4000)) * 1000
    return Case(setting, files, delay, draw.choice((None, 1, 2)), text, *answers)


def over_windows(
    seed: int, make: Callable[[random.Random], tuple[Query, Callable[[str], str], Callable[[Kept], Answer]]]
) -> Case:
    """A case over TUMBLE, HOP or CUMULATE of what `make` draws: the query that keeps rows, the text over a call, the answer."""
    draw = random.Random(seed)
    setting = drawn_setting(draw)
    call = drawn_call(draw, setting)
    query, text, answer = make(draw)
    span = max(call.size, 4 * call.step) * draw.choice((1, 2, 3))
    answers = (
        lambda batches: answer(in_batch(call, query, batches)),
        lambda batches: answer(in_stream(call, query, batches)),
    )
    return case(draw, setting, call.step, span, lambda table: text(call.sql(table)), answers)


SEEDS = {"paned": (3, 5, 9, 11, 24, 31), "unpaned": (3, 8, 12), "distinct": (3, 8, 11, 13)}
DRAWN = [(kinds, seed) for kinds, seeds in SEEDS.items() for seed in seeds]
KEPT = [("paned", 3), ("unpaned", 8), ("distinct", 8)]


@pytest.mark.parametrize(("kinds", "seed"), thorough_but(KEPT, DRAWN))
def test_aggregations_of_drawn_rows_are_those_that_python_computes(
    driver: SparkDriver, folder: Path, kinds: str, seed: int
) -> None:
    def make(draw: random.Random) -> tuple[Query, Callable[[str], str], Callable[[Kept], Answer]]:
        query = drawn_query(draw, kinds)
        return query, query.sql, query.rows

    over_windows(seed, make).run(driver, folder, f"{kinds}_{seed}")


@pytest.mark.parametrize("seed", thorough_but([1], range(1, 5)))
def test_first_rows_of_drawn_windows_are_those_that_python_sorts(driver: SparkDriver, folder: Path, seed: int) -> None:
    zone = "UTC"

    def make(draw: random.Random) -> tuple[Query, Callable[[str], str], Callable[[Kept], Answer]]:
        top = drawn_top(draw)
        kept_by = plainly_grouped(Query((), (), "", ("listed",)), top.parts)
        return kept_by, top.sql, lambda kept: top.rows(kept, zone)

    drawn = over_windows(seed, make)
    zone = drawn.setting.zone if drawn.setting.kind == "TIMESTAMP" else "UTC"
    drawn.run(driver, folder, f"top_{seed}")


RANKS = (
    f"RANK() OVER (PARTITION BY {BY_WINDOW} ORDER BY n DESC) AS a, "
    "DENSE_RANK() OVER (PARTITION BY window_end, window_start ORDER BY large ASC) AS b, "
    "sum(n) OVER (PARTITION BY window_end) AS c"
)


@pytest.mark.parametrize("seed", thorough_but([4], range(1, 5)))
def test_ranks_of_drawn_aggregates_are_those_that_python_computes(driver: SparkDriver, folder: Path, seed: int) -> None:
    def make(draw: random.Random) -> tuple[Query, Callable[[str], str], Callable[[Kept], Answer]]:
        drawn = drawn_query(draw, draw.choice(("paned", "distinct")))
        query = plainly_grouped(replace(drawn, results=("n", "large", "distinct_g")[: draw.randint(2, 3)]), ("k", "g"))
        names = f"{BY_WINDOW}, k, g, n, large"
        return query, lambda call: f"SELECT {names}, {RANKS} FROM ({query.sql(call)})", lambda kept: ranked(query, kept)

    over_windows(seed, make).run(driver, folder, f"ranks_{seed}")


def ranked(query: Query, kept: Kept) -> Answer:
    rows = [row[:6] for row in query.rows(kept)]
    for row in rows:
        others = [each for each in rows if each[:2] == row[:2]]
        rank = 1 + sum(each[4] > row[4] for each in others)
        dense = 1 + len({each[5] for each in others if each[5] < row[5]})
        yield (*row, rank, dense, sum(each[4] for each in rows if each[1] == row[1]))


@pytest.mark.parametrize("seed", thorough_but([4], range(1, 5)))
def test_sessions_of_drawn_rows_are_those_that_python_merges(driver: SparkDriver, folder: Path, seed: int) -> None:
    draw = random.Random(seed)
    setting = drawn_setting(draw)
    gap = draw.choice((333_333, SECOND, 90 * SECOND, 10 * MINUTE, HOUR, DAY))
    drawn = drawn_query(draw, draw.choice(("paned", "unpaned")))
    query = plainly_grouped(drawn, drawn.keys)
    told_apart = bool(query.keys) and set(query.keys) <= {"k", "g", "b"} and draw.random() < 0.7
    partition = f" PARTITION BY {', '.join(query.keys)}" if told_apart else ""

    def text(table: str) -> str:
        return query.sql(f"SESSION(TABLE {table}{partition}, DESCRIPTOR(ts), '{gap} microseconds')")

    answers = (
        lambda batches: query.rows(sessions_in_batch(gap, query, batches)),
        lambda batches: query.rows(sessions_in_stream(gap, query, batches)),
    )
    case(draw, setting, gap, gap * draw.choice((4, 12, 30)), text, answers).run(driver, folder, f"session_{seed}")


DAYS = (
    ("TUMBLE", DAY, DAY, 0),
    ("TUMBLE", 7 * DAY, 7 * DAY, 4 * DAY),
    ("CUMULATE", DAY, HOUR, 0),
    ("CUMULATE", DAY, 6 * HOUR, -8 * HOUR),
    ("CUMULATE", 7 * DAY, DAY, -3 * DAY),
    ("HOP", 7 * DAY, DAY, 0),
    ("HOP", 3 * DAY, 2 * DAY, HOUR),
    ("TUMBLE", DAY, DAY, HOUR // 2),
    ("CUMULATE", DAY, 6 * HOUR, 5 * HOUR // 2),
    ("HOP", 3 * DAY, 2 * DAY, 5 * HOUR // 2),
    ("HOP", DAY, 6 * HOUR, 0),
    ("HOP", 2 * DAY, HOUR, -8 * HOUR),
    ("HOP", 3 * DAY, 36 * HOUR, 0),
    ("HOP", DAY, 8 * HOUR, 5 * HOUR // 2),
)


# One of each function and one of a part of an hour, and the others.
CALLS = {
    "some": (DAYS[1], DAYS[3], DAYS[6], DAYS[7], *DAYS[10:12]),
    "others": (DAYS[0], DAYS[2], *DAYS[4:6], *DAYS[8:10], *DAYS[12:]),
}


@pytest.mark.parametrize(
    ("zone", "calls"), thorough_but([("America/Havana", "some")], [(zone, each) for zone in CHANGES for each in CALLS])
)
def test_windows_of_days_begin_and_end_with_the_days_of_a_zone(
    driver: SparkDriver, folder: Path, zone: str, calls: str
) -> None:
    """Every half hour around each change of clocks, and the instants beside it."""
    middles = [round(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) * SECOND for day in CHANGES[zone]]
    times = {middle + half * HOUR // 2 - beside for middle in middles for half in range(-60, 60) for beside in (0, 1)}
    rows = [blank_row(number, time) for number, time in enumerate(sorted(times))]
    bench = Bench(driver, folder, f"{zone.replace('/', '_').lower()}_{calls}", Setting("TIMESTAMP", zone, False, False))
    bench.write([rows])
    query = Query((), ((),), BY_WINDOW, ("n", "max_ts"))
    for function, size, step, offset in CALLS[calls]:
        call = Call(function, size, step, offset, zone)
        shown = call.sql(bench.name)
        every = [(*window, row["ts"]) for row in rows for window in call.windows(row["ts"])]
        check(f"{zone} {shown}", bench.batch(f"SELECT {BY_WINDOW}, ts FROM {shown}"), every)
        wanted = query.rows(in_batch(call, query, [Batch(tuple(rows), NEVER)]))
        check(f"{zone} {query.sql(shown)}", bench.batch(query.sql(shown)), wanted)


@pytest.mark.parametrize("results", [("n", "sum_i"), ("listed",)], ids=["panes", "each window"])
def test_hops_of_a_day_in_a_stream_begin_with_the_slides_of_the_days_of_a_zone(
    driver: SparkDriver, folder: Path, results: tuple[str, ...]
) -> None:
    zone, query = "America/New_York", Query(("k",), ((0,),), f"{BY_WINDOW}, k", results)
    call = Call("HOP", DAY, 6 * HOUR, 0, zone)
    draw = random.Random(len(results))
    middle = round(datetime.fromisoformat(CHANGES[zone][0]).replace(tzinfo=UTC).timestamp()) * SECOND
    files = drawn_rows(draw, middle, 4 * DAY, (HOUR, 6 * HOUR, DAY), 4)
    answers = (
        lambda batches: query.rows(in_batch(call, query, batches)),
        lambda batches: query.rows(in_stream(call, query, batches)),
    )
    drawn = Case(
        Setting("TIMESTAMP", zone, False, False), files, HOUR, 2, lambda table: query.sql(call.sql(table)), *answers
    )
    drawn.run(driver, folder, f"hops_{results[0]}")


# A day of 23 hours begins at 05:00 in UTC and ends at 04:00, one of 25 at 04:00 and ends at 05:00.
HOPS_OF_DAYS = {
    "2026-03-08 12:30": ["07 17:00 08 17:00", "07 23:00 08 23:00", "08 05:00 09 04:00", "08 11:00 09 10:00"],
    "2026-11-02 04:30": ["01 04:00 02 05:00", "01 10:00 02 11:00", "01 16:00 02 17:00", "01 22:00 02 23:00", "02 04:00 03 05:00"],
}  # fmt: skip


@pytest.mark.parametrize("time", HOPS_OF_DAYS)
def test_hop_over_a_day_of_23_or_25_hours_goes_to_the_same_slide_of_the_next_day(
    driver: SparkDriver, folder: Path, time: str
) -> None:
    at = round(datetime.fromisoformat(time).replace(tzinfo=UTC).timestamp()) * SECOND
    setting = Setting("TIMESTAMP", "America/New_York", False, False)
    bench = Bench(driver, folder, f"hop_{time[:7].replace('-', '_')}", setting)
    bench.write([[blank_row(0, at)]])
    found = bench.batch(f"SELECT {BY_WINDOW} FROM {Call('HOP', DAY, 6 * HOUR).sql(bench.name)} ORDER BY window_start")
    shown = [" ".join(f"{datetime.fromtimestamp(each // SECOND, UTC):%d %H:%M}" for each in row) for row in found]
    assert shown == HOPS_OF_DAYS[time]


def test_hop_whose_slide_does_not_divide_its_days_is_refused_outside_utc(driver: SparkDriver, folder: Path) -> None:
    call = Call("HOP", DAY, 5 * HOUR)
    for zone in ("America/New_York", "UTC"):
        bench = Bench(driver, folder, f"uneven_{zone[:3].lower()}", Setting("TIMESTAMP", zone, False, False))
        bench.write([[blank_row(0, START)]])
        text = f"SELECT {BY_WINDOW} FROM {call.sql(bench.name)}"
        if zone == "UTC":
            check(zone, bench.batch(text), call.windows(START))
            continue
        with pytest.raises(
            PlacedError, match=r"SLIDE, 5:00:00, does not divide SIZE, 1 day, .*America/New_York: give a"
        ):
            bench.batch(text)


START = 20_000 * DAY
HOURS = "TABLE $, DESCRIPTOR(ts), INTERVAL 1 HOUR"
FIRST = "SELECT id, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY {}) rn FROM {}) WHERE rn <= 2"
EDGES: dict[str, tuple[list[dict[str, Any]], str, list[tuple[Any, ...]]]] = {
    "a key of doubles against the direction of the first": (
        [{"x": "Infinity", "i": 1}, {"x": "NaN", "i": 2}, {"x": "-Infinity", "i": 0}],
        FIRST.format("g, x DESC, i", f"TUMBLE({HOURS})"),
        [(1, 1), (0, 2)],
    ),
    "a column that is there twice": (
        [{"i": 1}, {"i": 3}, {"i": 2}],
        FIRST.format("i DESC", f"(SELECT ts, ts, i, id, {BY_WINDOW} FROM TUMBLE({HOURS}))"),
        [(1, 1), (2, 2)],
    ),
    "a sum that is NULL where it is too large": (
        [{"l": 2**63 - 1}, {"l": 5}, {"l": 1, "ts": START + HOUR}],
        f"SELECT try_sum(l) s, count(*) n FROM CUMULATE({HOURS}, INTERVAL 2 HOURS) GROUP BY {BY_WINDOW}",
        [(None, 2), (None, 3)],
    ),
    "distinct constants": (
        [{"i": 1}, {"i": 2}, {}],
        f"SELECT count(DISTINCT i) a, count(DISTINCT 1) b, count(DISTINCT NULL) c, count(DISTINCT i + 1, k) d FROM TUMBLE({HOURS}) "
        f"GROUP BY {BY_WINDOW}",
        [(2, 1, 0, 0)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EDGES)
def test_edges_of_values_have_the_same_rows_in_a_stream_as_in_a_batch(
    driver: SparkDriver, folder: Path, name: str
) -> None:
    values, query, wanted = EDGES[name]
    bench = Bench(driver, folder, f"edge_{list(EDGES).index(name)}", Setting("TIMESTAMP", "UTC", False, False))
    bench.write([[blank_row(number, **{"ts": START, **each}) for number, each in enumerate(values)]])
    check(name, told(name, lambda: bench.batch(query.replace("$", bench.name))), wanted)
    bench.write([[blank_row(99, START + DAY)]])
    told(name, lambda: bench.run_stream(query.replace("$", bench.streamed(0))))
    check(name, bench.stream_rows(), wanted)
