"""Changed queries with constants on the states of old ones, in one Spark, by the same steps as a gateway's."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors.exceptions.captured import CapturedException

from sparksql.api.execution import OutputMode, TriggerMode
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.sql.errors import PlacedError, StatementError
from sparksql.gateway.sql.parameters import ParameterBinder
from sparksql.gateway.sql.script import Fragment
from sparksql.gateway.streaming import analysis, unsupported
from sparksql.gateway.streaming.checkpoints.fence import Fence
from sparksql.gateway.streaming.checkpoints.savepoint import Savepoints
from sparksql.gateway.streaming.rewriting.states import Query as Started
from sparksql.gateway.streaming.rewriting.states import States
from sparksql.gateway.streaming.state.comparison import IncompatibleStateError
from sparksql.gateway.streaming.state.describe import describe
from sparksql.gateway.streaming.state.description import Description
from sparksql.gateway.streaming.state.description_file import CONDITIONS, StateFile
from sparksql.gateway.windowing.calls import opened
from sparksql.gateway.windowing.rewrite import for_stream
from sparksql.wire.control import Parameter, RestoreOptions, StreamOptions
from tests.gateway.local_spark import run

from ..totals import Outcome, Verdict
from . import groups, joins
from .changes import Pair
from .drawing import Query
from .groups import Answer, Groups
from .rows import COLUMNS, START, Part

# Of so few rows, compiling takes longer than all else.
_FAST = (
    ("spark.sql.shuffle.partitions", "1"),
    ("spark.sql.codegen.wholeStage", "false"),
    ("spark.sql.codegen.factoryMode", "NO_CODEGEN"),
    ("spark.sql.adaptive.enabled", "false"),
)
_SPARK = (Py4JError, CapturedException, PlacedError, StatementError)
_TOLERANCE = 1e-4
_MAX_SESSIONS = 40


@dataclass
class Clock:
    """Seconds by what they were spent on."""

    spent: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        """Counts the seconds of a block."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.spent[what] = self.spent.get(what, 0.0) + time.monotonic() - begun


