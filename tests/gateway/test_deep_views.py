"""Chains of views that are deeper together than Spark's stack: each protocol gets the refusal, and the driver serves the next statement."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest

from sparksql.wire.control import ErrorReason, GatewayState, OperationState
from sparksql.wire.failure.classify import classify
from sparksql.wire.failure.kind import FailureKind
from tests.support.client_session import open_rest, rest_http
from tests.support.connect_client import ConnectSession, Failed, connect_channel, sql_relation

from .client import GatewayClient
from .test_reading import Session, ThriftClient, thrift_port

LEVELS = 60  # of one view: far below what Spark takes of one statement
MOST_VIEWS = 60
CONDITION, SQL_STATE, REMEDY = "STATEMENT_TOO_LARGE", "54000", "nest fewer views"
DEADLINE = 600.0


def nested(inner: str) -> str:
    text = f"SELECT a + 1 AS a FROM {inner}"
    for _ in range(LEVELS):
        text = f"SELECT a + 1 AS a FROM ({text})"
    return text


@pytest.fixture
async def deep(client: GatewayClient) -> AsyncIterator[str]:
    """A query of views that is too deep, where each of the views could be made."""
    async with asyncio.timeout(DEADLINE):
        await client.ok("CREATE DATABASE IF NOT EXISTS deep_views")
        last = "(SELECT 1 AS a)"
        for number in range(MOST_VIEWS):
            view = f"deep_views.v{number}"
            made = await client.run(f"CREATE OR REPLACE VIEW {view} AS {nested(last)}")
            if made.error is not None:
                assert (made.error.condition, made.error.sql_state) == (CONDITION, SQL_STATE), made
                break
            last = view
        else:
            raise AssertionError(f"{MOST_VIEWS} views are not too deep")
        yield nested(
            f"({nested(last)})"
        )  # deeper than what was refused: code that is compiled by now takes less of the stack
        await client.ok("DROP DATABASE deep_views CASCADE")


@pytest.mark.thorough
async def test_chain_of_views_beyond_the_stack_is_refused_in_each_protocol(client: GatewayClient, deep: str) -> None:
    view = await client.run(deep)
    assert view.state is OperationState.ERROR and view.error is not None, view
    assert view.error.reason is ErrorReason.LIMIT_EXCEEDED and classify(view.error).kind is FailureKind.STATEMENT
    assert (view.error.condition, view.error.sql_state) == (CONDITION, SQL_STATE) and REMEDY in view.error.message

    async with rest_http(client.gateway) as http:
        session = await open_rest(http)
        told = await session.error(deep)
        await session.close()
    assert CONDITION in told and SQL_STATE in told and REMEDY in told, told

    connection = await asyncio.to_thread(ThriftClient, thrift_port(client.gateway), client.gateway.client_tls())
    opened = await asyncio.to_thread(Session, connection)
    answer = str(await asyncio.to_thread(opened.execute, deep))
    connection.socket.close()
    assert CONDITION in answer and SQL_STATE in answer and REMEDY in answer, answer

    async with connect_channel(client.gateway) as channel:
        connected = ConnectSession(channel)
        for call in (
            connected.rows(deep),
            connected.schema(sql_relation(deep)),
            connected.execute(root=sql_relation(deep)),
        ):
            with pytest.raises(Failed) as failed:
                await call
            failure = failed.value.failure
            assert failure.code is grpc.StatusCode.INVALID_ARGUMENT, failure
            assert (failure.condition, failure.sql_state) == (CONDITION, SQL_STATE) and REMEDY in failure.message, (
                failure
            )
        assert await connected.rows("SELECT 1") == [(1,)]
        await connected.close()
    assert (await client.info()).state is GatewayState.READY
    assert await client.rows("SELECT 1") == [(1,)]
