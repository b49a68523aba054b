"""Kafka in pure SQL, against a real broker: tables and views `USING kafka`, read and written by batches and by streams."""

from __future__ import annotations

import asyncio
import json
import uuid
from itertools import product
from typing import Any

import pytest

from sparksql.api.execution import OutputMode, StatementMode, Upsert
from sparksql.wire.control import ErrorReason, OperationState
from tests.support.process import GatewayProcess
from tests.support.thorough import thorough_but

from ..listed import GOES_ON, listed
from ..streams import Streams
from .kafka_broker import Broker
from .kafka_messages import (
    DESCRIPTOR,
    ENVELOPE_SCHEMA,
    ROW_SCHEMA,
    Row,
    apicurio,
    avro_debezium,
    avro_row,
    confluent,
    confluent_proto,
    debezium,
    maxwell,
    proto_debezium,
)
from .kafka_tables import Kafka
from .test_upsert_crash import forget


@pytest.fixture(scope="module")
def gateway(connected_gateway: GatewayProcess) -> GatewayProcess:
    return connected_gateway


@pytest.fixture
async def kafka(streams: Streams, broker: Broker) -> Kafka:
    return Kafka(streams, broker, f"t-{uuid.uuid4().hex[:12]}")


async def test_plain_records_in_batches_and_streams(kafka: Kafka) -> None:
    await kafka.ok(
        "CREATE TABLE $.k USING kafka OPTIONS (@, 'startingOffsets' = 'earliest')",
        "INSERT INTO $.k (key, value) VALUES ('a', '1'), ('b', '2')",
        "INSERT INTO $.k SELECT 'c' AS key, '3' AS value, array(struct('h' AS key, CAST('x' AS BINARY) AS value)) AS headers",
        "CREATE TABLE $.dst (key STRING, value STRING) USING parquet",
    )
    read = "SELECT CAST(key AS STRING) AS key, CAST(value AS STRING) AS value FROM {} ORDER BY key"
    expected = [("a", "1"), ("b", "2"), ("c", "3")]
    assert await kafka.rows(read.format("$.k")) == expected
    insert = "INSERT INTO $.dst SELECT CAST(key AS STRING), CAST(value AS STRING) FROM STREAM $.k"
    await kafka.streams.drained(insert)
    await kafka.ok("INSERT INTO $.k (value, key) VALUES ('4', 'd')")
    await kafka.streams.drained(insert)
    assert await kafka.rows("SELECT * FROM $.dst ORDER BY key") == [*expected, ("d", "4")]


ORDERS = (
    "CREATE TABLE $.orders (id BIGINT, amount DECIMAL(10,2), op STRING, ts TIMESTAMP, _offset BIGINT, _key STRING) "
    "USING kafka OPTIONS (@, 'startingOffsets' = 'latest', 'value.format' = 'json', 'value.mode' = '{mode}')"
)
ORDER = {"id": 1, "amount": 12.5, "op": "c", "ts": "2026-01-01T10:00:00Z"}


async def test_kafka_table_reads_declared_columns_of_json(kafka: Kafka) -> None:
    await kafka.ok(ORDERS.format(mode="failfast"))
    await kafka.put(("k", json.dumps(ORDER)), (None, '{"id": 2, "amount": "0.5", "more": 1}'))
    assert [row[:2] for row in await kafka.rows("DESCRIBE $.orders")] == [
        ("id", "bigint"), ("amount", "decimal(10,2)"), ("op", "string"), ("ts", "timestamp"), ("_offset", "bigint"), ("_key", "string")
    ]  # fmt: skip
    read = "SELECT id, CAST(amount AS STRING), op, CAST(ts AS STRING), _offset, _key FROM {} ORDER BY id"
    expected = [(1, "12.50", "c", "2026-01-01 10:00:00", 0, "k"), (2, "0.50", None, None, 1, None)]
    assert await kafka.rows(read.format("$.orders")) == expected
    in_with = "WITH o AS (SELECT * FROM $.orders), orders AS (SELECT 2 AS id) SELECT id FROM o WHERE id IN (SELECT id FROM {}) ORDER BY id"
    assert await kafka.rows(in_with.format("orders")) == [(2,)]
    assert await kafka.rows(in_with.format("o")) == [(1,), (2,)]
    await kafka.refused("SELECT 1 WHERE 1 IN (SELECT id FROM $.orders)", "put it into a WITH")
    await kafka.refused("CREATE VIEW $.v AS SELECT id FROM $.orders", "use CREATE TEMPORARY VIEW")
    windows = "SELECT window.start, count(*) FROM STREAM $.orders WATERMARK ts DELAY OF INTERVAL 10 SECONDS GROUP BY window(ts, '1 minute')"
    assert (await kafka.run(windows, mode=StatementMode.VALIDATE)).state is OperationState.FINISHED
    await kafka.ok("CREATE TABLE $.copy USING parquet AS SELECT id FROM $.orders", "DROP TABLE $.orders")
    assert await kafka.rows("SELECT id FROM $.copy ORDER BY id") == [(1,), (2,)]


