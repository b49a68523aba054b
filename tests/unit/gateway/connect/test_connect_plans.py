"""What may pass in a plan, kind by kind, however deep it stands; and that reading bounds depth and size."""

from __future__ import annotations

from typing import Any

import grpc
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.connect.proto import base_pb2 as wire
from pyspark.sql.connect.proto import commands_pb2 as commands
from pyspark.sql.connect.proto import expressions_pb2 as expressions
from pyspark.sql.connect.proto import relations_pb2 as relations

from sparksql.gateway.frontends.connect.allowed import ALLOWED, PACKAGE
from sparksql.gateway.frontends.connect.decoding import Decoder
from sparksql.gateway.frontends.connect.errors import ConnectError
from sparksql.gateway.frontends.connect.extent import MAX_LEVELS
from sparksql.gateway.frontends.connect.plans import read_analyze, read_execute
from sparksql.protocols.bounds import MAX_MESSAGE_BYTES

Relation, Expression, Command = relations.Relation, expressions.Expression, commands.Command

# Everything that an allowed message can hold and that is refused. A new Spark's new kinds show up here, to be thought about.
REFUSED_KINDS = {
    "ApplyInPandasWithState",
    "CoGroupMap",
    "CommonInlineUserDefinedDataSource",
    "CommonInlineUserDefinedFunction",
    "CommonInlineUserDefinedTableFunction",
    "CreateResourceProfileCommand",
    "DataType.UDT",
    "ExecuteExternalCommand",
    "GetResourcesCommand",
    "GroupMap",
    "MapPartitions",
    "MlCommand",
    "MlRelation",
    "PipelineCommand",
    "Plan.CompressedOperation",  # unpacked before anything is looked at
    "StreamingQueryCommand",
    "StreamingQueryListenerBusCommand",
    "StreamingQueryManagerCommand",
    "TypedAggregateExpression",
    "Unknown",
    "WriteStreamOperationStart",
    "google.protobuf.Any",
}


def execute(root: Any = None, command: Any = None) -> bytes:
    return bytes(wire.ExecutePlanRequest(plan=wire.Plan(root=root, command=command)).SerializeToString())


def numbers() -> Any:
    return Relation(range=relations.Range(end=3, step=1))


def column(text: str) -> Any:
    return Expression(expression_string=Expression.ExpressionString(expression=text))


def project(relation: Any, *columns: Any) -> Any:
    return Relation(project=relations.Project(input=relation, expressions=columns))


def sql(text: str) -> Any:
    return Relation(sql=relations.SQL(query=text))


def refusal_of(data: bytes) -> ConnectError:
    with pytest.raises(ConnectError) as refused:
        read_execute(data)
    return refused.value


def test_every_kind_of_message_is_either_allowed_or_known_to_be_refused() -> None:
    seen: set[str] = set()
    refused: set[str] = set()
    pending = [wire.ExecutePlanRequest.DESCRIPTOR, wire.AnalyzePlanRequest.DESCRIPTOR]
    while pending:
        kind = pending.pop()
        if kind.full_name in seen:
            continue
        seen.add(kind.full_name)
        if kind.full_name not in ALLOWED and not kind.GetOptions().map_entry:
            refused.add(kind.full_name.removeprefix(PACKAGE))
            continue
        pending.extend(field.message_type for field in kind.fields if field.message_type is not None)
    assert refused == REFUSED_KINDS
    assert seen >= ALLOWED, f"no such messages: {ALLOWED - seen}"


