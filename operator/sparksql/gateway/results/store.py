"""Results that have been kept, and their pages.

A result is a small Arrow table in memory, or a folder of Parquet files. A token is the number of the page's first row, so any
token may be asked again, in any order. Invariants: reading a page takes memory for about one row group, whatever the size of
the result; the memory of all kept tables has a bound, beyond which new ones go to files; an expired result is removed.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa

from sparksql.gateway.results.pages import page_json, preview
from sparksql.gateway.results.parquet import RowGroup, RowGroups
from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.sql.masking import Masker
from sparksql.wire.control import Column, ResultPage, ResultSummary, StatementWrite

MAX_PAGE_ROWS = 10_000
MAX_PAGE_BYTES = 4 << 20
MEMORY_BYTES = 64 << 20  # of all tables in memory together
MAX_GONE = 10_000  # expired results that are remembered as such; older ones are unknown


MAX_WRITES = 100  # of a script, in a status


class UnknownResultError(Exception):
    """No result is kept under this id; the message says why."""


class ExpiredResultError(Exception):
    """The result was kept and is no more."""


@dataclass(frozen=True)
class StoredResult:
    """Rows kept: `table`, or `groups` in files below `folder`. `row_count` rows count, whatever lies behind them.

    `rows_written` counts what a write has changed, None if that is unknown or nothing was written. Of a script `writes` are the
    writes, and `earlier` the results of statements before this one, each cut to what memory has room for.
    """

    columns: tuple[Column, ...]
    row_count: int
    truncated: bool
    bytes: int
    time_zone: str = "UTC"
    table: pa.Table | None = None
    groups: tuple[RowGroup, ...] = ()
    folder: str | None = None
    rows_written: int | None = None
    writes: tuple[StatementWrite, ...] = ()
    earlier: tuple[StoredResult, ...] = ()


EMPTY = StoredResult(columns=(), row_count=0, truncated=False, bytes=0)


class ResultReader:
    """Reads pages of stored results."""

    def __init__(self, files: HadoopFiles) -> None:
        self._groups = RowGroups(files)

    def read(self, result: StoredResult, token: int, max_rows: int) -> tuple[pa.Table, int | None]:
        """Returns rows from `token` on, in local time, and the next token: at most `max_rows`, and about MAX_PAGE_BYTES.

        Raises UnknownResultError for a token behind the end.
        """
        if not 0 <= token <= result.row_count:
            raise UnknownResultError(f"the result has no row {token}")
        count = min(max(1, max_rows), result.row_count - token)
        table = self._slice(result, token, count)
        following = token + table.num_rows
        return _localise(table, result.time_zone), following if following < result.row_count else None

    def page(self, result: StoredResult, token: int, max_rows: int) -> str:
        """Returns a ResultPage in JSON: rows from `token` on, at most `max_rows` and MAX_PAGE_ROWS. Raises UnknownResultError."""
        table, following = self.read(result, token, min(max_rows, MAX_PAGE_ROWS))
        page = ResultPage(
            columns=result.columns,
            rows=(),
            next_token=following,
            row_count=result.row_count,
            truncated=result.truncated,
        )
        return page_json(page, table)

    def summary(
        self, result: StoredResult, preview_rows: int, masker: Masker, expires: datetime | None = None
    ) -> ResultSummary:
        """Returns what status shows of a result, which expires unless it still comes; secrets are masked."""
        shown: tuple[tuple[str | None, ...], ...] = ()
        if preview_rows > 0 and result.row_count > 0 and result.columns:
            table, _ = self.read(result, 0, preview_rows)
            shown = preview(table, preview_rows)
        return ResultSummary(
            columns=result.columns,
            row_count=result.row_count,
            truncated=result.truncated,
            preview=tuple(tuple(masker.mask_optional(cell) for cell in row) for row in shown),
            bytes=result.bytes,
            rows_written=result.rows_written,
            writes=result.writes[:MAX_WRITES] or None,
            earlier_results=len(result.earlier) or None,
            expiration_time=expires,
        )

    def _slice(self, result: StoredResult, token: int, count: int) -> pa.Table:
        if result.table is not None:
            return result.table.slice(token, count)
        pieces: list[pa.Table] = []
        size = 0
        for group in result.groups:
            begin, end = max(token, group.first), min(token + count, group.first + group.rows)
            if begin >= end:
                continue
            table = self._groups.read(group)
            pieces.append(table.slice(begin - group.first, end - begin))
            size += pieces[-1].nbytes
            if size >= MAX_PAGE_BYTES:
                break
        if not pieces:
            return result.groups[0].schema.empty_table() if result.groups else pa.table({})
        return pa.concat_tables(pieces)


class ResultStore:
    """Kept results by operation id. Safe to use from several threads."""

    def __init__(self, files: HadoopFiles, clock: Callable[[], datetime]) -> None:
        self._files = files
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[StoredResult, datetime]] = {}
        self._in_memory = 0  # bytes of the tables among them
        self._gone: OrderedDict[str, None] = OrderedDict()

    def has_room(self, size: int) -> bool:
        """Returns whether a table of `size` bytes may stay in memory."""
        with self._lock:
            return self._in_memory + size <= MEMORY_BYTES

    def keep(self, operation_id: str, result: StoredResult, seconds: int) -> datetime:
        """Keeps a result for so many seconds from now; returns when it expires."""
        expires = self._clock() + timedelta(seconds=max(0, seconds))
        with self._lock:
            self._take(operation_id)
            self._kept[operation_id] = (result, expires)
            self._in_memory += _memory(result)
        return expires

    def get(self, operation_id: str) -> StoredResult:
        """Returns a result that is kept. Raises UnknownResultError or ExpiredResultError."""
        with self._lock:
            kept = self._kept.get(operation_id)
            gone = operation_id in self._gone
        if gone or (kept is not None and kept[1] <= self._clock()):
            raise ExpiredResultError(f"the result of operation {operation_id} has expired")
        if kept is None:
            raise UnknownResultError(f"operation {operation_id} has no result")
        return kept[0]

    def expire(self) -> list[str]:
        """Forgets what has expired and removes its files; ids of those. Called now and then."""
        now = self._clock()
        with self._lock:
            due = [operation_id for operation_id, (_, expires) in self._kept.items() if expires <= now]
            removed = [result for operation_id in due if (result := self._take(operation_id)) is not None]
            self._gone.update(dict.fromkeys(due))
            while len(self._gone) > MAX_GONE:
                self._gone.popitem(last=False)
        for result in removed:
            self.discard(result)
        return due

    def drop(self, operation_id: str) -> StoredResult | None:
        """Forgets a result that nobody will ask for again; its files are the caller's to discard."""
        with self._lock:
            return self._take(operation_id)

    def _take(self, operation_id: str) -> StoredResult | None:
        """Takes out a result, if it is kept. The caller has the lock."""
        kept = self._kept.pop(operation_id, None)
        if kept is None:
            return None
        self._in_memory -= _memory(kept[0])
        return kept[0]

    def discard(self, result: StoredResult) -> None:
        """Removes the files of a result that is not kept."""
        if result.folder is not None:
            self._files.delete(result.folder)


def _memory(result: StoredResult) -> int:
    """Bytes of the result's table, none for one in files; with those of the results before it."""
    return (result.bytes if result.table is not None else 0) + sum(map(_memory, result.earlier))


def _localise(table: pa.Table, time_zone: str) -> pa.Table:
    """Instants in the session's time zone, as Spark prints them."""
    for index, field in enumerate(table.schema):
        local = _local_type(field.type, time_zone)
        if local != field.type:
            table = table.set_column(index, field.name, table.column(index).cast(local))
    return table


def _local_type(kind: pa.DataType, time_zone: str) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp("us", time_zone)
    if pa.types.is_map(kind):
        return pa.map_(_local_field(kind.key_field, time_zone), _local_field(kind.item_field, time_zone))
    if pa.types.is_list(kind):
        return pa.list_(_local_field(kind.value_field, time_zone))
    if pa.types.is_struct(kind):
        return pa.struct([_local_field(part, time_zone) for part in kind])
    return kind


def _local_field(field: pa.Field, time_zone: str) -> pa.Field:
    return field.with_type(_local_type(field.type, time_zone))
