"""What types are made of, by their classes and not by their texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.types import has_collation, has_times, is_struct

from ..local_spark import local_spark


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    with local_spark(tmp_path_factory.mktemp("spark")) as started:
        yield started


def type_of(driver: SparkDriver, text: str) -> Any:
    return driver.jvm.org.apache.spark.sql.types.StructType.fromDDL(f"c {text}").apply(0).dataType()


@pytest.mark.parametrize(
    ("text", "times", "collation"),
    [
        ("INT", False, False),
        ("TIMESTAMP", True, False),
        ("TIMESTAMP_NTZ", True, False),
        ("STRUCT<timestamp: INT>", False, False),
        ("STRUCT<a: INT, b: ARRAY<TIMESTAMP>>", True, False),
        ("MAP<STRING, STRUCT<t: TIMESTAMP>>", True, False),
        ("STRING", False, False),
        ("VARCHAR(3)", False, False),
        ("STRING COLLATE UTF8_LCASE", False, True),
        ("STRING COLLATE UTF8_BINARY", False, False),
        ("ARRAY<MAP<STRING COLLATE UNICODE_CI, INT>>", False, True),
        ("STRUCT<`string collate`: STRING>", False, False),
    ],
)
def test_type_is_looked_into_by_its_classes(driver: SparkDriver, text: str, times: bool, collation: bool) -> None:
    data_type = type_of(driver, text)
    assert (has_times(data_type), has_collation(data_type)) == (times, collation)


def test_array_of_structs_is_no_struct(driver: SparkDriver) -> None:
    assert is_struct(type_of(driver, "STRUCT<a: INT>")) and not is_struct(type_of(driver, "ARRAY<STRUCT<a: INT>>"))
