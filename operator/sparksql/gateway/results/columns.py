"""Columns of Arrow as text, in the style of each reader: a column as a whole, mostly inside Arrow. Nothing else writes values.

| | SPARK_TEXT | VALUE_JSON | FLINK_JSON | FLINK_PLAIN | HIVE_JSON |
|---|---|---|---|---|---|
| read by | status | the plugin | REST | REST | HiveServer2 |
| boolean | true | true | true | TRUE | true |
| double | as Java prints it | 1.5, "NaN" | 1.5, "NaN" | as Java prints it | 1.5, "NaN" |
| decimal | in full | "1.50" | 1.5, maybe 1E+2 | in full | in full |
| timestamp | 2026-01-31 10:00:00.5 | the same | "2026-01-31T10:00:00.5" | 2026-01-31 10:00:00.500000 | as SPARK_TEXT |
| binary | aA== | "aA==" | "aA==" | x'68' | "aA==" |
| list | [1, null] | [1,null] | [1,null] | [1, NULL] | [1,null] |
| map | {k -> 1} | {"k":1} | {"k":1} | {k=1} | {"k":1} |
| row | {1} | {"a":1} | {"a":1} | (1) | {"a":1} |

SPARK_TEXT is what Spark's cast to STRING prints, but for binaries, which need not be text. Instants are shown by the clock of the
zone in their type; FLINK_JSON marks them with Z. HIVE_JSON is for what lists, maps and rows hold; another value is `hive_text`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from json.encoder import encode_basestring
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparksql.gateway.results.times import date_texts, timestamp_texts, without_zeros
from sparksql.wire.values import base64_text, java_double

_DECIMALS = Context(prec=76)  # more digits than any decimal of Spark has
_FIRST_EXPONENT = 1e10  # Arrow writes whole doubles below it as digits alone
_BELOW_MILLIONTH = ("0.000000", "-0.000000")
# What JSON writes otherwise within a text, by its byte. The backslash is first: the others bring more of them.
_ESCAPES = {code: encode_basestring(chr(code))[1:-1] for code in (ord("\\"), ord('"'), *range(0x20))}
_AS_THEY_ARE = bytes(code for code in range(0x100) if code not in _ESCAPES)


@dataclass(frozen=True)
class ColumnStyle:
    """Describes how values are written.

    `scalar` writes a column of values that hold no others, `key` the keys of a map; nulls stay null. `separator` stands
    between the members of a list, map or row, `assign` between a key and its value, `null` for a NULL in them; `row`
    are the brackets of rows, whose fields are named if `named`.
    """

    scalar: Callable[[pa.Array], pa.Array]
    key: Callable[[pa.Array], pa.Array]
    null: str
    separator: str
    assign: str
    row: tuple[str, str]
    named: bool


@dataclass(frozen=True)
class Cells:
    """JSON of a column's values: the marks before and after each value, and what is between them. NULL stays null."""

    before: str
    inside: pa.Array
    after: str

    def whole(self) -> pa.Array:
        """Returns the texts with their marks."""
        return _enclosed(self.before, self.inside, self.after) if self.before or self.after else self.inside


def texts(column: pa.Array, style: ColumnStyle) -> pa.Array:
    """Returns the text of each value of a column; NULL stays null. Raises UnknownZoneError for an instant in one."""
    kind = column.type
    if pa.types.is_map(kind):
        begin, end, offsets = _extent(column)
        keys = pc.fill_null(style.key(column.keys.slice(begin, end - begin)), style.null)
        pairs = pc.binary_join_element_wise(keys, _members(column.items.slice(begin, end - begin), style), style.assign)
        return _where_valid(column, _enclosed("{", _joined(offsets, pairs, style.separator), "}"))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        begin, end, offsets = _extent(column)
        items = _members(column.values.slice(begin, end - begin), style)
        return _where_valid(column, _enclosed("[", _joined(offsets, items, style.separator), "]"))
    if pa.types.is_struct(kind):
        fields = [_field(part.name, values, style) for part, values in zip(kind, _fields(column), strict=True)]
        inside = (
            pc.binary_join_element_wise(*fields, style.separator)
            if fields
            else pa.array([""] * len(column), pa.string())
        )
        return _where_valid(column, _enclosed(style.row[0], inside, style.row[1]))
    return style.scalar(column)


