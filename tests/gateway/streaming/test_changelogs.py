"""Changes of a database in Kafka as rows that come and go: aggregates, joins and copies of tables, by statements."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from sparksql.api.execution import OutputMode, StatementMode, Upsert
from sparksql.wire.control import ErrorReason, RestoreOptions
from tests.support.process import GatewayProcess

from ..streams import Streams
from .kafka_broker import Broker
from .kafka_tables import Kafka
from .test_kafka import change


@pytest.fixture(scope="module")
def gateway(connected_gateway: GatewayProcess) -> GatewayProcess:
    return connected_gateway


@pytest.fixture
async def orders(streams: Streams, broker: Broker) -> Kafka:
    made = Kafka(streams, broker, f"o-{uuid.uuid4().hex[:12]}")
    await made.ok(TABLE.format(name="orders", columns="id BIGINT, customer INT, amount DECIMAL(10,2)", more=""))
    return made


TABLE = (
    "CREATE TABLE $.{name} ({columns}) USING kafka OPTIONS (@, 'startingOffsets' = 'earliest', 'value.format' = 'debezium', "
    "'changelog.rows' = 'all', 'key.columns' = 'id'{more})"
)
BAD = "CREATE TABLE $.bad ({}) USING kafka OPTIONS (@, 'value.format' = '{}', 'changelog.rows' = 'all', 'key.columns' = 'id')"
CUSTOMERS = TABLE.format(name="customers", columns="id INT, name STRING", more="")


def changed(op: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> tuple[str, str | None]:
    return str((before or after or {})["id"]), change(op, before, after, False)


async def put(kafka: Kafka, *records: tuple[str, str | None]) -> None:
    """Writes records into a topic: the table that writes them is of another one."""
    await kafka.ok("DROP TABLE IF EXISTS $.put")
    await kafka.put(*records)


def order(number: int, customer: int, amount: str) -> dict[str, Any]:
    return {"id": number, "customer": customer, "amount": amount}


@pytest.mark.thorough
async def test_updates_in_kafka_are_taken_back_from_sums_and_joined_rows_in_iceberg_and_delta(orders: Kafka) -> None:
    streams = orders.streams
    customers = Kafka(streams, orders.broker, f"c-{uuid.uuid4().hex[:12]}")
    await customers.ok(CUSTOMERS)
    await orders.ok(
        "CREATE TABLE lake.$.sums (name STRING, n BIGINT, total DECIMAL(20,2)) USING iceberg",
        "CREATE TABLE $.rows (id BIGINT, name STRING, amount DECIMAL(10,2)) USING delta",
        "CREATE TABLE $.log (id BIGINT, kind STRING, place BIGINT, half INT) USING parquet",
    )
    assert await orders.rows("DESCRIBE $.orders") == [
        ("id", "bigint", None), ("customer", "int", None), ("amount", "decimal(10,2)", None), ("_row_kind", "string", None),
        ("_seq", "struct<partition:int,offset:bigint,half:int>", None),
    ]  # fmt: skip
    joined = "FROM STREAM $.orders o JOIN STREAM $.customers c ON o.customer = c.id"

    async def read() -> None:
        sums = f"INSERT INTO lake.$.sums SELECT name, count(*) AS n, sum(amount) AS total {joined} GROUP BY name"
        await streams.drained(sums, "sums", upsert=Upsert(keys=("name",)), output_mode=OutputMode.UPDATE)
        await streams.drained(
            f"INSERT INTO $.rows SELECT o.id, name, amount {joined}", "rows", upsert=Upsert(keys=("id",))
        )
        await streams.drained(
            "INSERT INTO $.log SELECT id, _row_kind, _seq.offset, _seq.half FROM STREAM $.orders", "log"
        )

    await put(customers, changed("r", None, {"id": 1, "name": "a"}), changed("r", None, {"id": 2, "name": "b"}))
    await put(orders, *(changed("c", None, order(*each)) for each in ((1, 1, "10"), (2, 1, "5.5"), (3, 2, "30"))))
    await read()
    read_sums = "SELECT name, n, CAST(total AS STRING) FROM lake.$.sums ORDER BY 1"
    read_rows = "SELECT id, name, CAST(amount AS STRING) FROM $.rows ORDER BY 1"
    assert await orders.rows(read_sums) == [("a", 2, "15.50"), ("b", 1, "30.00")]
    assert await orders.rows(read_rows) == [(1, "a", "10.00"), (2, "a", "5.50"), (3, "b", "30.00")]
    await put(
        orders,
        changed("u", order(1, 1, "10"), order(1, 2, "12")),
        changed("d", order(2, 1, "5.5"), None),
        ("2", None),
        changed("u", order(3, 2, "30"), order(3, 2, "8")),
    )
    await put(customers, changed("u", {"id": 2, "name": "b"}, {"id": 2, "name": "z"}))
    await read()
    assert await orders.rows(read_sums) == [("z", 2, "20.00")]
    some = f"INSERT INTO lake.$.sums SELECT name, count(*) AS n, sum(amount) AS total {joined} WHERE amount > 6 GROUP BY name"
    other = await streams.run(some, "sums", upsert=Upsert(keys=("name",)), output_mode=OutputMode.UPDATE)
    assert other.error is not None and other.error.reason is ErrorReason.STATE_INCOMPATIBLE, (
        "rows went by other conditions"
    )
    assert await orders.rows(read_rows) == [(1, "z", "12.00"), (3, "z", "8.00")]
    assert await orders.rows("SELECT * FROM $.log ORDER BY place, half") == [
        (1, "+I", 0, 1), (2, "+I", 1, 1), (3, "+I", 2, 1), (1, "-U", 3, 0), (1, "+U", 3, 1), (2, "-D", 4, 0),
        (3, "-U", 6, 0), (3, "+U", 6, 1),
    ]  # fmt: skip


async def test_a_query_that_cannot_take_changes_back_is_refused_at_its_place(orders: Kafka) -> None:
    await orders.ok("CREATE TEMPORARY VIEW kept AS SELECT * FROM STREAM $.orders")
    for sql, says, fragment in (
        ("SELECT customer, min(amount) FROM STREAM $.orders GROUP BY 1", "min(...) over a changelog", "min(amount)"),
        ("SELECT id FROM kept WHERE _row_kind = '+I'", "not decided by", "_row_kind = '+I'"),
        ("SELECT id FROM STREAM $.orders", "select _row_kind", None),
        ("SELECT count(*) FROM $.orders", "as a STREAM only", None),
        ("SELECT count(*) FROM STREAM $.orders WITH ('changelog.rows' = 'latest')", "cannot change it", None),
        ("SELECT count(*) FROM STREAM $.orders WITH ('value.mode' = 'PERMISSIVE')", "must be FAILFAST", None),
        (BAD.format("_offset BIGINT, id INT", "debezium"), "_offset is of a change", None),
        (BAD.format("id INT", "json"), "must be debezium", None),
        (BAD.format("name STRING", "debezium"), "has 'id', which is not a declared column", None),
    ):
        view = await orders.run(sql, mode=StatementMode.EXECUTE if "CREATE" in sql else StatementMode.PREVIEW)
        assert view.error is not None and says in view.error.message, (sql, view.error)
        assert view.error.fragment == fragment, (sql, view.error)


async def test_aggregate_added_over_a_changelog_is_refused_or_computed_from_the_history(orders: Kafka) -> None:
    streams = orders.streams
    await orders.ok("CREATE TABLE lake.$.sums (customer INT, n BIGINT, total DECIMAL(20,2)) USING iceberg")
    await put(orders, *(changed("c", None, order(*each)) for each in ((1, 1, "10"), (2, 1, "5.5"), (3, 2, "30"))))
    text = "INSERT INTO lake.$.sums SELECT customer, count(*) AS n, {} AS total FROM STREAM $.orders GROUP BY customer"
    counts, sums = text.format("CAST(NULL AS DECIMAL(20,2))"), text.format("sum(amount)")
    options: dict[str, Any] = {"upsert": Upsert(keys=("customer",)), "output_mode": OutputMode.UPDATE}
    await streams.drained(counts, "counts", **options)
    await put(
        orders,
        changed("u", order(2, 1, "5.5"), order(2, 1, "8")),
        changed("u", order(3, 2, "30"), order(3, 1, "7")),
    )
    refused = await streams.run(sums, "counts", rewrites=True, **options)
    assert refused.error is not None and refused.error.reason is ErrorReason.STATE_INCOMPATIBLE, refused
    assert "that it never counted" in refused.error.message and not refused.error.rewritable, refused.error
    restore = RestoreOptions(location=streams.options("counts").checkpoint, query_id="", rewrite=True)
    view = await streams.run(sums, "rebuilt", rewrites=True, rebuilds=True, restore=restore, **options)
    assert view.error is None, view
    found = "SELECT customer, n, CAST(total AS STRING) FROM lake.$.sums ORDER BY 1"
    assert await orders.rows(found) == [(1, 3, "25.00")]
