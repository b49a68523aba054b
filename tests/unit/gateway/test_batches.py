"""Record batches as Arrow's Java writer makes them: an empty column's offsets have no bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.gateway.results.batches import read_batch, read_schema, read_table
from sparksql.gateway.results.columns import FLINK_JSON, FLINK_PLAIN, HIVE_JSON, texts

NOTHING = pa.py_buffer(b"")
OFFSET_BYTES = 4
TEXTS = pa.list_(pa.string())
KINDS = {
    "array of arrays": pa.list_(TEXTS),
    "array of arrays of arrays": pa.list_(pa.list_(pa.list_(pa.int32()))),
    "array of maps": pa.list_(pa.map_(pa.string(), pa.int32())),
    "array of rows of arrays": pa.list_(pa.struct([("f", TEXTS)])),
    "map of arrays": pa.map_(pa.string(), TEXTS),
    "map of maps of arrays": pa.map_(pa.string(), pa.map_(pa.string(), TEXTS)),
    "row of arrays of maps": pa.struct([("f", pa.list_(pa.map_(pa.string(), pa.binary()))), ("g", pa.int32())]),
    "row of rows of arrays": pa.struct([("f", pa.struct([("g", pa.list_(TEXTS))]))]),
    "text": pa.string(),
}


def inner(column: pa.Array) -> list[pa.Array]:
    if pa.types.is_struct(column.type):
        return [column.field(index) for index in range(column.type.num_fields)]
    return [column.values] if pa.types.is_nested(column.type) else []


def as_java_writes(column: pa.Array) -> pa.Array:
    """The same column; the offsets of each empty one in it have no bytes."""
    kind, held = column.type, [as_java_writes(each) for each in inner(column)]
    own = column.buffers()[: kind.num_buffers]
    if len(column) == 0:
        own = [None, *(NOTHING for _ in own[1:])]
    return pa.Array.from_buffers(kind, len(column), own, column.null_count, 0, held)


def columns_without_offsets(column: pa.Array) -> Iterator[pa.DataType]:
    has_offsets = pa.types.is_nested(column.type) or pa.types.is_string(column.type) or pa.types.is_binary(column.type)
    if has_offsets and not pa.types.is_struct(column.type):
        offsets = column.buffers()[1]
        if offsets is None or offsets.size < OFFSET_BYTES * (column.offset + len(column) + 1):
            yield column.type
    for each in inner(column):
        yield from columns_without_offsets(each)


def stream_of(*batches: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def batch_of(kind: pa.DataType, values: list[Any]) -> pa.RecordBatch:
    return pa.record_batch([as_java_writes(pa.array(values, kind))], names=["a"])


def only_column(table: pa.Table) -> pa.Array:
    return table.column(0).chunk(0)


def kinds() -> st.SearchStrategy[pa.DataType]:
    leaves = st.sampled_from([pa.string(), pa.binary(), pa.int32(), pa.float64(), pa.decimal128(10, 2)])
    return st.recursive(
        leaves,
        lambda held: st.one_of(
            held.map(pa.list_),
            held.map(lambda kind: pa.map_(pa.string(), kind)),
            st.lists(held, min_size=1, max_size=2).map(
                lambda fields: pa.struct([(f"f{at}", kind) for at, kind in enumerate(fields)])
            ),
        ),
        max_leaves=4,
    )


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Mostly NULL and empty ones: a column that nothing reaches is what matters."""
    some: st.SearchStrategy[Any]
    if pa.types.is_map(kind):
        some = st.lists(st.tuples(st.just("k"), values_of(kind.item_type)), max_size=1)
    elif pa.types.is_list(kind):
        some = st.lists(values_of(kind.value_type), max_size=2)
    elif pa.types.is_struct(kind):
        some = st.fixed_dictionaries({field.name: values_of(field.type) for field in kind})
    else:
        return st.sampled_from([None, pa.scalar(1).cast(pa.string()).cast(kind).as_py()])
    return st.none() | some


