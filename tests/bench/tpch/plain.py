"""Spark itself for tpch.py: `spark.sql(...).collect()` in a process of its own.

Reads texts from its input, one JSON string a line, and answers each with its seconds and its rows on one line. Configuration: first argument.
"""

from __future__ import annotations

import json
import sys
import time

from pyspark.sql import SparkSession


def main(conf: dict[str, str]) -> None:
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    for line in sys.stdin:
        sql = json.loads(line)
        began = time.perf_counter()
        rows = spark.sql(sql).collect()
        seconds = time.perf_counter() - began
        print(json.dumps({"seconds": seconds, "rows": [[*row] for row in rows]}, default=str), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
