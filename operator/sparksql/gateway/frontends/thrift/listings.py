"""Answers about the catalog in the columns that JDBC and Hive's clients expect. Pure.

A listing is a small table in memory. Columns, their order and their types are those of Hive's server; where Spark's own Thrift
server gives a type's storage size as COLUMN_SIZE, this gives its precision, as JDBC asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from sparksql.gateway.catalog.catalog import FunctionEntry, SchemaEntry, TableEntry
from sparksql.gateway.catalog.columns import ColumnEntry
from sparksql.gateway.frontends.thrift.types import HiveType, hive_type
from sparksql.protocols.hiveserver2.messages import TTypeId

TABLE_TYPES = ("TABLE", "VIEW")
_MAX_LENGTH = 2_147_483_647  # of a STRING or BINARY
_NULLABLE, _NO_NULLS = 1, 0  # DatabaseMetaData.columnNullable, columnNoNulls
_SEARCHABLE, _NOT_SEARCHABLE = 3, 0  # DatabaseMetaData.typeSearchable, typePredNone
_FUNCTION_RESULT_UNKNOWN = 0
_ARROW = {
    "string": pa.string(),
    "int": pa.int32(),
    "smallint": pa.int16(),
    "tinyint": pa.int8(),
    "boolean": pa.bool_(),
}
# java.sql.Types
_JDBC_TYPES: Mapping[TTypeId, int] = {
    TTypeId.BOOLEAN_TYPE: 16,
    TTypeId.TINYINT_TYPE: -6,
    TTypeId.SMALLINT_TYPE: 5,
    TTypeId.INT_TYPE: 4,
    TTypeId.BIGINT_TYPE: -5,
    TTypeId.FLOAT_TYPE: 6,
    TTypeId.DOUBLE_TYPE: 8,
    TTypeId.STRING_TYPE: 12,
    TTypeId.TIMESTAMP_TYPE: 93,
    TTypeId.BINARY_TYPE: -2,
    TTypeId.ARRAY_TYPE: 2003,
    TTypeId.MAP_TYPE: 2000,
    TTypeId.STRUCT_TYPE: 2002,
    TTypeId.DECIMAL_TYPE: 3,
    TTypeId.NULL_TYPE: 0,
    TTypeId.DATE_TYPE: 91,
    TTypeId.VARCHAR_TYPE: 12,
    TTypeId.CHAR_TYPE: 1,
}
_PRECISIONS: Mapping[TTypeId, int] = {
    TTypeId.TINYINT_TYPE: 3,
    TTypeId.SMALLINT_TYPE: 5,
    TTypeId.INT_TYPE: 10,
    TTypeId.BIGINT_TYPE: 19,
    TTypeId.FLOAT_TYPE: 7,
    TTypeId.DOUBLE_TYPE: 15,
}
_DATE_CHARS, _TIMESTAMP_CHARS, _TIMESTAMP_DIGITS = 10, 26, 6


@dataclass(frozen=True)
class ListingColumn:
    """Describes a column of a listing; `type` is Spark's."""

    name: str
    type: str
    comment: str


@dataclass(frozen=True)
class Listing:
    """Rows of an answer with their columns."""

    columns: tuple[ListingColumn, ...]
    rows: tuple[tuple[object, ...], ...] = field(default=(), repr=False)

    def table(self) -> pa.Table:
        """Returns the rows as a table of Arrow."""
        values = zip(*self.rows, strict=True) if self.rows else ((),) * len(self.columns)
        arrays = [pa.array(cells, _ARROW[column.type]) for cells, column in zip(values, self.columns, strict=True)]
        return pa.Table.from_arrays(arrays, names=[column.name for column in self.columns])


def _columns(*columns: tuple[str, str, str]) -> tuple[ListingColumn, ...]:
    return tuple(ListingColumn(*column) for column in columns)