@pytest.mark.thorough
async def test_windows_are_over_kafka_tables_with_the_options_and_the_watermark_of_their_argument(kafka: Kafka) -> None:
    await kafka.ok(ORDERS.format(mode="FAILFAST"), "CREATE TABLE lake.$.dst (start TIMESTAMP, n BIGINT) USING iceberg")
    times = ("10:00:01", "10:00:59", "10:01:30", "10:01:31", "10:05:00", "10:10:00")
    await kafka.put_values(*({"id": n, "ts": f"2026-01-01T{time}Z"} for n, time in enumerate(times)))
    counted = (
        "SELECT window_start, count(*) FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) "
        "GROUP BY window_start, window_end"
    )
    in_batch = await kafka.rows(f"{counted.format('$.orders')} ORDER BY 1")
    assert [row[1] for row in in_batch] == [2, 2, 1, 1]
    options = "WITH ('startingOffsets' = 'earliest', 'maxOffsetsPerTrigger' = '2')"
    stream = f"(FROM STREAM $.orders {options} WATERMARK ts DELAY OF INTERVAL 10 SECONDS)"
    view = await kafka.streams.drained(f"INSERT INTO lake.$.dst {counted.format(stream)}")
    assert view.progress is not None and view.progress.stream is not None
    assert view.progress.stream.committed_batch_id == 3, "two rows a batch, and one batch without any"
    assert await kafka.rows("SELECT * FROM lake.$.dst ORDER BY 1") == in_batch[:3]


async def test_a_kafka_stream_resumes_at_its_offsets_and_query_options_win(kafka: Kafka) -> None:
    await kafka.ok(ORDERS.format(mode="FAILFAST"), "CREATE TABLE lake.$.dst (id BIGINT, at BIGINT) USING iceberg")
    await kafka.put_values(*({"id": n} for n in range(5)))
    insert = "INSERT INTO lake.$.dst SELECT id, _offset FROM STREAM $.orders WITH ('startingOffsets' = 'earliest', 'maxOffsetsPerTrigger' = '2')"
    first = await kafka.streams.drained(insert)
    assert first.progress is not None and first.progress.stream is not None
    assert first.progress.stream.committed_batch_id == 2
    await kafka.put_values(*({"id": n} for n in range(5, 7)))
    running_view = await kafka.streams.endless(insert)
    await kafka.streams.committed(running_view, 3)
    await kafka.streams.stop(running_view)
    await kafka.put_values({"id": 7})
    await kafka.streams.drained(insert)
    assert await kafka.rows("SELECT id, at FROM lake.$.dst ORDER BY id, at") == [(n, n) for n in range(8)]
    bounded = json.dumps({kafka.topic: {"0": 2, "1": 0}})
    assert await kafka.rows(f"SELECT id FROM $.orders WITH ('endingOffsets' = '{bounded}') ORDER BY id") == [(0,), (1,)]


