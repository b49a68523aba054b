"""How many rows a streaming query has written since it was started, from what its sink reports of each batch.

Sinks of DataSource V2 (Iceberg, Kafka) count the rows that they have committed; a sink of files does not, and Spark then
reports -1. The number is unknown from the first batch on that nothing counts: a part of the rows is no count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from sparksql.gateway.spark.shapes import StreamingQuery

_KEPT_REPORTS = "spark.sql.streaming.numRecentProgressUpdates"


class RowCount(Protocol):
    """Counts the rows that a run has written."""

    def of(self, query: StreamingQuery) -> int | None:
        """Returns the rows since the query was started, None if that is unknown."""


@dataclass(frozen=True)
class CommittedBatch:
    """Describes a batch that was written: its number, and how many rows its sink has counted, negative for none."""

    number: int
    rows: int


class ReportedRows:
    """Adds up the reports of one run's batches. Read it at least once in as many batches as Spark keeps reports of."""

    def __init__(self) -> None:
        self._last: int | None = None
        self._rows: int | None = None
        self._is_unknown = False

    def of(self, query: StreamingQuery) -> int | None:
        """Returns the rows since the query was started, None if that is unknown, or no batch was written yet."""
        if self._is_unknown:
            return None
        reports = query.recentProgress()
        kept = int(query.sparkSession().conf().get(_KEPT_REPORTS))
        newest_first = (reports[place] for place in reversed(range(len(reports))))  # each is a call to the JVM
        return self.add(_committed(newest_first), may_lack=len(reports) >= kept)

    def add(self, latest: Iterable[CommittedBatch], *, may_lack: bool) -> int | None:
        """Adds the batches that have not been added, and returns the sum.

        `latest` are the last ones, the newest first; `may_lack` is true if some before them may be forgotten.
        """
        new: list[CommittedBatch] = []
        for batch in latest:
            if self._last is not None and batch.number <= self._last:
                may_lack = False
                break
            new.append(batch)
        if not new:
            return None if self._is_unknown else self._rows
        if may_lack or any(batch.rows < 0 for batch in new):
            self._is_unknown, self._rows = True, None
            return None
        self._last = new[0].number
        self._rows = (self._rows or 0) + sum(batch.rows for batch in new)
        return self._rows


def _committed(reports: Iterable[Any]) -> Iterator[CommittedBatch]:
    """Yields the batches among Spark's reports; others are of triggers without new data."""
    for report in reports:
        if report.durationMs().containsKey("addBatch"):
            yield CommittedBatch(int(report.batchId()), int(report.sink().numOutputRows()))
