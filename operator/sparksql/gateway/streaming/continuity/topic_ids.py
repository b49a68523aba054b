"""Reads the ids of Kafka's topics from their broker, with the options and credentials of the source."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError

from sparksql.gateway.spark.scala import is_a
from sparksql.gateway.spark.shapes import Jvm, LogicalPlan
from sparksql.gateway.sql.errors import refusal
from sparksql.gateway.streaming.continuity.topics import TopicIds
from sparksql.wire.control import ErrorReason

_SECONDS = 30  # Kafka's own default for one request
_ERRORS = "org.apache.kafka.common.errors"
_MISSING = f"{_ERRORS}.UnknownTopicOrPartitionException"
# Of a broker that gives no ids, and of topics whose description the user may not read: their ids are unknown.
_UNKNOWN = (f"{_ERRORS}.UnsupportedVersionException", f"{_ERRORS}.AuthorizationException")
_RETRIABLE = f"{_ERRORS}.RetriableException"
_MAX_CAUSES = 8
# A broker that has just started, or a topic that has just been made: as often as Spark's own reader asks for offsets.
_TRIES, _SECONDS_BETWEEN = 3, 1.0


@dataclass(frozen=True)
class FoundTopics:
    """The ids of topics, and the names of those that are not there."""

    ids: TopicIds
    missing: frozenset[str]


def topic_ids(jvm: Jvm, leaf: LogicalPlan, folder: str, read: Iterable[str]) -> FoundTopics:
    """Returns the ids of the topics that a Kafka source would read now, and of those that it has `read`.

    `folder` is the source's in the checkpoint. A topic without an id is left out. Raises StatementError
    (EnvironmentFailed) when no broker answers, or what Kafka throws.
    """
    stream: Any = leaf.table().newScanBuilder(leaf.extraOptions()).build().toMicroBatchStream(folder)
    try:
        reader = stream.kafkaOffsetReader()
        admin = jvm.org.apache.kafka.clients.admin.Admin.create(reader.driverKafkaParams())
        try:
            return _described(jvm, admin, frozenset(read) | _assigned(jvm, reader))
        finally:
            admin.close()
    finally:
        stream.stop()


def _assigned(jvm: Jvm, reader: Any) -> frozenset[str]:
    """The topics that the source reads now, as Spark finds them by `subscribe`, `subscribePattern` or `assign`."""
    try:
        offsets = jvm.org.apache.spark.sql.kafka010.KafkaSourceOffset(reader.fetchEarliestOffsets())
    except Py4JJavaError as failed:
        _raise_unless(failed, (_MISSING, *_UNKNOWN))  # Spark itself finds that a topic is missing
        return frozenset()
    return frozenset(map(str, json.loads(offsets.json())))


def _described(jvm: Jvm, admin: Any, topics: frozenset[str]) -> FoundTopics:
    """The ids of topics; those that are missing are asked for again, see `_TRIES`."""
    ids: dict[str, str] = {}
    missing = topics
    for left in reversed(range(_TRIES)):
        found, missing = _asked(jvm, admin, missing)
        ids |= found
        if not missing or not left:
            break
        time.sleep(_SECONDS_BETWEEN)
    return FoundTopics(ids, missing)


def _asked(jvm: Jvm, admin: Any, topics: frozenset[str]) -> tuple[dict[str, str], frozenset[str]]:
    asked = jvm.java.util.ArrayList()
    for topic in topics:
        asked.add(topic)
    unit, none = jvm.java.util.concurrent.TimeUnit.SECONDS, jvm.org.apache.kafka.common.Uuid.ZERO_UUID
    answers = admin.describeTopics(asked).topicNameValues()
    ids: dict[str, str] = {}
    missing: set[str] = set()
    for topic in topics:
        try:
            number = answers.get(topic).get(_SECONDS, unit).topicId()
        except Py4JJavaError as failed:
            if _raise_unless(failed, (_MISSING, *_UNKNOWN)) == _MISSING:
                missing.add(topic)
            continue
        if not number.equals(none):
            ids[topic] = str(number.toString())
    return ids, frozenset(missing)


def _raise_unless(failed: Py4JJavaError, expected: tuple[str, ...]) -> str:
    """Returns the class among the expected ones that Kafka's answer is of; raises for any other failure."""
    thrown = failed.java_exception
    for _ in range(_MAX_CAUSES):
        if thrown is None:
            break
        found = next((name for name in expected if is_a(thrown, name)), None)
        if found is not None:
            return found
        if is_a(thrown, _RETRIABLE) or is_a(thrown, "java.util.concurrent.TimeoutException"):
            message = f"Kafka did not describe the topics of a source: {thrown.getMessage()}. The query was not started"
            raise refusal(ErrorReason.ENVIRONMENT_FAILED, message) from failed
        thrown = thrown.getCause()
    raise failed