UDF = expressions.CommonInlineUserDefinedFunction(
    function_name="f", python_udf=expressions.PythonUDF(eval_type=100, command=b"x", python_ver="3.11")
)
REFUSED_RELATIONS = {
    "MapPartitions": Relation(map_partitions=relations.MapPartitions(input=numbers(), func=UDF)),
    "GroupMap": Relation(group_map=relations.GroupMap(input=numbers(), func=UDF)),
    "CoGroupMap": Relation(co_group_map=relations.CoGroupMap(input=numbers(), other=numbers(), func=UDF)),
    "ApplyInPandasWithState": Relation(
        apply_in_pandas_with_state=relations.ApplyInPandasWithState(input=numbers(), func=UDF)
    ),
    "CommonInlineUserDefinedTableFunction": Relation(
        common_inline_user_defined_table_function=relations.CommonInlineUserDefinedTableFunction(function_name="f")
    ),
    "CommonInlineUserDefinedDataSource": Relation(
        common_inline_user_defined_data_source=relations.CommonInlineUserDefinedDataSource(name="s")
    ),
    "CommonInlineUserDefinedFunction": project(numbers(), Expression(common_inline_user_defined_function=UDF)),
    "TypedAggregateExpression": project(
        numbers(), Expression(typed_aggregate_expression=expressions.TypedAggregateExpression())
    ),
    "MlRelation": Relation(ml_relation=relations.MlRelation()),
    "google.protobuf.Any": Relation(extension={"type_url": "x/y", "value": b""}),
    "Unknown": Relation(unknown=relations.Unknown()),
    "is_streaming": Relation(
        read=relations.Read(data_source=relations.Read.DataSource(format="rate"), is_streaming=True)
    ),
    "of a kind": Relation(),
    "function reflect": project(
        numbers(), Expression(unresolved_function=Expression.UnresolvedFunction(function_name="REFLECT"))
    ),
    "function `builtin`.`java_method`": project(
        numbers(), Expression(call_function=expressions.CallFunction(function_name="`builtin`.`java_method`"))
    ),
}


@pytest.mark.parametrize("named", REFUSED_RELATIONS)
@pytest.mark.parametrize("where", ["root", "below", "beside", "analysed", "written", "viewed", "subquery"])
def test_a_relation_that_is_refused_is_refused_everywhere(named: str, where: str) -> None:
    relation = REFUSED_RELATIONS[named]
    wrapped = project(project(relation, column("1")), column("2"))
    match where:
        case "root":
            refused = refusal_of(execute(relation))
        case "below":
            refused = refusal_of(execute(wrapped))
        case "beside":
            joined = Relation(join=relations.Join(left=numbers(), right=wrapped))
            refused = refusal_of(execute(joined))
        case "subquery":
            with_relations = relations.WithRelations(root=numbers(), references=[relation])
            refused = refusal_of(execute(Relation(with_relations=with_relations)))
        case "written":
            refused = refusal_of(execute(command=Command(write_operation=commands.WriteOperation(input=wrapped))))
        case "viewed":
            view = commands.CreateDataFrameViewCommand(input=wrapped, name="v")
            refused = refusal_of(execute(command=Command(create_dataframe_view=view)))
        case _:
            schema = wire.AnalyzePlanRequest.Schema(plan=wire.Plan(root=wrapped))
            with pytest.raises(ConnectError) as raised:
                read_analyze(wire.AnalyzePlanRequest(schema=schema).SerializeToString())
            refused = raised.value
    assert refused.code is grpc.StatusCode.PERMISSION_DENIED
    assert named.lower() in str(refused).lower()


@pytest.mark.parametrize(
    ("field", "named"),
    [
        ("register_function", "CommonInlineUserDefinedFunction"),
        ("register_table_function", "CommonInlineUserDefinedTableFunction"),
        ("register_data_source", "CommonInlineUserDefinedDataSource"),
        ("write_stream_operation_start", "spec.streaming"),
        ("streaming_query_command", "spec.streaming"),
        ("streaming_query_manager_command", "spec.streaming"),
        ("streaming_query_listener_bus_command", "spec.streaming"),
        ("get_resources_command", "GetResourcesCommand"),
        ("create_resource_profile_command", "CreateResourceProfileCommand"),
        ("ml_command", "MlCommand"),
        ("execute_external_command", "ExecuteExternalCommand"),
        ("pipeline_command", "PipelineCommand"),
        ("extension", "google.protobuf.Any"),
    ],
)
def test_a_command_that_is_not_allowed_is_refused_by_name(field: str, named: str) -> None:
    command = Command()
    getattr(command, field).SetInParent()
    refused = refusal_of(execute(command=command))
    assert refused.code is grpc.StatusCode.PERMISSION_DENIED
    assert named in str(refused)
    assert refused.sql_state == "42501"


def test_a_command_of_no_known_kind_is_refused() -> None:
    assert "of a kind that this Spark does not support" in str(refusal_of(execute(command=Command())))


@pytest.mark.parametrize("data", [b"", execute(), b"\xff\xff"])
def test_bytes_that_are_no_plan_are_an_invalid_argument(data: bytes) -> None:
    assert refusal_of(data).code is grpc.StatusCode.INVALID_ARGUMENT


