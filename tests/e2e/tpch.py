"""TPC-H data for the cluster and for DuckDB: the same files, so that both must give the same answers."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

from tests.support.harness import OPERATOR_NAMESPACE, Cluster

SCALE_FACTOR = "0.05"
BUCKET = "tpch"
STORE = "deployment/spark-sql-operator-objectstore"
QUERIES = sorted(Path(__file__).parent.joinpath("tpch").glob("q*.sql"))
RELATIVE_TOLERANCE = 1e-6


def generate(folder: Path) -> None:
    """One Parquet file for each table."""
    generator = Path(sys.executable).with_name("tpchgen-cli")
    subprocess.run([generator, "parquet", "-s", SCALE_FACTOR, "--output-dir", folder], check=True, timeout=600)


def tables(folder: Path) -> list[str]:
    return sorted(file.stem for file in folder.glob("*.parquet"))


def upload(cluster: Cluster, folder: Path) -> None:
    """Into the object store, which keeps a bucket as a folder: `<bucket>/<table>/<table>.parquet`."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for file in sorted(folder.glob("*.parquet")):
            tar.add(file, arcname=f"{file.stem}/{file.name}")
    extract = ("exec", "--stdin", STORE, "--", "tar", "--extract", "--touch", f"--directory=/data/{BUCKET}")
    cluster.kubectl("--namespace", OPERATOR_NAMESPACE, *extract, stdin=archive.getvalue())


def external_table(table: str) -> str:
    return f"CREATE TABLE IF NOT EXISTS {table} USING parquet LOCATION 's3a://{BUCKET}/{table}'"


def reference(folder: Path) -> duckdb.DuckDBPyConnection:
    """DuckDB over the same files."""
    connection = duckdb.connect(config={"threads": 1})
    for table in tables(folder):
        connection.execute(f"CREATE VIEW {table} AS SELECT * FROM '{folder / table}.parquet'")
    return connection


def typed(row: dict[str, Any], types: Sequence[str]) -> list[Any]:
    """A row of JSON output with decimals and dates as such."""
    cells: list[Any] = []
    for value, type_ in zip(row.values(), types, strict=True):
        if value is None:
            cells.append(None)
        elif type_.startswith("decimal("):
            cells.append(Decimal(value))
        elif type_ == "date":
            cells.append(date.fromisoformat(value))
        else:
            cells.append(value)
    return cells


def difference(actual: Sequence[Sequence[Any]], expected: Sequence[Sequence[Any]], types: Sequence[str]) -> str:
    """What is not equal, row by row in order; empty when nothing is."""
    if len(actual) != len(expected):
        return f"{len(actual)} rows instead of {len(expected)}"
    for number, (mine, theirs) in enumerate(zip(actual, expected, strict=True)):
        if len(mine) != len(theirs) or not all(map(_same, mine, theirs, types)):
            return f"row {number} is {mine} instead of {theirs}"
    return ""


def _same(mine: Any, theirs: Any, type_: str) -> bool:
    numbers = (int, float, Decimal)
    if not isinstance(mine, numbers) or not isinstance(theirs, numbers):
        return bool(mine == theirs)
    # Where DuckDB has a double, Spark may have a decimal, which is right to half of its last digit.
    digit = 10.0 ** -int(type_.rstrip(")").split(",")[1]) if type_.startswith("decimal(") else 0.0
    return abs(float(mine) - float(theirs)) <= max(RELATIVE_TOLERANCE * abs(float(theirs)), digit / 2 * 1.0001)
