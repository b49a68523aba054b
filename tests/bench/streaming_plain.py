"""The other side of streaming.py: plain PySpark with `writeStream.toTable`, in a process of its own.

Reads commands from its input, one JSON object a line, and answers each with one on its output. Configuration: first argument.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession, functions

from sparksql.gateway.streaming.checkpoints.savepoint import Owner, Savepoints

POLL_SECONDS = 0.02
STATE_FILE_MIB = 4
FORWARDED = "concat(CAST(value AS STRING), ' ', unix_millis(timestamp)) AS value"


class Plain:
    """One Spark, and the query that was started last."""

    def __init__(self, conf: dict[str, str]) -> None:
        builder = SparkSession.builder
        for key, value in conf.items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        self.query: Any = None
        self.producer: Any = None

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

    def topic(self, *, servers: str, name: str) -> dict[str, Any]:
        """Makes a topic of one partition in which the time of a record is that at which the broker has it."""
        jvm = self.spark._jvm
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create({"bootstrap.servers": servers})
        made = jvm.org.apache.kafka.clients.admin.NewTopic(name, 1, 1)
        admin.createTopics([made.configs({"message.timestamp.type": "LogAppendTime"})]).all().get()
        admin.close()
        return {}

    def send(self, *, servers: str, topic: str, value: str) -> dict[str, Any]:
        jvm = self.spark._jvm
        if self.producer is None:
            text = "org.apache.kafka.common.serialization.StringSerializer"
            conf = {"bootstrap.servers": servers, "key.serializer": text, "value.serializer": text}
            self.producer = jvm.org.apache.kafka.clients.producer.KafkaProducer(conf)
        self.producer.send(jvm.org.apache.kafka.clients.producer.ProducerRecord(topic, value)).get()
        return {}

    def forward(self, *, servers: str, topic: str, sink: dict[str, str], millis: int) -> dict[str, Any]:
        """Starts a query from a topic; `sink` are the options of its writer, and the table that it writes, if it does."""
        read = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
        frame = self.spark.readStream.format("kafka").options(**read).load()
        table = sink.pop("table", None)
        columns = ["timestamp AS event", "CAST(value AS STRING) AS n"] if table else [FORWARDED]
        writer = frame.selectExpr(*columns).writeStream.trigger(processingTime=f"{millis} milliseconds").options(**sink)
        self.query = writer.toTable(table) if table else writer.format("kafka").start()
        return {}

    def phases(self) -> dict[str, Any]:
        """Medians of the phases of batches with rows, milliseconds."""
        found: dict[str, list[int]] = {}
        for report in self.query.recentProgress:
            for phase, millis in report["durationMs"].items() if report["numInputRows"] else ():
                found.setdefault(phase, []).append(millis)
        return {phase: statistics.median(each) for phase, each in found.items()}

    def sql(self, *, text: str) -> dict[str, Any]:
        return {"rows": [list(row) for row in self.spark.sql(text).collect()]}

    def records(self, *, servers: str, topic: str) -> dict[str, Any]:
        """Texts and times of all records of a topic."""
        frame = self.spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
        rows = frame.load().selectExpr("CAST(value AS STRING)", "unix_millis(timestamp)").collect()
        return {"rows": [list(row) for row in rows]}

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