def test_a_user_defined_type_is_refused() -> None:
    request = wire.ExecutePlanRequest()
    cast = request.plan.root.project.expressions.add().cast
    cast.type.udt.jvm_class = "org.example.Type"
    assert "DataType.UDT" in str(refusal_of(request.SerializeToString()))


def test_an_extension_of_the_user_is_refused() -> None:
    request = wire.ExecutePlanRequest(plan=wire.Plan(root=numbers()))
    request.user_context.extensions.add().type_url = "x/y"
    assert "google.protobuf.Any" in str(refusal_of(request.SerializeToString()))


def test_a_catalog_operation_stands_alone() -> None:
    listing = Relation()
    listing.catalog.list_tables.SetInParent()
    _, findings = read_execute(execute(listing))
    assert findings.statement_type == "CATALOG"
    assert "Catalog" in str(refusal_of(execute(project(listing))))


@pytest.mark.parametrize("wrapped", [False, True])
def test_the_text_of_a_command_is_a_statement_and_all_other_texts_are_queries(wrapped: bool) -> None:
    text, view = "INSERT INTO t SELECT * FROM v", sql("SELECT 1")
    root = sql(text)
    if wrapped:
        named = [Relation(subquery_alias=relations.SubqueryAlias(input=each, alias="x")) for each in (view, sql(text))]
        root = Relation(with_relations=relations.WithRelations(root=root, references=named))
    _, findings = read_execute(execute(command=Command(sql_command=commands.SqlCommand(input=root))))
    assert findings.statement == text
    assert sorted(findings.queries) == (sorted(["SELECT 1", text]) if wrapped else [])


def test_the_text_of_an_old_client_s_command_is_found() -> None:
    _, findings = read_execute(execute(command=Command(sql_command=commands.SqlCommand(sql="DROP TABLE t"))))
    assert findings.statement == "DROP TABLE t"


def test_a_command_with_two_texts_is_malformed() -> None:
    both = commands.SqlCommand(sql="DROP TABLE t", input=sql("SELECT 1"))
    assert refusal_of(execute(command=Command(sql_command=both))).code is grpc.StatusCode.INVALID_ARGUMENT


def test_texts_are_found_in_arguments_filters_and_analyses() -> None:
    asked = relations.SQL(query="SELECT :a", named_arguments={"a": column("map(1, 2)")})
    plan = Relation(
        filter=relations.Filter(
            input=Relation(sql=asked), condition=column("x > 1 AND exists(SELECT Transform(a) USING 'cat')")
        )
    )
    _, executed = read_execute(execute(plan))
    same = wire.AnalyzePlanRequest.SameSemantics(target_plan=wire.Plan(root=numbers()), other_plan=wire.Plan(root=plan))
    _, analysed = read_analyze(wire.AnalyzePlanRequest(same_semantics=same).SerializeToString())
    for findings in (executed, analysed):
        assert findings.queries == ["SELECT :a"]
        assert sorted(findings.expressions) == ["map(1, 2)", "x > 1 AND exists(SELECT Transform(a) USING 'cat')"]


def test_the_options_of_readers_writers_and_tables_are_found() -> None:
    bad = {"fs.file.impl": "a.B"}
    source = Relation(read=relations.Read(data_source=relations.Read.DataSource(format="parquet", options=bad)))
    named = Relation(read=relations.Read(named_table=relations.Read.NamedTable(unparsed_identifier="t", options=bad)))
    first = Command(write_operation=commands.WriteOperation(input=numbers(), options=bad))
    second = Command(
        write_operation_v2=commands.WriteOperationV2(
            input=numbers(), options={"path": "x"}, table_properties={"option.fs.file.impl": "a.B"}
        )
    )
    for data in (
        execute(project(source)),
        execute(project(named)),
        execute(command=first),
        execute(command=second),
    ):
        assert bad in read_execute(data)[1].options
    assert read_execute(execute(numbers()))[1].options == []


def test_a_command_refers_to_named_relations_only() -> None:
    both = relations.WithRelations(root=sql("SELECT 1"), references=[numbers()])
    command = commands.SqlCommand(input=Relation(with_relations=both))
    assert "without a name" in str(refusal_of(execute(command=Command(sql_command=command))))


