"""Values of Kafka records as rows, by Spark's own parsers: what each format says of each kind of message, and of what is none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.sql.errors import StatementError
from sparksql.gateway.streaming.kafka.options import KafkaTable, columns_of
from sparksql.gateway.streaming.kafka.tables import check_table
from sparksql.gateway.streaming.kafka.values import decoded
from sparksql.gateway.streaming.source_keys import inferred_keys, mark
from sparksql.wire.driver import SqlPolicy
from tests.support.default_class import image_connectors

from ..local_spark import local_spark
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
    lacking,
    maxwell,
    proto,
    proto_debezium,
    proto_row,
)

ONE: Row = {"id": 1, "name": "one"}
NEW: Row = {"id": 1, "name": "new"}
BARE: Row = {"id": 2, "name": None}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    with local_spark(tmp_path_factory.mktemp("values"), image_connectors()) as started:
        yield started


def read(spark: SparkDriver, values: list[bytes | None], columns: str, **options: str) -> list[dict[str, Any]]:
    """Rows of these values in this order; `_` in an option's name stands for a dot."""
    found = [
        json.loads(str(text))
        for text in frame(spark, spark.clone(), values, columns, **options).toJSON().collectAsList()
    ]
    rows = sorted(found, key=lambda row: row["_offset"])
    return [{name: value for name, value in row.items() if name != "_offset"} for row in rows]


def frame(spark: SparkDriver, session: Any, values: list[bytes | None], columns: str, **options: str) -> Any:
    parser = session.sessionState().sqlParser()
    given = {name.replace("_", "."): value for name, value in options.items()}
    table = KafkaTable("t", columns_of(parser.parseTableSchema(f"{columns}, _offset BIGINT")), given)
    texts = ["CAST(NULL AS BINARY)" if value is None else f"X'{value.hex()}'" for value in values]
    records = ", ".join(f"(X'', {text}, 'topic', 0, {offset}L)" for offset, text in enumerate(texts))
    plan = parser.parsePlan(f"SELECT * FROM VALUES {records} AS r (key, value, topic, partition, offset)")
    return decoded(spark.jvm, session, table, spark.of_rows(session, plan))


def row(row: Row, op: str | None = None) -> Row:
    """A row as JSON shows it: without NULLs."""
    return {name: value for name, value in {**row, "_op": op}.items() if value is not None}


COLUMNS = "id BIGINT, name STRING"
CHANGES = f"{COLUMNS}, _op STRING"
AVRO = {"value_format": "avro", "value_avro_schema": ROW_SCHEMA}
PROTOBUF = {"value_format": "protobuf", "value_protobuf_descriptor": DESCRIPTOR, "value_protobuf_message": "shop.Value"}
DEBEZIUM_PROTOBUF = {**PROTOBUF, "value_format": "debezium-protobuf", "value_protobuf_message": "shop.Envelope"}
HEADER = {"value_protobuf_header": "Confluent"}
DEBEZIUM_AVRO = {"value_format": "debezium-avro", "value_avro_schema": ENVELOPE_SCHEMA}


@dataclass(frozen=True)
class Format:
    """Messages of a format that are rows, those that are none and none that went wrong, and malformed ones."""

    columns: str
    options: dict[str, str]
    rows: list[tuple[bytes, Row]]
    left_out: list[bytes | None]
    malformed: list[bytes | None]


def of_debezium(write: Any) -> list[tuple[bytes, Row]]:
    return [
        (write("r", None, ONE), row(ONE, "r")),
        (write("c", None, BARE), row(BARE, "c")),
        (write("u", ONE, NEW), row(NEW, "u")),
        (write("u", None, NEW), row(NEW, "u")),
        (write("d", NEW, None), row(NEW, "d")),
    ]


