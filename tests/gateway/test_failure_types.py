"""What the exceptions mean that the clients of a session can throw, each of their jars', against the table beside this file."""

from __future__ import annotations

import csv
from pathlib import Path

from sparksql.wire.failure.sql_states import verdict_of_condition
from sparksql.wire.failure.throwables import RULES
from tests.support import failure_tables
from tests.support.default_class import image_connectors

# Conditions of Spark's Kafka source that pass, in its own words, or may: bounded restarts.
OFFSETS_OF_A_MOMENT = {
    "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_END_OFFSET_AND_PREFETCHED",
    "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET",
    "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_PREFETCHED",
    "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW",
    "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_AVAILABLENOW",
}


def test_each_exception_of_the_clients_has_the_class_of_the_table() -> None:
    text = failure_tables.types(map(Path, image_connectors()))
    assert text == failure_tables.TYPES.read_text(), "python -m tests.support.failure_tables writes the table anew"


def test_each_rule_of_a_client_is_about_a_type_that_exists() -> None:
    with failure_tables.TYPES.open() as table:
        listed = {row["type"] for row in csv.DictReader(table)}
    packages = tuple(package for _, package in failure_tables.OWNERS)
    abstract = {"software.amazon.awssdk.core.exception.SdkClientException"}
    parents = failure_tables.known_supertypes(map(Path, image_connectors()))
    assert {name for name in RULES if name.startswith(packages)} - listed - parents - abstract == set()


def test_each_condition_of_the_kafka_source_has_a_rule_or_passes() -> None:
    found = failure_tables.kafka_conditions(map(Path, image_connectors()))
    assert {name for name in found if verdict_of_condition(name) is None} == OFFSETS_OF_A_MOMENT
