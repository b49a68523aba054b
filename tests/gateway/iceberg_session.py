"""Settings of a Spark in which Iceberg's catalog stands before Spark's own, as in the chart's default class."""

from __future__ import annotations

from tests.support.default_class import class_defaults


def iceberg_session(name: str) -> dict[str, str]:
    """Settings, with a metastore in memory of this name."""
    return {
        **class_defaults()["conf"],
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:memory:{name};create=true",
    }
