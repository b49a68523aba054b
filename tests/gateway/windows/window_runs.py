"""Runs a text with window functions over drawn rows in a Spark of this process: as a batch, and as a stream cut into batches."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.sql.lexer import Lexed
from sparksql.gateway.sql.script import Fragment
from sparksql.gateway.sql.window_syntax import edited
from sparksql.gateway.streaming.analysis import prepared
from sparksql.gateway.streaming.unsupported import check_supported, start_allowed
from sparksql.gateway.windowing.calls import opened
from sparksql.gateway.windowing.rewrite import for_stream

from ..local_spark import run
from .window_model import NEVER, Batch, Row

COLUMNS = "k STRING, g INT, i INT, l BIGINT, d DECIMAL(10, 2), x DOUBLE, b BOOLEAN, id INT"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_EPOCH = datetime(1970, 1, 1)
_UTF8 = "utf-8"


@dataclass(frozen=True)
class Setting:
    """What a run has of its session: the type of times, the zone, the store of state, adaptive execution."""

    kind: str
    zone: str
    rocksdb: bool
    adaptive: bool


class Bench:
    """A table whose files come in order, each a batch of its stream."""

    def __init__(self, driver: SparkDriver, folder: Path, name: str, setting: Setting) -> None:
        self._driver = driver
        self._kind = setting.kind
        self._input = folder / name
        self._output = folder / f"{name}_out"
        self._checkpoint = folder / f"{name}_checkpoint"
        self._input.mkdir()
        self.name = name
        self._written: list[tuple[Row, ...]] = []
        self._session = driver.clone()
        conf = self._session.conf()
        conf.set("spark.sql.session.timeZone", setting.zone)
        conf.set("spark.sql.adaptive.enabled", str(setting.adaptive).lower())
        if setting.rocksdb:
            conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        driver.activate(self._session)
        columns = f"ts {setting.kind}, {COLUMNS}"
        run(driver, self._session, f"CREATE TABLE {name} ({columns}) USING json LOCATION '{self._input}'")

    def streamed(self, delay: int) -> str:
        """Returns the SQL of the table as a stream; `delay` of the watermark in microseconds."""
        return f"STREAM {self.name} WITH ('maxFilesPerTrigger' = '1') WATERMARK ts DELAY OF INTERVAL {delay // 1000} MILLISECONDS"

    def write(self, files: Sequence[Sequence[Row]]) -> None:
        """Adds files to the table."""
        for rows in files:
            number = len(self._written)
            path = self._input / f"{number:04d}.json"
            path.write_text("".join(json.dumps(self._shown(row)) + "\n" for row in rows), encoding=_UTF8)
            os.utime(path, (10**9 + number, 10**9 + number))
            self._written.append(tuple(rows))

    def rows(self) -> tuple[Row, ...]:
        """Returns the rows that were written."""
        return tuple(row for rows in self._written for row in rows)

    def plan(self, text: str) -> Any:
        """Returns a text as a Dataset; a command is executed."""
        self._driver.activate(self._session)
        return self._driver.of_rows(self._session, self._prepared(text)[0])

    def batch(self, text: str) -> list[tuple[Any, ...]]:
        """Returns the rows of a query of the table."""
        return self._rows(self.plan(text))

    def run_stream(self, text: str) -> None:
        """Runs a query of the stream until it has read all files that are there."""
        jvm = self._driver.jvm
        self._driver.activate(self._session)
        plan, text_as_read = self._prepared(text)
        frame = for_stream(self._driver, self._session, self._driver.of_rows(self._session, plan), "append")
        analysed = frame.queryExecution().analyzed()
        check_supported(self._driver, self._session, analysed, "append", Fragment(text, 0, text_as_read), text)
        writer = frame.writeStream().format("parquet").outputMode("append").option("path", str(self._output))
        writer = writer.option("checkpointLocation", str(self._checkpoint))
        with start_allowed(self._session, analysed):
            query = writer.trigger(jvm.org.apache.spark.sql.streaming.Trigger.AvailableNow()).start()
        query.awaitTermination()

    def stream_rows(self) -> list[tuple[Any, ...]]:
        """Returns what the stream has written."""
        return self._rows(self._session.read().parquet(str(self._output)))

    def batches(self) -> list[Batch]:
        """Returns the batches that the checkpoint tells of, those without rows among them, with their watermarks."""
        found: list[Batch] = []
        read = -1
        for path in sorted((self._checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name)):
            _, told, source = path.read_text(encoding=_UTF8).splitlines()
            offset = json.loads(source)["logOffset"]
            rows = self._written[offset] if offset > read else ()
            assert offset - read in (0, 1), "a batch has more than one file"
            watermark = json.loads(told)["batchWatermarkMs"] * 1000
            found.append(Batch(tuple(rows), watermark or NEVER))
            read = offset
        assert read == len(self._written) - 1
        return found

    def _shown(self, row: Row) -> dict[str, Any]:
        time = row["ts"]
        zone = "Z" if self._kind == "TIMESTAMP" else ""
        shown = (
            None
            if time is None
            else f"{(_EPOCH + timedelta(microseconds=time)).isoformat(timespec='microseconds')}{zone}"
        )
        return {
            **{name: str(value) if isinstance(value, Decimal) else value for name, value in row.items()},
            "ts": shown,
        }

    def _prepared(self, text: str) -> tuple[Any, Any]:
        jvm = self._driver.jvm
        read = edited(text, Lexed(jvm, text).words())
        parsed = self._session.sessionState().sqlParser().parsePlan(read.text)
        return prepared(self._driver, self._session, opened(jvm, parsed)), read

    def _rows(self, frame: Any) -> list[tuple[Any, ...]]:
        to_seq = self._driver.jvm.PythonUtils.toSeq
        fields = [(str(field.name()), str(field.dataType().catalogString())) for field in frame.schema().fields()]
        shown = ", ".join(f"{_numbered(name, kind)} AS {name}" for name, kind in fields)
        lines = frame.selectExpr(to_seq([f"to_json(struct({shown}), map('ignoreNullFields', 'false')) AS line"]))
        found = [json.loads(str(row.get(0)), parse_float=Decimal) for row in lines.collectAsList()]
        return [tuple(_as(kind, row[name]) for name, kind in fields) for row in found]


def _numbered(name: str, kind: str) -> str:
    match kind:
        case "timestamp":
            return f"unix_micros({name})"
        case "timestamp_ntz":
            return f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', {name})"
        case _ if kind.startswith("decimal") or kind == "double":
            return f"string({name})"
        case _:
            return name


def _as(kind: str, value: Any) -> Any:
    if value is None:
        return None
    match kind:
        case "double":
            return float(value)
        case _ if kind.startswith("decimal"):
            return Decimal(value)
        case _ if kind.startswith("array"):
            return tuple(value)
        case _:
            return value


def drawn_rows(draw: random.Random, middle: int, span: int, marks: Sequence[int], files: int) -> list[list[Row]]:
    """Returns files of rows around a time, most of them in order, some late, some at one of the `marks` of time or beside it.

    The last file's row is long after all windows.
    """
    begin, made, number = middle - span // 2, list[list[Row]](), 0
    for file in range(files):
        rows: list[Row] = []
        for _ in range(draw.choice((0, 3, 8, 15, 25))):
            time: int | None = begin + round((file + draw.random()) * span / files)
            assert time is not None
            match draw.random():
                case chance if chance < 0.12:
                    time -= round(draw.random() * span * 0.6)
                case chance if chance < 0.35:
                    mark = draw.choice(marks)
                    time = time - time % mark + draw.choice((-1, 0, 0, 1))
                case chance if chance < 0.4:
                    time = None
                case chance if chance < 0.5 and rows:
                    time = rows[-1]["ts"]
            rows.append({"ts": time, **_values(draw), "id": number})
            number += 1
        made.append(rows)
    return [*made, [{"ts": begin + 40 * span, **_values(draw), "id": number}]]


def blank_row(number: int, ts: int, **values: Any) -> Row:
    """Returns a row without values but those that are given."""
    return {"ts": ts, **dict.fromkeys("kgildxb"), "id": number, **values}


def _values(draw: random.Random) -> Row:
    def maybe(value: Any) -> Any:
        return None if draw.random() < 0.1 else value

    return {
        "k": maybe(draw.choice(("a", "b", "ü", "Z", ""))),
        "g": maybe(draw.randint(-3, 4)),
        "i": maybe(draw.randint(-50, 50)),
        "l": maybe(draw.randint(-(10**15), 10**15)),
        "d": maybe(Decimal(draw.randint(-99999, 99999)) / 100),
        "x": maybe(draw.randint(-1000, 1000) / 8),
        "b": maybe(draw.random() < 0.5),
    }
