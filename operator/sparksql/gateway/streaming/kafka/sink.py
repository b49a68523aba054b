"""INSERT INTO a table `USING kafka`, which Spark refuses: its query as records of the topic, for a batch and for a stream."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.plans import span_of
from sparksql.gateway.spark.scala import elements
from sparksql.gateway.spark.shapes import Dataset, JvmSession
from sparksql.gateway.sql.errors import StatementError
from sparksql.gateway.sql.relations import given_options, is_view, metadata_of, provider_of
from sparksql.gateway.streaming.columns import aligned, check_count
from sparksql.gateway.streaming.kafka.options import PROVIDER, KafkaTable, ValueFormat, is_kafka
from sparksql.gateway.streaming.kafka.tables import kafka_table
from sparksql.gateway.streaming.kafka.values import encoded

_SINK_COLUMNS = ("key", "value", "headers", "topic", "partition")


def topic_of(driver: SparkDriver, session: JvmSession, insert: Any) -> Topic | None:
    """Returns the topic that a parsed InsertIntoStatement writes, None for any other target. Raises StatementError."""
    relation = insert.table()
    metadata = metadata_of(driver.jvm, session, relation)
    if metadata is None or not is_kafka(provider_of(metadata)):
        return None
    table = kafka_table(metadata, given_options(relation), driver.policy, streaming=False)
    if insert.overwrite():
        raise table.invalid("INSERT OVERWRITE is not possible, a topic is only added to: use INSERT INTO")
    if not insert.partitionSpec().isEmpty():
        raise table.invalid(
            "it has no PARTITION; give the column `partition` to choose the topic's partition of a record"
        )
    if (problem := table.read_only) is not None:
        raise table.invalid(problem)
    return Topic(driver, session, insert, table, is_view(metadata))


@dataclass(frozen=True)
class Topic:
    """The target of one INSERT."""

    driver: SparkDriver = field(repr=False)
    session: JvmSession = field(repr=False)
    insert: Any = field(repr=False)
    table: KafkaTable
    is_view: bool

    def command(self, frame: Dataset) -> Any:
        """Returns the plan that writes an analysed query's Dataset.

        For a streaming Dataset it is the streaming plan, which no batch can run.
        """
        records = self.records(frame)
        if frame.isStreaming():
            return records.logicalPlan()
        jvm = self.driver.jvm
        nothing, none = jvm.PythonUtils.toSeq([]), jvm.scala.Option.apply(None)
        options = jvm.PythonUtils.toScalaMap(self.options(records))
        schema = [none] if self.driver.version >= (4, 2) else []  # where the user's schema comes from: none is given
        source = jvm.org.apache.spark.sql.execution.datasources.DataSource(
            self.session, PROVIDER, nothing, none, nothing, none, options, none, *schema
        )
        return source.planForWriting(jvm.org.apache.spark.sql.SaveMode.Append, records.logicalPlan())

    def stream(self, frame: Dataset) -> RecordStream:
        """Returns what a streaming query's writer is made from."""
        self.check_stream()
        records = self.records(frame)
        return RecordStream(records, self.options(records))

    def check_stream(self) -> None:
        """Raises StatementError for what no stream can write."""
        if self.is_view:
            raise self.table.invalid(
                "it is a temporary view: a stream writes into tables, CREATE TABLE ... USING kafka"
            )

    def records(self, frame: Dataset) -> Any:
        """Returns an analysed query's Dataset as records of the topic. Raises StatementError."""
        if self.table.format is ValueFormat.RAW:
            return self._named(frame)
        jvm, struct = self.driver.jvm, self.driver.jvm.org.apache.spark.sql.types.StructType()
        for column in self.table.written_columns:
            struct = struct.add(column.name, column.type)
        target = self.session.createDataFrame(jvm.java.util.ArrayList(), struct).logicalPlan()
        rows = aligned(self.driver, self.session, self.insert, self.table.name, frame, target)
        return encoded(jvm, self.session, self.table, rows)

    def _named(self, frame: Dataset) -> Any:
        """A query for a table without declared columns, whose columns are known by their names alone."""
        names = [str(name) for name in elements(self.insert.userSpecifiedCols())]
        if names:
            check_count(names, [str(name) for name in frame.columns()], span_of(self.insert.query()))
            frame = frame.toDF(self.driver.jvm.PythonUtils.toSeq(names))
        found = [str(name).lower() for name in frame.columns()]
        others = [name for name in found if name not in _SINK_COLUMNS]
        if others or "value" not in found:
            raise self._unnamed(others)
        return frame

    def _unnamed(self, others: list[str]) -> StatementError:
        problem = f"of which {', '.join(others)} are not known" if others else "of which value must be there"
        return self.table.invalid(
            f"an INSERT gives columns named {', '.join(_SINK_COLUMNS)}, {problem}: name them, "
            "INSERT INTO t (key, value) SELECT ... or SELECT ... AS value"
        )

    def options(self, records: Any) -> dict[str, str]:
        """Returns options for Spark's Kafka sink; without a topic when each record names its own."""
        options = self.table.writing()
        if "topic" in [str(name).lower() for name in records.columns()]:
            return options
        topic = self.table.option("topic") or self.table.option("subscribe") or ""
        if not topic or "," in topic:
            raise self.table.invalid("option 'topic' must name the topic that is written to")
        return {**options, "topic": topic.strip()}


@dataclass(frozen=True)
class RecordStream:
    """Does what the start of a stream asks of a Dataset, for one with records.

    Its writer knows where they go, because Spark's `toTable` reads no options of a table.
    """

    records: Any
    options: dict[str, str] = field(repr=False)

    def queryExecution(self) -> Any:
        """Returns the QueryExecution of the records."""
        return self.records.queryExecution()

    def writeStream(self) -> Any:
        """Returns a writer of the records that knows their topic."""
        writer = self.records.writeStream().format(PROVIDER)
        for key, value in self.options.items():
            writer = writer.option(key, value)
        return writer
