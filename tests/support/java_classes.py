"""The class path of a driver as the session image has it: our own jar before Spark's, connectors behind them."""

from __future__ import annotations

from collections.abc import Sequence

from sparksql.gateway.spark.jvm import spark_home
from tests.support.maven import session_jar


def class_path(connectors: Sequence[str] = ()) -> str:
    """One line, for the file that `$SPARKSQL_JAVA_CLASSPATH_FILE` names."""
    return ":".join([session_jar(), *sorted(map(str, (spark_home() / "jars").glob("*.jar"))), *connectors])
