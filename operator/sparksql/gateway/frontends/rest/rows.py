"""Rows of an Arrow table as the REST API writes them: JSON values, plain text, or an Arrow stream.

A page is made column by column and mostly inside Arrow: each column becomes a column of JSON texts, and those are joined to
rows, so that no Python object exists per cell of a simple type. Values read as Flink's do:

- JSON: decimals without trailing zeros, maybe scientific; infinities and NaN as strings; `2026-01-31T10:00:00.5`, and with a
  `Z` behind the wall clock of the session's zone for an instant; binary in base64; maps and rows as objects.
- PLAIN_TEXT: every value a string: TRUE, decimals in full, six digits of a second, `x'68'`, `[1, 2]`, `{k=7}`, `(1, NULL)`.

A NULL is null in both. A column that goes out as VARCHAR without being text is written as in PLAIN_TEXT.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from json.encoder import encode_basestring
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sparksql.gateway.frontends.rest.models import LogicalType, RowFormat, TypeRoot
from sparksql.gateway.frontends.rest.types import arrow_type
from sparksql.gateway.frontends.rest.zones import wall_clock

_ROW_BEGIN, _ROW_END = '{"kind":"INSERT","fields":[', "]}"
_DECIMALS = Context(prec=76)  # more digits than any decimal of Spark has
_SCIENTIFIC = r"^-?(?:0\.000000|[0-9]+0$)"  # below 10**-6, and whole numbers that end in zeros
_CONTROL_CHARACTERS = r"[\x00-\x1f]"


def write_rows(table: pa.Table, types: Sequence[LogicalType], row_format: RowFormat) -> bytes:
    """The JSON list of a page's rows. Columns are taken by position. Raises UnknownZoneError for an instant in one."""
    if table.num_rows == 0:
        return b"[]"
    columns = [_cells(column, logical, row_format) for column, logical in zip(table.columns, types, strict=True)]
    rows = pc.binary_join_element_wise(*columns, ",")
    whole = pa.ListArray.from_arrays(pa.array([0, len(rows)], pa.int32()), rows)
    joined = pc.binary_join(whole, f"{_ROW_END},{_ROW_BEGIN}")[0].as_buffer()
    return b"".join((f"[{_ROW_BEGIN}".encode(), joined, f"{_ROW_END}]".encode()))


def write_arrow(table: pa.Table, names: Sequence[str], types: Sequence[LogicalType]) -> bytes:
    """The page as an Arrow IPC stream whose columns have their names in the result."""
    if table.num_columns == 0:
        fields = [pa.field(name, arrow_type(logical)) for name, logical in zip(names, types, strict=True)]
        named = pa.schema(fields).empty_table()
    else:
        fields = [pa.field(name, column.type) for name, column in zip(names, table.columns, strict=True)]
        named = pa.table(table.columns, schema=pa.schema(fields))
    buffer = io.BytesIO()
    with pa.ipc.new_stream(buffer, named.schema) as writer:
        writer.write_table(named)
    return buffer.getvalue()


def _cells(column: pa.ChunkedArray, logical: LogicalType, row_format: RowFormat) -> pa.Array:
    """One JSON text for each value of a column, none of them null."""
    array = _whole(column)
    as_text = logical.type is TypeRoot.VARCHAR and not _is_text(array.type)
    plain = row_format is RowFormat.PLAIN_TEXT or as_text
    return pc.fill_null(_quoted(_plain(array)) if plain else _json(array), "null")


def _whole(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], column.type)
    return array


def _json(array: pa.Array) -> pa.Array:
    """JSON texts of an array's values; a null stays null."""
    kind = array.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return array.cast(pa.string())
    if pa.types.is_floating(kind):
        return _json_floats(array)
    if pa.types.is_decimal(kind):
        return _json_decimals(array)
    if pa.types.is_timestamp(kind):
        iso = pc.replace_substring_regex(_plain(array), r"\.?0*$", "")
        zone = "" if kind.tz is None else "Z"
        return _quoted(pc.binary_join_element_wise(pc.replace_substring(iso, " ", "T"), zone, ""))
    if _is_binary(kind):
        return _each(array, lambda value: f'"{base64.b64encode(value).decode()}"')
    if pa.types.is_map(kind):
        keys, items = _filled(_quoted(_plain(_children(array, array.keys))), '"null"'), _children(array, array.items)
        pairs = [f"{key}:{value}" for key, value in zip(keys, _filled(_json(items), "null"), strict=True)]
        return _grouped(array, pairs, "{", ",", "}")
    if pa.types.is_list(kind):
        return _grouped(array, _filled(_json(_children(array, array.values)), "null"), "[", ",", "]")
    if pa.types.is_struct(kind):
        names = [encode_basestring(field.name) for field in kind]
        columns = [
            [f"{name}:{value}" for value in _filled(_json(array.field(index)), "null")]
            for index, name in enumerate(names)
        ]
        return _rows(array, columns, "{", ",", "}")
    return _quoted(_plain(array))