@pytest.mark.thorough
@listed("source", "`value.mode` of a Kafka table", GOES_ON)
async def test_a_kafka_stream_state_takes_another_value_mode_and_no_other_aggregate(kafka: Kafka) -> None:
    await kafka.ok(
        "CREATE TABLE $.totals (op STRING, n DECIMAL(38,2)) USING delta",
        ORDERS.format(mode="failfast").replace("'latest'", "'earliest'"),
    )
    await kafka.put_values(ORDER, {**ORDER, "id": 2})
    text = "INSERT INTO $.totals SELECT op, sum(amount) FROM STREAM $.orders GROUP BY op"
    whole = {"output_mode": OutputMode.COMPLETE}
    await kafka.streams.drained(text, **whole)
    await kafka.put((None, "no JSON"))
    await kafka.put_values({**ORDER, "id": 3, "op": "u"})
    await kafka.streams.drained(text.replace("$.orders", "$.orders WITH ('value.mode' = 'DROPMALFORMED')"), **whole)
    assert sorted((op, float(n)) for op, n in await kafka.rows("SELECT * FROM $.totals")) == [("c", 25.0), ("u", 12.5)]
    other = await kafka.streams.run(text.replace("sum(amount)", "max(amount)"), **whole)
    assert other.error is not None and other.error.reason is ErrorReason.STATE_INCOMPATIBLE, other
    assert "was sum(amount), is max(amount)" in other.error.message


async def test_a_malformed_value_never_becomes_nulls_unasked(kafka: Kafka) -> None:
    await kafka.ok(ORDERS.format(mode="FAILFAST"))
    bad = ["{not json", '{"id": "one"}', "[1]", "null", "", None]
    await kafka.put(("good", json.dumps(ORDER)), *(("bad", value) for value in bad))
    read = "SELECT _key, id FROM $.orders WITH ('value.mode' = '{}') ORDER BY _offset"
    assert await kafka.rows(read.format("DROPMALFORMED")) == [("good", 1)]
    assert await kafka.rows(read.format("permissive")) == [("good", 1), *(("bad", None) for _ in bad)]
    for offset, value in enumerate(bad, start=1):
        start, end = (json.dumps({kafka.topic: {"0": at, "1": 0}}) for at in (offset, offset + 1))
        only = f"$.orders WITH ('startingOffsets' = '{start}', 'endingOffsets' = '{end}')"
        view = await kafka.run(f"SELECT op FROM {only} WHERE id > 0")
        assert view.error is not None and f"offset {offset}. value.mode" in view.error.message, (value, view)
    counted = await kafka.run("SELECT count(*) FROM $.orders")
    assert counted.error is not None and "offset 1. value.mode" in counted.error.message, counted


def change(op: str, before: Row | None, after: Row | None, with_schema: bool) -> str:
    return debezium(op, before, after, with_schema).decode()


@pytest.mark.parametrize("with_schema", thorough_but([False], [True, False]), ids=["with schema", "without schema"])
async def test_changes_of_debezium_arrive_in_a_table_of_rows(kafka: Kafka, with_schema: bool) -> None:
    await kafka.ok(
        "CREATE TABLE $.changes (id BIGINT, name STRING, _offset BIGINT) USING kafka "
        "OPTIONS (@, 'startingOffsets' = 'earliest', 'value.format' = 'debezium')",
        "CREATE TABLE lake.$.rows (id BIGINT, name STRING, _offset BIGINT) USING iceberg",
    )
    one, two, three = ({"id": n, "name": f"n{n}"} for n in (1, 2, 3))
    renamed = {"id": 1, "name": "renamed"}
    await kafka.put(
        ("1", change("r", None, one, with_schema)),
        ("2", change("c", None, two, with_schema)),
        ("1", change("u", one, renamed, with_schema)),
        ("2", change("d", two, None, with_schema)),
        ("2", None),
        ("3", change("c", None, three, with_schema)),
    )
    assert await kafka.rows("SELECT id, name, _op FROM $.changes ORDER BY _offset") == [
        (1, "n1", "r"), (2, "n2", "c"), (1, "renamed", "u"), (2, "n2", "d"), (3, "n3", "c")
    ]  # fmt: skip
    upsert = Upsert(keys=["id"], order_by="_offset", delete_when="_op = 'd'")
    await kafka.streams.drained("INSERT INTO lake.$.rows SELECT * FROM STREAM $.changes", upsert=upsert)
    assert await kafka.rows("SELECT id, name FROM lake.$.rows ORDER BY id") == [(1, "renamed"), (3, "n3")]
    await kafka.refused("INSERT INTO $.changes VALUES (1, 'a', 'c')", "read only")
    await kafka.put(("4", change("d", None, None, with_schema)))
    lost = await kafka.run("SELECT id FROM $.changes")
    assert lost.error is not None and "not a change of Debezium" in lost.error.message, lost


