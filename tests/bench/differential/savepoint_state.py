"""Tries detours of states: read by `savepoint_state`, made a savepoint by `source: Query`, gone on from.

Usage: python -m tests.bench.differential.savepoint_state --trips N --seed S [--minutes M]. Each trip takes one of three ways: the rows of
the state as they are kept, the rows that a batch computes as docs/savepoints.md has it, or the values that are shown. Prints a line
for each trip that is wrong or fails, and a line of JSON with the totals. Ends with 1 if anything was wrong or failed.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import shutil
import sys
import tempfile
import time
import uuid
from collections import Counter
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors.exceptions.captured import CapturedException

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.sql.errors import PlacedError, StatementError
from sparksql.gateway.streaming.checkpoints.savepoint import SavepointError, Savepoints
from sparksql.gateway.streaming.state_tables.maker import StateMaker
from sparksql.gateway.streaming.state_tables.reader import SavepointStates
from sparksql.wire.control import SubmitRequest
from sparksql.wire.savepoints import SavepointPlace, SavepointRequest, StateQuery
from tests.gateway.local_spark import local_spark

from .changed.groups import Constant, Groups, Window, answers
from .changed.rows import rows_of
from .changed.trial import Clock, Trial, equal
from .meanings import TRUE, Call, Expr, Result, column, strict
from .totals import Outcome, Totals, Verdict

_CONSTANTS = (Constant("p", 1, "literal"), Constant("q", 1, "literal"))
_WAYS = ("kept", "kept", "batch", "values")
_WINDOWS = (
    *(None, None, None, Window("window", 60), Window("TUMBLE", 60), Window("HOP", 60, 20), Window("CUMULATE", 60, 20)),
)
_KEYS = (column("k"), column("s"), strict("{} % 2", lambda value: value % 2, column("k")))
_INTEGERS = tuple(
    Expr(text, lambda row: row["v"]) for text in ("v", "CAST(v AS INT)", "CAST(v AS SMALLINT)", "CAST(v AS TINYINT)")
)
_FRACTIONS = tuple(
    Expr(text, lambda row: None if row["v"] is None else Decimal(row["v"]) / 4)
    for text in ("CAST(v AS DOUBLE) / 4", "CAST(v / 4 AS FLOAT)")
)
_DECIMALS = tuple(
    Expr(text, lambda row: row["d"])
    for text in (
        "d",
        "CAST(d AS DECIMAL(9,4))",
        "CAST(d AS DECIMAL(18,2))",
        "CAST(d AS DECIMAL(30,6))",
        "CAST(d AS DECIMAL(38,2))",
    )
)
_NUMBERS = (*_INTEGERS, *_FRACTIONS, *_DECIMALS, column("w"), column("e"))
_FUNCTIONS = ("sum", "sum", "avg", "avg", "min", "max", "count", "rows", "xor", "count if", "text", "deviation")


def query(drawn: random.Random) -> Groups:
    """Returns a query over groups of plain aggregates."""
    window = drawn.choice(_WINDOWS)
    keys = tuple(drawn.sample(_KEYS, drawn.choice((0, 1, 1, 2))))
    mode = "append" if window and drawn.random() < 0.6 else "complete"
    calls = [_call(drawn) for _ in range(drawn.choice((1, 2, 3, 4)))]
    return Groups(keys, tuple(Result("call", call=each) for each in calls), _CONSTANTS, TRUE, window, mode=mode)


def _call(drawn: random.Random) -> Call:
    where = column("b") if drawn.random() < 0.2 else None
    match drawn.choice(_FUNCTIONS):
        case "rows":
            return Call("rows", Expr("1", lambda _: 1), where)
        case "count if":
            return Call("count if", column("b"))
        case "xor":
            return Call("xor", drawn.choice(_INTEGERS), where)
        case "text":
            return Call(drawn.choice(("min", "max", "count")), column("s"), where)
        case function:
            return Call(function, drawn.choice(_NUMBERS), where)


class Detour:
    """Takes states of one trial through their tables."""

    def __init__(self, driver: SparkDriver, trial: Trial) -> None:
        self._driver = driver
        self._trial = trial
        conf = driver.context._jsc.hadoopConfiguration()
        files = HadoopFiles(driver.jvm, conf)
        self._savepoints = Savepoints(driver.jvm, conf, str(driver.context.version))
        self._states, self._maker = SavepointStates(driver, files), StateMaker(driver, files)

    def verdict(self, made: Groups, way: str) -> Verdict:
        """Tries one."""
        if not self._trial.begin(made):
            return Verdict(Outcome.UNRUNNABLE, self._trial.problem)
        place = self._trial.fresh()
        try:
            return self._shown(made) if way == "values" else self._gone_on(made, way, place)
        except (PlacedError, StatementError, SavepointError) as refused:
            return Verdict(Outcome.PARKED, str(refused)[:600])
        except (Py4JError, CapturedException) as failed:
            return Verdict(Outcome.FAILED, str(failed)[:1500])
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _shown(self, made: Groups) -> Verdict:
        """The values of a query without windows beside those of the first part."""
        rows = self._frame("SELECT * FROM savepoint_state('s', 'aggregate')").toJSON().collectAsList()
        names = [f"k{place}" for place in range(len(made.keys))]
        columns = [f"r{place}" for place in range(len(made.results))]
        found = {}
        for text in rows:
            row = json.loads(text, parse_float=Decimal)
            found[tuple(row.get(name) for name in names)] = tuple(row.get(name) for name in columns)
        expected = _of_first_part(made)
        if equal(found, expected):
            return Verdict(Outcome.RIGHT)
        return Verdict(Outcome.WRONG, "", *(tuple(sorted(map(str, each.items()))) for each in (found, expected)))

    def _gone_on(self, made: Groups, way: str, place: Path) -> Verdict:
        checkpoint = place / "checkpoint"
        source = self._trial.begun.as_uri()
        operators = (
            ("aggregate",)
            if made.window is None or made.window.kind in ("window", "TUMBLE")
            else ("aggregate 1", "aggregate")
        )
        for operator in operators:
            try:
                frame = self._frame(_batch(made, self._trial.table) if way == "batch" else _STORED.format(operator))
                break
            except (PlacedError, StatementError):
                if operator == operators[-1]:
                    raise
        request = SavepointRequest(
            boot_id="b", checkpoint=source, target=(place / "made").as_uri(), uid="u", namespace="n", name="made"
        )
        asked = StateQuery(sql="", statement="it", operator=operator)
        watched: Any = SimpleNamespace(check=lambda: None)
        session = frame.sparkSession()
        self._maker.make(watched, session, frame, request, asked, frozenset())
        self._savepoints.restore(request.target, checkpoint.as_uri(), str(uuid.uuid4()))
        session, frame, _ = self._trial.planned(made)
        with self._trial.part(2, closing=made.mode == "append"):
            found = self._trial.drained(made, session, frame, place)
        (expected,) = answers(made, made)
        if equal(found, expected):
            return Verdict(Outcome.RIGHT)
        return Verdict(Outcome.WRONG, "", *(tuple(sorted(map(str, each.items()))) for each in (found, expected)))

    def _frame(self, text: str) -> Any:
        session: Any = self._trial.session
        place = SavepointPlace(name="s", phase="Completed", location=self._trial.begun.as_uri(), statement="other")
        request = SubmitRequest(boot_id="b", namespace="n", name="s", sql=text, savepoints=(place,))
        self._driver.activate(session)
        plan = self._states.read(session, session.sessionState().sqlParser().parsePlan(text), request)
        return self._driver.of_rows(session, plan)


_STORED = "SELECT * FROM savepoint_state('s', '{}', 'kept')"


def _of_first_part(made: Groups) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    rows = [row for row in rows_of("one") if row["part"] == 1]
    groups: dict[tuple[Any, ...], list[Any]] = {} if made.keys else {(): []}
    for row in rows:
        groups.setdefault(tuple(key.value(row) for key in made.keys), []).append(row)
    calls = made.calls()
    return {key: tuple(call.result(of) for call in calls) for key, of in groups.items()}


def _batch(made: Groups, table: str) -> str:
    """The query of a batch that gives the state, as docs/savepoints.md has it."""
    columns = [f"{key.text} AS k{place}" for place, key in enumerate(made.keys)]
    for place, each in enumerate(made.results):
        assert each.call
        columns.append(f"{_stored(each.call)} AS r{place}")
    keys = f" GROUP BY {', '.join(key.text for key in made.keys)}" if made.keys else ""
    return f"SELECT {', '.join(columns)} FROM {table}{keys}"


def _stored(call: Call) -> str:
    if call.function != "avg":
        return call.text
    total, count = (Call(function, call.of, call.where).text for function in ("sum", "count"))
    of_decimals = "DECIMAL" in call.of.text or call.of.text in ("d", "e")
    return f"named_struct('sum', {total if of_decimals else f'CAST({total} AS DOUBLE)'}, 'count', {count})"


def way_of(drawn: random.Random, made: Groups) -> str:
    """Returns how a state is taken: windows, and deviations, whose columns are Spark's own, only as they are kept."""
    way = drawn.choice(_WAYS)
    calls = made.calls()
    if made.window is not None or any(call.function == "deviation" for call in calls) or len(set(calls)) < len(calls):
        return "kept"
    return way


