"""Values as the text that HiveServer2's clients get: all types that have no column of their own there.

Nested values are JSON, so that a client can read them: Spark's own Thrift server leaves quotes, dates and binaries in them as
they are, which nobody can parse. Numbers stay exact: decimals in full, floats as short as they read back. Everything is done a
column at a time, by Arrow; only texts that JSON must escape, and binaries, are looked at one by one.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_ESCAPED = r'["\\\x00-\x1f]'
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_PLAIN_SCALE = 6  # up to here Arrow writes decimals without an exponent


def text_column(column: pa.Array) -> pa.Array:
    """A column of any type as strings; NULL stays NULL."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return _timestamps(column)
    if pa.types.is_decimal(kind):
        return _decimals(column)
    if pa.types.is_nested(kind):
        return json_column(column)
    return column.cast(pa.string())


def json_column(column: pa.Array) -> pa.Array:
    """A column of any type as JSON texts; NULL stays NULL."""
    kind = column.type
    if pa.types.is_map(kind):
        begin, end, offsets = _extent(column)
        keys = _quoted(text_column(column.keys.slice(begin, end - begin)))
        pairs = pc.binary_join_element_wise(keys, _or_null(column.items.slice(begin, end - begin)), ":")
        return _where_valid(column, _enclosed("{", _joined(offsets, pairs), "}"))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        begin, end, offsets = _extent(column)
        items = _or_null(column.values.slice(begin, end - begin))
        return _where_valid(column, _enclosed("[", _joined(offsets, items), "]"))
    if pa.types.is_struct(kind):
        members = [
            _enclosed(json.dumps(part.name, ensure_ascii=False) + ":", _or_null(values), "")
            for part, values in zip(kind, column.flatten(), strict=True)
        ]
        inside = pc.binary_join_element_wise(*members, ",") if members else pa.array([""] * len(column))
        return _where_valid(column, _enclosed("{", inside, "}"))
    if pa.types.is_floating(kind):
        return _floats(column)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        return text_column(column)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _quoted(_each(column, lambda value: base64.b64encode(value).decode()))
    return _quoted(text_column(column))


def _timestamps(column: pa.Array) -> pa.Array:
    local = column if column.type.tz is None else pc.local_timestamp(column)
    shown = local.cast(pa.timestamp("us")).cast(pa.string())
    return pc.utf8_rtrim(pc.utf8_rtrim(shown, "0"), ".")  # the fraction has always six digits before


def _decimals(column: pa.Array) -> pa.Array:
    shown = column.cast(pa.string())
    if column.type.scale <= _PLAIN_SCALE or not pc.any(pc.match_substring(shown, "E")).as_py():
        return shown
    return _each(column, lambda value: format(value, "f"))


def _floats(column: pa.Array) -> pa.Array:
    shown = pc.replace_substring_regex(column.cast(pa.string()), r"^(-?\d+)$", r"\1.0")  # a double is no integer
    if pc.all(pc.is_finite(column)).as_py() in (True, None):
        return shown
    return _each(shown, lambda value: json.dumps(_NOT_FINITE[value]) if value in _NOT_FINITE else value)


def _quoted(texts: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(texts, _ESCAPED)).as_py():
        return _each(texts, lambda value: json.dumps(value, ensure_ascii=False))
    return _enclosed('"', texts, '"')


def _each(column: pa.Array, convert: Callable[[Any], str]) -> pa.Array:
    return pa.array([None if value is None else convert(value) for value in column.to_pylist()], pa.string())


def _or_null(column: pa.Array) -> pa.Array:
    return pc.fill_null(json_column(column), "null")


def _extent(column: pa.Array) -> tuple[int, int, pa.Array]:
    """Where the items of a list or map column begin and end among their values, and its offsets counted from there."""
    offsets = column.offsets.to_numpy()
    begin, end = int(offsets[0]), int(offsets[-1])
    return begin, end, pa.array((offsets - begin).astype(np.int32))


def _joined(offsets: pa.Array, items: pa.Array) -> pa.Array:
    return pc.binary_join(pa.ListArray.from_arrays(offsets, items), ",")


def _enclosed(before: str, texts: pa.Array, after: str) -> pa.Array:
    return pc.binary_join_element_wise(before, texts, after, "")


def _where_valid(column: pa.Array, texts: pa.Array) -> pa.Array:
    return pc.if_else(column.is_valid(), texts, pa.scalar(None, pa.string())) if column.null_count else texts
