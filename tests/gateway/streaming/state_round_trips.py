"""Takes states of drawn queries through tables: state -> table -> `source: Query` -> the rows of a stream that resumes from it.

A query has many aggregates, so that one trip tries a pair of aggregate and type for each.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparksql.wire.control import RestoreOptions
from sparksql.wire.savepoints import SavepointPlace, SavepointState, SavepointView, StateQuery
from tests.support.default_class import class_path
from tests.support.process import GatewayProcess, running

from ..client import connect
from ..connectors import conf
from ..streams import Streams

# Columns of the source by their types, each of the row's number, a seed and the column's.
_NUMBER = "(pmod(hash(id, {seed}, {place}), 200) - 100)"
TYPES: dict[str, str] = {
    "TINYINT": f"CAST({_NUMBER} AS TINYINT)",
    "SMALLINT": f"CAST({_NUMBER} * 300 AS SMALLINT)",
    "INT": f"{_NUMBER} * 10000001",
    "BIGINT": f"{_NUMBER} * 10000000000001",
    "DECIMAL(4, 2)": f"CAST({_NUMBER} / 4 AS DECIMAL(4, 2))",
    "DECIMAL(8, 3)": f"CAST({_NUMBER} / 8 AS DECIMAL(8, 3))",
    "DECIMAL(11, 0)": f"CAST({_NUMBER} AS DECIMAL(11, 0))",
    "DECIMAL(15, 15)": f"CAST({_NUMBER} / 128 AS DECIMAL(15, 15))",
    "DECIMAL(28, 6)": f"CAST({_NUMBER} / 64 AS DECIMAL(28, 6))",
    "FLOAT": f"CAST({_NUMBER} / 4 AS FLOAT)",
    "DOUBLE": f"CAST({_NUMBER} / 8 AS DOUBLE)",
    "STRING": f"concat('s', {_NUMBER})",
    "BOOLEAN": f"{_NUMBER} > 20",
    "DATE": f"date_from_unix_date({_NUMBER})",
    "TIMESTAMP": f"timestamp_seconds({_NUMBER} * 1001)",
    "INTERVAL DAY TO SECOND": f"make_dt_interval({_NUMBER}, 1, 2, 3)",
    "INTERVAL YEAR TO MONTH": f"make_ym_interval({_NUMBER}, 1)",
}
_ALL = tuple(TYPES)
_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_INEXACT = (*_INTEGERS, "FLOAT", "DOUBLE")  # whose average is a double
_SUMMED = tuple(each for each in TYPES if each in _INEXACT or each.startswith(("DECIMAL", "INTERVAL")))
# Aggregates with the types that each takes; {0} is the column.
AGGREGATES: dict[str, tuple[str, ...]] = {
    "count({0})": _ALL,
    "sum({0})": _SUMMED,
    "avg({0})": _SUMMED,
    "min({0})": _ALL,
    "max({0})": _ALL,
    "first({0})": _ALL,
    "last({0}, true)": _ALL,
    "max_by(k, {0})": _ALL,
    "avg({0}) FILTER (WHERE id % 3 > 0)": _SUMMED,
    "bit_xor({0})": _INTEGERS,
    "bool_or({0})": ("BOOLEAN",),
}
# Those that HOP and CUMULATE make of panes; an aggregation that has another one puts rows into each window.
MERGED: dict[str, tuple[str, ...]] = {
    **{each: AGGREGATES[each] for each in ("count({0})", "sum({0})", "min({0})", "max({0})", "bit_xor({0})")},
    **{each: _INEXACT for each in AGGREGATES if each.startswith("avg")},
}
_DELAY = "WATERMARK ts DELAY OF INTERVAL 60 SECONDS"
_BY_WINDOW = "k, window_start, window_end"
WINDOWS: dict[str, str] = {
    "none": "",
    "TUMBLE": "TUMBLE(TABLE (FROM {0}), DESCRIPTOR(ts), INTERVAL '5' MINUTE)",
    "HOP": "HOP(TABLE (FROM {0}), DESCRIPTOR(ts), INTERVAL '2' MINUTE, INTERVAL '6' MINUTE)",
    "CUMULATE": "CUMULATE(TABLE (FROM {0}), DESCRIPTOR(ts), INTERVAL '2' MINUTE, INTERVAL '6' MINUTE)",
}
PANED = ("HOP", "CUMULATE")
# Of so few rows and so many columns, compiling takes longer than all else.
_FAST = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@contextmanager
def running_for_trips(folder: Path) -> Iterator[GatewayProcess]:
    """A gateway with tables of Delta that compiles nothing."""
    with class_path(folder), running(folder, spark_conf={**conf(folder), **_FAST}) as started:
        yield started


@asynccontextmanager
async def trips_in(gateway: GatewayProcess, folder: Path) -> AsyncIterator[Trips]:
    async with connect(gateway) as client:
        await client.until_started()
        await client.ok("CREATE DATABASE trips")
        yield Trips(Streams(client, folder, "trips"))
        await client.ok("DROP DATABASE trips CASCADE")


@dataclass(frozen=True)
class Trip:
    """A query: its windows, and its aggregates by the names of their columns, each with its type."""

    windows: str
    values: tuple[tuple[str, str], ...]
    seed: int

    def query(self, source: str) -> str:
        columns = ", ".join(f"{_shown(value, kind)} AS v{place}" for place, (value, kind) in enumerate(self.values))
        if self.windows == "none":
            return f"SELECT k, {columns} FROM {source} GROUP BY k"
        return f"SELECT {_BY_WINDOW}, {columns} FROM {WINDOWS[self.windows].format(source)} GROUP BY {_BY_WINDOW}"


def _shown(value: str, kind: str) -> str:
    """An interval as a text: tables of Delta have none."""
    return f"CAST({value} AS STRING)" if kind.startswith("INTERVAL") else value


def every_pair(windows: str, seed: int) -> Trip:
    """Every aggregate of every type, in an order of the seed."""
    taken = MERGED if windows in PANED else AGGREGATES
    found = [_pair(each, kind) for each, kinds in taken.items() for kind in kinds]
    random.Random(seed).shuffle(found)
    return Trip(windows, (("count(*)", ""), *found), seed)


def drawn(seed: int) -> Trip:
    """Some aggregates, which may be there twice and share their state."""
    one = random.Random(seed)
    windows = one.choice(tuple(WINDOWS))
    taken = MERGED if windows in PANED and one.random() < 0.8 else AGGREGATES
    found = []
    for _ in range(one.randint(1, 24)):
        value = one.choice((*taken, "avg({0})", "sum({0})"))
        found.append(_pair(value, one.choice(taken[value])))
    return Trip(windows, tuple(found), seed)


def _pair(value: str, kind: str) -> tuple[str, str]:
    is_of_type = not value.startswith(("count", "max_by"))
    return value.format(f"c{_ALL.index(kind)}"), kind if is_of_type else ""


def _rows(part: int, first: int, count: int, seed: int) -> str:
    """A fifth of the values is NULL, and all those of k0."""
    columns = ", ".join(
        f"IF(id % 6 = 0 OR pmod(hash(id, {seed}, {place}, 1), 5) = 0, NULL, {text.format(seed=seed, place=place)}) AS c{place}"
        for place, text in enumerate(TYPES.values())
    )
    return (
        f"SELECT {part} AS part, id, concat('k', id % 6) AS k, timestamp_seconds(id) AS ts, {columns} "
        f"FROM range({first}, {first + count}, 1, 1)"
    )


@dataclass
class Result:
    """The result of a trip: rows of the stream that resumed from its own checkpoint, and of the one that made a detour."""

    trip: Trip
    expected: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    wrong_values: list[str] = field(default_factory=list)
    refusal: str = ""

    @property
    def is_right(self) -> bool:
        return not self.refusal and not self.wrong_values and self.expected == self.found


class Trips:
    """Makes trips one after the other in one database."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._number = 0

    async def made(self, trip: Trip) -> Result:
        self._number += 1
        name, streams, result = f"trip{self._number}", self._streams, Result(trip)
        source = f"$.{name}_src"
        await streams.ok(f"CREATE TABLE {source} USING parquet AS {_rows(1, 0, 540, trip.seed)}")
        for target in (name, f"{name}_again"):
            await streams.ok(f"CREATE TABLE $.{target} USING delta AS {trip.query(source)} LIMIT 0")
        await self._drain(trip, source, name)
        await streams.saved(f"{name}-saved", name)
        before = Counter(await self._written(name))
        last = await self._detour(trip, name, result)
        if result.refusal:
            return result
        await streams.ok(
            f"INSERT INTO {source} {_rows(2, 500, 700, trip.seed)}",
            f"INSERT INTO {source} {_rows(2, 10000, 1, trip.seed)}",
        )
        await self._drain(trip, source, name)
        restore = RestoreOptions(location=(streams.folder / last).as_uri(), query_id=str(uuid.uuid4()))
        await self._drain(trip, source, f"{name}_again", restore=restore)
        after = Counter(await self._written(name))
        # Complete mode writes all groups each time.
        result.expected = sorted((after if trip.windows == "none" else after - before).elements())
        result.found = sorted(await self._written(f"{name}_again"))
        return result

    async def _drain(self, trip: Trip, source: str, target: str, **fields: Any) -> None:
        delay = "" if trip.windows == "none" else f" {_DELAY}"
        if trip.windows == "none":
            fields["output_mode"] = "Complete"
        sql = f"INSERT INTO $.{target} {trip.query(f'STREAM {source}{delay}')}"
        await self._streams.drained(sql, target, max_files_per_trigger=1, **fields)

    async def _written(self, name: str) -> list[str]:
        return [repr(row) for row in await self._streams.rows(f"SELECT * FROM $.{name}")]

    async def _detour(self, trip: Trip, name: str, result: Result) -> str:
        """Puts each operator's state into a table, and makes it of that; returns the name of the last savepoint."""
        last = f"{name}-saved"
        operators = ["aggregate"] if trip.windows in ("none", "TUMBLE") else await self._operators(last)
        for number, operator in enumerate(operators):
            table, made = f"$.{name}_state{number}", f"{name}-made{number}"
            read = f"savepoint_state('{last}', '{operator}', 'kept')"
            await self._run(f"CREATE TABLE {table} USING parquet AS SELECT * FROM {read}", last)
            base = f"(SELECT count(*) AS n_of_base FROM savepoint_state('{last}', '{operator}'))"
            query = f"SELECT t.* FROM {table} t CROSS JOIN {base}"
            view = await self._make(made, name, query, operator, last)
            if view.state is not SavepointState.COMPLETED:
                result.refusal = str(view.message)
                return last
            for form in ("values", "kept"):
                old, new = [await self._state(f"'{each}', '{operator}', '{form}'", each) for each in (last, made)]
                if old != new:
                    result.wrong_values += [f"{operator} {form}: {old} -> {new}"]
            last = made
        result.wrong_values += await self._misshown(trip, name, operators[0])
        return last

    async def _misshown(self, trip: Trip, name: str, operator: str) -> list[str]:
        """Columns of the first operator's state that are not what a batch of the same rows gives, in the types of the text."""
        call = f"savepoint_state('{name}-saved', '{operator}')"
        known = await self._columns(f"SELECT * FROM {call}", f"{name}-saved")
        keys = ["k"] if trip.windows == "none" else ["k", "window_start", "window_end"]
        is_paned = operator == "aggregate 1"
        of_rows = Trip("TUMBLE", trip.values, trip.seed) if is_paned else trip
        batch = of_rows.query(f"$.{name}_src").replace("'5' MINUTE", "'2' MINUTE" if is_paned else "'5' MINUTE")
        columns = [each for each in known if each in {f"v{place}" for place in range(len(trip.values))}]
        if not columns:
            return []
        found = []
        for each in columns:
            value, kind = trip.values[int(each[1:])]
            shown = f"CAST(s.{each} AS STRING)" if kind.startswith("INTERVAL") else f"s.{each}"
            found.append(f"'{value}', count_if(NOT ({shown} <=> b.{each}) OR typeof({shown}) <> typeof(b.{each}))")
        same = " AND ".join(f"s.{key} <=> b.{key}" for key in keys)
        sql = f"SELECT map({', '.join(found)}) AS wrong FROM {call} s LEFT JOIN ({batch}) b ON {same}"
        return [f"{operator} {wrong}" for (wrong,) in await self._state_rows(sql, f"{name}-saved") if _any(wrong)]

    async def _operators(self, savepoint: str) -> list[str]:
        sql = f"SELECT DISTINCT operator FROM savepoint_state('{savepoint}') ORDER BY 1"
        return [str(operator) for (operator,) in await self._state_rows(sql, savepoint)]

    async def _state(self, arguments: str, savepoint: str) -> list[str]:
        sql = f"SELECT to_json(struct(*), map('ignoreNullFields', 'false')) FROM savepoint_state({arguments})"
        return sorted(map(repr, await self._state_rows(sql, savepoint)))

    async def _columns(self, sql: str, savepoint: str) -> list[str]:
        view = await self._run(f"{sql} LIMIT 0", savepoint)
        assert view.result is not None
        return [each.name for each in view.result.columns]

    async def _state_rows(self, sql: str, savepoint: str) -> list[tuple[Any, ...]]:
        view = await self._run(sql, savepoint)
        return [row async for row in self._streams.client.pages(view.operation_id)]

    async def _run(self, sql: str, savepoint: str) -> Any:
        view = await self._streams.client.run(
            sql.replace("$", self._streams.database), savepoints=(self._place(savepoint),)
        )
        assert view.error is None, (sql, view)
        return view

    async def _make(self, made: str, base: str, sql: str, operator: str, reads: str) -> SavepointView:
        query = StateQuery(
            sql=sql.replace("$", self._streams.database),
            statement="it",
            operator=operator,
            savepoints=(self._place(reads),),
        )
        return await self._streams.attempted(made, self._streams.options(base).checkpoint, query)

    def _place(self, name: str) -> SavepointPlace:
        location = (self._streams.folder / name).as_uri()
        return SavepointPlace(name=name, phase="Completed", location=location, statement="it")


def _any(counts: Any) -> bool:
    return any(count for _, count in (counts.items() if isinstance(counts, dict) else counts))
