"""Changed streaming queries on the state of old ones, in one Spark: what is let go on must give what a recomputation gives.

Rows of the first part pass the filters of the old query, those of the second part the filters of the new one.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors.exceptions.captured import CapturedException

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.streaming.state.compatibility import differences
from sparksql.gateway.streaming.state.describe import describe
from sparksql.gateway.streaming.state.description import Description
from sparksql.gateway.streaming.state.description_file import CONDITIONS
from sparksql.gateway.streaming.state.messages import message

from ..local_spark import run
from .changes import Kind, Pair
from .grammar import CLOSED, FIRST_CLOSED, Query, view_of

_COLUMNS = "id INT, part INT, country STRING, city STRING, amount INT, price INT, flag BOOLEAN, ts TIMESTAMP, seen TIMESTAMP, j STRING"
_WIDE = _COLUMNS.replace("amount INT, price INT", "amount BIGINT, price BIGINT")
_TURNED = _COLUMNS.replace("country STRING, city STRING", "city STRING, country STRING")
# The first part closes the windows up to 00:01:30, by its last row; the second part those up to 00:09:50.
_ROWS: dict[str, tuple[tuple[Any, ...], ...]] = {
    "src": (
        (1, 1, "de", "berlin", 3, 10, True, "00:00:10", '{"a": 1, "b": 2}'),
        (2, 1, "de", "bonn", 1, 20, False, "00:00:20", '{"a": 7}'),
        (3, 1, "fr", "paris", 5, 30, True, "00:00:32", None),
        (4, 1, "it", None, 2, 25, None, "00:01:02", "x"),
        (5, 1, "de", "berlin", 7, 40, True, "00:01:12", '{"b": 3}'),
        (6, 1, "fr", "lyon", 2, 50, False, "00:01:17", '{"a": 2, "b": 2}'),
        (7, 1, "de", "bonn", 4, 60, True, "00:01:22", "12"),
        (8, 1, "fr", "paris", None, 5, False, "00:01:33", '{"a": 1}'),
        (91, 1, "zz", "zoo", 50, 90, True, "00:01:40", None),
        (11, 2, "de", "berlin", 6, 70, True, "00:01:42", '{"a": 5, "b": 1}'),
        (12, 2, "fr", "paris", 8, 80, False, "00:01:51", None),
        (13, 2, "it", "rome", 3, 3, True, "00:01:55", '{"b": 9}'),
        (14, 2, "de", None, 20, 20, False, "00:01:58", "x"),
        (15, 2, "fr", "lyon", 3, 90, None, "00:02:10", '{"a": 4}'),
        (16, 2, "de", "bonn", 9, 15, True, "00:02:21", "7"),
        (92, 2, "zz", "zoo", 50, 90, True, "00:10:00", None),
    ),
    "other": (
        (51, 1, "de", "kiel", 2, 11, False, "00:00:15", None),
        (52, 1, "fr", "nice", 4, 21, True, "00:00:40", '{"a": 3}'),
        (53, 1, "de", "bonn", 6, 31, True, "00:01:15", "x"),
        (54, 1, "it", "bari", 1, 41, False, "00:01:31", '{"a": 1}'),
        (93, 1, "zz", "zoo", 50, 90, True, "00:01:40", None),
        (61, 2, "de", "kiel", 5, 51, True, "00:01:44", '{"b": 1}'),
        (62, 2, "fr", "nice", 3, 61, False, "00:01:56", None),
        (63, 2, "it", "bari", 9, 71, True, "00:02:01", "5"),
        (94, 2, "zz", "zoo", 50, 90, True, "00:10:00", None),
    ),
}
_DIMS = {
    "dim": (("de", "north", 2), ("fr", "west", 1), ("it", "south", 3), ("de", "east", 4), ("zz", "zz", 9)),
    "dim2": (("de", "centre", 1), ("fr", "centre", 2), ("es", "south", 3), ("zz", "zz", 9)),
}
# Streams, each over the rows of one table: format, columns, options.
_STREAMS = {
    "src": ("src", "parquet", _COLUMNS, ""),
    "src_wide": ("src", "parquet", _WIDE, ""),
    "other": ("other", "parquet", _COLUMNS, ""),
    "lines": ("lines", "csv", _COLUMNS, ""),
    "lines_null": ("lines", "csv", _COLUMNS, "OPTIONS (nullValue 'de')"),
    "lines_turned": ("lines", "csv", _TURNED, ""),
    "lines_wide": ("lines", "csv", _WIDE, ""),
}
# Of so few rows, compiling takes longer than all else.
_FAST = (
    ("spark.sql.shuffle.partitions", "1"),
    ("spark.sql.codegen.wholeStage", "false"),
    ("spark.sql.codegen.factoryMode", "NO_CODEGEN"),
)
_SPARK = (Py4JError, CapturedException)
_LONG_FRACTION = re.compile(r"-?\d+\.\d{5,}(?:E-?\d+)?")


def _values(rows: tuple[tuple[Any, ...], ...], part: int) -> str:
    def told(row: tuple[Any, ...]) -> str:
        texts = ["NULL" if each is None else repr(each) for each in row]
        time = f"TIMESTAMP '2026-01-01 {row[7]}'"
        return f"({', '.join([*texts[:7], time, f'{time} + INTERVAL 90 SECONDS', texts[8]])})"

    return f"VALUES {', '.join(told(row) for row in rows if row[1] == part)}"


class Outcome(StrEnum):
    RIGHT = "accepted, right"
    ACCEPTED = "accepted, not run"
    WRONG = "WRONG"
    REFUSED = "accepted, refused by Spark's own check"
    FAILED = "accepted, ended in an error"
    PARKED = "parked"
    NEEDLESS = "parked without need"
    UNRUNNABLE = "not a query that Spark runs"


@dataclass(frozen=True)
class Verdict:
    """What came of a pair, with what was written and what a recomputation gives, or the words of a refusal."""

    outcome: Outcome
    words: str = ""
    written: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()


@dataclass
class Tally:
    """How many pairs came to what. `harmless` are those whose change is, by what it is."""

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    harmless: int = 0

    def add(self, pair: Pair, verdict: Verdict) -> None:
        self.outcomes[verdict.outcome] += 1
        self.harmless += pair.kind is not Kind.OTHER and verdict.outcome is not Outcome.UNRUNNABLE

    @property
    def needless(self) -> float:
        """The share of harmless changes that were parked."""
        return self.outcomes[Outcome.NEEDLESS] / max(self.harmless, 1)

    @property
    def run(self) -> int:
        return sum(self.outcomes[each] for each in (Outcome.RIGHT, Outcome.WRONG, Outcome.REFUSED, Outcome.FAILED))


class Trial:
    """Tables of one Spark, where pairs are tried one after the other."""

    def __init__(self, driver: SparkDriver, folder: Path) -> None:
        self._driver = driver
        self._folder = folder
        self._sessions: dict[tuple[tuple[str, str], ...], Any] = {}
        self._descriptions: dict[Query, Description | None] = {}
        self._begun: Query | None = None
        self._before: list[str] = []
        self._watermark = 0  # of the last run, microseconds
        self._plain = self._session(())
        self._make()

    def verdict(self, pair: Pair, *, may_run: bool = True) -> Verdict:
        """Compares a pair, and runs it if it is let go on, and may be run."""
        old, new = self._described(pair.old), self._described(pair.new)
        if old is None or new is None:
            return Verdict(Outcome.UNRUNNABLE)
        found = differences(old, new)
        if found:
            needless = pair.kind is not Kind.OTHER
            return Verdict(Outcome.NEEDLESS if needless else Outcome.PARKED, message(found, old, new))
        if not may_run:
            return Verdict(Outcome.PARKED if found else Outcome.ACCEPTED)
        try:
            self._begin(pair.old)
            expected = self._recomputed(pair)
        except _SPARK as failed:
            return Verdict(Outcome.UNRUNNABLE, str(failed)[:400])
        return self._run(pair, expected)

    def _run(self, pair: Pair, expected: list[str]) -> Verdict:
        try:
            written = self._went_on(pair.new)
        except _SPARK as failed:
            by_its_state = any(f"[{condition}]" in str(failed) for condition in CONDITIONS)
            return Verdict(Outcome.REFUSED if by_its_state else Outcome.FAILED, str(failed)[:2000])
        if written in (expected, self._closed(pair.new, expected)):
            return Verdict(Outcome.RIGHT)
        # Some aggregates hang on the order of the rows, and the batches: a stream anew has both.
        anew = self._anew(pair)
        if written == anew:
            return Verdict(Outcome.RIGHT)
        return Verdict(Outcome.WRONG, "", tuple(written), tuple(expected))

    def _closed(self, new: Query, expected: list[str]) -> list[str]:
        """The rows whose windows the watermark has closed. A condition on a key is looked at before the watermark: if the row that
        closes windows does not pass it, they stay open, and nothing is lost."""
        if new.shape in ("stateless", "distinct", "joined"):
            return expected
        return [row for row in expected if _end(row) <= self._watermark]

    # Tables

    def _make(self) -> None:
        for name, rows in _DIMS.items():
            made = f"CREATE TABLE {name} (code STRING, region STRING, weight INT) USING parquet"
            run(self._driver, self._plain, made, f"INSERT INTO {name} VALUES {', '.join(map(repr, rows))}")
        for name, (rows, kind, columns, options) in _STREAMS.items():
            for part in ("", "_all", "_first", "_later"):
                place = f"LOCATION '{self._place(rows, part)}'"
                run(self._driver, self._plain, f"CREATE TABLE {name}{part} ({columns}) USING {kind} {options} {place}")
        target = f"CREATE TABLE written (k STRING, v STRING, until TIMESTAMP) USING parquet LOCATION '{self._place('written', '')}'"
        run(self._driver, self._plain, target)
        for name, given in (*_ROWS.items(), ("lines", _ROWS["src"])):
            for part, number in (("_first", 1), ("_later", 2)):
                run(self._driver, self._plain, f"INSERT INTO {name}{part} {_values(given, number)}")
            for part, target in (("_first", ""), ("_first", "_all"), ("_later", "_all")):
                for file in self._files(name, part):
                    shutil.copy(file, self._place(name, target))

    def _place(self, rows: str, part: str) -> Path:
        place = self._folder / f"{rows}{part}"
        place.mkdir(parents=True, exist_ok=True)
        return place

    def _files(self, rows: str, part: str) -> list[Path]:
        return list(self._place(rows, part).glob("part-*"))

    # Queries

    def _session(self, conf: tuple[tuple[str, str], ...]) -> Any:
        if conf not in self._sessions:
            session: Any = self._driver.clone()
            for key, value in (*_FAST, *conf):
                session.conf().set(key, value)
            self._sessions[conf] = session
        return self._sessions[conf]

    def _frame(self, session: Any, sql: str) -> Any:
        self._driver.activate(session)
        return self._driver.of_rows(session, session.sessionState().sqlParser().parsePlan(sql))

    def _stream(self, query: Query, before: Query | None = None) -> Any:
        session = self._session(query.conf)
        view = view_of(query)
        if view is not None and before is None:
            self._frame(session, f"CREATE OR REPLACE TEMPORARY VIEW shown AS {view}")
        elif view is not None:
            query = _without_view(query)
        return self._frame(session, query.text(streams=True, before=before))

    def _described(self, query: Query) -> Description | None:
        """None for a query that Spark cannot analyse, or that no stream may be."""
        if query not in self._descriptions:
            if len(self._descriptions) > 64:
                self._descriptions.clear()
            self._descriptions[query] = self._describe(query)
        return self._descriptions[query]

    def _describe(self, query: Query) -> Description | None:
        try:
            frame = self._stream(query)
            checker = self._driver.jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
            mode = self._driver.jvm.org.apache.spark.sql.streaming.OutputMode.Append()
            checker.checkForStreaming(frame.queryExecution().analyzed(), mode)
        except _SPARK:
            return None
        # Streams of other names at one place stand for one table that was made anew: the text is the same then.
        text = re.sub(r"\b(src|lines)_\w+", r"\1", query.text(streams=True))
        found = describe(
            self._driver,
            self._session(query.conf),
            frame.queryExecution().analyzed(),
            text=text,
            output_mode="append",
            mask=str,
            qualified=str,
        )
        assert not found.is_text_only, query.text(streams=True)
        return found

    def _begin(self, old: Query) -> None:
        """Runs the old query on the first part, once for all that follow on it."""
        if self._begun == old:
            return
        self._begun = None
        for name in ("checkpoint", "written", "saved"):
            shutil.rmtree(self._folder / name, ignore_errors=True)
        self._drain(self._stream(old))
        self._before = self._written()
        for name in ("checkpoint", "written"):
            shutil.copytree(self._folder / name, self._folder / "saved" / name)
        self._begun = old

    def _went_on(self, new: Query) -> list[str]:
        for name in ("checkpoint", "written"):
            shutil.rmtree(self._folder / name, ignore_errors=True)
            shutil.copytree(self._folder / "saved" / name, self._folder / name)
        self._with_more_rows(lambda: self._drain(self._stream(new)))
        return self._written()

    def _anew(self, pair: Pair) -> list[str]:
        """What the old query wrote of the first part, and the new one of the second after it has itself read the first."""
        for name in ("checkpoint", "written"):
            shutil.rmtree(self._folder / name, ignore_errors=True)
        try:
            self._drain(self._stream(pair.new, pair.old))
            first = Counter(self._written())
            self._with_more_rows(lambda: self._drain(self._stream(pair.new, pair.old)))
        except _SPARK as failed:
            return [str(failed)]
        return sorted([*self._before, *(Counter(self._written()) - first).elements()])

    def _with_more_rows(self, use: Callable[[], None]) -> None:
        added: list[Path] = []
        for name in (*_ROWS, "lines"):
            added += [Path(shutil.copy(file, self._place(name, ""))) for file in self._files(name, "_later")]
        try:
            use()
        finally:
            for file in added:
                file.unlink()

    def _drain(self, frame: Any) -> None:
        now = self._driver.jvm.org.apache.spark.sql.streaming.Trigger.AvailableNow()
        writer = frame.writeStream().format("parquet").outputMode("append").trigger(now)
        query = writer.option("checkpointLocation", f"{self._folder}/checkpoint").start(f"{self._folder}/written")
        query.awaitTermination()
        told = json.loads(query.lastProgress().json()).get("eventTime", {}).get("watermark", "1970-01-01T00:00:00Z")
        self._watermark = int(datetime.fromisoformat(told).timestamp()) * 1_000_000

    def _written(self) -> list[str]:
        return self._rows(self._plain, f"SELECT * FROM written WHERE until <= {CLOSED}")

    def _recomputed(self, pair: Pair) -> list[str]:
        old, new = pair.old, pair.new
        before, after = (self._session(each.conf) for each in (old, new))
        shown_before = old.text(streams=False).replace("_all ", "_first ")
        merged = new.text(streams=False, before=old)
        match new.shape:
            case "stateless":
                later = new.text(streams=False).replace("_all ", "_later ")
                return sorted([*self._rows(before, shown_before), *self._rows(after, later)])
            case "joined" | "twice":
                return [row for row in self._rows(after, merged) if _end(row) <= _micros(CLOSED)]
        # Not as a filter of the query: Spark applies one on a session window's end before it merges sessions.
        first = [row for row in self._rows(before, shown_before) if _end(row) <= _micros(FIRST_CLOSED)]
        rest = [row for row in self._rows(after, merged) if _micros(FIRST_CLOSED) < _end(row) <= _micros(CLOSED)]
        return sorted([*first, *rest])

    def _rows(self, session: Any, sql: str) -> list[str]:
        row = "concat_ws(' | ', coalesce(k, 'NULL'), coalesce(v, 'NULL'), string(unix_micros(until)))"
        found = self._frame(session, f"SELECT to_json(collect_list({row})) FROM ({sql}\n)").head().getString(0)
        return sorted(_rounded(each) for each in json.loads(str(found)))


def _micros(literal: str) -> int:
    """The microseconds of a literal's time in UTC."""
    return int(datetime.fromisoformat(f"{literal.split(chr(39))[1]}+00:00").timestamp()) * 1_000_000


def _end(row: str) -> int:
    """The microseconds of a row's `until`, its last column."""
    return int(row.rpartition(" | ")[2])


def _rounded(row: str) -> str:
    """Sums of fractions hang on their order in the last places."""
    return _LONG_FRACTION.sub(lambda found: f"{float(found[0]):.6g}", row)


def _without_view(query: Query) -> Query:
    return replace(query, style="subquery")
