"""Of which format a table is that Spark's catalogs load through a library: by the package of its class.

A library keeps its classes in packages of its own, and only its own: Iceberg has several kinds of tables below one, and gives
them no common type but Spark's. A class whose name only contains the word is another library's.
"""

from __future__ import annotations

from typing import Any

_ICEBERG = "org.apache.iceberg."  # https://iceberg.apache.org/javadoc/1.10.0/
_DELTA = "org.apache.spark.sql.delta."  # https://docs.delta.io/latest/api/scala/spark/


def is_iceberg(table: Any) -> bool:
    """Returns whether a connector's table is one of Iceberg's."""
    return _class_name(table).startswith(_ICEBERG)


def is_delta(table: Any) -> bool:
    """Returns whether a connector's table is one of Delta's."""
    return _class_name(table).startswith(_DELTA)


def _class_name(table: Any) -> str:
    return str(table.getClass().getName())
