"""The answer of FetchResults: as many of a page's rows as a reply may hold, encoded beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from sparksql.gateway.frontends.ahead import PagesAhead
from sparksql.gateway.frontends.thrift.operations import ResultColumn
from sparksql.gateway.frontends.thrift.rowset import row_set
from sparksql.protocols.hiveserver2.codec import STOP, TType, encode, field_header
from sparksql.protocols.hiveserver2.messages import TStatus

MAX_REPLY_BYTES = 12 << 20  # libthrift's clients take frames of at most 16,384,000 bytes
_INLINE_BYTES = 64 << 10  # what is encoded faster than a thread is found for it


@dataclass(frozen=True)
class Fetched:
    """A FetchResultsResp with `count` rows, whose row set is encoded already."""

    rows: bytes = field(repr=False)
    count: int
    has_more: bool

    def encoded(self) -> bytes:
        """Returns the whole answer as bytes."""
        status = field_header(TType.STRUCT, 1) + encode(TStatus())
        more = field_header(TType.BOOL, 2) + (b"\1" if self.has_more else b"\0")
        return b"".join((status, more, field_header(TType.STRUCT, 3), self.rows, STOP))


FetchedAhead = PagesAhead[tuple[int, int], Fetched]  # by the number of the first row, and how many are asked for


async def fetched(
    table: pa.Table, columns: Sequence[ResultColumn], first_row: int, row_count: int, protocol: int
) -> Fetched:
    """Returns rows of a table that begins with row `first_row` of `row_count`; a single row is sent whatever its size."""
    types = [column.type for column in columns]
    while True:
        if table.nbytes < _INLINE_BYTES:
            rows = row_set(table, types, first_row, protocol)
        else:
            rows = await asyncio.to_thread(row_set, table, types, first_row, protocol)
        if len(rows) <= MAX_REPLY_BYTES or table.num_rows <= 1:
            return Fetched(rows, table.num_rows, has_more=first_row + table.num_rows < row_count)
        table = table.slice(0, max(1, table.num_rows * MAX_REPLY_BYTES // len(rows) // 2))