@pytest.mark.parametrize("values", [[], [None], [None, None]], ids=["no row", "NULL", "NULLs"])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_column_that_holds_nothing_has_offsets_at_every_depth(kind: pa.DataType, values: list[None]) -> None:
    message = stream_of(batch_of(kind, values))
    written = only_column(pa.ipc.open_stream(message).read_all())
    assert bool([*columns_without_offsets(written)]) is (kind != pa.string() or not values)
    table = read_table(message)
    assert [*columns_without_offsets(only_column(table))] == []
    assert table.to_pylist() == [{"a": value} for value in values]
    assert table.schema == read_schema(message)
    assert table.nbytes == pa.table({"a": pa.array(values, kind)}).nbytes


@given(st.data())
def test_rows_are_the_same_whatever_holds_nothing(data: st.DataObject) -> None:
    kind = data.draw(kinds())
    values = data.draw(st.lists(values_of(kind), max_size=3))
    expected = pa.array(values, kind)
    table = read_table(stream_of(batch_of(kind, values)))
    column = only_column(table)
    assert [*columns_without_offsets(column)] == []
    assert column.equals(expected)
    column.validate(full=True)
    assert table.nbytes == pa.table({"a": expected}).nbytes
    for style in (FLINK_JSON, FLINK_PLAIN, HIVE_JSON):
        assert texts(column, style).equals(texts(expected, style))


def test_single_message_is_read_like_a_stream() -> None:
    batch = batch_of(KINDS["array of maps"], [[], None])
    found = read_batch(bytes(batch.serialize()), batch.schema)
    assert [*columns_without_offsets(found.column(0))] == []
    assert found.to_pylist() == [{"a": []}, {"a": None}]


def test_batches_of_a_stream_are_all_read() -> None:
    kind = KINDS["array of maps"]
    table = read_table(stream_of(batch_of(kind, [[]]), batch_of(kind, [[[("k", 1)]]]), batch_of(kind, [])))
    assert table.column("a").to_pylist() == [[], [[("k", 1)]]]


def test_rows_without_columns_are_counted() -> None:
    batch = pa.record_batch([pa.array([1, 2])], names=["a"]).select([])
    assert batch.num_rows == read_table(stream_of(batch)).num_rows == 2


def test_offsets_beyond_the_values_are_refused() -> None:
    batch = pa.record_batch([pa.array(["a text"])], names=["a"])
    right, wrong = (struct.pack("<ii", 0, end) for end in (len("a text"), 1 << 30))
    message = bytes(batch.serialize()).replace(right, wrong)
    assert len(pa.ipc.read_record_batch(pa.py_buffer(message), batch.schema)) == 1
    with pytest.raises(pa.ArrowInvalid):
        read_batch(message, batch.schema)


@pytest.mark.parametrize(
    "kind",
    [
        pa.binary(), pa.list_(pa.binary()), pa.struct([("f", pa.list_(pa.binary()))]), pa.map_(pa.binary(), pa.binary()),
    ],
    ids=str,
)  # fmt: skip
def test_bytes_that_are_no_utf_8_become_replacement_characters_however_deep(kind: pa.DataType) -> None:
    """Arrow's own reader takes any bytes for a text."""
    broken, shown = b"S\xe9\xa2", "S\ufffd"
    value, expected = {
        "binary": (broken, shown),
        "list<item: binary>": ([broken, None], [shown, None]),
        "struct<f: list<item: binary>>": ({"f": [broken]}, {"f": [shown]}),
        "map<binary, binary>": ([(broken, broken)], [(shown, shown)]),
    }[str(kind)]
    batch = batch_of(kind, [value, None, value])
    texts = pa.schema([pa.field("a", as_texts(kind))])
    message = batch.serialize().to_pybytes()
    assert read_batch(message, texts).column("a").to_pylist() == [expected, None, expected]


def as_texts(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_map(kind):
        return pa.map_(pa.string(), pa.string())
    if pa.types.is_list(kind):
        return pa.list_(as_texts(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, as_texts(field.type)) for field in kind])
    return pa.string()
