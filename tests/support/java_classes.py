"""The class path of a driver as the session image has it: our own jar before Spark's, connectors behind them."""

from __future__ import annotations

import fnmatch
import runpy
from collections.abc import Sequence

from sparksql.gateway.spark.jvm import spark_home
from tests.support.maven import REPOSITORY, session_jar

_BUILD = REPOSITORY / "images/session/build/spark_home.py"


def class_path(connectors: Sequence[str] = ()) -> str:
    """One line, for the file that `$SPARKSQL_JAVA_CLASSPATH_FILE` names."""
    left_out: tuple[str, ...] = runpy.run_path(str(_BUILD))["CLIENT_JARS"]
    jars = (spark_home() / "jars").glob("*.jar")
    sparks = sorted(str(jar) for jar in jars if not any(fnmatch.fnmatch(jar.name, pattern) for pattern in left_out))
    return ":".join([session_jar(), *sparks, *connectors])
