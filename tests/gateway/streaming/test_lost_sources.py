"""Sources that were made anew, replaced or cut off while a checkpoint had a place in them: rows arrive once, or the stream is parked."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path

import pytest

from sparksql.gateway.streaming.continuity.topics import NAME
from sparksql.wire.control import ErrorReason, OperationState, OperationView
from tests.support.process import GatewayProcess
from tests.support.thorough import thorough_but

from ..streams import Streams
from .kafka_admin import delete_records, delete_topic
from .kafka_broker import Broker
from .kafka_tables import Kafka


@pytest.fixture(scope="module")
def gateway(connected_gateway: GatewayProcess) -> GatewayProcess:
    return connected_gateway


@pytest.fixture
async def kafka(streams: Streams, broker: Broker) -> Kafka:
    return Kafka(streams, broker, f"t-{uuid.uuid4().hex[:12]}")


def lost(view: OperationView, *says: str) -> None:
    """Holds that a query was refused or ended for what its source has lost."""
    assert view.state is OperationState.ERROR and view.error is not None, view
    assert view.error.reason is ErrorReason.SOURCE_LOST, view.error
    for each in says:
        assert each in view.error.message, view.error.message


READS = {
    "subscribe": "'subscribe' = '{topic}'",
    "assign": """'assign' = '{{"{topic}":[0]}}'""",
    "pattern": "'subscribePattern' = '{topic}.*'",
}
COPY = "INSERT INTO lake.$.dst SELECT CAST(CAST(value AS STRING) AS INT) FROM STREAM $.k"


async def stream_of(kafka: Kafka, read: str, first: int) -> None:
    """A table of the topic, another one for what is read of it, and a stream that has read `first` records."""
    options = READS[read].format(topic=kafka.topic)
    await kafka.ok(
        f"CREATE TABLE $.k USING kafka OPTIONS ('kafka.bootstrap.servers' = '{kafka.broker.address}', {options}, "
        "'startingOffsets' = 'earliest')",
        "CREATE TABLE lake.$.dst (id INT) USING iceberg",
    )
    await write(kafka, range(first))
    await kafka.streams.drained(COPY)
    assert await ids(kafka) == [*range(first)]


async def write(kafka: Kafka, numbers: range) -> None:
    await kafka.put_values(*numbers)


async def ids(kafka: Kafka) -> list[int]:
    return [row[0] for row in await kafka.rows("SELECT id FROM lake.$.dst ORDER BY id")]


@pytest.mark.parametrize("read", thorough_but(["subscribe"], READS))
async def test_a_topic_made_anew_is_not_taken_for_the_old_one(kafka: Kafka, read: str) -> None:
    await stream_of(kafka, read, 10)
    delete_topic(kafka.broker, kafka.topic)
    await write(kafka, range(100, 125))  # more than were read of the old one: Spark itself goes on at the eleventh
    for _ in range(2):
        lost(await kafka.streams.run(COPY), kafka.topic, "deleted and created again", "spec.runNonce", "failOnDataLoss")
    assert await ids(kafka) == [*range(10)]
    await kafka.streams.drained(COPY, "begun anew")
    assert await ids(kafka) == [*range(10), *range(100, 125)]


async def test_a_stream_that_may_lose_records_goes_on_in_a_topic_made_anew(kafka: Kafka) -> None:
    await stream_of(kafka, "subscribe", 10)
    delete_topic(kafka.broker, kafka.topic)
    await write(kafka, range(100, 125))
    await kafka.streams.drained(f"{COPY} WITH ('failOnDataLoss' = 'false')")
    assert await ids(kafka) == [*range(10), *range(110, 125)]
    await write(kafka, range(200, 203))  # the new topic is the known one
    await kafka.streams.drained(COPY)
    assert await ids(kafka) == [*range(10), *range(110, 125), *range(200, 203)]


async def test_a_checkpoint_without_ids_of_topics_gets_them_with_its_next_start(kafka: Kafka) -> None:
    await stream_of(kafka, "subscribe", 3)
    kept = kafka.streams.folder / "c" / NAME
    known = kept.read_text()
    assert [*json.loads(known)["topics"][0]] == [kafka.topic]
    kept.unlink()
    kept.with_name(f".{NAME}.crc").unlink()
    await write(kafka, range(3, 5))
    await kafka.streams.drained(COPY)
    assert (await ids(kafka), kept.read_text()) == ([*range(5)], known)
    kept.write_text("{")
    kept.with_name(f".{NAME}.crc").unlink()
    lost(await kafka.streams.run(COPY), NAME, "Remove it")


async def test_records_that_kafka_removed_before_they_were_read_park_the_stream(kafka: Kafka) -> None:
    await stream_of(kafka, "subscribe", 3)
    await write(kafka, range(3, 9))
    delete_records(kafka.broker, kafka.topic, 6)
    view = await kafka.streams.run(COPY)
    lost(view, "may have been lost", "'failOnDataLoss' = 'false'", "spec.runNonce")
    assert view.error is not None and (view.error.condition or "").startswith("KAFKA_DATA_LOSS."), view.error
    await kafka.streams.drained(f"{COPY} WITH ('failOnDataLoss' = 'false')")
    assert await ids(kafka) == [0, 1, 2, 6, 7, 8]


async def test_a_topic_made_anew_with_fewer_records_parks_the_stream(kafka: Kafka) -> None:
    await stream_of(kafka, "subscribe", 10)
    delete_topic(kafka.broker, kafka.topic)
    await write(kafka, range(100, 104))
    lost(await kafka.streams.run(COPY), kafka.topic, "deleted and created again")


async def test_a_deleted_topic_that_is_not_made_anew_parks_the_stream(kafka: Kafka) -> None:
    await stream_of(kafka, "pattern", 3)
    delete_topic(kafka.broker, kafka.topic)
    lost(await kafka.streams.run(COPY), kafka.topic, "not there any more", "failOnDataLoss")
    await write(kafka, range(100, 125))
    lost(await kafka.streams.run(COPY), kafka.topic, "deleted and created again")


FROM_FILES = "INSERT INTO $.dst SELECT id FROM STREAM $.files"


async def stream_of_files(streams: Streams) -> Path:
    """A table over a folder of text files, of which a stream has read one."""
    folder = streams.folder / "files"
    folder.mkdir()
    await streams.ok(
        f"CREATE TABLE $.files (id INT) USING csv LOCATION '{folder.as_uri()}'",
        "CREATE TABLE $.dst (id INT) USING parquet",
    )
    put_file(folder / "a.csv", 1, 2, age=100)
    await streams.drained(FROM_FILES)
    assert await rows_of(streams) == [1, 2]
    return folder


def put_file(path: Path, *numbers: int, age: int) -> None:
    path.write_text("".join(f"{number}\n" for number in numbers))
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    then = path.stat().st_mtime - age
    os.utime(path, (then, then))


async def rows_of(streams: Streams) -> list[int]:
    return [row[0] for row in await streams.rows("SELECT id FROM $.dst ORDER BY id")]


@pytest.mark.parametrize("removed_first", [False, True])
async def test_a_file_that_was_replaced_after_it_was_read_parks_the_stream(
    streams: Streams, removed_first: bool
) -> None:
    folder = await stream_of_files(streams)
    if removed_first:
        (folder / "a.csv").unlink()
        await streams.drained(FROM_FILES)
    put_file(folder / "a.csv", 3, 4, age=0)
    put_file(folder / "b.csv", 5, age=0)
    lost(await streams.run(FROM_FILES), "a.csv", "other names")
    assert await rows_of(streams) == [1, 2]
    (folder / "a.csv").rename(folder / "c.csv")
    await streams.drained(FROM_FILES)
    assert await rows_of(streams) == [1, 2, 3, 4, 5]


async def test_a_file_table_made_anew_gives_each_of_its_rows_once(streams: Streams) -> None:
    """Spark names each file anew, and knows those that it has read by their paths."""
    insert = "INSERT INTO $.dst SELECT id FROM STREAM $.src"
    await streams.ok("CREATE TABLE $.dst (id INT) USING parquet")
    await streams.drained(insert)
    await streams.ok(
        "DROP TABLE $.src",
        "CREATE TABLE $.src (id INT, name STRING, ts TIMESTAMP) USING parquet",
        "INSERT INTO $.src VALUES (7, 'g', NULL), (8, 'h', NULL)",
    )
    await streams.drained(insert)
    assert await rows_of(streams) == [1, 2, 7, 8]
    await streams.ok("INSERT OVERWRITE $.src VALUES (9, 'i', NULL)")
    await streams.drained(insert)
    assert await rows_of(streams) == [1, 2, 7, 8, 9]


async def test_file_replaced_within_the_same_second_parks_the_stream(streams: Streams) -> None:
    folder = await stream_of_files(streams)
    path = folder / "b.csv"
    put_file(path, 3, age=0)
    second = int(path.stat().st_mtime) - 10
    os.utime(path, (second + 0.25, second + 0.25))
    await streams.drained(FROM_FILES)
    put_file(path, 4, age=0)
    os.utime(path, (second + 0.5, second + 0.5))
    lost(await streams.run(FROM_FILES), "b.csv", "other names")
    assert await rows_of(streams) == [1, 2, 3]
