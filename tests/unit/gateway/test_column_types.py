"""Names of columns' types as clients get them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sparksql.gateway.catalog.columns import columns_in
from sparksql.gateway.catalog.sources import Relation

_STRUCT = {"type": "struct", "fields": [{"name": "Street", "type": "string"}, {"name": "noOf", "type": "short"}]}
_DECLARED = "__CHAR_VARCHAR_TYPE_STRING"


@pytest.mark.parametrize(
    ("kind", "declared", "simple", "shown"),
    [
        ("long", None, "bigint", "BIGINT"),
        ("decimal(10,2)", None, "decimal(10,2)", "DECIMAL(10,2)"),
        ("string", "varchar(7)", "varchar(7)", "VARCHAR(7)"),
        (_STRUCT, None, "struct<Street:string,noOf:smallint>", "STRUCT<Street:STRING,noOf:SMALLINT>"),
        (_STRUCT, "struct<Street:char(3),noOf:smallint>", "struct<Street:char(3),noOf:smallint>",
         "STRUCT<Street:STRING,noOf:SMALLINT>"),
        ({"type": "map", "keyType": "integer", "valueType": {"type": "array", "elementType": _STRUCT}}, None,
         "map<int,array<struct<Street:string,noOf:smallint>>>", "MAP<INT,ARRAY<STRUCT<Street:STRING,noOf:SMALLINT>>>"),
    ],
)  # fmt: skip
def test_column_type_name_is_in_capitals_but_for_names_of_fields(
    kind: Any, declared: str | None, simple: str, shown: str
) -> None:
    field = {"name": "c", "type": kind, "nullable": False, "metadata": {_DECLARED: declared} if declared else {}}
    (found,) = columns_in(Relation("c", "s", "t", "TABLE", "", lambda: json.dumps({"fields": [field]})))
    assert (found.type, found.type_name, found.nullable) == (simple, shown, False)
