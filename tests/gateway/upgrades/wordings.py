"""Texts that are taken to mean the same: the one goes on from the state of the other, and what is written is what a batch gives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.scala import elements

from ..local_spark import run
from .structures import OTHER, SAME, SRC

# id, country, amount, seconds. The last row closes all windows, and is joined with nothing: Spark leaves rows out before it takes the
# watermark where a join needs a value that they do not have.
_FIRST = ((1, "de", 1, 10), (2, "de", 2, 20), (3, "fr", 3, 30), (4, "fr", 1, 35), (5, "it", 2, 40), (6, "de", 4, 45))
_SECOND = ((7, "de", 1, 48), (8, "fr", 2, 50), (9, "it", 3, 55), (10, "de", 9, 70), (11, "fr", 2, 80))
_LAST = "(0, '{}', 100, 1, 1, TIMESTAMP '2026-01-01 00:10:00', 'last')"
_DIM = "('de', 'alps'), ('fr', 'coast'), ('it', 'coast')"


def _values(rows: tuple[tuple[int, str, int, int], ...]) -> str:
    return ", ".join(
        f"({id_}, '{country}', {amount}, {id_ / 4}, {id_ / 3}, TIMESTAMP '2026-01-01 00:00:00' + INTERVAL {seconds} SECONDS, 'j{id_ % 3}')"
        for id_, country, amount, seconds in rows
    )


class Ran:
    """What the new text of each named pair has written, going on from the state of the old one. All run at the same time."""

    def __init__(self, driver: SparkDriver, folder: Path, names: Sequence[str]) -> None:
        self.driver = driver
        self._names = names
        self._folder = folder
        run(driver, driver.base, *(f"INSERT INTO {table} VALUES {_DIM}" for table in ("dim", "dim2")))
        for name in ("src", "other"):
            rows = f"CREATE TEMPORARY VIEW {name}_rows AS SELECT * FROM {name} WHERE id <> 0"
            run(driver, driver.base, rows, f"INSERT INTO {name} VALUES {_values(_FIRST)}")
        self._drain(0)
        for name in ("src", "other"):
            run(driver, driver.base, f"INSERT INTO {name} VALUES {_values(_SECOND)}, {_LAST.format(name)}")
        self._drain(1)

    def written(self, name: str) -> list[str]:
        return self._shown(f"SELECT * FROM parquet.`{self._place(name)}`")

    def recomputed(self, sql: str) -> list[str]:
        return self._shown(sql.replace(SRC, "src_rows").replace(OTHER, "other_rows"))

    def _drain(self, text: int) -> None:
        queries = [self._start(name, SAME[name][text]) for name in self._names]
        for query in queries:
            query.awaitTermination()

    def _start(self, name: str, sql: str) -> Any:
        frame = self._frame(sql)
        columns = [f"c{place}" for place in range(len(elements(frame.logicalPlan().output())))]
        writer = frame.toDF(self.driver.jvm.PythonUtils.toSeq(columns)).writeStream().format("parquet")
        writer = writer.option("checkpointLocation", f"{self._place(name)}_checkpoint")
        now = self.driver.jvm.org.apache.spark.sql.streaming.Trigger.AvailableNow()
        return writer.trigger(now).start(str(self._place(name)))

    def _place(self, name: str) -> Path:
        return self._folder / f"t{list(SAME).index(name)}"

    def _frame(self, sql: str) -> Any:
        self.driver.activate(self.driver.base)
        return self.driver.of_rows(self.driver.base, self.driver.base.sessionState().sqlParser().parsePlan(sql))

    def _shown(self, sql: str) -> list[str]:
        rows = elements(self.driver.jvm.PythonUtils.toSeq(self._frame(sql).collectAsList()))
        return sorted(str(row.toString()) for row in rows)
