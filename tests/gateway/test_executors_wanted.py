"""The number of executors that Spark asks for, of a real backend with executors of its own."""

from __future__ import annotations

import subprocess
import sys

# Of a process of its own: a process has one Spark, and that of the tests has no executors.
PROGRAM = """
from pyspark.sql import SparkSession
from sparksql.gateway.spark.executors import executors_wanted

conf = {"spark.master": "local-cluster[1,1,512]", "spark.executor.memory": "512m", "spark.ui.enabled": "false"}
builder = SparkSession.builder
for key, value in conf.items():
    builder = builder.config(key, value)
session = builder.getOrCreate()
context = session.sparkContext._jsc.sc()
before = executors_wanted(context)
context.requestExecutors(2)
print("WANTED", before, executors_wanted(context), flush=True)
session.stop()
"""


def test_wanted_executors_are_those_that_the_backend_was_asked_for() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300, check=False)
    assert "WANTED None 2" in done.stdout, done.stderr[-2000:]