def whole(column: pa.ChunkedArray) -> pa.Array:
    """Returns a column of a table as one array."""
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], column.type)
    return array


def json_cells(column: pa.Array) -> Cells:
    """Returns values in the style FLINK_JSON. Raises UnknownZoneError for an instant in one."""
    kind = column.type
    if pa.types.is_nested(kind):
        return Cells("", texts(column, FLINK_JSON), "")
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return Cells("", column.cast(pa.string()), "")
    if pa.types.is_floating(kind):
        return Cells("", _json_floats(column), "")
    if pa.types.is_decimal(kind):
        return Cells("", _short_decimals(column), "")
    if pa.types.is_timestamp(kind):
        iso = without_zeros(timestamp_texts(column))
        return Cells('"', pc.replace_substring(iso, " ", "T"), '"' if kind.tz is None else 'Z"')
    if pa.types.is_date(kind):
        return Cells('"', _flink_plain(column), '"')
    if is_binary(kind):
        return Cells('"', _each(column, base64_text), '"')
    return text_cells(_flink_plain(column))


def text_cells(column: pa.Array) -> Cells:
    """Returns texts as JSON strings."""
    found = frozenset(_data(column).translate(None, _AS_THEY_ARE))
    for code, escape in _ESCAPES.items():
        if code in found:
            column = pc.replace_substring(column, chr(code), escape)
    return Cells('"', column, '"')


def quoted(column: pa.Array) -> pa.Array:
    """Returns texts as JSON strings; null stays null."""
    return text_cells(column).whole()


def hive_text(column: pa.Array) -> pa.Array:
    """Returns values as the text of a column of HiveServer2's that has no type of its own: lists, maps and rows as JSON."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return without_zeros(timestamp_texts(column))
    if pa.types.is_date(kind):
        return date_texts(column)
    if pa.types.is_decimal(kind):
        return _decimals(column)
    if pa.types.is_nested(kind):
        return texts(column, HIVE_JSON)
    return column.cast(pa.string())


def _spark_text(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_floating(kind):
        return _each(_doubles(column), java_double)
    return _each(column, base64_text) if is_binary(kind) else hive_text(column)


def _spark_keys(keys: pa.Array) -> pa.Array:
    return texts(keys, SPARK_TEXT)


def _value_json(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_floating(kind):
        return _json_floats(column)
    is_bare = pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind)
    return hive_text(column) if is_bare else quoted(_spark_text(column))


def _hive_json(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_floating(kind):
        return _json_floats(column)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        return hive_text(column)
    if is_binary(kind):
        return _each(column, lambda value: f'"{base64_text(value)}"')
    return quoted(hive_text(column))


def _flink_plain(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_boolean(kind):
        return pc.ascii_upper(column.cast(pa.string()))
    if pa.types.is_floating(kind):
        return _each(_doubles(column), java_double)
    if pa.types.is_decimal(kind):
        return _decimals(column)
    if pa.types.is_date(kind):
        return date_texts(column)
    if pa.types.is_timestamp(kind):
        return timestamp_texts(column)
    if is_binary(kind):
        return _each(column, lambda value: f"x'{value.hex()}'")
    return column.cast(pa.string())


def _plain_keys(column: pa.Array) -> pa.Array:
    return texts(column, FLINK_PLAIN)


SPARK_TEXT = ColumnStyle(
    scalar=_spark_text,
    key=_spark_keys,
    null="null",
    separator=", ",
    assign=" -> ",
    row=("{", "}"),
    named=False,
)
VALUE_JSON = ColumnStyle(
    scalar=_value_json,
    key=lambda keys: quoted(_spark_keys(keys)),
    null="null",
    separator=",",
    assign=":",
    row=("{", "}"),
    named=True,
)
FLINK_PLAIN = ColumnStyle(
    scalar=_flink_plain,
    key=_plain_keys,
    null="NULL",
    separator=", ",
    assign="=",
    row=("(", ")"),
    named=False,
)
FLINK_JSON = ColumnStyle(
    scalar=lambda column: json_cells(column).whole(),
    key=lambda keys: quoted(_plain_keys(keys)),
    null="null",
    separator=",",
    assign=":",
    row=("{", "}"),
    named=True,
)
HIVE_JSON = ColumnStyle(
    scalar=_hive_json,
    key=lambda keys: quoted(hive_text(keys)),
    null="null",
    separator=",",
    assign=":",
    row=("{", "}"),
    named=True,
)


def is_binary(kind: pa.DataType) -> bool:
    """Returns whether values of this type are bytes."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _json_floats(column: pa.Array) -> pa.Array:
    shown = column.cast(pa.string())
    bare = pc.and_(pc.equal(pc.trunc(column), column), pc.less(pc.abs(column), _FIRST_EXPONENT))
    if pc.any(bare).as_py():
        shown = pc.binary_join_element_wise(shown, pc.if_else(bare, ".0", ""), "")  # a double is no integer
    if pc.all(pc.is_finite(column)).as_py() is False:
        shown = pc.replace_substring_regex(shown, "^(-?)inf$", r'"\1Infinity"')
        shown = pc.replace_substring_regex(shown, "^-?nan$", '"NaN"')
    return shown