async def test_changes_by_key_are_the_newest_records_of_a_topic(kafka: Kafka) -> None:
    await kafka.ok(
        "CREATE TABLE $.latest (id INT, part STRING, name STRING) USING kafka OPTIONS (@, 'value.format' = 'json')",
        "CREATE TABLE $.by_id (id INT, name STRING) USING kafka OPTIONS (@, 'value.format' = 'json', 'key.column' = 'id')",
        "CREATE TABLE $.raw USING kafka OPTIONS (@)",
        "CREATE TABLE $.changes (id BIGINT, part STRING, name STRING, v INT, op STRING) USING parquet",
        "INSERT INTO $.changes VALUES (1, 'p', 'old', 1, 'u'), (1, 'p', 'new', 2, 'u'), (1, NULL, 'b', 1, 'u'), (2, 'p', 'c', 1, 'd')",
    )
    upsert = Upsert(keys=["ID", "part"], order_by="v", delete_when="op = 'd'")
    insert = "INSERT INTO $.latest SELECT * FROM STREAM $.changes"
    records = "SELECT CAST(key AS STRING) AS key, CAST(value AS STRING) FROM $.raw ORDER BY key, offset"
    written = [
        ('{"id":1,"part":"p"}', '{"id":1,"part":"p","name":"new"}'),
        ('{"id":1,"part":null}', '{"id":1,"name":"b"}'),
        ('{"id":2,"part":"p"}', None),
    ]
    await kafka.streams.drained(insert, upsert=upsert)
    assert await kafka.rows(records) == written
    forget(kafka.streams.folder / "c" / "commits", 0)  # the driver died before it knew
    await kafka.streams.drained(insert, upsert=upsert)
    assert await kafka.rows(records) == [record for record in written for _ in range(2)]
    by_id = upsert.model_copy(update={"keys": ("id",)})
    await kafka.streams.drained("INSERT INTO $.by_id SELECT * FROM STREAM $.changes", "by-id", upsert=by_id)
    assert await kafka.rows(records + " LIMIT 2") == [("1", '{"id":1,"name":"new"}'), ("2", None)]
    for table, changed, says in (
        ("latest", {"keys": ("v",)}, "has no column v"),
        ("latest", {"deleted_retention_seconds": 60}, "delete.retention.ms"),
        ("by_id", {"keys": ("id", "name")}, "must be the only key"),
        ("raw", {}, "declare columns"),
    ):
        sql, refused = f"INSERT INTO $.{table} SELECT * FROM STREAM $.changes", upsert.model_copy(update=changed)
        view = await kafka.streams.run(sql, "refused", upsert=refused)
        assert view.error is not None and says in view.error.message, (table, view)


ONE, TWO, THREE, RENAMED = (
    {"id": 1, "name": "n1"}, {"id": 2, "name": None}, {"id": 3, "name": "n3"}, {"id": 1, "name": "renamed"}
)  # fmt: skip
CHANGES = (("r", None, ONE), ("c", None, TWO), ("u", ONE, RENAMED), ("d", TWO, None), ("c", None, THREE))
# By name: the options of the table, and the values of its topic.
FEEDS: dict[str, tuple[str, list[bytes | None]]] = {
    "json": ("'value.format' = 'debezium'", [debezium(*each, with_schema=True) for each in CHANGES]),
    "maxwell": (
        "'value.format' = 'maxwell'",
        [maxwell("bootstrap-start", {}), maxwell("bootstrap-insert", ONE), maxwell("bootstrap-complete", {}), maxwell("insert", TWO),
         maxwell("update", RENAMED, {"name": "n1"}), maxwell("delete", TWO), maxwell("insert", THREE)],
    ),
    "confluent": (
        f"'value.format' = 'debezium-avro', 'value.avro.header' = 'confluent', 'value.avro.schema' = '{ENVELOPE_SCHEMA}'",
        [confluent(7, avro_debezium(*each)) for each in CHANGES],
    ),
    "protobuf": (
        "'value.format' = 'debezium-protobuf', 'value.protobuf.header' = 'confluent', 'value.protobuf.message' = 'shop.Envelope', "
        f"'value.protobuf.descriptor' = '{DESCRIPTOR}'",
        [confluent_proto(7, (1,), proto_debezium(*each)) for each in CHANGES],
    ),
    "apicurio": (
        f"'value.format' = 'avro', 'value.avro.header' = 'apicurio', 'value.avro.schema.5' = '{ROW_SCHEMA}', "
        f"'value.avro.schema' = '{ROW_SCHEMA}'",
        [apicurio(5, avro_row(each)) for each in (ONE, THREE, RENAMED)],
    ),
}  # fmt: skip


