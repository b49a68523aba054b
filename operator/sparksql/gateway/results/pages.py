"""Rows of a result for the operator and the plugin: pages in JSON, and the preview in status."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sparksql.gateway.results.columns import SPARK_TEXT, VALUE_JSON, texts, whole
from sparksql.wire.control import ResultPage

MAX_PREVIEW_BYTES = 8192
_NULL_BYTES = 4
_SEPARATOR_BYTES = 4  # quotes and comma of a cell in the status's JSON


def page_json(page: ResultPage, table: pa.Table) -> str:
    """Returns a page in JSON with the rows of a table in place of its own. Columns are taken by position."""
    envelope = page.model_copy(update={"rows": ()}).to_json()
    return envelope.replace('"rows":[]', f'"rows":[{_rows(table)}]', 1)


def preview(table: pa.Table, limit: int) -> tuple[tuple[str | None, ...], ...]:
    """Returns the first rows as text, at most `limit` and MAX_PREVIEW_BYTES in all."""
    columns = [texts(whole(column), SPARK_TEXT).to_pylist() for column in table.slice(0, limit).columns]
    shown: list[tuple[str | None, ...]] = []
    size = 0
    for row in zip(*columns, strict=True):
        size += sum(_SEPARATOR_BYTES + (len(cell.encode()) if cell else _NULL_BYTES) for cell in row)
        if size > MAX_PREVIEW_BYTES:
            break
        shown.append(row)
    return tuple(shown)


def _rows(table: pa.Table) -> str:
    if table.num_rows == 0:
        return ""
    if table.num_columns == 0:
        return ",".join(["[]"] * table.num_rows)
    columns = [pc.fill_null(texts(whole(column), VALUE_JSON), "null") for column in table.columns]
    rows = pc.binary_join_element_wise(*columns, ",")
    return f"[{'],['.join(rows.to_pylist())}]"
