"""What status shows of a result whose rows cannot be read."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa

from sparksql.gateway.operations.summaries import Summaries
from sparksql.gateway.operations.thread_pools import ThreadPools
from sparksql.gateway.results.store import ResultReader, ResultStore, StoredResult
from sparksql.gateway.sql.masking import Masker
from sparksql.wire.control import Column, ResultOptions

NOW = datetime(2026, 1, 31, tzinfo=UTC)
OPERATION = SimpleNamespace(
    operation_id="op",
    request=SimpleNamespace(result=ResultOptions(preview_rows=5, retention_seconds=60)),
    classified=SimpleNamespace(masker=Masker(())),
)
RESULT = StoredResult((Column(name="a", type="int"),), 1, False, 4, table=pa.table({"a": [7]}))


class AwayReader(ResultReader):
    """Its storage is away."""

    def read(self, result: StoredResult, token: int, max_rows: int) -> tuple[pa.Table, int | None]:
        raise OSError("the storage is away")


async def summarised(reader: ResultReader) -> Any:
    store = ResultStore(cast(Any, None), lambda: NOW)
    summaries = Summaries(store, reader, ThreadPools(), max_preview_rows=5)
    return await summaries.kept(cast(Any, OPERATION), RESULT)


async def test_rows_that_can_be_read_are_shown_without_an_error() -> None:
    summary = await summarised(ResultReader(cast(Any, None)))
    assert (summary.preview, summary.preview_error) == ((("7",),), None)


async def test_rows_that_cannot_be_read_are_not_shown_as_no_rows() -> None:
    summary = await summarised(AwayReader(cast(Any, None)))
    assert (summary.row_count, summary.preview) == (1, ())
    assert "could not be read" in summary.preview_error and "(OSError)" in summary.preview_error