EXACT = ("json", "confluent", "protobuf")  # whose messages have the row before


async def counted_exactly(kafka: Kafka, name: str) -> list[tuple[Any, ...]]:
    """The customers of each name, counted over all changes, of which an update takes the row before back."""
    place, (options, _) = f"{name}_all", FEEDS[name]
    reach = f"'kafka.bootstrap.servers' = '{kafka.broker.address}', 'subscribe' = '{kafka.topic}-{name}', 'startingOffsets' = 'earliest'"
    await kafka.ok(
        f"CREATE TABLE $.{place} (id BIGINT, name STRING) USING kafka "
        f"OPTIONS ({reach}, 'key.columns' = 'id', 'changelog.rows' = 'all', {options})",
        f"CREATE TABLE lake.$.{place} (name STRING, n BIGINT) USING iceberg",
    )
    counted = f"INSERT INTO lake.$.{place} SELECT name, count(*) AS n FROM STREAM $.{place} GROUP BY name"
    await kafka.streams.drained(counted, place, upsert=Upsert(keys=("name",)), output_mode=OutputMode.UPDATE)
    return await kafka.rows(f"SELECT name, n FROM lake.$.{place} ORDER BY name")


@pytest.mark.thorough
async def test_changes_of_every_format_are_merged_by_the_keys_of_their_tables(kafka: Kafka) -> None:
    async def merged(name: str) -> list[tuple[Any, ...]]:
        options, values = FEEDS[name]
        topic = f"{kafka.topic}-{name}"
        tombstones = [] if name == "apicurio" else [None]
        await kafka.put_bytes(topic, *values, *tombstones)
        reach = f"'kafka.bootstrap.servers' = '{kafka.broker.address}', 'subscribe' = '{topic}', 'startingOffsets' = 'earliest'"
        await kafka.ok(
            f"CREATE TABLE $.{name} (id BIGINT, name STRING, _offset BIGINT) USING kafka "
            f"OPTIONS ({reach}, 'key.columns' = 'id', {options})",
            f"CREATE TABLE lake.$.{name}_rows (customer BIGINT, name STRING, _offset BIGINT) USING iceberg",
        )
        delete = None if name == "apicurio" else "_op = 'd'"
        query = f"WITH c AS (SELECT *, id AS customer FROM STREAM $.{name}) SELECT * FROM c WHERE customer > 0"
        into = f"INSERT INTO lake.$.{name}_rows"
        upsert = Upsert(order_by="_offset", delete_when=delete)
        await kafka.streams.drained(f"{into} {query}", name, upsert=upsert)
        return await kafka.rows(f"SELECT customer, name FROM lake.$.{name}_rows ORDER BY customer")

    expected = [(1, "renamed"), (3, "n3")]
    found = await asyncio.gather(*map(merged, FEEDS))
    assert dict(zip(FEEDS, found, strict=True)) == dict.fromkeys(FEEDS, expected)
    assert await asyncio.gather(*(counted_exactly(kafka, name) for name in EXACT)) == [[("n3", 1), ("renamed", 1)]] * 3
    await kafka.ok("CREATE TABLE lake.$.names (name STRING, n BIGINT) USING iceberg")
    grouped = "INSERT INTO lake.$.names SELECT count(*) AS n, name FROM STREAM $.protobuf GROUP BY name"
    for _ in range(2):  # its state is known again
        await kafka.streams.drained(grouped, "grouped", upsert=Upsert(), output_mode=OutputMode.UPDATE)
        renamed = confluent_proto(8, (1,), proto_debezium("u", ONE, RENAMED))
        await kafka.put_bytes(f"{kafka.topic}-protobuf", renamed)
    counted = [(None, 2), ("n1", 1), ("n3", 1), ("renamed", 2)]
    assert await kafka.rows("SELECT * FROM lake.$.names ORDER BY name") == counted
    await kafka.refused("INSERT INTO $.protobuf VALUES (1, 'a', 'c')", "debezium-protobuf is read only")
    await kafka.refused("INSERT INTO $.maxwell VALUES (1, 'a', 'c')", "maxwell is read only")
    await kafka.refused("INSERT INTO $.apicurio VALUES (1, 'a')", "apicurio is read only")
    unkeyed = "INSERT INTO lake.$.maxwell_rows SELECT id + 1 AS customer, name, _offset FROM STREAM $.maxwell"
    refused = await kafka.streams.run(unkeyed, "unkeyed", upsert=Upsert(order_by="_offset"))
    assert refused.error is not None and refused.error.reason is ErrorReason.INVALID_SPEC, refused
    assert "does not give key column id of its source" in refused.error.message
    await kafka.refused("SELECT id FROM $.maxwell WITH ('key.columns' = 'x')", "'key.columns' has 'x'")
    unnamed = "INSERT INTO lake.$.maxwell_rows SELECT * FROM STREAM $.maxwell"
    refused = await kafka.streams.run(unnamed, "unnamed", upsert=Upsert(order_by="_offset"))
    assert refused.error is not None and "the target has no column id" in refused.error.message, refused


