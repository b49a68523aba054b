"""A gateway with the connectors of the session's image, Hive support, Delta's session catalog and a catalog `lake` of Iceberg."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sparksql.gateway.jvm import CLASS_PATH_FILE_ENV, spark_home

from .maven import jars
from .process import GatewayProcess, running


@contextmanager
def running_with_connectors(folder: Path) -> Iterator[GatewayProcess]:
    """The gateway, which ends with the block."""
    connectors = jars("images/session/jars/pom.xml", "-Dspark.line=4.1")
    class_path = folder / "classpath"
    class_path.write_text(":".join([*sorted(map(str, (spark_home() / "jars").glob("*.jar"))), *connectors]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CLASS_PATH_FILE_ENV, str(class_path))
        with running(folder, spark_conf=_conf(folder)) as started:
            yield started


def _conf(folder: Path) -> dict[str, str]:
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:memory:{folder.name};create=true",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions,"
        "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",  # the default of 50 is for tables of another size
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": f"file://{folder}/lake",
    }
