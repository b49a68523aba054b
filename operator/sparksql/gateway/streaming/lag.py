"""What waits in the sources of a streaming query: records of Kafka, rows of Iceberg, files of other tables.

Spark's report has what sources tell of themselves. Iceberg's tells nothing, nor does Spark's source of files: what waits there is
looked up, now and then, since a look at a table asks its catalog.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sparksql.gateway.spark.scala import elements, option, simple_name, text_map
from sparksql.gateway.spark.shapes import StreamingQuery
from sparksql.gateway.spark.table_formats import is_iceberg
from sparksql.gateway.sql.errors import name_of

LOOK_SECONDS = 10.0
_MAX_SNAPSHOTS = 1_000  # of one look; a call to the JVM takes some 0.2 ms
_NOTHING_READ = -1  # the snapshot of an offset before the first one
# Of a snapshot's summary (Iceberg's SnapshotSummary).
_ADDED_ROWS, _ADDED_FILES = "added-records", "added-data-files"
_ALL_ROWS, _ALL_FILES = "total-records", "total-data-files"

log = logging.getLogger(__name__)


class Lag:
    """Counts what waits in the sources of one query."""

    def __init__(self, query: StreamingQuery, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds."""
        self._query, self._clock = query, clock
        self._due = clock()
        self._seen: int | None = None

    def of(self, report: Mapping[str, Any], *, look: bool = True) -> int | None:
        """Returns what waits by a report of Spark's, and by the last look at tables; None where no source is understood.

        `look` allows another look, if it is due: it may take as long as the catalog does.
        """
        if look and self._clock() >= self._due:
            self._seen = self._looked()
            self._due = self._clock() + LOOK_SECONDS
        known = [count for count in (reported_lag(report.get("sources", ())), self._seen) if count is not None]
        return sum(known) if known else None

    def _looked(self) -> int | None:
        try:
            counts = list(_waiting(self._query.streamingQuery()))
        except Exception as failed:  # the query reads on, whether its lag is known or not
            log.debug("the lag of a query is not known: %s", name_of(failed))
            return None
        return sum(counts) if counts else None


def reported_lag(sources: Any) -> int | None:
    """Returns what waits at the sources that report it: Kafka by its offsets, others by the number of files outstanding."""
    counts: list[int] = []
    for source in sources:
        end, latest = source.get("endOffset"), source.get("latestOffset")
        if _is_kafka(end) and _is_kafka(latest):
            counts.extend(
                max(0, offset - end.get(topic, {}).get(partition, 0))
                for topic, partitions in latest.items()
                for partition, offset in partitions.items()
            )
        elif (files := source.get("metrics", {}).get("numFilesOutstanding")) is not None:
            counts.append(int(files))
    return sum(counts) if counts else None


def rows_left(place: Mapping[str, Any], snapshots: Iterator[tuple[int, Mapping[str, str]]]) -> int | None:
    """Returns the rows of an Iceberg table that come after a place in it; None if its snapshot is not among the given ones.

    `place` is the JSON of Iceberg's offset, `snapshots` are ids and summaries from the current one back. Of the snapshot of
    the place the files that are left count for as many rows as its others. Pure.
    """
    rows = 0
    for number, summary in snapshots:
        if number != place["snapshot_id"]:
            rows += int(summary.get(_ADDED_ROWS, "0"))
            continue
        of_rows, of_files = (_ALL_ROWS, _ALL_FILES) if place["scan_all_files"] else (_ADDED_ROWS, _ADDED_FILES)
        added, files = int(summary.get(of_rows, "0")), int(summary.get(of_files, "0"))
        return rows + (added * max(0, files - int(place["position"])) // files if files else 0)
    return rows if place["snapshot_id"] == _NOTHING_READ else None


def _is_kafka(offsets: Any) -> bool:
    """Whether offsets have Kafka's form, topic -> partition -> offset."""
    return isinstance(offsets, dict) and all(
        isinstance(partitions, dict) and all(isinstance(offset, int) for offset in partitions.values())
        for partitions in offsets.values()
    )


def _waiting(query: Any) -> Iterator[int]:
    """What waits in each source of a query that does not report it; a source that is read twice counts once."""
    read: list[Any] = []
    for leaf in elements(query.logicalPlan().collectLeaves()):
        match simple_name(leaf):
            case "StreamingDataSourceV2ScanRelation":
                source, table = leaf.stream(), leaf.relation().table()
            case "StreamingExecutionRelation":
                source, table = leaf.source(), None
            case _:
                continue
        if any(source.equals(each) for each in read):
            continue
        read.append(source)
        count = None
        if table is not None and is_iceberg(table):
            count = _rows_of_iceberg(table, option(query.committedOffsets().get(source)))
        elif simple_name(source) == "FileStreamSource":
            count = _files(source)
        if count is not None:
            yield count


def _rows_of_iceberg(table: Any, place: Any | None) -> int | None:
    if place is None or table.branch() is not None:
        return None
    table.table().refresh()
    return rows_left(json.loads(str(place.json())), _snapshots(table.table()))


def _snapshots(table: Any) -> Iterator[tuple[int, Mapping[str, str]]]:
    snapshot = table.currentSnapshot()
    for _ in range(_MAX_SNAPSHOTS):
        if snapshot is None:
            return
        yield int(snapshot.snapshotId()), text_map(snapshot.summary())
        parent = snapshot.parentId()
        snapshot = None if parent is None else table.snapshot(parent)


def _files(source: Any) -> int:
    """Files that Spark has listed and not read: it keeps these where a trigger takes a limited number (Spark 4.1)."""
    kept = source.getClass().getDeclaredField("unreadFiles")
    kept.setAccessible(True)
    files = kept.get(source)
    return 0 if files is None else int(files.size())