def _decimals(column: pa.Array) -> pa.Array:
    """Decimals in full: Arrow writes very small ones with an exponent."""
    shown = column.cast(pa.string())
    if pc.any(pc.match_substring(shown, "E")).as_py():
        return _each(column, lambda value: format(value, "f"))
    return shown


def _short_decimals(column: pa.Array) -> pa.Array:
    """Decimals without trailing zeros; those that Java then writes with an exponent, a few of many, are made one by one."""
    shown = _decimals(column)
    if column.type.scale > 0:
        shown = without_zeros(shown)
    tens = pc.and_(pc.ends_with(shown, "0"), pc.not_equal(shown, "0"))  # no fraction is left that could end so
    below, below_zero = (pc.starts_with(shown, begin) for begin in _BELOW_MILLIONTH)
    scientific = pc.fill_null(pc.or_(tens, pc.or_(below, below_zero)), False)
    shortened = _each(shown.filter(scientific), lambda text: str(Decimal(text).normalize(_DECIMALS)))
    return pc.replace_with_mask(shown, scientific, shortened)


def _doubles(column: pa.Array) -> pa.Array:
    """Floats widened by their digits: a float 0.1 is 0.1, not 0.10000000149011612."""
    return column.cast(pa.string()).cast(pa.float64()) if pa.types.is_float32(column.type) else column


def _each(column: pa.Array, write: Callable[[Any], str]) -> pa.Array:
    return pa.array([None if value is None else write(value) for value in column.to_pylist()], pa.string())


def _data(column: pa.Array) -> bytes:
    """All bytes of a column of texts, one after the other."""
    if len(column) == 0:
        return b""
    _, offsets, data = column.buffers()
    begin, end = (int(np.frombuffer(offsets, np.int32)[column.offset + at]) for at in (0, len(column)))
    return b"" if data is None else data.slice(begin, end - begin).to_pybytes()


def _members(column: pa.Array, style: ColumnStyle) -> pa.Array:
    return pc.fill_null(texts(column, style), style.null)


def _field(name: str, values: pa.Array, style: ColumnStyle) -> pa.Array:
    members = _members(values, style)
    return _enclosed(f"{encode_basestring(name)}{style.assign}", members, "") if style.named else members


def _fields(column: pa.Array) -> list[pa.Array]:
    """A row's fields as columns, null where the row is."""
    return list(column.flatten())


def _extent(column: pa.Array) -> tuple[int, int, pa.Array]:
    """Where the items of a list or map column begin and end among their values, and its offsets counted from there."""
    offsets = column.offsets.to_numpy()
    begin, end = int(offsets[0]), int(offsets[-1])
    return begin, end, pa.array((offsets - begin).astype(np.int32))


def _joined(offsets: pa.Array, items: pa.Array, separator: str) -> pa.Array:
    return pc.binary_join(pa.ListArray.from_arrays(offsets, items), separator)


def _enclosed(before: str, column: pa.Array, after: str) -> pa.Array:
    return pc.binary_join_element_wise(before, column, after, "")


def _where_valid(column: pa.Array, shown: pa.Array) -> pa.Array:
    return pc.if_else(column.is_valid(), shown, pa.scalar(None, pa.string())) if column.null_count else shown