class Trial:
    """Tables of one Spark, where pairs are tried one after the other. Each thread has one, with a `name` of its own."""

    def __init__(self, driver: SparkDriver, folder: Path, name: str, clock: Clock) -> None:
        self._driver = driver
        self._folder = folder
        self._clock = clock
        conf = driver.context._jsc.hadoopConfiguration()
        self._files = HadoopFiles(driver.jvm, conf)
        savepoints = Savepoints(driver.jvm, conf, str(driver.context.version))
        self._fence = Fence(self._files)
        self._states = States(driver, self._files, savepoints, self._fence)
        self._operation: Any = SimpleNamespace(
            check=lambda: None, operation_id=name, request=SimpleNamespace(boot_id=name, operation_id=name)
        )
        self._sessions: dict[tuple[tuple[str, str], ...], Any] = {}
        self._names = {source: f"{source}{name}" for source in ("one", "other")}
        self._old: Query | None = None
        self._problem = ""
        self._numbers = itertools.count()
        self._plain = self._session(())
        self._make()

    def verdict(self, pair: Pair) -> Verdict:
        """Tries a pair."""
        if not self.begin(pair.old):
            return Verdict(Outcome.UNRUNNABLE, self._problem)
        try:
            with self._clock.on("plan"):
                session, frame, text = self.planned(pair.new)
        except _SPARK as failed:
            return Verdict(Outcome.UNRUNNABLE, str(failed)[:400])
        place = self.fresh()
        try:
            return self._tried(pair, session, frame, text, place)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _tried(self, pair: Pair, session: Any, frame: Any, text: str, place: Path) -> Verdict:
        saved = self._folder / "begun" / "checkpoint"
        analysed = frame.queryExecution().analyzed()
        options = self._options(pair.new, place / "checkpoint")
        restore = RestoreOptions(location=saved.as_uri(), query_id="", rewrite=True)
        options = options.model_copy(update={"restore": restore, "rewrites": True})
        read = partial(self._described, pair.new, session, analysed, text)
        query = Started(session, analysed, options, read, _never)
        try:
            with self._clock.on("compare"):
                rows = self._states.compare(query).row_count
            with self._clock.on("copy"):
                if rows:
                    self._rewritten(query)
                else:
                    shutil.copytree(saved, place / "checkpoint")
        except IncompatibleStateError as refused:
            return Verdict(Outcome.NEEDLESS if pair.is_harmless else Outcome.PARKED, str(refused))
        except _SPARK as failed:
            return Verdict(Outcome.FAILED, str(failed)[:2000])
        try:
            with (
                self._clock.on("run"),
                self.part(2, closing=isinstance(pair.new, Groups) and pair.new.mode == "append"),
            ):
                found = self.drained(pair.new, session, frame, place)
        except _SPARK as failed:
            by_its_state = any(f"[{condition}]" in str(failed) for condition in CONDITIONS)
            return Verdict(Outcome.REFUSED if by_its_state else Outcome.FAILED, str(failed)[:2000])
        outcome = Outcome.REWRITTEN if rows else Outcome.RIGHT
        expected = _answers(pair)
        if any(equal(found, each) for each in expected):
            return Verdict(outcome)
        return Verdict(
            Outcome.WRONG, "", tuple(sorted(map(str, found.items()))), tuple(sorted(map(str, expected[0].items())))
        )

    def _rewritten(self, query: Started) -> None:
        lease = self._fence.lease(
            query.options.checkpoint, self._operation.request.boot_id, self._operation.operation_id
        )
        lease.take((), lambda: None)
        try:
            self._states.restore(query, lease, self._operation)
        finally:
            lease.release()

    @property
    def begun(self) -> Path:
        """Returns the checkpoint of the old query."""
        return self._folder / "begun" / "checkpoint"

    @property
    def session(self) -> Any:
        """Returns a session without settings of its own."""
        return self._plain

    @property
    def table(self) -> str:
        """Returns the name of the table of groups."""
        return self._names["one"]

    @property
    def problem(self) -> str:
        """Returns why Spark does not run the old query; empty if it does."""
        return self._problem

    def begin(self, old: Query) -> bool:
        """Runs the old query on the first part, once for all that follow on it. Returns whether Spark runs it."""
        if self._old == old:
            return not self._problem
        self._old, self._problem = old, ""
        place = self._folder / "begun"
        shutil.rmtree(place, ignore_errors=True)
        try:
            with self._clock.on("begin"):
                session, frame, text = self.planned(old)
                analysed = frame.queryExecution().analyzed()
                options = self._options(old, place / "checkpoint")
                self.drained(old, session, frame, place)
                described = self._described(old, session, analysed, text, describe)
                StateFile(self._files, options.checkpoint).write(described)
        except _SPARK as failed:
            self._problem = str(failed)[:400]
        return not self._problem

    # Queries

    def _session(self, conf: tuple[tuple[str, str], ...]) -> Any:
        if len(self._sessions) > _MAX_SESSIONS:
            for each in self._sessions.values():
                self._driver.close_session(each)
            self._sessions.clear()
        if conf not in self._sessions:
            session: Any = self._driver.clone()
            for key, value in (*_FAST, *conf):
                session.conf().set(key, value)
            self._sessions[conf] = session
        return self._sessions[conf]

    def planned(self, query: Query) -> tuple[Any, Any, str]:
        """The session, the Dataset and the text of a query. Raises what refuses it."""
        driver, session, text = self._driver, self._session(query.conf), query.text(self._names)
        driver.activate(session)
        for each in query.constants:
            if each.how == "variable":
                run(driver, session, f"DECLARE OR REPLACE VARIABLE {each.name} INT DEFAULT {each.value}")
        binder = ParameterBinder(driver.jvm, session)
        plan = opened(driver.jvm, binder.parse(text, binder.literals(self._parameters(query, text))))
        plan = analysis.prepared(driver, session, plan)
        frame = for_stream(driver, session, driver.of_rows(session, plan), query.mode)
        analysed = frame.queryExecution().analyzed()
        unsupported.check_supported(driver, session, analysed, query.mode, Fragment(text, 0), text)
        return session, frame, text

    def _parameters(self, query: Query, text: str) -> list[Parameter]:
        return [
            Parameter(name=each.name, type="INT", value=str(each.value))
            for each in query.constants
            if each.how == "parameter" and re.search(rf":{each.name}\b", text)
        ]

    def _described(self, query: Query, session: Any, analysed: Any, text: str, read: Any) -> Description:
        with self._clock.on("describe"):
            found: Description = read(
                self._driver, session, analysed, text=text, output_mode=query.mode, mask=str, qualified=str
            )
        bound = sorted((each.name, each.type, each.value) for each in self._parameters(query, text))
        return replace(found, parameters=hashlib.sha256(json.dumps(bound).encode()).hexdigest())

    def _options(self, query: Query, checkpoint: Path) -> StreamOptions:
        mode = OutputMode.COMPLETE if query.mode == "complete" else OutputMode.APPEND
        return StreamOptions(checkpoint=checkpoint.as_uri(), output_mode=mode, trigger=TriggerMode.AVAILABLE_NOW)

    def drained(self, query: Query, session: Any, frame: Any, place: Path) -> Answer:
        """Runs a query to the end of what there is, and returns what it has given."""
        jvm = self._driver.jvm
        name = f"given{next(self._numbers)}"
        writer = (
            frame.writeStream()
            .outputMode(query.mode)
            .trigger(jvm.org.apache.spark.sql.streaming.Trigger.AvailableNow())
        )
        writer = writer.option("checkpointLocation", (place / "checkpoint").as_uri())
        in_memory = query.mode == "complete"
        writer = writer.format("memory").queryName(name) if in_memory else writer.format("json")
        with unsupported.start_allowed(session, frame.queryExecution().analyzed()):
            running = writer.start() if in_memory else writer.start((place / "written").as_uri())
        running.awaitTermination()
        if in_memory:
            texts = list(session.table(name).toJSON().collectAsList())
            session.catalog().dropTempView(name)
        else:
            texts = [line for file in (place / "written").glob("part-*") for line in file.read_text().splitlines()]
        return _answer(query, [json.loads(each) for each in texts])

    # Tables

    def _make(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        for source, name in self._names.items():
            place = self._folder / source
            place.mkdir(parents=True)
            run(self._driver, self._plain, f"CREATE TABLE {name} ({COLUMNS}) USING parquet LOCATION '{place}'")
            for number, closing in ((1, False), (2, False), (2, True)):
                values = Part(source, number).values(closing=closing)
                self._driver.activate(self._plain)
                rows = self._driver.of_rows(self._plain, self._plain.sessionState().sqlParser().parsePlan(values))
                told = [each.split(" ", 1) for each in COLUMNS.split(", ")]
                casts = [f"CAST(col{place + 1} AS {type_}) AS {column}" for place, (column, type_) in enumerate(told)]
                of = self._folder / f"{source}-{number}-{closing}"
                rows.selectExpr(self._driver.jvm.PythonUtils.toSeq(casts)).coalesce(1).write().parquet(str(of))
            for file in self._parts(source, 1, closing=False):
                shutil.copy(file, place)

    def _parts(self, source: str, number: int, *, closing: bool) -> list[Path]:
        return list((self._folder / f"{source}-{number}-{closing}").glob("part-*"))

    @contextmanager
    def part(self, number: int, *, closing: bool) -> Iterator[None]:
        """While it lasts, the tables have that part as well."""
        added = [
            Path(shutil.copy(file, self._folder / source))
            for source in self._names
            for file in self._parts(source, number, closing=closing)
        ]
        try:
            yield
        finally:
            for file in added:
                file.unlink()

    def fresh(self) -> Path:
        """Returns a place of its own."""
        return self._folder / f"went{next(self._numbers)}"


def _answers(pair: Pair) -> Sequence[Answer]:
    if isinstance(pair.old, Groups) and isinstance(pair.new, Groups):
        return groups.answers(pair.old, pair.new)
    assert isinstance(pair.old, joins.Join) and isinstance(pair.new, joins.Join)
    return joins.answers(pair.old, pair.new)


def _answer(query: Query, rows: Sequence[Mapping[str, Any]]) -> Answer:
    keys = len(query.keys) if isinstance(query, Groups) else 2
    windows = 2 if isinstance(query, Groups) and query.window else 0
    found: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for row in rows:
        key = (
            *(row.get(f"k{place}") for place in range(keys)),
            *(_seconds(row[f"w{place}"]) for place in range(windows)),
        )
        if key in found:
            return {("twice", key): ()}
        found[key] = tuple(row.get(f"r{place}") for place in range(len(query.results)))
    return found


def _seconds(text: str) -> int:
    return int((datetime.fromisoformat(text).replace(tzinfo=None) - START).total_seconds())


def equal(found: Answer, expected: Answer) -> bool:
    """Returns whether two answers are the same, but for the rounding of fractions."""
    return found.keys() == expected.keys() and all(
        all(map(_same, values, expected[key])) for key, values in found.items()
    )


def _same(one: Any, other: Any) -> bool:
    if one is None or other is None or isinstance(one, str):
        return bool(one == other)
    return abs(float(one) - float(other)) <= _TOLERANCE + 1e-9 * abs(float(other))


def _never(_: str) -> None:
    raise AssertionError("nothing is computed from history here")