async def test_rows_are_written_as_json_by_batches_and_streams(kafka: Kafka) -> None:
    await kafka.ok(
        "CREATE TABLE $.out (id INT, name STRING, _partition INT) USING kafka "
        "OPTIONS (@, 'value.format' = 'json', 'key.column' = 'id')",
        "INSERT INTO $.out VALUES (10, 'batch')",
        "INSERT INTO $.out (name) VALUES ('no id')",
    )
    await kafka.streams.drained("INSERT INTO $.out BY NAME SELECT name, id FROM STREAM $.src")
    await kafka.streams.drained("INSERT INTO $.out SELECT id, name FROM STREAM $.src")
    assert await kafka.rows("SELECT id, name FROM $.out ORDER BY name") == [
        (1, "a"), (2, "b"), (10, "batch"), (None, "no id")
    ]  # fmt: skip
    records = "SELECT CAST(key AS STRING) AS key, CAST(value AS STRING) AS value FROM $.raw ORDER BY value"
    await kafka.ok("CREATE TABLE $.raw USING kafka OPTIONS (@)")
    assert (await kafka.rows(records))[0] == ("1", '{"id":1,"name":"a"}')
    for insert, says in (
        ("INSERT OVERWRITE $.out VALUES (1, 'a')", "INSERT OVERWRITE"),
        ("INSERT INTO $.raw VALUES ('a', 'b')", "columns named key, value"),
        ("INSERT INTO $.out WITH ('value.format' = 'avro') VALUES (1, 'a')", "cannot change it"),
    ):
        await kafka.refused(insert, says)
    too_many = await kafka.run("INSERT INTO $.out VALUES (1, 'a', 3)")
    assert too_many.error is not None and "too many data columns" in too_many.error.message, too_many
    unstreamed = await kafka.run("INSERT INTO $.out SELECT id, name FROM STREAM $.src")
    assert unstreamed.error is not None and "needs spec.streaming" in unstreamed.error.message, unstreamed


