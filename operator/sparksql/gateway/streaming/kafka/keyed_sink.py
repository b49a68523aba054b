"""Changes by key, as records of a topic that keeps the newest record of each key (`cleanup.policy` compact).

A record has the keys as its key and the row as its value, and no value where the key is removed: the broker forgets the key
then. A batch has one record for each key. A batch that runs again writes the same records again, behind those that are there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from sparksql.api.execution import Upsert
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.shapes import Dataset, JvmSession
from sparksql.gateway.sql.classifier import Classifier
from sparksql.gateway.streaming.kafka.options import KEY_COLUMN, PROVIDER, KafkaColumn, KafkaTable, ValueFormat
from sparksql.gateway.streaming.kafka.sink import Topic
from sparksql.gateway.streaming.upsert.batch import check_columns, check_expression, invalid, prepared
from sparksql.gateway.streaming.upsert.names import DELETE, prefixed, quoted

_KEY = "_key"


@dataclass(frozen=True)
class TopicWriter:
    """Writes batches into a topic. `topic` is the INSERT's target, `keys` are columns of it, as it spells them."""

    driver: SparkDriver = field(repr=False)
    topic: Topic
    options: Upsert
    keys: tuple[KafkaColumn, ...]

    def check(self, session: JvmSession, frame: Dataset) -> None:
        """Raises when columns or expressions do not fit: StatementError, or what Spark throws."""
        jvm = self.driver.jvm
        names = self._columns()
        check_columns(self.options, names, frame)
        classifier = Classifier(jvm, session, self.driver.policy)
        for text in filter(None, (self.options.order_by, self.options.delete_when)):
            check_expression(jvm, classifier, session, text, frame)
        batch = frame.selectExpr(jvm.PythonUtils.toSeq([f"{quoted(name)} AS {prefixed(name)}" for name in names]))
        self.topic.options(self._records(self.topic, batch))

    def described(self) -> str:
        """Returns the target and the keys."""
        return f"Upsert into {self.topic.table.name} by ({', '.join(quoted(key.name) for key in self.keys)})"

    def write(self, frame: Dataset, batch_id: int) -> None:
        """Writes one batch. Called in the query's thread."""
        jvm, keys = self.driver.jvm, [column.name for column in self.keys]
        topic = replace(self.topic, session=frame.sparkSession())
        batch = prepared(jvm, self.options, self._columns(), keys, frame).persist()  # read twice
        try:
            rows = self._records(topic, batch.where(f"NOT {DELETE}"))
            deletes = self._records(topic, batch.where(DELETE))
            nothing = jvm.org.apache.spark.sql.functions.lit(None).cast(rows.schema().apply("value").dataType())
            records = rows.union(deletes.withColumn("value", nothing))
            writer = records.write().format(PROVIDER).mode("append")
            for key, value in topic.options(records).items():
                writer = writer.option(key, value)
            writer.save()
        finally:
            batch.unpersist()

    def _columns(self) -> list[str]:
        return [column.name for column in self.topic.table.written_columns]

    def _records(self, topic: Topic, batch: Dataset) -> Any:
        """Records of a batch's rows, with their values."""
        columns = [f"{prefixed(name)} AS {quoted(name)}" for name in self._columns()]
        table = topic.table
        if not has_key(table):
            columns.append(f"{self._key_as_json()} AS {_KEY}")
            key = KafkaColumn(_KEY, self.driver.jvm.org.apache.spark.sql.types.DataTypes.StringType)
            topic = replace(topic, table=replace(table, columns=(*table.columns, key)))
        return topic.records(batch.selectExpr(self.driver.jvm.PythonUtils.toSeq(columns)))

    def _key_as_json(self) -> str:
        """An expression of a record's key where the table says nothing of it: a JSON object of the keys."""
        keys = (f"CAST({prefixed(key.name)} AS {key.type.sql()}) AS {quoted(key.name)}" for key in self.keys)
        return f"to_json(struct({', '.join(keys)}), map('ignoreNullFields', 'false'))"


def topic_writer(driver: SparkDriver, topic: Topic, options: Upsert) -> TopicWriter:
    """Returns what writes changes into a topic. Raises StatementError for keys that are not the table's."""
    topic.check_stream()
    table = topic.table
    if table.format is ValueFormat.RAW:
        raise table.invalid("with spec.streaming.upsert a record's value is a row: declare columns and 'value.format'")
    if options.deleted_retention_seconds is not None:
        raise invalid(
            "deletedRetentionSeconds", "a topic keeps its records itself: see delete.retention.ms of the topic"
        )
    columns = {column.name.lower(): column for column in table.written_columns}
    unknown = [key for key in options.keys if key.lower() not in columns]
    if unknown:
        raise invalid("keys", f"Kafka table {table.name} has no column {unknown[0]} that is written")
    keys = tuple(columns[key.lower()] for key in options.keys)
    written = table.option(KEY_COLUMN) or (_KEY if has_key(table) else None)
    if written is not None and [key.name.lower() for key in keys] != [written.lower()]:
        raise invalid(
            "keys", f"the record's key in Kafka table {table.name} is column {written}: it must be the only key"
        )
    return TopicWriter(driver, topic, options, keys)


def has_key(table: KafkaTable) -> bool:
    """Returns whether a table says itself what the key of its records is."""
    return table.option(KEY_COLUMN) is not None or any(column.name.lower() == _KEY for column in table.columns)
