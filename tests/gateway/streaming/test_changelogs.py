"""Changes of a database in Kafka as rows that come and go: aggregates, joins and copies of tables, by statements."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from sparksql.api.execution import OutputMode, StatementMode, Upsert
from sparksql.wire.control import OperationState
from tests.support.process import GatewayProcess

from ..streams import Streams
from .kafka_broker import Broker, running_broker
from .test_kafka import Kafka, change


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("kafka")) as started:
        yield started


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
    "'changelog.rows' = 'all', 'changelog.key' = 'id'{more})"
)
CUSTOMERS = TABLE.format(name="customers", columns="id INT, name STRING", more="")


def changed(op: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> tuple[str, str | None]:
    return str((before or after or {})["id"]), change(op, before, after, False)


async def put(kafka: Kafka, *records: tuple[str, str | None]) -> None:
    """Writes records into a topic: the table that writes them is of another one."""
    await kafka.ok("DROP TABLE IF EXISTS $.put")
    await kafka.put(*records)


def order(number: int, customer: int, amount: str) -> dict[str, Any]:
    return {"id": number, "customer": customer, "amount": amount}


async def test_changes_of_tables_in_kafka_are_taken_back_in_all_that_is_made_of_them(orders: Kafka) -> None:
    streams = orders.streams
    customers = Kafka(streams, orders.broker, f"c-{uuid.uuid4().hex[:12]}")
    await customers.ok(CUSTOMERS)
    await orders.ok(
        "CREATE TABLE lake.$.sums (customer INT, n BIGINT, total DECIMAL(20,2)) USING iceberg",
        "CREATE TABLE $.named (name STRING, mean DECIMAL(14,6)) USING delta",
        "CREATE TABLE lake.$.copy (id BIGINT, amount DECIMAL(10,2)) USING iceberg",
        "CREATE TABLE $.told (id BIGINT, name STRING, amount DECIMAL(10,2)) USING delta",
        "CREATE TABLE $.log (id BIGINT, kind STRING, place BIGINT, half INT) USING parquet",
    )
    assert [row[0] for row in await orders.rows("DESCRIBE $.orders")][-2:] == ["_row_kind", "_seq"]
    joined = "FROM STREAM $.orders o JOIN STREAM $.customers c ON o.customer = c.id"
    queries = (
        ("lake.$.sums", "SELECT customer, count(*) AS n, sum(amount) AS total FROM STREAM $.orders GROUP BY customer", "customer"),
        ("$.named", f"SELECT name, avg(amount) AS mean {joined} GROUP BY name", "name"),
        ("lake.$.copy", "SELECT id, amount FROM STREAM $.orders WHERE amount < 20", "id"),
        ("$.told", f"SELECT o.id, name, amount {joined}", "id"),
    )  # fmt: skip

    async def read() -> None:
        for target, query, key in queries:
            mode = OutputMode.UPDATE if "GROUP BY" in query else OutputMode.APPEND
            await streams.drained(
                f"INSERT INTO {target} {query}", target[-4:], upsert=Upsert(keys=(key,)), output_mode=mode
            )
        await streams.drained(
            "INSERT INTO $.log SELECT id, _row_kind, _seq.offset, _seq.half FROM STREAM $.orders", "log"
        )

    async def targets() -> list[list[tuple[Any, ...]]]:
        return [await orders.rows(f"SELECT * REPLACE FROM {each}".replace(" REPLACE", "")) for each, _, _ in queries]

    await put(customers, changed("r", None, {"id": 1, "name": "a"}), changed("r", None, {"id": 2, "name": "b"}))
    await put(orders, *(changed("c", None, order(*each)) for each in ((1, 1, "10"), (2, 1, "5.5"), (3, 2, "30"))))
    await read()
    print(await targets())
    await put(
        orders,
        changed("u", order(1, 1, "10"), order(1, 2, "12")),
        changed("d", order(2, 1, "5.5"), None),
        ("2", None),
        changed("u", order(3, 2, "30"), order(3, 2, "8")),
    )
    await put(
        customers,
        changed("u", {"id": 2, "name": "b"}, {"id": 2, "name": "z"}),
        changed("d", {"id": 1, "name": "a"}, None),
    )
    await read()
    print(await targets())
    print(await orders.rows("SELECT * FROM $.log ORDER BY place, half"))
    looked = await orders.run(
        "SELECT customer, sum(amount) AS total FROM STREAM $.orders GROUP BY customer ORDER BY 1",
        mode=StatementMode.PREVIEW,
        execution_seconds=15,
    )
    print(looked)


async def test_refusals(orders: Kafka) -> None:
    for sql in (
        "SELECT min(amount) FROM STREAM $.orders",
        "SELECT count(*) FROM $.orders",
        "SELECT id FROM STREAM $.orders",
        "INSERT INTO $.orders VALUES (1, 2, 3)",
        "SELECT count(*) FROM STREAM $.orders WITH ('changelog.rows' = 'latest')",
        "SELECT count(*) FROM STREAM $.orders WITH ('value.mode' = 'PERMISSIVE')",
    ):
        view = await orders.run(sql, mode=StatementMode.VALIDATE)
        print(sql, view.state, view.error)
        view = await orders.run(sql, mode=StatementMode.PREVIEW, execution_seconds=15)
        print(sql, view.state, view.error)
