"""The class path of local drivers: the session's own classes first, as in the session image, then PySpark's jars."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from sparksql.gateway.spark.jvm import CLASS_PATH_FILE_ENV, JvmError, spark_home
from sparksql.local.instance import Instance, InstanceError

SESSION_JAR = Path(__file__).with_name("session.jar")
"""What is ours in Java, which wheels have. `make local-jar` makes it in a checkout."""


def class_path_environment(instance: Instance, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns the variable that names the class path's file; none where the environment names one already.

    Raises InstanceError without the jar or without PySpark.
    """
    if environment.get(CLASS_PATH_FILE_ENV):
        return {}
    if not SESSION_JAR.is_file():
        raise InstanceError(
            f"{SESSION_JAR} is missing: run `make local-jar` in the checkout, or install a released wheel"
        )
    try:
        jars = sorted(map(str, (spark_home(environment) / "jars").glob("*.jar")))
    except JvmError:
        raise InstanceError(
            "PySpark is missing: install spark-sql-operator with the extra `local` (pip install 'spark-sql-operator[local]')"
        ) from None
    file = instance.folder / "classpath"
    file.write_text(":".join([str(SESSION_JAR), *jars]))
    return {CLASS_PATH_FILE_ENV: str(file)}