LOST = [("d", None, None), ("u", ONE, None), ("t", None, None)]
NO_JSON = [b"{not json", b"[1]", b"null", b"", b'"text"', b"{}"]
SHORT = avro_row(ONE)[:-1]
FORMATS = {
    "debezium": Format(
        CHANGES,
        {"value_format": "debezium"},
        [*of_debezium(debezium), *of_debezium(partial(debezium, with_schema=True))],
        [None],
        [
            *NO_JSON,
            *(debezium(*each, with_schema=schema) for each in LOST for schema in (False, True)),
            debezium("c", None, {"id": "x"}),
        ],
    ),
    "maxwell": Format(
        CHANGES,
        {"value_format": "maxwell"},
        [
            (maxwell("bootstrap-insert", ONE), row(ONE, "r")),
            (maxwell("insert", BARE), row(BARE, "c")),
            (maxwell("update", NEW, {"name": "one"}), row(NEW, "u")),
            (maxwell("delete", NEW), row(NEW, "d")),
        ],
        [None, maxwell("bootstrap-start", {}), maxwell("bootstrap-complete", None)],
        [*NO_JSON, maxwell("insert", None), maxwell("table-alter", None), maxwell("insert", {"id": "x"})],
    ),
    "debezium-avro": Format(
        CHANGES,
        DEBEZIUM_AVRO,
        of_debezium(avro_debezium),
        [None],
        [*(avro_debezium(*each) for each in LOST), avro_debezium("d", ONE, None)[:-1], b"", b"\x04"],
    ),
    "debezium-avro with Confluent's header": Format(
        CHANGES,
        {**DEBEZIUM_AVRO, "value_avro_header": "confluent"},
        [(confluent(7, message), told) for message, told in of_debezium(avro_debezium)],
        [None],
        [
            b"\0\0\0",
            b"\1" + confluent(7, avro_debezium("c", None, ONE))[1:],
            *(confluent(7, avro_debezium(*each)) for each in LOST),
        ],
    ),
    "avro": Format(COLUMNS, AVRO, [(avro_row(ONE), row(ONE)), (avro_row(BARE), row(BARE))], [], [None, b"", SHORT]),
    "protobuf": Format(
        COLUMNS,
        PROTOBUF,
        [(proto_row(each), row(each)) for each in (ONE, BARE)]
        + [(b"", {"id": 0}), (proto_row(ONE) + b"\x18\x05", row(ONE))],
        [],
        [None, proto_row(ONE)[:-1], b"\xff", b"\x12\x01\xff", b"\x0c"],
    ),
    "protobuf with Confluent's header": Format(
        COLUMNS,
        {**PROTOBUF, **HEADER},
        [
            (confluent_proto(7, (0,), proto_row(ONE)), row(ONE)),
            (confluent(8, b"\x02\0" + proto_row(BARE)), row(BARE)),
        ],
        [],
        [None, b"\0" * 5, proto_row(ONE), confluent_proto(7, (1,), proto_row(ONE)), confluent_proto(7, (0, 0), b"")],
    ),
    "debezium-protobuf": Format(
        CHANGES,
        DEBEZIUM_PROTOBUF,
        of_debezium(proto_debezium),
        [None],
        [*(proto_debezium(*each) for each in LOST), proto_debezium("d", ONE, None)[:-1], b""],
    ),
    "debezium-protobuf with Confluent's header": Format(
        CHANGES,
        {**DEBEZIUM_PROTOBUF, **HEADER},
        [(confluent_proto(7, (1,), message), told) for message, told in of_debezium(proto_debezium)],
        [None],
        [confluent_proto(7, (0,), proto_debezium("c", None, ONE))],
    ),
    "avro with Apicurio's header": Format(
        COLUMNS,
        {**AVRO, "value_avro_header": "Apicurio"},
        [(apicurio(1 << 40, avro_row(each)), row(each)) for each in (ONE, BARE)],
        [],
        [None, b"", avro_row(ONE), apicurio(1, SHORT), b"\0" * 8],
    ),
}


@pytest.mark.parametrize("name", FORMATS)
def test_messages_of_each_kind_become_rows_and_malformed_ones_what_the_mode_says(spark: SparkDriver, name: str) -> None:
    told = FORMATS[name]
    good, expected = [message for message, _ in told.rows], [row for _, row in told.rows]
    assert read(spark, [*good, *told.left_out], told.columns, **told.options) == expected
    everything = [*good, *told.left_out, *told.malformed]
    assert read(spark, everything, told.columns, **told.options, value_mode="DROPMALFORMED") == expected
    empty = [{} for _ in told.malformed]
    permissive = read(spark, everything, told.columns, **told.options, value_mode="PERMISSIVE")
    assert [row if "id" in row else {} for row in permissive] == [*expected, *empty]
    for message in {told.malformed[0], told.malformed[-1]}:  # DROPMALFORMED has told the others by the same condition
        with pytest.raises(Exception, match=r"topic topic, partition 0, offset 1\. value\.mode"):
            read(spark, [good[0], message], told.columns, **told.options)


