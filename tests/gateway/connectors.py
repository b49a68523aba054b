"""A gateway with the connectors of the session's image, Hive support, Delta's session catalog and a catalog `lake` of Iceberg."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.default_class import class_path
from tests.support.process import GatewayProcess, running


@contextmanager
def running_with_connectors(folder: Path, optimised: bool = False) -> Iterator[GatewayProcess]:
    """The gateway, which ends with the block. `optimised` is for tests that compute for long, see `java_options`."""
    with class_path(folder), running(folder, optimised, spark_conf=conf(folder)) as started:
        yield started


def conf(folder: Path) -> dict[str, str]:
    """Settings of a Spark with these jars."""
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:memory:{folder.name};create=true",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions,"
        "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",  # the default of 50 is for tables of another size
        **iceberg_catalog("lake", folder),
    }


def iceberg_catalog(name: str, folder: Path) -> dict[str, str]:
    """Settings of a catalog beside Spark's own, with its tables below the folder."""
    key = f"spark.sql.catalog.{name}"
    return {
        key: "org.apache.iceberg.spark.SparkCatalog",
        f"{key}.type": "hadoop",
        f"{key}.warehouse": f"file://{folder}/{name}",
    }
