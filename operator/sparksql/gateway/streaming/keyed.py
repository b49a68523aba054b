"""The target of a stream with `spec.streaming.upsert`, and what brings batches into it by its keys."""

from __future__ import annotations

from sparksql.api.execution import Upsert
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.shapes import Dataset, JvmSession
from sparksql.gateway.streaming.insert import ParsedInsert
from sparksql.gateway.streaming.kafka.keyed_sink import topic_writer
from sparksql.gateway.streaming.kafka.sink import topic_of
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
    writer = _writer(driver, session, parsed, options)
    writer.check(session, frame)
    return writer


def _writer(driver: SparkDriver, session: JvmSession, parsed: ParsedInsert, options: Upsert) -> BatchWriter:
    topic = topic_of(driver, session, parsed.insert)
    if topic is not None:
        return topic_writer(driver, topic, options)
    table = session.table(parsed.name).logicalPlan()
    in_database = database_writer(driver, options, table)
    return in_database or MergeWriter(driver, options, upsert_target(parsed.name, table))