KINDS = (
    "small INT, large BIGINT, largest DECIMAL(20,0), bytes BINARY, state STRING, items ARRAY<STRUCT<id: BIGINT, name: STRING>>, "
    "by_name MAP<STRING, STRUCT<id: BIGINT, name: STRING>>, at TIMESTAMP, left BIGINT, text STRING, ratio DOUBLE"
)


def test_fields_of_protobuf_have_their_types_and_those_not_there_their_default_or_null(spark: SparkDriver) -> None:
    value = {"id": 1, "name": "one"}
    full = proto(
        "Kinds",
        small=-1,
        large=(1 << 32) - 1,
        largest=(1 << 64) - 1,
        bytes=b"\0\1",
        state="PAID",
        items=[proto("Value", **value), proto("Value")],
        by_name={"a": proto("Value", **value)},
        at={"seconds": 1, "nanos": 500_000_000},
        left={"value": 0},
        text="",
        ratio=0.5,
    )
    other = proto("Kinds", state=7)
    options = {**PROTOBUF, "value_protobuf_message": "shop.Kinds"}
    found = read(spark, [each.SerializeToString() for each in (full, other)], KINDS, **options)
    assert found == [
        {
            "small": -1,
            "large": (1 << 32) - 1,
            "largest": (1 << 64) - 1,
            "bytes": "AAE=",
            "state": "PAID",
            "items": [value, {"id": 0}],
            "by_name": {"a": value},
            "at": "1970-01-01T00:00:01.500Z",
            "left": 0,
            "text": "",
            "ratio": 0.5,
        },
        {"small": 0, "large": 0, "largest": 0, "bytes": "", "state": "7", "items": [], "by_name": {}, "ratio": 0.0},
    ]


@pytest.mark.parametrize(
    ("columns", "options", "says"),
    [
        ("id INT", {}, "column id is INT, the message in 'value.protobuf.message' makes it BIGINT"),
        ("no INT", {}, "column no is not a field of the message in 'value.protobuf.message'"),
        ("id INT", {"value_protobuf_descriptor": "!"}, "'value.protobuf.descriptor' is not Base64"),
        ("id INT", {"value_protobuf_descriptor": "/w=="}, "'value.protobuf.descriptor' is not a FileDescriptorSet"),
        ("id INT", {"value_protobuf_message": "Value"}, "has no message Value, it has google.protobuf.Timestamp, "),
        (
            "id INT",
            {"value_protobuf_descriptor": lacking("google/protobuf/timestamp.proto")},
            "lacks the file google/protobuf/timestamp.proto, which shop.proto imports",
        ),
        ("left INT", {"value_protobuf_message": "shop.Tree"}, "has message shop.Tree within itself"),
        ("id INT", {"value_protobuf_message": "shop.Empty"}, "has message shop.Empty without fields"),
        ("id BIGINT", {"value_format": "debezium-protobuf"}, "is not Debezium's envelope"),
    ],
)
def test_a_protobuf_message_that_does_not_fit_the_columns_is_refused(
    spark: SparkDriver, columns: str, options: dict[str, str], says: str
) -> None:
    with pytest.raises(StatementError) as refused:
        read(spark, [b""], columns, **{**PROTOBUF, **options})
    assert says in str(refused.value)


EARLIER = json.dumps(
    {"type": "record", "name": "Value", "fields": [{"name": "name", "type": "string"}, {"name": "id", "type": "int"}]}
)


def test_an_id_in_the_header_says_which_schema_a_record_was_written_with(spark: SparkDriver) -> None:
    options = {
        **AVRO,
        "value_avro_header": "confluent",
        "value_avro_schema_7": ROW_SCHEMA,
        "value_avro_schema_3": EARLIER,
    }
    earlier = b"\x06one\x02"
    found = read(spark, [confluent(7, avro_row(BARE)), confluent(3, earlier)], COLUMNS, **options)
    assert found == [row(BARE), row(ONE)]
    with pytest.raises(Exception, match="is not an Avro record of the schema"):
        read(spark, [confluent(8, avro_row(BARE))], COLUMNS, **options)


