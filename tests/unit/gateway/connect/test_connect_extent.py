"""Bounds of a request, by its bytes: levels, levels of types, and fields, whatever messages they are."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.connect.proto import base_pb2 as wire
from pyspark.sql.connect.proto import commands_pb2 as commands
from pyspark.sql.connect.proto import common_pb2 as common
from pyspark.sql.connect.proto import expressions_pb2 as expressions
from pyspark.sql.connect.proto import relations_pb2 as relations
from pyspark.sql.connect.proto import types_pb2 as types

from sparksql.gateway.frontends.connect import extent
from sparksql.gateway.frontends.connect.extent import (
    MAX_FIELDS,
    MAX_LEVELS,
    MAX_RELATIONS,
    MAX_TYPE_LEVELS,
    ExtentError,
    WireFormatError,
    check_extent,
)
from sparksql.gateway.frontends.connect.plans import decode

Expression, Relation = expressions.Expression, relations.Relation


def written(number: int, content: bytes) -> bytes:
    size, prefix = len(content), bytearray()
    tag = number << 3 | 2
    for value in (tag, size):
        while value > 0x7F:
            prefix.append(value & 0x7F | 0x80)
            value >>= 7
        prefix.append(value)
    return bytes(prefix) + content


def nested(kind: Any, *path: str) -> Callable[[int], bytes]:
    """Makes bytes of a message that holds itself so many times, by the fields of a path."""
    numbers, descriptor = [], kind.DESCRIPTOR
    for name in path:
        field = descriptor.fields_by_name[name]
        numbers.append(field.number)
        descriptor = field.message_type
    assert descriptor is kind.DESCRIPTOR

    def made(times: int) -> bytes:
        data = b""
        for _ in range(times):
            for number in reversed(numbers):
                data = written(number, data)
        return data

    return made


TYPE_OF_CAST = Expression.Cast.DESCRIPTOR.fields_by_name["type"].number
CHAINS = {
    "limits": (relations.Relation, ("limit", "input"), MAX_LEVELS),
    "right sides of joins": (relations.Relation, ("join", "right"), MAX_LEVELS),
    "references": (relations.Relation, ("with_relations", "references"), MAX_LEVELS),
    "functions": (Expression, ("unresolved_function", "arguments"), MAX_LEVELS),
    "subqueries": (Expression, ("subquery_expression", "table_arg_options", "partition_spec"), MAX_LEVELS),
    "literals": (Expression.Literal, ("array", "elements"), MAX_LEVELS),
    "conditions of merges": (Expression, ("merge_action", "condition"), MAX_LEVELS),
    "arrays of arrays": (types.DataType, ("array", "element_type"), MAX_TYPE_LEVELS),
    "structs of structs": (types.DataType, ("struct", "fields", "data_type"), MAX_TYPE_LEVELS),
    "values of maps": (types.DataType, ("map", "value_type"), MAX_TYPE_LEVELS),
}


@pytest.mark.parametrize("name", CHAINS)
def test_message_nested_beyond_the_bound_is_refused_with_the_bound(name: str) -> None:
    kind, path, most = CHAINS[name]
    chain = nested(kind, *path)
    outer = kind.DESCRIPTOR
    if most == MAX_TYPE_LEVELS:  # types count from the field of the message that holds one
        outer = Expression.Cast.DESCRIPTOR
    times = (most - 1) // len(path)

    def check(data: bytes) -> None:
        check_extent(data if outer is kind.DESCRIPTOR else written(TYPE_OF_CAST, data), outer)

    check(chain(times))
    with pytest.raises(ExtentError, match=f"nested more than {most} levels"):
        check(chain(times + 1))


@pytest.mark.parametrize(
    "request_of",
    [
        lambda deep: wire.ExecutePlanRequest(plan=wire.Plan(root=deep)),
        lambda deep: wire.AnalyzePlanRequest(schema=wire.AnalyzePlanRequest.Schema(plan=wire.Plan(root=deep))),
        lambda deep: command(create_dataframe_view=commands.CreateDataFrameViewCommand(input=deep, name="v")),
        lambda deep: command(write_operation=commands.WriteOperation(input=deep)),
        lambda deep: command(write_operation_v2=commands.WriteOperationV2(input=deep)),
        lambda deep: command(checkpoint_command=commands.CheckpointCommand(relation=deep)),
        lambda deep: command(sql_command=commands.SqlCommand(input=with_relations(deep))),
        lambda deep: wire.ExecutePlanRequest(plan=wire.Plan(root=with_relations(deep))),
    ],
)
def test_deep_relation_within_any_request_is_refused(request_of: Callable[[Any], Message]) -> None:
    deep = Relation.FromString(nested(relations.Relation, "limit", "input")(MAX_LEVELS // 2))
    request = request_of(deep)
    with pytest.raises(ExtentError):
        check_extent(request.SerializeToString(), request.DESCRIPTOR)


def command(**fields: Any) -> Message:
    return wire.ExecutePlanRequest(plan=wire.Plan(command=commands.Command(**fields)))


def with_relations(deep: Any) -> Any:
    named = Relation(subquery_alias=relations.SubqueryAlias(input=deep, alias="x"))
    return Relation(with_relations=relations.WithRelations(root=Relation(sql=relations.SQL()), references=[named]))


def test_request_of_too_many_fields_is_refused_and_local_data_counts_once() -> None:
    empty = written(Expression.UnresolvedFunction.DESCRIPTOR.fields_by_name["arguments"].number, b"")
    function = Expression.UnresolvedFunction.DESCRIPTOR
    check_extent(empty * MAX_FIELDS, function)
    with pytest.raises(ExtentError, match=f"more than {MAX_FIELDS} fields"):
        check_extent(empty * (MAX_FIELDS + 1), function)
    check_extent(relations.LocalRelation(data=bytes(40 << 20)).SerializeToString(), relations.LocalRelation.DESCRIPTOR)


def test_plan_of_too_many_relations_is_refused() -> None:
    inputs = [Relation(range=relations.Range(end=1, step=1))] * (MAX_RELATIONS - 1)
    check_extent(with_all(inputs), Relation.DESCRIPTOR)
    with pytest.raises(ExtentError, match=f"more than {MAX_RELATIONS} relations"):
        check_extent(with_all([*inputs, *inputs[:1]]), Relation.DESCRIPTOR)


def with_all(references: list[Any]) -> bytes:
    return bytes(Relation(with_relations=relations.WithRelations(references=references)).SerializeToString())


def test_packed_numbers_count_one_by_one() -> None:
    longs = common.Longs(values=[1] * (MAX_FIELDS - 1)).SerializeToString()
    check_extent(longs, common.Longs.DESCRIPTOR)
    with pytest.raises(ExtentError, match="fields"):
        check_extent(longs + longs, common.Longs.DESCRIPTOR)
    doubles = common.Doubles(values=[1.0] * (MAX_FIELDS // 2 - 1)).SerializeToString()
    check_extent(doubles * 2, common.Doubles.DESCRIPTOR)


DEPTHS = st.recursive(
    st.just(Expression(literal=Expression.Literal(long=1))),
    lambda inner: st.lists(inner, max_size=3).map(
        lambda arguments: Expression(unresolved_function=Expression.UnresolvedFunction(arguments=arguments))
    ),
    max_leaves=20,
)


def levels_of(message: Message) -> int:
    children = [
        child
        for field, value in message.ListFields()
        if field.message_type is not None
        for child in (value if field.is_repeated else [value])
    ]
    return 1 + max(map(levels_of, children), default=0)


@given(expression=DEPTHS, most=st.integers(1, 12))
def test_levels_are_those_of_the_decoded_message(expression: Any, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extent, "MAX_LEVELS", most)
        data = expression.SerializeToString()
        if levels_of(expression) <= most:
            check_extent(data, Expression.DESCRIPTOR)
        else:
            with pytest.raises(ExtentError):
                check_extent(data, Expression.DESCRIPTOR)


@given(data=st.binary(max_size=60))
def test_any_bytes_are_taken_or_refused(data: bytes) -> None:
    with contextlib.suppress(WireFormatError, ExtentError):
        check_extent(data, wire.ExecutePlanRequest.DESCRIPTOR)


@pytest.mark.parametrize(
    "data", [b"\xa3\x06\xa4\x06", b"\x0a\x05ab", b"\x0a", b"\x08", b"\x09\0", b"\xff" * 12, b"\x0f"]
)
def test_bytes_that_are_no_message_of_connect_are_malformed(data: bytes) -> None:
    with pytest.raises(WireFormatError):
        check_extent(data, wire.ExecutePlanRequest.DESCRIPTOR)


def test_extension_bytes_of_an_unknown_field_are_skipped() -> None:
    request = wire.ExecutePlanRequest(session_id="a").SerializeToString() + written(9_999, b"\xff\xff")
    assert decode(wire.ExecutePlanRequest, request).session_id == "a"