def compressed(data: bytes, kind: str) -> bytes:
    packed = wire.Plan.CompressedOperation(
        data=pa.compress(data, codec="zstd", asbytes=True),
        op_type=wire.Plan.CompressedOperation.OpType.Value(kind),
        compression_codec=wire.COMPRESSION_CODEC_ZSTD,
    )
    return bytes(wire.ExecutePlanRequest(plan=wire.Plan(compressed_operation=packed)).SerializeToString())


def test_a_compressed_plan_is_unpacked_and_looked_at() -> None:
    request, findings = read_execute(compressed(sql("SELECT 1").SerializeToString(), "OP_TYPE_RELATION"))
    assert request.plan.root.sql.query == "SELECT 1"
    assert findings.queries == ["SELECT 1"]
    relation = REFUSED_RELATIONS["MapPartitions"]
    assert "MapPartitions" in str(refusal_of(compressed(relation.SerializeToString(), "OP_TYPE_RELATION")))


def test_a_compressed_plan_that_unpacks_to_too_much_is_refused() -> None:
    bomb = compressed(bytes(MAX_MESSAGE_BYTES + 1), "OP_TYPE_RELATION")
    assert len(bomb) < 1 << 20
    assert "when unpacked" in str(refusal_of(bomb))
    assert "cannot be unpacked" in str(refusal_of(compressed(b"x", "OP_TYPE_RELATION").replace(b"\x28\xb5", b"\0\0")))


def chain(length: int) -> Any:
    relation = numbers()
    for _ in range(length):
        relation = Relation(limit=relations.Limit(input=relation, limit=1))
    return relation


async def test_a_plan_nested_deeper_than_spark_reads_is_refused() -> None:
    decoder = Decoder()
    operations = (MAX_LEVELS - 4) // 2
    request, _ = await decoder.run(read_execute, execute(chain(operations)))
    assert request.plan.root.HasField("limit")
    with pytest.raises(ConnectError, match="nested more than"):
        await decoder.run(read_execute, execute(chain(operations + 1)))
    decoder.close()


def length_delimited(number: int, content: bytes) -> bytes:
    size, prefix = len(content), bytearray()
    while size > 0x7F:
        prefix.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([number << 3 | 2, *prefix, size]) + content


def nested_limits(levels: int) -> bytes:
    data = b""
    for level in range(levels):
        data = length_delimited(8 if level % 2 else 1, data)  # Relation.limit and Limit.input
    return length_delimited(3, length_delimited(1, data))


@pytest.mark.parametrize(
    "data", [nested_limits(60_000), nested_limits(70_000), b"\xa3\x06" * 65_000 + b"\xa4\x06" * 65_000]
)
async def test_a_request_nested_to_break_the_stack_is_only_refused(data: bytes) -> None:
    decoder = Decoder()
    with pytest.raises(ConnectError):
        await decoder.run(read_execute, data)
    decoder.close()


plans = st.recursive(
    st.sampled_from([numbers(), sql("SELECT 1"), Relation(local_relation=relations.LocalRelation(data=b"x"))]),
    lambda inner: st.one_of(
        st.builds(lambda a: project(a, column("id")), inner),
        st.builds(lambda a, b: Relation(join=relations.Join(left=a, right=b)), inner, inner),
        st.builds(lambda a: Relation(subquery_alias=relations.SubqueryAlias(input=a, alias="x")), inner),
    ),
    max_leaves=20,
)


@given(plans)
def test_a_relational_plan_passes_as_it_is(plan: Any) -> None:
    data = execute(plan)
    request, findings = read_execute(data)
    assert request == wire.ExecutePlanRequest.FromString(data)
    assert findings.statement is None
    assert len(findings.queries) == data.count(b"SELECT 1")
    assert len(findings.expressions) == str(plan).count("reduce(a)")


@given(plans, st.sampled_from(sorted(REFUSED_RELATIONS)), plans)
def test_a_plan_with_a_refused_relation_anywhere_is_refused(left: Any, named: str, right: Any) -> None:
    joined = Relation(join=relations.Join(left=left, right=REFUSED_RELATIONS[named]))
    plan = Relation(join=relations.Join(left=joined, right=right))
    assert named.lower() in str(refusal_of(execute(plan))).lower()
