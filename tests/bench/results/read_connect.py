"""Reads one result with pyspark-client, as Arrow tables or as rows. Arguments: port, ARROW or ROWS, seconds. Token and SQL are on stdin."""

from __future__ import annotations

import json
import sys

from measuring import Reading
from pyspark.sql import SparkSession


def main(port: int, shape: str, seconds: float) -> None:
    given = json.load(sys.stdin)
    url = f"sc://localhost:{port}/;use_ssl=true;token={given['token']};user_id=bench"
    spark = SparkSession.builder.remote(url).create()
    frame = spark.sql(given["sql"])
    reading = Reading(seconds)
    if shape == "ARROW":
        # Batch by batch, as toArrow reads them, but without keeping them.
        for batch in spark.client.to_table_as_iterator(frame._plan.to_proto(spark.client), {}):
            if hasattr(batch, "num_rows"):
                reading.page(batch.num_rows, batch.column(0)[0].as_py() if batch.num_rows else 0)
            if reading.is_over:
                reading.show(is_complete=False)
                return
    else:
        for number, row in enumerate(frame.toLocalIterator()):
            if number % 1000 == 0:
                reading.page(1000, row[0])
            if reading.is_over:
                reading.show(is_complete=False)
                return
    reading.show(is_complete=True)
    spark.stop()


main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
