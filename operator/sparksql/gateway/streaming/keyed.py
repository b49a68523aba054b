"""The target of a stream with `spec.streaming.upsert`, and what brings batches into it by its keys."""

from __future__ import annotations

from collections.abc import Sequence

from sparksql.api.execution import Upsert
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.scala import elements
from sparksql.gateway.spark.shapes import Dataset, JvmSession
from sparksql.gateway.streaming.insert import ParsedInsert
from sparksql.gateway.streaming.kafka.keyed_sink import topic_writer
from sparksql.gateway.streaming.kafka.sink import topic_of
from sparksql.gateway.streaming.source_keys import inferred_keys
from sparksql.gateway.streaming.upsert.batch import BatchWriter, invalid
from sparksql.gateway.streaming.upsert.jdbc import database_writer
from sparksql.gateway.streaming.upsert.merge import MergeWriter
from sparksql.gateway.streaming.upsert.target import upsert_target


def keyed_writer(
    driver: SparkDriver, session: JvmSession, parsed: ParsedInsert, frame: Dataset, options: Upsert
) -> BatchWriter:
    """Returns what writes the batches of a parsed INSERT's query. Raises StatementError, or what Spark throws."""
    if not parsed.is_plain:
        raise invalid("", "columns are matched by name: leave the column list and PARTITION out")
    writer = _writer(driver, session, parsed, frame, options)
    writer.check(session, frame)
    return writer


def _writer(
    driver: SparkDriver, session: JvmSession, parsed: ParsedInsert, frame: Dataset, options: Upsert
) -> BatchWriter:
    topic = topic_of(driver, session, parsed.insert)
    if topic is not None:
        return topic_writer(
            driver, topic, _keyed(driver, options, frame, [c.name for c in topic.table.written_columns])
        )
    table = session.table(parsed.name).logicalPlan()
    keyed = _keyed(driver, options, frame, [str(column.name()) for column in elements(table.output())])
    in_database = database_writer(driver, keyed, table)
    return in_database or MergeWriter(driver, keyed, upsert_target(parsed.name, table))


def _keyed(driver: SparkDriver, options: Upsert, frame: Dataset, columns: Sequence[str]) -> Upsert:
    """The options with keys: those of the query if the spec has none."""
    return options.replace(keys=options.keys or inferred_keys(driver.jvm, frame.queryExecution().analyzed(), columns))
