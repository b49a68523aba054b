"""A client of Connect and a manifest that write one path-based table at the same time lose nothing of each other's."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pyspark.sql.connect.proto import commands_pb2 as commands

from sparksql.wire.control import OperationState
from tests.support.connect_client import ConnectSession, connect_channel, relations, sql_command, sql_relation, until
from tests.support.process import GatewayProcess

from .client import GatewayClient, connect

ROWS = 2000
# Each row takes a while, so that the write is under way when the other one comes.
SLOW = f"SELECT id AS a FROM range(0, {ROWS}, 1, 2) WHERE length(sha2(repeat(cast(id AS string), 60000), 512)) > 0"


def command(how: str, table: str) -> Any:
    match how:
        case "sql":
            return sql_command(f"INSERT INTO {table} {SLOW}")
        case "frame":
            saved = commands.WriteOperation.SaveTable(table_name=table, save_method=2)
            write = commands.WriteOperation(input=sql_relation(SLOW), mode=1, table=saved)
            return commands.Command(write_operation=write)
        case _:
            named = relations.Relation(subquery_alias=relations.SubqueryAlias(input=sql_relation(SLOW), alias="frame"))
            both = relations.WithRelations(
                root=sql_relation(f"INSERT INTO {table} SELECT a FROM frame"), references=[named]
            )
            return commands.Command(sql_command=commands.SqlCommand(input=relations.Relation(with_relations=both)))


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["sql", "frame", "references"])
async def test_two_writers_of_one_table(gateway: GatewayProcess, how: str) -> None:
    table = f"written_by_{how}"
    async with connect_channel(gateway) as channel, connect(gateway) as control:
        await control.until_started()
        session = ConnectSession(channel)
        await session.sql(f"CREATE TABLE {table} (a BIGINT) USING parquet")
        writing = asyncio.create_task(session.execute(command=command(how, table)))
        (client,) = await until("the client writes", lambda: _running(control))
        other = await control.put(f"INSERT INTO {table} VALUES (-1)")
        again = asyncio.create_task(session.sql(f"INSERT INTO {table} VALUES (-2)"))
        assert (await control.end(other)).state is OperationState.FINISHED
        assert client not in await _running(control), "the manifest waits for the client"
        await writing
        await again
        assert await session.rows(f"SELECT count(*), count_if(a < 0) FROM {table}") == [(ROWS + 2, 2)]
    assert not (gateway.folder / "warehouse" / table / "_temporary").exists()


async def _running(control: GatewayClient) -> list[str]:
    """Ids of the statements of clients that run."""
    async with control.http.get("/control/v1/clients") as response:
        operations = (await response.json())["operations"]
    return [operation["operationId"] for operation in operations if operation["state"] == "Running"]