def _plain(array: pa.Array) -> pa.Array:
    """Plain texts of an array's values; a null stays null."""
    kind = array.type
    if pa.types.is_boolean(kind):
        return pc.ascii_upper(array.cast(pa.string()))
    if pa.types.is_floating(kind):
        return _each(_doubles(array), java_double)
    if pa.types.is_decimal(kind):
        return _decimals(array)
    if pa.types.is_date(kind):
        return _signed_years(array.cast(pa.string()))
    if pa.types.is_timestamp(kind):
        return _signed_years(wall_clock(array).cast(pa.timestamp("us")).cast(pa.string()))
    if _is_binary(kind):
        return _each(array, lambda value: f"x'{value.hex()}'")
    if pa.types.is_map(kind):
        keys, items = _children(array, array.keys), _children(array, array.items)
        pairs = zip(_filled(_plain(keys), "NULL"), _filled(_plain(items), "NULL"), strict=True)
        return _grouped(array, [f"{key}={value}" for key, value in pairs], "{", ", ", "}")
    if pa.types.is_list(kind):
        return _grouped(array, _filled(_plain(_children(array, array.values)), "NULL"), "[", ", ", "]")
    if pa.types.is_struct(kind):
        columns = [_filled(_plain(array.field(index)), "NULL") for index in range(kind.num_fields)]
        return _rows(array, columns, "(", ", ", ")")
    return array.cast(pa.string())


def java_double(value: float) -> str:
    """A double as Java prints it: `0.001`, `1.0E10`, `Infinity`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = format(Decimal(repr(value)).normalize(), "E").partition("E")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def _json_floats(array: pa.Array) -> pa.Array:
    texts = pc.replace_substring_regex(array.cast(pa.string()), r"^(-?\d+)$", r"\1.0")
    if pc.all(pc.is_finite(array)).as_py() is False:
        texts = pc.replace_substring_regex(texts, "^(-?)inf$", r'"\1Infinity"')
        texts = pc.replace_substring_regex(texts, "^-?nan$", '"NaN"')
    return texts


def _decimals(array: pa.Array) -> pa.Array:
    """Decimals in full: Arrow writes very small ones with an exponent."""
    texts = array.cast(pa.string())
    if pc.any(pc.match_substring(texts, "E")).as_py():
        return _each(array, lambda value: format(value, "f"))
    return texts


def _json_decimals(array: pa.Array) -> pa.Array:
    """Decimals without trailing zeros; those that Java then writes with an exponent, a few of many, are made one by one."""
    texts = _decimals(array)
    if array.type.scale > 0:
        texts = pc.replace_substring_regex(texts, r"\.?0*$", "")
    scientific = pc.fill_null(pc.match_substring_regex(texts, _SCIENTIFIC), False)
    shortened = _each(texts.filter(scientific), lambda text: str(Decimal(text).normalize(_DECIMALS)))
    return pc.replace_with_mask(texts, scientific, shortened)


def _doubles(array: pa.Array) -> pa.Array:
    """Floats widened by their digits: a float 0.1 is 0.1, not 0.10000000149011612."""
    return array.cast(pa.string()).cast(pa.float64()) if pa.types.is_float32(array.type) else array


def _quoted(texts: pa.Array) -> pa.Array:
    """JSON strings of texts; a null stays null."""
    if pc.any(pc.match_substring_regex(texts, _CONTROL_CHARACTERS)).as_py():
        return _each(texts, encode_basestring)
    escaped = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    return pc.binary_join_element_wise('"', escaped, '"', "")


def _signed_years(texts: pa.Array) -> pa.Array:
    """Dates whose years of five digits and more have the sign that ISO 8601 asks for."""
    return pc.replace_substring_regex(texts, r"^(\d{5})", r"+\1")


def _each(array: pa.Array, write: Callable[[Any], str]) -> pa.Array:
    return pa.array([None if value is None else write(value) for value in array.to_pylist()], pa.string())


def _filled(texts: pa.Array, null: str) -> list[str]:
    return list(pc.fill_null(texts, null).to_pylist())


def _children(array: pa.Array, values: pa.Array) -> pa.Array:
    """The part of an array's child that its own slice covers."""
    if len(array) == 0:
        return values.slice(0, 0)
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return values.slice(first, last - first)


def _grouped(array: pa.Array, pieces: Sequence[str], begin: str, separator: str, end: str) -> pa.Array:
    """One text for each list or map, from the texts of all their items."""
    offsets = array.offsets.to_pylist()
    texts = [
        f"{begin}{separator.join(pieces[start - offsets[0] : stop - offsets[0]])}{end}" if valid else None
        for start, stop, valid in zip(offsets, offsets[1:], array.is_valid().to_pylist(), strict=False)
    ]
    return pa.array(texts, pa.string())


def _rows(array: pa.Array, columns: Sequence[Sequence[str]], begin: str, separator: str, end: str) -> pa.Array:
    """One text for each struct, from the texts of its fields."""
    valid = array.is_valid().to_pylist()
    cells = zip(*columns, strict=True) if columns else ((),) * len(valid)
    texts = [f"{begin}{separator.join(row)}{end}" if there else None for row, there in zip(cells, valid, strict=True)]
    return pa.array(texts, pa.string())


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))
