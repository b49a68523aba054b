"""Spark's types as logical types: what clients read as it is, what goes out as text, and what no text may break."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.gateway.frontends.rest.models import MAX_LENGTH, TypeRoot
from sparksql.gateway.frontends.rest.types import STRING, arrow_type, logical_type

INT = {"type": "INTEGER", "nullable": True}
TEXT = {"type": "VARCHAR", "nullable": True, "length": MAX_LENGTH}

READABLE: dict[str, dict[str, Any]] = {
    "boolean": {"type": "BOOLEAN"},
    "tinyint": {"type": "TINYINT"},
    "smallint": {"type": "SMALLINT"},
    "int": {"type": "INTEGER"},
    "bigint": {"type": "BIGINT"},
    "float": {"type": "FLOAT"},
    "double": {"type": "DOUBLE"},
    "decimal(10,2)": {"type": "DECIMAL", "precision": 10, "scale": 2},
    "string": {"type": "VARCHAR", "length": MAX_LENGTH},
    "string collate UTF8_LCASE": {"type": "VARCHAR", "length": MAX_LENGTH},
    "char(5)": {"type": "CHAR", "length": 5},
    "varchar(10)": {"type": "VARCHAR", "length": 10},
    "binary": {"type": "VARBINARY", "length": MAX_LENGTH},
    "date": {"type": "DATE"},
    "timestamp": {"type": "TIMESTAMP_WITH_LOCAL_TIME_ZONE", "precision": 6},
    "timestamp_ntz": {"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 6},
    "array<int>": {"type": "ARRAY", "elementType": INT},
    "map<string,int>": {"type": "MAP", "keyType": {**TEXT, "nullable": False}, "valueType": INT},
    "struct<x:int,y:string>": {
        "type": "ROW",
        "fields": [{"name": "x", "fieldType": INT}, {"name": "y", "fieldType": TEXT}],
    },
    "struct<>": {"type": "ROW", "fields": []},
    "struct<a b:int>": {"type": "ROW", "fields": [{"name": "a b", "fieldType": INT}]},
    "array<struct<x:array<int>>>": {
        "type": "ARRAY",
        "elementType": {
            "type": "ROW",
            "nullable": True,
            "fields": [{"name": "x", "fieldType": {"type": "ARRAY", "nullable": True, "elementType": INT}}],
        },
    },
}

AS_TEXT = [
    "void",
    "interval year to month",
    "interval day to second",
    "interval",
    "variant",
    "time(6)",
    "geometry(4326)",
    "map<int,string>",
    "map<struct<a:string>,int>",
    "array<map<date,int>>",
    "struct<a:void>",
    "struct<a:interval day>",
    "array<variant>",
    "com.example.PointUDT",
    "decimal(10)",
    "decimal(10,2",
    "array<int",
    "array<int>>",
    "struct<a:int,b>",
    "",
]


@pytest.mark.parametrize("spark_type", READABLE)
def test_a_type_that_clients_can_read_stays_what_it_is(spark_type: str) -> None:
    assert json.loads(logical_type(spark_type).to_json()) == {"nullable": True, **READABLE[spark_type]}


@pytest.mark.parametrize("spark_type", AS_TEXT)
def test_a_type_that_some_client_cannot_read_goes_out_as_text(spark_type: str) -> None:
    assert logical_type(spark_type) == STRING


@given(st.text(st.sampled_from("array<>map,struct:int()5string "), max_size=40))
def test_every_text_has_a_type(spark_type: str) -> None:
    found = logical_type(spark_type)
    assert found.type in TypeRoot
    arrow_type(found)


def test_a_type_nested_without_end_is_text() -> None:
    depth = 5000
    assert logical_type("array<" * depth + "int" + ">" * depth) == STRING


@pytest.mark.parametrize("spark_type", READABLE)
def test_an_empty_page_has_a_type_for_each_column(spark_type: str) -> None:
    simple = {
        "int": "int32",
        "string": "string",
        "timestamp": "timestamp[us, tz=UTC]",
        "decimal(10,2)": "decimal128(10, 2)",
    }
    shown = str(arrow_type(logical_type(spark_type)))
    assert shown == simple.get(spark_type, shown)
