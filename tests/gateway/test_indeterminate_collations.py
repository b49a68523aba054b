"""Texts made of two collations have none of their own: their rows are shown in every protocol, of every size, and written by streams."""

from __future__ import annotations

import pytest

from sparksql.api.execution import StatementMode
from sparksql.wire.control import ResultOptions
from tests.support.process import GatewayProcess

from .client import GatewayClient
from .rest_client import RestClient
from .streams import Streams
from .test_thrift_frontend import Frontend, Session, thrift_port

TWO = "SELECT id, 'Ab' COLLATE UTF8_LCASE AS a, 'c' COLLATE UNICODE AS b FROM range({rows})"
QUERY = f"SELECT rpad(a, 4, b) AS s, array(a || b) AS l, struct(a || b AS t) AS r, map(1, a || b) AS m FROM ({TWO}) ORDER BY id"
TYPES = ["string collate null", "array<string collate null>", "struct<t:string collate null>", "map<int,string collate null>"]  # fmt: skip
ROW = ("Abcc", ["Abc"], {"t": "Abc"}, {"1": "Abc"})


@pytest.mark.parametrize("rows", [2, 10_001])  # in memory, and in files
async def test_rows_with_an_indeterminate_collation_come_with_their_types(client: GatewayClient, rows: int) -> None:
    view = await client.ok(QUERY.format(rows=rows), result=ResultOptions(max_rows=20_000))
    assert view.result is not None
    assert [column.type for column in view.result.columns] == TYPES
    assert view.result.preview[0] == ("Abcc", "[Abc]", "{Abc}", "{1 -> Abc}")
    assert [row async for row in client.pages(view.operation_id, 10_000)] == [ROW] * rows


async def test_a_validated_query_with_an_indeterminate_collation_has_its_columns(client: GatewayClient) -> None:
    view = await client.ok(QUERY.format(rows=2), mode=StatementMode.VALIDATE)
    assert view.result is not None and [column.type for column in view.result.columns] == TYPES


async def test_clients_read_an_indeterminate_collation_as_text(rest: RestClient, gateway: GatewayProcess) -> None:
    async with rest.session() as session:
        first, rows = await session.run(QUERY.format(rows=2))
    logical = [column["logicalType"]["type"] for column in first["results"]["columns"]]
    assert (logical, rows) == (["VARCHAR", "ARRAY", "ROW", "VARCHAR"], [["Abcc", ["Abc"], {"t": "Abc"}, "{1=Abc}"]] * 2)
    with Frontend(gateway, thrift_port(gateway)).connect() as connection:
        thrift = Session(connection)
        assert thrift.rows(QUERY.format(rows=1)) == [("Abcc", '["Abc"]', '{"t":"Abc"}', '{"1":"Abc"}')]


async def test_a_stream_with_state_and_rows_made_of_two_collations_is_described(
    streams: Streams, gateway: GatewayProcess
) -> None:
    await streams.ok("CREATE TABLE $.out (r STRUCT<t: STRING>) USING parquet")
    named = "SELECT max(name) AS m FROM STREAM $.src WATERMARK ts DELAY OF INTERVAL 0 SECONDS GROUP BY window(ts, '1 second')"
    two = f"SELECT m COLLATE UTF8_LCASE AS a, m COLLATE UNICODE AS b FROM ({named})"
    rows = f"SELECT r FROM ({two}) LATERAL VIEW explode(array(named_struct('t', a || b))) AS r"
    begin = (gateway.folder / "log").stat().st_size
    await streams.drained(f"INSERT INTO $.out {rows}")
    assert await streams.rows("SELECT r.t FROM $.out") == [("aa",)]
    assert b"cannot be described" not in (gateway.folder / "log").read_bytes()[begin:]