def main(arguments: argparse.Namespace) -> int:
    """Runs the program."""
    logging.getLogger("SQLQueryContextLogger").disabled = True  # PySpark's: errors that are outcomes here
    totals, ways, begun = Totals(), Counter[str](), time.monotonic()
    with tempfile.TemporaryDirectory() as folder, local_spark(Path(folder)) as driver:
        trial = Trial(driver, Path(folder, "trial"), "0", Clock())
        detour = Detour(driver, trial)
        for number in range(arguments.skip, arguments.skip + arguments.trips):
            if arguments.minutes and time.monotonic() > begun + 60 * arguments.minutes:
                break
            drawn = random.Random(f"{arguments.seed}:{number}")
            made = query(drawn)
            way = way_of(drawn, made)
            verdict = detour.verdict(made, way)
            totals.add(f"{arguments.seed}:{number}", verdict.outcome)
            ways[f"{way}, {made.window.kind if made.window else 'groups'}: {verdict.outcome}"] += 1
            if verdict.outcome in (Outcome.WRONG, Outcome.FAILED, Outcome.PARKED):
                text = made.text({"one": "one"})
                print(
                    f"{verdict.outcome} (number {number}, {way}, {made.mode}): {text}\n   {verdict.words}", flush=True
                )
                if verdict.found or verdict.expected:
                    print(f"   found    {verdict.found}\n   expected {verdict.expected}", flush=True)
    about = {"program": "savepoint_state", "seed": arguments.seed, "trips": totals.outcomes.total()}
    about["seconds"] = round(time.monotonic() - begun)
    print(json.dumps({**about, **totals.counts(), "ways": dict(sorted(ways.items()))}))
    return 1 if totals.wrong or totals.failed else 0


def parsed() -> argparse.Namespace:
    """Returns the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.differential.savepoint_state")
    parser.add_argument("--trips", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main(parsed()))