async def test_kafka_view_is_read_by_statements_and_dry_runs(kafka: Kafka) -> None:
    await kafka.put_values(ORDER, {"id": 2})
    view = (
        "CREATE OR REPLACE TEMPORARY VIEW kafka_orders (id BIGINT, _topic STRING) USING kafka "
        "OPTIONS (@, 'startingOffsets' = 'earliest', 'value.format' = 'json')"
    )
    await kafka.ok(view, *(f"CREATE TABLE $.{name} (id BIGINT) USING parquet" for name in ("over_dst", "dst")))
    assert await kafka.rows("SELECT id, _topic FROM kafka_orders ORDER BY id") == [(1, kafka.topic), (2, kafka.topic)]
    assert await kafka.rows("SELECT id FROM kafka_orders WITH ('startingOffsets' = 'earliest') WHERE id = 2") == [(2,)]
    over = "CREATE OR REPLACE TEMPORARY VIEW over_orders AS SELECT id + 10 AS id FROM STREAM kafka_orders"
    await kafka.streams.drained(f"{over}; INSERT INTO $.over_dst SELECT id FROM over_orders", "over")
    await kafka.streams.drained("INSERT INTO $.dst SELECT id FROM STREAM kafka_orders", "over2")
    for mode, count in ((StatementMode.PREVIEW, 2), (StatementMode.VALIDATE, 0), (StatementMode.EXPLAIN, 1)):
        for sql in ("SELECT id FROM STREAM kafka_orders", "INSERT INTO kafka_orders SELECT id FROM kafka_orders"):
            looked = await kafka.run(sql, mode=mode, execution_seconds=15)  # a preview of a topic has no other end
            assert looked.state is OperationState.FINISHED and looked.result is not None, looked
            assert looked.result.row_count == count, looked
    assert await kafka.rows("SELECT count(*) AS n FROM kafka_orders") == [(2,)]
    assert await kafka.rows("SELECT id FROM $.dst ORDER BY id") == [(1,), (2,)]
    assert await kafka.rows("SELECT id FROM $.over_dst ORDER BY id") == [(11,), (12,)]


AVRO = '{"type": "record", "name": "o", "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}]}'


async def test_avro_values_of_a_kafka_table_are_written_and_read_back(kafka: Kafka) -> None:
    options = f"OPTIONS (@, 'startingOffsets' = 'earliest', 'value.format' = 'avro', 'value.avro.schema' = '{AVRO}')"
    await kafka.ok(
        f"CREATE TABLE $.a (id BIGINT, name STRING, _key STRING) USING kafka {options}",
        "INSERT INTO $.a VALUES (1, 'a', 'k'), (2, NULL, NULL)",
        "CREATE TABLE $.dst (id BIGINT, name STRING, k STRING) USING parquet",
    )
    await kafka.streams.drained("INSERT INTO $.dst SELECT * FROM STREAM $.a")
    assert await kafka.rows("SELECT * FROM $.dst ORDER BY id") == [(1, "a", "k"), (2, None, None)]
    await kafka.refused(f"CREATE TABLE $.b (id INT) USING kafka {options}", "declare it so")
    await kafka.put((None, "x"))
    broken = await kafka.run("SELECT id FROM $.a")
    assert broken.error is not None and "is not an Avro record" in broken.error.message, broken
    dropped = "SELECT id FROM $.a WITH ('value.mode' = 'DROPMALFORMED') ORDER BY id"
    assert await kafka.rows(dropped) == [(1,), (2,)]


# Columns and options of a definition, and what its refusal says.
UNREADABLE = (
    ("(id INT)", "", "must say what the value is"),
    ("", "'value.format' = 'json'", "declare the columns"),
    ("(id INT)", "'value.format' = 'yaml'", "must be one of raw, json"),
    ("(id INT)", "'value.format' = 'json', 'value.mode' = 'IGNORE'", "must be one of FAILFAST"),
    ("(id INT)", "'value.format' = 'json', 'value.schema' = 'x'", "'value.schema' is not known"),
    ("(id INT, _offset INT)", "'value.format' = 'json'", "must be BIGINT"),
    ("(id INT)", "'value.format' = 'json', 'key.column' = 'no'", "not a declared column"),
    ("(id INT)", "'value.format' = 'avro'", "value.avro.schema"),
    ("(id INT)", "'value.format' = 'maxwell', 'key.columns' = 'id, no'", "'key.columns' has 'no', which is not"),
)


async def test_a_definition_that_could_not_be_read_is_refused(kafka: Kafka) -> None:
    secret = "'kafka.sasl.jaas.config' = 'org.apache.kafka.common.security.plain.PlainLoginModule required password=\"geheim\";'"
    for what, (columns, options, says) in product(("TABLE $.bad", "TEMPORARY VIEW bad"), UNREADABLE):
        given = ", ".join(filter(None, ("@", secret, options)))
        view = await kafka.run(f"CREATE {what} {columns} USING kafka OPTIONS ({given})")
        assert view.error is not None and says in view.error.message, (what, columns, options, view)
        assert "geheim" not in view.error.message
    assert "geheim" not in kafka.streams.client.gateway.log_tail(1_000_000)
