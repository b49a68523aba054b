"""Columns of a table as clients see them, made of the JSON of Spark's schema. Pure, but for the look at the schema itself."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sparksql.gateway.catalog.sources import Relation

# JSON names of types that their simple strings do not share.
_SIMPLE_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
_CHAR_TYPE = "__CHAR_VARCHAR_TYPE_STRING"  # CharVarcharUtils: the declared type of a column that is read as a string
_PLAIN_CHAR_TYPE = re.compile(r"(var)?char\(\d+\)")


@dataclass(frozen=True)
class ColumnEntry:
    """A column; `position` counts from 1.

    `type` is Spark's simple string. `type_name` is the same in capitals, but for the names of a struct's fields.
    """

    catalog: str
    schema: str
    table: str
    name: str
    type: str
    nullable: bool
    position: int
    comment: str
    type_name: str


def columns_in(relation: Relation) -> Iterator[ColumnEntry]:
    """Returns the columns of a table. Raises what Spark raises for one that cannot be read."""
    fields = json.loads(relation.fields())["fields"]
    for position, field in enumerate(fields, start=1):
        metadata = field.get("metadata") or {}
        declared = str(metadata.get(_CHAR_TYPE) or "")
        yield ColumnEntry(
            catalog=relation.catalog,
            schema=relation.schema,
            table=relation.name,
            name=field["name"],
            type=declared or simple_type(field["type"]),
            nullable=field["nullable"],
            position=position,
            comment=metadata.get("comment") or "",
            type_name=declared.upper()
            if _PLAIN_CHAR_TYPE.fullmatch(declared)
            else simple_type(field["type"], str.upper),
        )


def simple_type(data_type: Any, word: Callable[[str], str] = str) -> str:
    """Returns the simple string of a type given as the JSON of Spark's DataType, e.g. `array<int>`; never shortened.

    `word` is applied to the types' own words, not to the names of fields.
    """
    match data_type:
        case str():
            return word(_SIMPLE_NAMES.get(data_type, data_type))
        case {"type": "struct", "fields": fields}:
            parts = (f"{field['name']}:{simple_type(field['type'], word)}" for field in fields)
            return f"{word('struct')}<{','.join(parts)}>"
        case {"type": "array", "elementType": element}:
            return f"{word('array')}<{simple_type(element, word)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"{word('map')}<{simple_type(key, word)},{simple_type(value, word)}>"
        case {"type": "udt", "sqlType": carrier}:
            return simple_type(carrier, word)
        case _:
            return str(data_type)