@pytest.mark.parametrize(
    ("columns", "options", "says"),
    [
        ("id INT", AVRO, "column id is INT, the schema in 'value.avro.schema' makes it BIGINT"),
        ("no INT", AVRO, "column no is not a field of the schema"),
        ("id INT", {**AVRO, "value_avro_schema": '"long"'}, "it must be that of a record"),
        ("id INT", {**AVRO, "value_avro_schema": "{"}, "'value.avro.schema' is not an Avro schema: "),
        ("id BIGINT", {**DEBEZIUM_AVRO, "value_avro_schema": ROW_SCHEMA}, "is not Debezium's envelope"),
        ("op STRING", DEBEZIUM_AVRO, "column op is not a field of before and after"),
    ],
)
def test_an_avro_schema_that_does_not_fit_the_columns_is_refused(
    spark: SparkDriver, columns: str, options: dict[str, str], says: str
) -> None:
    with pytest.raises(StatementError) as refused:
        read(spark, [b""], columns, **options)
    assert says in str(refused.value)


rows = st.fixed_dictionaries(
    {
        "id": st.integers(-(1 << 63), (1 << 63) - 1),
        "name": st.none() | st.text(st.characters(codec="utf-8"), max_size=9),
    }
)


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.lists(st.tuples(st.sampled_from("crud"), rows, st.booleans()), min_size=20, max_size=60),
    number=st.integers(0, (1 << 31) - 1),
)
def test_a_change_is_the_same_in_every_format(
    spark: SparkDriver, changes: list[tuple[str, Row, bool]], number: int
) -> None:
    expected = [row(changed, op) for op, changed, _ in changes]
    kinds = {"c": "insert", "r": "bootstrap-insert", "u": "update", "d": "delete"}
    told = [(op, changed if op == "d" else None, None if op == "d" else changed) for op, changed, _ in changes]
    in_maxwell = [maxwell(kinds[op], changed) for op, changed, _ in changes]
    in_json = [debezium(*each, with_schema=schema) for each, (_, _, schema) in zip(told, changes, strict=True)]
    in_avro = [apicurio(number, avro_debezium(*each)) for each in told]
    in_protobuf = [confluent_proto(number, (1,), proto_debezium(*each)) for each in told]
    header = {**DEBEZIUM_AVRO, "value_avro_header": "apicurio"}
    assert read(spark, in_maxwell, CHANGES, value_format="maxwell") == expected
    assert read(spark, in_json, CHANGES, value_format="debezium") == expected
    assert read(spark, in_avro, CHANGES, **header) == expected
    assert read(spark, in_protobuf, CHANGES, **DEBEZIUM_PROTOBUF, **HEADER) == expected


@pytest.fixture(scope="module")
def keyed(spark: SparkDriver) -> Any:
    """A session with views: `k` with keys id and name, `bare` without any, `other` of which nothing is known, `over` a view of `k`."""
    session = spark.clone()
    for view, keys in (("k", ["ID", "name"]), ("bare", []), ("other", None)):
        rows = frame(spark, session, [None], CHANGES, value_format="maxwell")
        if keys is not None:
            mark(spark.jvm, rows, view, keys, "name its key")
        rows.createOrReplaceTempView(view)
    analysed(spark, session, "SELECT name AS n, id, _offset FROM k WHERE id > 0").createOrReplaceTempView("over")
    return session