_CATALOGS = _columns(("TABLE_CAT", "string", "Catalog name."))
_SCHEMAS = _columns(("TABLE_SCHEM", "string", "Schema name."), ("TABLE_CATALOG", "string", "Catalog name."))
_TABLE_TYPES = _columns(("TABLE_TYPE", "string", "Table type name."))
_TABLES = _columns(
    ("TABLE_CAT", "string", "Catalog name."),
    ("TABLE_SCHEM", "string", "Schema name."),
    ("TABLE_NAME", "string", "Table name."),
    ("TABLE_TYPE", "string", "TABLE or VIEW."),
    ("REMARKS", "string", "Comment on the table."),
    ("TYPE_CAT", "string", "Unused."),
    ("TYPE_SCHEM", "string", "Unused."),
    ("TYPE_NAME", "string", "Unused."),
    ("SELF_REFERENCING_COL_NAME", "string", "Unused."),
    ("REF_GENERATION", "string", "Unused."),
)
_COLUMNS = _columns(
    ("TABLE_CAT", "string", "Catalog name."),
    ("TABLE_SCHEM", "string", "Schema name."),
    ("TABLE_NAME", "string", "Table name."),
    ("COLUMN_NAME", "string", "Column name."),
    ("DATA_TYPE", "int", "Type, a number of java.sql.Types."),
    ("TYPE_NAME", "string", "Spark's name of the type."),
    ("COLUMN_SIZE", "int", "Precision of numbers, characters of texts and dates."),
    ("BUFFER_LENGTH", "tinyint", "Unused."),
    ("DECIMAL_DIGITS", "int", "Digits of the fraction."),
    ("NUM_PREC_RADIX", "int", "Base of the precision."),
    ("NULLABLE", "int", "1 if the column can be NULL, else 0."),
    ("REMARKS", "string", "Comment on the column."),
    ("COLUMN_DEF", "string", "Default value; always NULL."),
    ("SQL_DATA_TYPE", "int", "Unused."),
    ("SQL_DATETIME_SUB", "int", "Unused."),
    ("CHAR_OCTET_LENGTH", "int", "Maximum bytes of a text; always NULL."),
    ("ORDINAL_POSITION", "int", "Position of the column, from 1."),
    ("IS_NULLABLE", "string", "YES if the column can be NULL, else NO."),
    ("SCOPE_CATALOG", "string", "Unused."),
    ("SCOPE_SCHEMA", "string", "Unused."),
    ("SCOPE_TABLE", "string", "Unused."),
    ("SOURCE_DATA_TYPE", "smallint", "Unused."),
    ("IS_AUTO_INCREMENT", "string", "Always NO."),
)
_FUNCTIONS = _columns(
    ("FUNCTION_CAT", "string", "Catalog name."),
    ("FUNCTION_SCHEM", "string", "Schema name."),
    ("FUNCTION_NAME", "string", "Function name."),
    ("REMARKS", "string", "Unused."),
    ("FUNCTION_TYPE", "int", "Always 0, unknown."),
    ("SPECIFIC_NAME", "string", "Class of the function."),
)
_TYPE_INFO = _columns(
    ("TYPE_NAME", "string", "Type name."),
    ("DATA_TYPE", "int", "Type, a number of java.sql.Types."),
    ("PRECISION", "int", "Largest precision."),
    ("LITERAL_PREFIX", "string", "Prefix of a literal."),
    ("LITERAL_SUFFIX", "string", "What a literal ends with."),
    ("CREATE_PARAMS", "string", "Parameters of the type."),
    ("NULLABLE", "smallint", "Always 1."),
    ("CASE_SENSITIVE", "boolean", "Whether case matters in comparisons."),
    ("SEARCHABLE", "smallint", "Whether WHERE can compare it: 3 or 0."),
    ("UNSIGNED_ATTRIBUTE", "boolean", "Whether it has no sign."),
    ("FIXED_PREC_SCALE", "boolean", "Always false."),
    ("AUTO_INCREMENT", "boolean", "Always false."),
    ("LOCAL_TYPE_NAME", "string", "Unused."),
    ("MINIMUM_SCALE", "smallint", "Smallest scale."),
    ("MAXIMUM_SCALE", "smallint", "Largest scale."),
    ("SQL_DATA_TYPE", "int", "Unused."),
    ("SQL_DATETIME_SUB", "int", "Unused."),
    ("NUM_PREC_RADIX", "int", "Base of the precision."),
)
_PRIMARY_KEYS = _columns(
    ("TABLE_CAT", "string", "Catalog name."),
    ("TABLE_SCHEM", "string", "Schema name."),
    ("TABLE_NAME", "string", "Table name."),
    ("COLUMN_NAME", "string", "Column name."),
    ("KEY_SEQ", "int", "Position within the key."),
    ("PK_NAME", "string", "Name of the key."),
)
_CROSS_REFERENCE = _columns(
    *((f"PKTABLE_{part}", "string", "Of the referenced table.") for part in ("CAT", "SCHEM", "NAME")),
    ("PKCOLUMN_NAME", "string", "Referenced column."),
    *((f"FKTABLE_{part}", "string", "Of the table that refers.") for part in ("CAT", "SCHEM", "NAME")),
    ("FKCOLUMN_NAME", "string", "Column that refers."),
    ("KEY_SEQ", "smallint", "Position within the key."),
    ("UPDATE_RULE", "smallint", "Unused."),
    ("DELETE_RULE", "smallint", "Unused."),
    ("FK_NAME", "string", "Name of the foreign key."),
    ("PK_NAME", "string", "Name of the key."),
    ("DEFERRABILITY", "smallint", "Unused."),
)


def jdbc_pattern(pattern: str | None) -> str | None:
    """Returns a pattern of a client as JDBC's: Hive's own clients write `*` and `.*` for any text."""
    return None if pattern is None else pattern.replace(".*", "%").replace("*", "%")


def catalogs(names: Iterable[str]) -> Listing:
    """Returns the answer of GetCatalogs."""
    return Listing(_CATALOGS, tuple((name,) for name in names))


def schemas(entries: Iterable[SchemaEntry]) -> Listing:
    """Returns the answer of GetSchemas."""
    return Listing(_SCHEMAS, tuple((entry.name, entry.catalog) for entry in entries))


