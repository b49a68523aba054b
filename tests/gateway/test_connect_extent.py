"""How deep a plan of Spark Connect may be: Spark takes what is within the bounds, and nothing beyond them reaches it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest
from google._upb import _message
from pyspark.sql.connect.proto import base_pb2 as wire
from pyspark.sql.connect.proto import commands_pb2 as commands
from pyspark.sql.connect.proto import expressions_pb2 as expressions
from pyspark.sql.connect.proto import relations_pb2 as relations
from pyspark.sql.connect.proto import types_pb2 as types

from sparksql.gateway.frontends.connect.extent import MAX_LEVELS, MAX_RELATIONS, MAX_TYPE_LEVELS
from tests.support.connect_client import ConnectSession, Failed, Relation, connect_channel, sql_relation
from tests.support.process import GatewayProcess

_message.SetAllowOversizeProtos(True)  # the plans of this file have more levels than protobuf's own limit of 100

Expression = expressions.Expression
OUTER_LEVELS = 6  # request, plan, command, its relation, and a leaf: with room for a projection
DEADLINE = 300.0


@pytest.fixture
async def session(gateway: GatewayProcess) -> AsyncIterator[ConnectSession]:
    async with connect_channel(gateway) as connected, asyncio.timeout(DEADLINE):
        yield ConnectSession(connected)


def numbers() -> Any:
    return Relation(range=relations.Range(end=3, step=1))


def limited(relation: Any, times: int) -> Any:
    for _ in range(times):
        relation = Relation(limit=relations.Limit(input=relation, limit=3))
    return relation


def selecting(value: Any) -> Any:
    return Relation(project=relations.Project(input=numbers(), expressions=[value]))


def column() -> Any:
    return Expression(unresolved_attribute=Expression.UnresolvedAttribute(unparsed_identifier="id"))


def function(name: str, *arguments: Any) -> Any:
    return Expression(unresolved_function=Expression.UnresolvedFunction(function_name=name, arguments=arguments))


def limits(levels: int) -> Any:
    return limited(numbers(), (levels - OUTER_LEVELS) // 2)


def functions(levels: int) -> Any:
    value = column()
    for _ in range((levels - OUTER_LEVELS) // 2 - 1):
        value = function("abs", value)
    return selecting(value)


def arrays(levels: int) -> Any:
    kind = types.DataType(long=types.DataType.Long())
    for _ in range(levels // 2 - 1):
        kind = types.DataType(array=types.DataType.Array(element_type=kind, contains_null=True))
    null = Expression.Literal(null=types.DataType(null=types.DataType.NULL()))
    return selecting(Expression(cast=Expression.Cast(expr=Expression(literal=null), type=kind)))


def unions(count: int) -> Any:
    level = [numbers() for _ in range((count + 1) // 2)]
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        joined = [
            Relation(set_op=relations.SetOperation(left_input=a, right_input=b, set_op_type=2, is_all=True))
            for a, b in pairs
        ]
        level = [*joined, *(level[-1:] if len(level) % 2 else [])]
    return level[0]


def view(name: str, relation: Any) -> Any:
    made = commands.CreateDataFrameViewCommand(input=relation, name=name, replace=True)
    return commands.Command(create_dataframe_view=made)


async def refusal(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(Failed) as failed:
        await call
    return failed.value.failure.code, failed.value.failure.message


@pytest.mark.parametrize(("plan", "most"), [(limits, MAX_LEVELS), (functions, MAX_LEVELS), (arrays, MAX_TYPE_LEVELS)])
async def test_plan_as_deep_as_the_bound_is_served_and_a_deeper_one_refused(
    session: ConnectSession, plan: Callable[[int], Any], most: int
) -> None:
    await session.schema(plan(most))
    await session.execute(root=plan(most))
    await session.execute(command=view("deep", plan(most)))
    deeper = plan(most + OUTER_LEVELS + 2)
    for call in (
        session.schema(deeper),
        session.execute(root=deeper),
        session.execute(command=view("deeper", deeper)),
        session.execute(command=commands.Command(write_operation=commands.WriteOperation(input=deeper))),
        session.execute(command=commands.Command(checkpoint_command=commands.CheckpointCommand(relation=deeper))),
    ):
        code, message = await refusal(call)
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert f"nested more than {most} levels" in message and "use" in message, message
    assert await session.rows("SELECT 1") == [(1,)]


async def test_plan_of_more_relations_than_the_bound_is_refused(session: ConnectSession) -> None:
    await session.schema(unions(MAX_RELATIONS))
    code, message = await refusal(session.schema(unions(MAX_RELATIONS + 100)))
    assert code is grpc.StatusCode.INVALID_ARGUMENT and f"more than {MAX_RELATIONS} relations" in message


async def test_views_that_are_too_deep_together_end_in_an_error_and_the_driver_serves_on(
    session: ConnectSession,
) -> None:
    """Each plan is within the bound; each view has the plans of those before it in itself."""
    served, relation = 0, limits(MAX_LEVELS)
    for number in range(12):
        try:
            await session.execute(command=view(f"step{number}", relation))
        except Failed:
            break
        served += 1
        relation = limited(sql_relation(f"SELECT * FROM step{number}"), (MAX_LEVELS - OUTER_LEVELS) // 2)
    assert 2 <= served < 12
    assert await session.rows("SELECT 1") == [(1,)]


@pytest.mark.parametrize("how", ["expression", "type", "schema"])
async def test_text_within_a_plan_that_is_nested_too_deeply_is_refused(session: ConnectSession, how: str) -> None:
    deep_type = "ARRAY<" * 5_000 + "INT" + ">" * 5_000
    match how:
        case "expression":
            text = Expression.ExpressionString(expression="(" * 5_000 + "1" + ")" * 5_000)
            call = session.schema(selecting(Expression(expression_string=text)))
        case "type":
            call = session.schema(selecting(Expression(cast=Expression.Cast(expr=column(), type_str=deep_type))))
        case _:
            asked = wire.AnalyzePlanRequest(
                ddl_parse=wire.AnalyzePlanRequest.DDLParse(ddl_string=f"a {deep_type}"), **session.own
            )
            call = session.call("AnalyzePlan", asked, wire.AnalyzePlanResponse)
    _, message = await refusal(call)
    assert "within each other" in message, message
