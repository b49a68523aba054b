"""Which clients there are, how each shows values, and what each cannot show whatever the server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.conformance import printing, programs
from tests.conformance.clients import install
from tests.conformance.printing import Printing
from tests.conformance.programs import Run
from tests.conformance.queries import Need
from tests.conformance.target import Target

Start = Callable[[Target, Path, str], Run]


@dataclass(frozen=True)
class Suite:
    """A client that runs the whole query set. `lacks` says why a query is left out; `protocol` is what it speaks."""

    start: Start
    shows: Printing
    protocol: str
    lacks: Mapping[Need, str] = field(default_factory=dict)
    has_failures: bool = True


_FLINK_SQL_CLIENT = {Need.CONTROL_CHARACTERS: "a table of text cannot hold line ends"}
_BEELINE = {
    Need.CONTROL_CHARACTERS: "csv2 drops line ends",
    Need.COMMENTS: "statements end at a semicolon, in comments too",
}
_FLINK_JDBC = {
    Need.ARRAYS: "the driver's getObject knows no arrays",
    Need.STRUCTS: "the driver's getObject knows no rows",
    Need.OTHER_KEYS: "the driver reads maps with string keys only",
}
_FLINK_JDBC_OLD = {**_FLINK_JDBC, Need.DATES: "the driver of 1.18 has no getters of dates and timestamps"}
_NODE = {
    Need.LONG_INTEGERS: "JavaScript's numbers",
    Need.DUPLICATE_NAMES: "the driver's rows are objects by column name",
}
_CONNECT = {Need.INTERVALS: "the client cannot convert year-month intervals"}

SUITES: Mapping[str, Suite] = {
    "flink-sql-client": Suite(
        programs.FlinkSqlClient(install.FLINK_SQL_CLIENT), printing.flink_text, "rest", _FLINK_SQL_CLIENT, False
    ),
    "flink-sql-client-old": Suite(
        programs.FlinkSqlClient(install.FLINK_SQL_CLIENT_OLD, "/compat"),
        printing.flink_text,
        "rest",
        _FLINK_SQL_CLIENT,
        False,
    ),
    "flink-jdbc": Suite(programs.flink_jdbc(install.FLINK_JDBC, old=False), printing.flink_jdbc, "rest", _FLINK_JDBC),
    "flink-jdbc-old": Suite(
        programs.flink_jdbc(install.FLINK_JDBC_OLD, old=True), printing.flink_jdbc, "rest", _FLINK_JDBC_OLD
    ),
    "beeline": Suite(programs.beeline, printing.beeline, "thrift", _BEELINE),
    "pyhive": Suite(programs.pyhive, printing.dbapi, "thrift"),
    "impyla": Suite(programs.impyla, printing.impyla, "thrift"),
    "hive-driver": Suite(programs.hive_driver, printing.node, "thrift", _NODE),
    "pyspark-client": Suite(programs.connect(install.CONNECT), printing.connect, "connect", _CONNECT),
    "pyspark-client-old": Suite(programs.connect(install.CONNECT_OLD), printing.connect, "connect", _CONNECT),
}
OTHERS: Mapping[str, Start] = {"dbt": programs.dbt}


def database(client: str) -> str:
    return f"conformance_{client.replace('-', '_')}"
