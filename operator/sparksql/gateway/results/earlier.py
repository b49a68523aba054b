"""The results of a script's statements but the last one: the first rows of each, in memory. A script has up to 500 statements."""

from __future__ import annotations

import logging
from dataclasses import replace

import pyarrow as pa

from sparksql.gateway.results.batches import read_table
from sparksql.gateway.results.store import ResultReader, ResultStore, StoredResult
from sparksql.gateway.sql.errors import name_of

MAX_ROWS = 1_000  # of one result
MAX_BYTES = 4 << 20  # of those of one script together

log = logging.getLogger(__name__)


class EarlierResults:
    """Collects the results of one script."""

    def __init__(self, store: ResultStore, reader: ResultReader) -> None:
        self._store, self._reader = store, reader
        self._kept: list[StoredResult] = []
        self._bytes = 0

    @property
    def kept(self) -> tuple[StoredResult, ...]:
        """Returns the results, in the order of their statements."""
        return tuple(self._kept)

    def add(self, result: StoredResult) -> None:
        """Keeps the first rows of a result, without any where there is no room; its files are left to the caller."""
        if not result.columns:
            return
        table = self._first_rows(result)
        if self._bytes + table.nbytes > MAX_BYTES or not self._store.has_room(self._bytes + table.nbytes):
            table = table.schema.empty_table()
        self._bytes += table.nbytes
        self._kept.append(
            replace(
                result,
                row_count=table.num_rows,
                truncated=result.truncated or table.num_rows < result.row_count,
                bytes=table.nbytes,
                table=table,
                groups=(),
                folder=None,
            )
        )

    def _first_rows(self, result: StoredResult) -> pa.Table:
        """The rows to keep; none where they cannot be read, as the statement itself has succeeded."""
        try:
            table, _ = self._reader.read(result, 0, MAX_ROWS)
            return _copied(table)
        except Exception as failed:
            log.warning("an earlier result of a script could not be stored: %s", name_of(failed))
            return pa.table({})


def _copied(table: pa.Table) -> pa.Table:
    """The same rows in memory of their own: a slice keeps all that it was cut from."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return read_table(sink.getvalue())
