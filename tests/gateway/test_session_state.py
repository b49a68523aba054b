"""What statements make of a session, brought back in the next driver: whole, or told what is missing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sparksql.wire.control import OperationState, Parameter
from sparksql.wire.session_state import SessionState
from tests.gateway.client import API, GatewayClient, connect
from tests.support.process import GatewayProcess

Start = Callable[..., GatewayProcess]

INIT = [{"sql": "CREATE DATABASE IF NOT EXISTS sales; SET spark.sql.shuffle.partitions = 3", "origin": "init[0].sql"}]
LOOK = "SELECT v.a, counter, plus(1), current_database() FROM v"
PREPARED = """
    CREATE TABLE IF NOT EXISTS sales.notes (a INT) USING parquet;
    USE sales;
    SET spark.sql.session.timeZone = Asia/Tokyo;
    CREATE TEMPORARY VIEW v AS SELECT 7 AS a;
    CREATE TEMPORARY FUNCTION plus(x INT) RETURNS INT RETURN x + 1;
    CREATE OR REPLACE TEMPORARY FUNCTION plus(x INT) RETURNS INT RETURN x + 2;
    SET VARIABLE counter = 40;
    CREATE TEMPORARY VIEW gone AS SELECT 1 AS a;
    DROP VIEW gone;
    INSERT INTO sales.notes VALUES (1)
"""


async def state_of(client: GatewayClient) -> SessionState:
    async with client.http.get(f"{API}/session-state") as response:
        assert response.status == 200, await response.text()
        return SessionState.model_validate_json(await response.text())


@pytest.fixture
async def kept(own_gateway: Start) -> SessionState:
    """What a driver holds whose session a script has prepared."""
    gateway = own_gateway(init=INIT)
    async with connect(gateway) as client:
        await client.until_started()
        info = await client.info()
        assert (info.has_session_state, info.restorable_statements, info.state_obstacle) == (False, 0, None)
        start = Parameter(name="start", value="5", type="INT")
        await client.ok("DECLARE VARIABLE counter INT DEFAULT :start", name="declared", parameters=(start,))
        await client.ok(PREPARED, name="prepared")
        assert await client.rows(LOOK) == [(7, 40, 3, "sales")]
        refused = await client.end(await client.put("CREATE TEMPORARY VIEW w AS SELECT * FROM missing"))
        assert refused.state is OperationState.ERROR
        info = await client.info()
        assert (info.has_session_state, info.state_obstacle) == (True, None)
        state = await state_of(client)
    gateway.stop()
    assert info.restorable_statements == len(state.statements)
    return state


async def test_session_state_made_by_statements_comes_back_in_the_next_driver(
    own_gateway: Start, kept: SessionState
) -> None:
    texts = [" ".join(each.sql.split()) for each in kept.statements]
    assert [text.split()[0] for text in texts] == ["DECLARE", "USE", "SET", *["CREATE"] * 3, "SET", "CREATE", "DROP"]
    assert [p.name for each in kept.statements for p in each.parameters] == ["start"]
    async with connect(own_gateway(init=INIT, incarnation=4, restore=kept.model_dump())) as client:
        info = await client.until_started()
        assert (info.state_lost, info.has_session_state) == (None, True)
        assert await client.rows(LOOK) == [(7, 40, 3, "sales")]
        assert await client.rows("SET spark.sql.session.timeZone") == [("spark.sql.session.timeZone", "Asia/Tokyo")]
        again = await state_of(client)
        assert [each.sql for each in again.statements] == [each.sql for each in kept.statements]
        assert again.digest == kept.digest
        await check_obstacles(client)


async def check_obstacles(client: GatewayClient) -> None:
    """What cannot be run again is told with its statement's name, and the first such statement stays the reason."""
    await client.ok("CREATE TABLE sales.other (a INT) USING parquet; DROP TABLE sales.other")
    await client.ok("CREATE FUNCTION sales.kept(x INT) RETURNS INT RETURN x")
    assert (await client.info()).state_obstacle is None, "a catalog is no session"
    secret = Parameter(name="key", value="hidden", type="STRING", secret=True)
    await client.ok(
        "CREATE TEMPORARY VIEW s AS SELECT 1 AS a WHERE 'hidden' = :key", name="with-key", parameters=(secret,)
    )
    told = (await client.info()).state_obstacle
    assert told is not None and "statement with-key has a value from a Secret" in told
    await client.ok("EXECUTE IMMEDIATE 'SET spark.sql.shuffle.partitions = 9'", name="dynamic")
    assert (await client.info()).state_obstacle == told


@pytest.mark.thorough
async def test_a_state_that_does_not_come_back_whole_is_told(own_gateway: Start, kept: SessionState) -> None:
    """A statement that fails, with the ones behind it run all the same; a driver of whom nothing was kept."""
    broken = kept.statements[0].model_copy(
        update={"sql": "CREATE TEMPORARY VIEW x AS SELECT * FROM lost", "name": "views", "parameters": ()}
    )
    state = SessionState(statements=(broken, *kept.statements), digest=kept.digest)
    async with connect(own_gateway(init=INIT, incarnation=4, restore=state.model_dump())) as client:
        info = await client.until_started()
        assert info.state_lost is not None
        assert "statement 1 of 10, of SqlStatement views, could not run again" in info.state_lost
        assert "TABLE_OR_VIEW_NOT_FOUND" in info.state_lost
        assert await client.rows(LOOK) == [(7, 40, 3, "sales")]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("DECLARE OR REPLACE VARIABLE drawn DOUBLE DEFAULT rand()", "are not what they were"),
        (None, "the stored statements do not exist"),
    ],
    ids=["another value", "nothing kept"],
)
async def test_a_state_that_is_another_one_is_told(own_gateway: Start, sql: str | None, told: str) -> None:
    state = SessionState()
    if sql is not None:
        request = {"bootId": "", "namespace": "team-a", "name": "drawn", "sql": sql}
        state = SessionState.model_validate({"statements": [request], "digest": "of another value"})
    async with connect(own_gateway(init=INIT, incarnation=4, restore=state.model_dump())) as client:
        info = await client.until_started()
        assert info.state_lost is not None and told in info.state_lost