def table_types() -> Listing:
    """Returns the answer of GetTableTypes."""
    return Listing(_TABLE_TYPES, tuple((name,) for name in TABLE_TYPES))


def tables(entries: Iterable[TableEntry]) -> Listing:
    """Returns the answer of GetTables."""
    return Listing(
        _TABLES,
        tuple(
            (entry.catalog, entry.schema, entry.name, entry.type, entry.comment, None, None, None, None, None)
            for entry in entries
        ),
    )


def columns(entries: Iterable[ColumnEntry]) -> Listing:
    """Returns the answer of GetColumns."""
    return Listing(_COLUMNS, tuple(_column(entry) for entry in entries))


def functions(entries: Iterable[FunctionEntry]) -> Listing:
    """Returns the answer of GetFunctions."""
    return Listing(
        _FUNCTIONS,
        tuple(
            (entry.catalog, entry.schema, entry.name, "", _FUNCTION_RESULT_UNKNOWN, entry.class_name)
            for entry in entries
        ),
    )


def primary_keys() -> Listing:
    """Returns no rows: Spark tells of no keys."""
    return Listing(_PRIMARY_KEYS)


def cross_reference() -> Listing:
    """Returns no rows: Spark tells of no keys."""
    return Listing(_CROSS_REFERENCE)


def type_info() -> Listing:
    """Returns the types that a column may have."""
    names = (
        "VOID",
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INT",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "DECIMAL",
        "STRING",
        "VARCHAR",
    )
    more = ("CHAR", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "ARRAY", "MAP", "STRUCT")
    return Listing(_TYPE_INFO, tuple(_type(name) for name in (*names, *more)))


def _type(name: str) -> tuple[object, ...]:
    type_id = hive_type(name).id
    is_number = type_id in _PRECISIONS or type_id is TTypeId.DECIMAL_TYPE
    is_text = type_id in (TTypeId.STRING_TYPE, TTypeId.VARCHAR_TYPE, TTypeId.CHAR_TYPE)
    is_nested = type_id in (TTypeId.ARRAY_TYPE, TTypeId.MAP_TYPE, TTypeId.STRUCT_TYPE)
    precision = 38 if type_id is TTypeId.DECIMAL_TYPE else _PRECISIONS.get(type_id)
    quote = "'" if is_text else None
    parameters = {
        TTypeId.DECIMAL_TYPE: "precision,scale",
        TTypeId.VARCHAR_TYPE: "length",
        TTypeId.CHAR_TYPE: "length",
    }.get(type_id)
    searchable = _NOT_SEARCHABLE if is_nested else _SEARCHABLE
    scale = 38 if type_id is TTypeId.DECIMAL_TYPE else 0
    head = (name, _JDBC_TYPES[type_id], precision, quote, quote, parameters, _NULLABLE, is_text, searchable)
    return (*head, not is_number, False, False, None, 0, scale, None, None, 10 if is_number else None)


def _column(entry: ColumnEntry) -> tuple[object, ...]:
    kind = hive_type(entry.type)
    size, digits = _size(kind), _digits(kind)
    radix = 10 if kind.id in _PRECISIONS or kind.id is TTypeId.DECIMAL_TYPE else None
    place: Sequence[object] = (entry.catalog, entry.schema, entry.table, entry.name)
    shape: Sequence[object] = (_JDBC_TYPES[kind.id], entry.type_name, size, None, digits, radix)
    nullable: Sequence[object] = (_NULLABLE if entry.nullable else _NO_NULLS, entry.comment, None, None, None, None)
    tail: Sequence[object] = (entry.position, "YES" if entry.nullable else "NO", None, None, None, None, "NO")
    return (*place, *shape, *nullable, *tail)


def _size(kind: HiveType) -> int | None:
    match kind.id:
        case TTypeId.DECIMAL_TYPE:
            return kind.precision
        case TTypeId.VARCHAR_TYPE | TTypeId.CHAR_TYPE:
            return kind.length
        case TTypeId.STRING_TYPE | TTypeId.BINARY_TYPE:
            return _MAX_LENGTH
        case TTypeId.DATE_TYPE:
            return _DATE_CHARS
        case TTypeId.TIMESTAMP_TYPE:
            return _TIMESTAMP_CHARS
        case TTypeId.BOOLEAN_TYPE:
            return 1
        case _:
            return _PRECISIONS.get(kind.id)


def _digits(kind: HiveType) -> int | None:
    match kind.id:
        case TTypeId.DECIMAL_TYPE:
            return kind.scale
        case TTypeId.TIMESTAMP_TYPE:
            return _TIMESTAMP_DIGITS
        case TTypeId.FLOAT_TYPE | TTypeId.DOUBLE_TYPE:
            return _PRECISIONS[kind.id]
        case TTypeId.TINYINT_TYPE | TTypeId.SMALLINT_TYPE | TTypeId.INT_TYPE | TTypeId.BIGINT_TYPE:
            return 0
        case _:
            return None
