"""Runs a JVM through what the image's training does, without pods, so that it knows Spark's classes when it ends.

Usage: train_classes.py FOLDER JAVA OPTION...
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from sparksql.gateway.spark.jvm import spark_home

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "images/session/train"))
os.environ["SPARK_HOME"] = str(spark_home())

import workload  # noqa: E402


def main(folder: Path, java: list[str]) -> None:
    with workload.driver_jvm(java, folder):
        from pyspark.sql import SparkSession  # it reads where the JVM is when it is imported

        builder = SparkSession.builder.enableHiveSupport().master("local[2]")
        settings = {
            "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:memory:training;create=true",
            "spark.sql.warehouse.dir": f"file:{folder}/warehouse",
            "spark.sql.shuffle.partitions": "2",
            "spark.app.name": "training",
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": "0",
        }
        for key, value in settings.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        for query in workload.QUERIES:
            spark.sql(query).collect()
        workload.run_stream(spark, folder)
        spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
