"""Spark's own floor for statements.py: `spark.sql(...).collect()` in a process of its own, in as many threads as asked.

Reads commands from its input, one JSON object a line, and answers each with one on its output. Configuration: first argument.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import SparkSession


def main(conf: dict[str, str]) -> None:
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()

    def millis(sql: str) -> float:
        began = time.perf_counter()
        spark.sql(sql).collect()
        return (time.perf_counter() - began) * 1000

    for line in sys.stdin:
        asked = json.loads(line)
        with ThreadPoolExecutor(asked["clients"]) as pool:
            found = [*pool.map(millis, [asked["sql"]] * asked["count"])]
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