def analysed(spark: SparkDriver, session: Any, sql: str) -> Any:
    spark.activate(session)
    return spark.of_rows(session, session.sessionState().sqlParser().parsePlan(sql))


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("SELECT * FROM k", ("id", "name")),
        ("SELECT id, *, id AS customer FROM k", ("customer", "name")),
        ("SELECT _op, name, id AS customer FROM (SELECT * FROM k WHERE _op <> 'r') WHERE id > 1", ("customer", "name")),
        ("SELECT upper(name) AS u, n, id FROM (SELECT name, name AS n, id FROM k)", ("id", "n")),
        ("WITH w AS (SELECT id AS i, name FROM k) SELECT name AS n, i FROM w", ("i", "n")),
        ("SELECT * FROM over AS o WHERE o.n IS NOT NULL", ("id", "n")),
        ("SELECT count(*) AS c, name AS n FROM bare GROUP BY name", ("n",)),
        (
            "SELECT id FROM k",
            "does not give key column name of its source as it is; select it, or name the columns in spec.",
        ),
        ("SELECT id + 0 AS id, name FROM k", "does not give key column ID of"),
        (
            "SELECT * FROM bare",
            "table bare declares no key; name its key, or name the columns in spec.streaming.upsert.keys",
        ),
        ("SELECT * FROM other", "there is Generate in its plan"),
        ("SELECT 1 AS id", "source (OneRowRelation) declares no keys"),
        ("SELECT a.* FROM k a JOIN k b ON a.id = b.id", "there is Join in its plan"),
        ("SELECT * FROM k UNION ALL SELECT * FROM k", "there is Union in its plan"),
        ("SELECT id, name, explode(array(1, 2)) AS e FROM k", "there is Generate in its plan"),
        ("SELECT count(*) AS c FROM k GROUP BY id", "does not give every column that it groups by"),
        ("SELECT count(*) AS c FROM k", "one row, which has no key"),
    ],
)
def test_keys_of_a_query_are_those_of_its_source_or_the_refusal_says_why(
    spark: SparkDriver, keyed: Any, query: str, keys: tuple[str, ...] | str
) -> None:
    plan = analysed(spark, keyed, query).queryExecution().analyzed()
    if isinstance(keys, tuple):
        assert inferred_keys(spark.jvm, plan, ("CUSTOMER", "name")) == keys
        return
    with pytest.raises(StatementError) as refused:
        inferred_keys(spark.jvm, plan, ("CUSTOMER", "name"))
    assert (
        keys in refused.value.error.message and "spec.streaming.upsert.keys is missing" in refused.value.error.message
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"value.format": "avro"}, "needs option 'value.avro.schema'"),
        ({"value.format": "maxwell", "value.avro.schema": "x"}, "goes with 'value.format' = 'avro' or 'debezium-avro'"),
        ({"value.avro.schema.7": "x"}, "is for an id in a header: set 'value.avro.header' to confluent or apicurio"),
        ({"value.avro.header": "confluent", "value.avro.schema.2147483648": "x"}, "an id of confluent has 4 bytes"),
        ({"value.avro.header": "glue"}, "'glue': it must be one of none, confluent, apicurio"),
        (
            {"value.avro.schema.x": "x"},
            "'value.avro.schema.x' is not known: there are changelog.rows, key.column, key.columns, value.avro.header",
        ),
        ({"value.protobuf.message": "x"}, "goes with 'value.format' = 'protobuf' or 'debezium-protobuf'"),
        ({"value.format": "protobuf"}, "needs option 'value.protobuf.descriptor', the Base64 of"),
        ({"value.format": "protobuf", "value.protobuf.descriptor": ""}, "needs option 'value.protobuf.message'"),
        (
            {
                "value.format": "protobuf",
                "value.protobuf.descriptor": "",
                "value.protobuf.message": "",
                "value.protobuf.header": "apicurio",
            },
            "'apicurio': it must be one of none, confluent",
        ),
        ({"key.columns": "id, no"}, "option 'key.columns' has 'no', which is not a declared column"),
        ({"key.columns": "id,"}, "option 'key.columns' has ''"),
        ({"key.columns": "id", "key.column": "no"}, "option 'key.column' has 'no'"),
        ({"value.avro.header": "apicurio", "value.avro.schema.2147483648": "x", "key.columns": "ID , name"}, None),
    ],
)
def test_options_of_a_table_that_do_not_go_together_are_refused(
    spark: SparkDriver, options: dict[str, str], says: str | None
) -> None:
    columns = columns_of(spark.base.sessionState().sqlParser().parseTableSchema(COLUMNS))
    given = {"value.format": "avro", "value.avro.schema": ROW_SCHEMA, **options}
    if options.get("value.format") in ("avro", "protobuf"):
        del given["value.avro.schema"]
    table = KafkaTable("t", columns, given)
    if says is None:
        check_table(table, SqlPolicy())
        assert (table.keys, table.writers_schemas) == (("ID", "name"), {1 << 31: "x"})
        return
    with pytest.raises(StatementError) as refused:
        check_table(table, SqlPolicy())
    assert says in refused.value.error.message
