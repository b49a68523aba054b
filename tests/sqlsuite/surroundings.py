"""The suite's own tables and functions, and the settings of its files, as far as SQL can make them.

What Spark's suite makes in Scala is made by statements here. `udf` gives back its argument, by whichever function of Hive's does;
functions of Python's that the suite registers (`udaf`, the table functions) cannot come by SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

ZONE = "America/Los_Angeles"
# Of a session of Spark's tests. The rule computes rows while it plans, on one task: numbers that are drawn would be others.
SESSION = {
    "spark.sql.session.timeZone": ZONE,
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.geospatial.enabled": "true",
}
DATA = "test-data/postgresql/"
_UNIQUE = (
    "unique1 INT, unique2 INT, two INT, four INT, ten INT, twenty INT, hundred INT, thousand INT, twothousand INT,"
    " fivethous INT, tenthous INT, odd INT, even INT, stringu1 STRING, stringu2 STRING, string4 STRING"
)
_LOADED = {"aggtest": ("agg.data", "a INT, b FLOAT"), "onek": ("onek.data", _UNIQUE), "tenk1": ("tenk.data", _UNIQUE)}
_MAPS = ", ".join(
    "(map("
    + ", ".join(f"{key}, '{letter}{row}'" for key, letter in zip(range(1, 7 - row), "abcde", strict=False))
    + "))"
    for row in range(1, 6)
)
TABLES: Mapping[str, str] = {
    "testdata": "SELECT /*+ REPARTITION(1) */ CAST(id AS INT) AS key, CAST(id AS STRING) AS value FROM range(1, 101)",
    "arraydata": "VALUES (array(1, 2, 3), array(array(1, 2, 3))), (array(2, 3, 4), array(array(2, 3, 4))) AS t(arraycol, nestedarraycol)",
    "mapdata": f"VALUES {_MAPS} AS t(mapcol)",
    **{name: f"SELECT * FROM {name}_file" for name in _LOADED},
}
_IDENTITY = "CREATE TEMPORARY FUNCTION udf AS 'org.apache.hadoop.hive.ql.udf.generic.GenericUDFCoalesce'"
_POSTGRESQL = (
    "CREATE TEMPORARY FUNCTION booleq(b1 BOOLEAN, b2 BOOLEAN) RETURNS BOOLEAN RETURN b1 = b2",
    "CREATE TEMPORARY FUNCTION boolne(b1 BOOLEAN, b2 BOOLEAN) RETURNS BOOLEAN RETURN b1 <> b2",
    "CREATE TEMPORARY FUNCTION vol(s STRING) RETURNS STRING RETURN s",
)


def tables_in(statements: Iterable[str]) -> list[str]:
    """Returns the suite's tables that are named in statements."""
    text = "\n".join(statements).lower()
    return [name for name in TABLES if re.search(rf"\b{name}\b", text)]


def making_tables(names: Iterable[str], data: Path) -> list[str]:
    """Returns the statements that make these tables. `data` is the folder with the files of DATA."""
    statements = ["USE default"]
    for name in names:
        if name in _LOADED:
            file, columns = _LOADED[name]
            options = f"(path '{data / file}', delimiter '\\t', header 'false')"
            statements.append(f"CREATE TEMPORARY VIEW {name}_file ({columns}) USING csv OPTIONS {options}")
        statements.append(f"CREATE TABLE {name} USING parquet AS {TABLES[name]}")
    return statements


def settings_of(name: str, asked: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings with which the suite runs a file, those that it asks for last."""
    settings = dict(SESSION)
    if _is_of_postgresql(name):
        settings |= {"spark.sql.ansi.enabled": "true", "spark.sql.legacy.interval.enabled": "true"}
    elif name.startswith("nonansi/"):
        settings |= {"spark.sql.ansi.enabled": "false"}
    elif name.startswith("timestampNTZ/"):
        settings |= {"spark.sql.timestampType": "TIMESTAMP_NTZ"}
    else:
        settings |= {"spark.sql.ansi.enabled": "true"}
    return {**settings, **asked}


def preparing(name: str, asked: Mapping[str, str]) -> list[str]:
    """Returns the statements with which a session of a file begins."""
    statements = ["USE default"]
    if _is_of_postgresql(name):
        statements += _POSTGRESQL
    if name.startswith("udf/"):
        statements.append(_IDENTITY)
    return [*statements, *(f"SET {key}={value}" for key, value in settings_of(name, asked).items())]


def _is_of_postgresql(name: str) -> bool:
    return name.startswith(("postgreSQL/", "udf/postgreSQL/"))
