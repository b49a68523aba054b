"""Reads record batches that Spark's JVM has written: the one door by which Arrow data of others comes in.

Arrow's Java writer gives the offsets of an empty column no bytes, where Arrow's own code expects the first offset. That code
reads it all the same, for the size of a table among others: what lies there leads it out of its memory, and the process ends.
So each empty column, however deep in others, is replaced by one that Arrow has made itself. What then does not pass Arrow's
validation is refused. Every function of Arrow may be called with what comes from here.

A STRING of Spark may hold any bytes. Those that are no UTF-8 become U+FFFD, as in Java's strings, which Spark's own server sends.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa


def read_table(message: bytes) -> pa.Table:
    """Returns the rows of an Arrow IPC stream. Raises ArrowInvalid."""
    with pa.ipc.open_stream(message) as stream:
        return pa.Table.from_batches([_well_formed(batch) for batch in stream], stream.schema)


def read_batch(message: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Returns the rows of a single Arrow IPC message. Raises ArrowInvalid."""
    return _well_formed(pa.ipc.read_record_batch(pa.py_buffer(message), schema))


def read_schema(message: bytes) -> pa.Schema:
    """Returns the columns of an Arrow IPC stream, with or without rows. Raises ArrowInvalid."""
    with pa.ipc.open_stream(message) as stream:
        return stream.schema


def _well_formed(batch: pa.RecordBatch) -> pa.RecordBatch:
    batch = _with_columns(batch, [_formed(column, _same) for column in batch.columns])
    batch.validate()
    return _with_columns(batch, [_formed(column, _in_utf8) for column in batch.columns])


def _with_columns(batch: pa.RecordBatch, columns: list[pa.Array]) -> pa.RecordBatch:
    if all(new is old for new, old in zip(columns, batch.columns, strict=True)):
        return batch
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _formed(column: pa.Array, leaf: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """The same column, with offsets in each empty one in it, and what `leaf` makes of each that holds no other."""
    kind = column.type
    if len(column) == 0:
        return pa.nulls(0, kind)
    if not pa.types.is_nested(kind):
        return leaf(column)
    inner = _inner(column)
    formed = [_formed(each, leaf) for each in inner]
    if all(new is old for new, old in zip(formed, inner, strict=True)):
        return column
    own = column.buffers()[: kind.num_buffers]
    return pa.Array.from_buffers(kind, len(column), own, column.null_count, column.offset, formed)


def _same(column: pa.Array) -> pa.Array:
    return column


def _in_utf8(column: pa.Array) -> pa.Array:
    if not pa.types.is_string(column.type):
        return column
    data = column.cast(pa.binary())
    try:
        data.cast(pa.string())
    except pa.ArrowInvalid:
        texts = (None if value is None else value.decode(errors="replace") for value in data.to_pylist())
        return pa.array(texts, pa.string())
    return column


def _inner(column: pa.Array) -> list[pa.Array]:
    """The columns that a column holds: of Spark's types a row its fields, a list and a map one with all their entries."""
    if pa.types.is_struct(column.type):
        return [column.field(index) for index in range(column.type.num_fields)]
    return [column.values]
