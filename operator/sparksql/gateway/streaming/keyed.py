"""The target of a stream with `spec.streaming.upsert`, and what brings batches into it by its keys."""

from __future__ import annotations

from sparksql.api.execution import Upsert
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.shapes import Dataset, JvmSession
from sparksql.gateway.sql.classifier import Classifier
from sparksql.gateway.streaming.insert import ParsedInsert
from sparksql.gateway.streaming.upsert.batch import BatchWriter, invalid
from sparksql.gateway.streaming.upsert.merge import MergeWriter, check_upsert
from sparksql.gateway.streaming.upsert.target import upsert_target


def keyed_writer(
    driver: SparkDriver, session: JvmSession, parsed: ParsedInsert, frame: Dataset, options: Upsert
) -> BatchWriter:
    """Returns what writes the batches of a parsed INSERT's query. Raises StatementError, or what Spark throws."""
    if not parsed.is_plain:
        raise invalid("", "columns are matched by name: leave the column list and PARTITION out")
    classifier = Classifier(driver.jvm, session, driver.policy)
    target = upsert_target(parsed.name, session.table(parsed.name).logicalPlan())
    check_upsert(driver.jvm, classifier, session, options, target, frame)
    writer = MergeWriter(driver, options, target)
    writer.check(session)
    return writer
