"""The other side of streaming.py: plain PySpark with `writeStream.toTable`, in a process of its own.

Reads commands from its input, one JSON object a line, and answers each with one on its output. Configuration: first argument.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession, functions

from sparksql.gateway.streaming.checkpoints.savepoint import Owner, Savepoints

POLL_SECONDS = 0.02
STATE_FILE_MIB = 4


class Plain:
    """One Spark, and the query that was started last."""

    def __init__(self, conf: dict[str, str]) -> None:
        builder = SparkSession.builder
        for key, value in conf.items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        self.query: Any = None

    def throughput(self, *, source: str, target: str, checkpoint: str, files: int) -> dict[str, Any]:
        """Reads what is there, in batches of so many files, to the end."""
        began = time.perf_counter()
        stream = self.spark.readStream.schema("ts TIMESTAMP, k INT, x DOUBLE").option("maxFilesPerTrigger", files)
        window = functions.window("ts", "10 seconds")
        frame = (
            stream.parquet(source)
            .withWatermark("ts", "10 minutes")
            .groupBy(window, "k")
            .agg(functions.count("*").alias("n"), functions.sum("x").alias("total"))
            .select("window.start", "k", "n", "total")
        )
        writer = frame.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        writer.toTable(target).awaitTermination()
        return {"seconds": time.perf_counter() - began}

    def start(self, *, source: str, target: str, checkpoint: str, millis: int) -> dict[str, Any]:
        frame = self.spark.readStream.schema("n BIGINT").json(source).select("n")
        writer = frame.writeStream.option("checkpointLocation", checkpoint)
        self.query = writer.trigger(processingTime=f"{millis} milliseconds").toTable(target)
        return {}

    def stop(self) -> dict[str, Any]:
        while self.query.isActive and self.query.status["isTriggerActive"]:
            time.sleep(POLL_SECONDS)
        self.query.stop()
        return {}

    def count(self, *, table: str) -> dict[str, Any]:
        return {"rows": self.spark.table(table).count()}

    def savepoint(self, *, folder: str, mebibytes: int) -> dict[str, Any]:
        """Makes a checkpoint with so much state, and copies it."""
        checkpoint, target = Path(folder) / "checkpoint", Path(folder) / "savepoint"
        for name, text in {"metadata": json.dumps({"id": "q"}), "offsets/0": "v1", "commits/0": "v1"}.items():
            (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
            (checkpoint / name).write_text(text)
        state = checkpoint / "state" / "0"
        for number in range(mebibytes // STATE_FILE_MIB):
            (state / str(number)).mkdir(parents=True)
            (state / str(number) / "1.snapshot").write_bytes(bytes(STATE_FILE_MIB << 20))
        savepoints = Savepoints(self.spark._jvm, self.spark.sparkContext._jsc.hadoopConfiguration(), self.spark.version)
        began = time.perf_counter()
        manifest = savepoints.take(checkpoint.as_uri(), target.as_uri(), Owner("uid", "team-a", "bench"))
        return {"seconds": time.perf_counter() - began, "bytes": manifest.size_bytes}


def main() -> None:
    answers = sys.stdout
    sys.stdout = sys.stderr
    plain = Plain(json.loads(sys.argv[1]))
    print("{}", file=answers, flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        answer = getattr(plain, command.pop("do"))(**command)
        print(json.dumps(answer), file=answers, flush=True)
    plain.spark.stop()


if __name__ == "__main__":
    main()
