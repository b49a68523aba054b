"""What clients of the Connect frontend may ask of a real Spark, and what they see of each other."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from pyspark.sql.connect.proto import base_pb2 as wire
from pyspark.sql.connect.proto import commands_pb2 as commands
from pyspark.sql.connect.proto import expressions_pb2 as expressions
from pyspark.sql.connect.proto import relations_pb2 as relations

from tests.support.connect_client import (
    ConnectSession,
    Failed,
    Failure,
    Relation,
    connect_channel,
    sql_command,
    sql_relation,
    until,
)
from tests.support.process import GatewayProcess

from .client import connect


@pytest.fixture
async def channel(gateway: GatewayProcess) -> AsyncIterator[grpc.aio.Channel]:
    async with connect_channel(gateway) as connected:
        yield connected


@pytest.fixture
async def session(channel: grpc.aio.Channel) -> ConnectSession:
    return ConnectSession(channel)


async def failure(call: Any) -> Failure:
    with pytest.raises(Failed) as failed:
        await call
    return failed.value.failure


def expression(text: str) -> Any:
    return expressions.Expression(expression_string=expressions.Expression.ExpressionString(expression=text))


def selecting(text: str) -> Any:
    rows = Relation(range=relations.Range(end=1, step=1))
    return Relation(project=relations.Project(input=rows, expressions=[expression(text)]))


REFUSED_SQL = {
    "SET spark.master=local": "spark.master",
    "SET spark.jars = x": "spark.jars",
    "RESET spark.sql.ansi.enabled": "spark.sql.ansi.enabled",
    "SET spark.connect.grpc.debug.enabled=true": "spark.connect.grpc.debug.enabled",
    "ADD JAR 'https://example.org/a.jar'": "jar prefixes",
    "ADD FILE '/etc/hostname'": "jar prefixes",
    "CREATE FUNCTION f AS 'a.B' USING JAR 'https://example.org/a.jar'": "jar prefixes",
    "CREATE TEMPORARY FUNCTION f AS 'org.apache.hadoop.hive.ql.udf.generic.GenericUDFReflect'": "function class",
    "SELECT TRANSFORM(id) USING 'cat' FROM range(1)": "TRANSFORM",
    "SELECT (SELECT TRANSFORM(id) USING 'cat' AS x FROM range(1))": "TRANSFORM",
    "EXECUTE IMMEDIATE 'SET spark.jars=x'": "spark.jars",
    "BEGIN SELECT 1; EXECUTE IMMEDIATE 'SET spark.jars=x'; END": "spark.jars",
    "SELECT 1; SELECT 2": "one statement at a time",
}


@pytest.mark.parametrize("text", REFUSED_SQL)
async def test_sql_that_the_policy_refuses_is_refused_as_a_command(session: ConnectSession, text: str) -> None:
    refused = await failure(session.sql(text))
    assert refused.code is grpc.StatusCode.PERMISSION_DENIED, refused
    assert REFUSED_SQL[text] in refused.message
    assert refused.sql_state == "42501"


async def test_local_files_are_confined_here_as_well(session: ConnectSession) -> None:
    await session.sql("CREATE TABLE lines_by_connect (line STRING) STORED AS TEXTFILE")
    refused = await failure(session.sql("LOAD DATA LOCAL INPATH '/etc/hostname' INTO TABLE lines_by_connect"))
    assert "SQL may not use this local place" in refused.message, refused
    assert await session.rows("SELECT * FROM lines_by_connect") == []


@pytest.mark.parametrize("where", ["executed", "analysed", "referenced"])
@pytest.mark.parametrize(
    "text",
    [
        "SET my.a=1",
        "CREATE TABLE made_by_a_plan (a INT)",
        "INSERT INTO t VALUES (1)",
        "EXECUTE IMMEDIATE 'CREATE TABLE made_by_a_plan (a INT)'",
        "EXECUTE IMMEDIATE 'EXECUTE IMMEDIATE \\'SET my.a=1\\''",
    ],
)
async def test_sql_within_a_plan_must_be_a_query(session: ConnectSession, text: str, where: str) -> None:
    match where:
        case "executed":
            call: Any = session.execute(root=sql_relation(text))
        case "analysed":
            call = session.schema(sql_relation(text))
        case _:
            named = Relation(subquery_alias=relations.SubqueryAlias(input=sql_relation(text), alias="x"))
            both = relations.WithRelations(root=sql_relation("SELECT 1"), references=[named])
            command = commands.SqlCommand(input=Relation(with_relations=both))
            call = session.execute(command=commands.Command(sql_command=command))
    refused = await failure(call)
    assert (refused.code, refused.sql_state) == (grpc.StatusCode.PERMISSION_DENIED, "42501"), refused
    assert "not within a plan" in refused.message


async def test_execute_immediate_of_a_query_gives_its_rows(session: ConnectSession) -> None:
    """A client executes such a command as the relation that it is given for it."""
    await session.sql("DECLARE OR REPLACE VARIABLE least = 1")
    for text in (
        "EXECUTE IMMEDIATE 'SELECT id AS n FROM range(3) WHERE id > :p' USING 1 AS p",
        "EXECUTE IMMEDIATE 'SELECT id AS n FROM range(3) WHERE id > ?' USING least",
        "EXECUTE IMMEDIATE 'EXECUTE IMMEDIATE \\'SELECT id AS n FROM range(3) WHERE id > ?\\' USING 1'",
    ):
        assert await session.rows(text) == [(2,)], text


async def test_execute_immediate_that_spark_refuses_has_sparks_condition(session: ConnectSession) -> None:
    refused = await failure(session.sql("EXECUTE IMMEDIATE 'SELECT :p' USING 1 AS p, 'p'"))
    assert (refused.condition, refused.sql_state) == ("ALL_PARAMETERS_MUST_BE_NAMED", "07001"), refused
    unbound = await failure(session.rows("EXECUTE IMMEDIATE 'SELECT :param'"))
    assert (unbound.condition, unbound.sql_state) == ("UNBOUND_SQL_PARAMETER", "42P02"), unbound


@pytest.mark.parametrize("function", ["reflect", "java_method", "try_reflect", "builtin.reflect", "`reflect`"])
async def test_functions_that_call_java_are_not_there(session: ConnectSession, function: str) -> None:
    text = f"{function}('java.lang.System', 'getenv')"
    for call in (session.sql(f"SELECT {text}"), session.execute(root=selecting(text)), session.schema(selecting(text))):
        # With Iceberg's catalog a name with a database is looked for in that database first.
        wanted = {"UNRESOLVED_ROUTINE", *(("SCHEMA_NOT_FOUND",) if "." in function else ())}
        assert (await failure(call)).condition in wanted


@pytest.mark.parametrize(
    "text",
    ["(SELECT TRANSFORM(id) USING 'cat' AS x FROM range(1))", "exists(SELECT TRANSFORM(id) USING 'cat' FROM range(1))"],
)
async def test_an_expression_cannot_hide_a_transform(session: ConnectSession, text: str) -> None:
    refused = await failure(session.execute(root=selecting(text)))
    assert (refused.code, refused.sql_state) == (grpc.StatusCode.PERMISSION_DENIED, "42501"), refused
    assert "TRANSFORM" in refused.message


async def test_expressions_with_the_same_words_work(session: ConnectSession) -> None:
    for text in ("transform(array(1, 2), x -> x + 1)", "map(1, 2)", "(SELECT max(id) FROM range(3))"):
        assert len((await session.execute(root=selecting(text))).rows) == 1


@pytest.mark.parametrize(
    ("text", "parameter"),
    [
        ("EXECUTE IMMEDIATE :p", "SET spark.jars=x"),
        ("LOAD DATA INPATH :p INTO TABLE t", "/etc/hostname"),
        ("CREATE FUNCTION f AS 'a.B' USING JAR :p", "https://example.org/a.jar"),
        ("ADD JAR :p", "https://example.org/a.jar"),
    ],
)
async def test_a_parameter_does_not_get_past_the_policy(session: ConnectSession, text: str, parameter: str) -> None:
    literal = expressions.Expression(literal=expressions.Expression.Literal(string=parameter))
    asked = Relation(sql=relations.SQL(query=text, named_arguments={"p": literal}))
    command = commands.Command(sql_command=commands.SqlCommand(input=asked))
    refused = await failure(session.execute(command=command))
    assert refused.code in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.INVALID_ARGUMENT), refused


async def test_settings_are_checked_and_secrets_hidden(session: ConnectSession) -> None:
    await session.set_conf("spark.sql.shuffle.partitions", "3")
    asked = wire.ConfigRequest.Get(keys=["spark.sql.shuffle.partitions"])
    assert await session.config(get=asked) == {"spark.sql.shuffle.partitions": "3"}
    for key in ("spark.master", "spark.sql.ansi.enabled", "spark.connect.authenticate.token", "other.key"):
        assert key in (await failure(session.set_conf(key, "x"))).message
        assert key in (await failure(session.config(unset=wire.ConfigRequest.Unset(keys=[key])))).message
    seen = await session.config(get_all=wire.ConfigRequest.GetAll())
    assert seen["spark.sql.shuffle.partitions"] == "3"
    assert "storage-credential" not in str(seen)
    assert not [key for key in seen if key.startswith("spark.connect.authenticate")]
    text = "SELECT '${spark.connect.authenticate.token}' AS t"
    assert await session.rows(text) == [("${spark.connect.authenticate.token}",)], "nothing is substituted"


async def test_code_cannot_be_sent_and_local_data_can(session: ConnectSession) -> None:
    for name in ("jars/a.jar", "pyfiles/a.py", "classes/A.class", "files/a", "archives/a.zip"):
        refused = await failure(session.add_artifacts([name]))
        assert (refused.code, refused.sql_state) == (grpc.StatusCode.PERMISSION_DENIED, "42501")
        assert name in refused.message
    data = b"some data"
    name = f"cache/{hashlib.sha256(data).hexdigest()}"
    answer = await session.add_artifacts([name], data)
    assert [(summary.name, summary.is_crc_successful) for summary in answer.artifacts] == [(name, True)]
    asked = wire.ArtifactStatusesRequest(names=[name], **session.own)
    statuses = (await session.call("ArtifactStatus", asked, wire.ArtifactStatusesResponse)).statuses
    assert statuses[name].exists is True


async def test_spark_errors_reach_the_connect_client_with_condition_and_sql_state(session: ConnectSession) -> None:
    missing = await failure(session.sql("SELECT * FROM nowhere"))
    assert (missing.condition, missing.sql_state) == ("TABLE_OR_VIEW_NOT_FOUND", "42P01")
    divided = await failure(session.rows("SELECT 1 / 0"))
    assert (divided.condition, divided.sql_state) == ("DIVIDE_BY_ZERO", "22012")
    assert (await failure(session.sql("SELEC 1"))).condition == "PARSE_SYNTAX_ERROR"
    assert (await failure(session.schema(sql_relation("SELECT * FROM nowhere")))).condition == "TABLE_OR_VIEW_NOT_FOUND"


async def test_a_result_that_the_heap_might_not_hold_is_refused(session: ConnectSession) -> None:
    wide = "SELECT id, repeat(sha2(CAST(id AS STRING), 256), 20) AS s FROM range(0, 200000, 1, 8)"
    told = await failure(session.rows(wide))
    assert "spark.driver.maxResultSize (128.0 MiB)" in told.message, told
    assert await session.rows("SELECT 1") == [(1,)]


async def test_sessions_have_their_own_views_and_settings(channel: grpc.aio.Channel, session: ConnectSession) -> None:
    other, same_id = ConnectSession(channel), ConnectSession(channel, user="bob", session_id=session.session_id)
    await session.sql("CREATE TEMPORARY VIEW mine AS SELECT 1 AS a")
    await session.set_conf("my.setting", "1")
    assert await session.rows("SELECT a FROM mine") == [(1,)]
    for stranger in (other, same_id):
        assert (await failure(stranger.sql("SELECT * FROM mine"))).condition == "TABLE_OR_VIEW_NOT_FOUND"
        asked = wire.ConfigRequest.GetOption(keys=["my.setting"])
        assert await stranger.config(get_option=asked) == {"my.setting": ""}


async def test_the_session_s_views_are_seen_on_request(channel: grpc.aio.Channel, session: ConnectSession) -> None:
    assert (await failure(session.sql("SELECT * FROM shared"))).condition == "TABLE_OR_VIEW_NOT_FOUND"
    sharing = ConnectSession(channel, headers={"x-sparksql-session-share-views": "true"})
    assert await sharing.rows("SELECT n FROM shared") == [(7,)]
    typo = ConnectSession(channel, headers={"x-sparksql-sharing": "true"})
    refused = await failure(typo.sql("SELECT 1"))
    assert refused.code is grpc.StatusCode.INVALID_ARGUMENT
    assert "x-sparksql-session-share-views" in refused.message


async def test_many_first_requests_make_one_session(gateway: GatewayProcess, channel: grpc.aio.Channel) -> None:
    name = f"crowd-{uuid.uuid4()}"
    session = ConnectSession(channel, user=name)
    await asyncio.gather(*(session.schema(sql_relation("SELECT 1")) for _ in range(20)))
    async with connect(gateway) as http, http.http.get("/control/v1/clients") as response:
        sessions = (await response.json())["sessions"]
    assert [entry["door"] for entry in sessions if entry["name"] == name] == ["connect"]


async def test_a_released_session_is_gone_here_and_there(gateway: GatewayProcess, session: ConnectSession) -> None:
    session.user = f"leaving-{uuid.uuid4()}"
    await session.sql("CREATE TEMPORARY VIEW mine AS SELECT 1 AS a")
    await session.close()

    async def gone() -> bool:
        async with connect(gateway) as http, http.http.get("/control/v1/clients") as response:
            return session.user not in await response.text()

    await until("the session is closed", gone)
    for call in (session.sql("SELECT 1"), session.release(str(uuid.uuid4())), session.schema(sql_relation("SELECT 1"))):
        closed = await failure(call)
        assert (closed.condition, closed.sql_state) == ("INVALID_HANDLE.SESSION_CLOSED", "HY000")


async def test_a_session_released_to_come_again_may_come_again(session: ConnectSession) -> None:
    await session.sql("CREATE TEMPORARY VIEW mine AS SELECT 1 AS a")
    await session.close(may_return=True)
    assert (await failure(session.sql("SELECT * FROM mine"))).condition == "TABLE_OR_VIEW_NOT_FOUND"
    assert await session.rows("SELECT 1") == [(1,)]


@pytest.mark.parametrize("session_id", ["", "x", "0", "'; DROP", "00112233-4455-6677-8899-aabbccddeef"])
async def test_a_session_needs_a_uuid(session: ConnectSession, session_id: str) -> None:
    session.session_id = session_id
    refused = await failure(session.execute(command=sql_command("SELECT 1")))
    assert (refused.code, refused.condition) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_HANDLE.FORMAT")


async def test_unknown_sessions_are_not_made_by_asking_for_their_leftovers(session: ConnectSession) -> None:
    unknown = await failure(session.release(str(uuid.uuid4())))
    assert unknown.condition == "INVALID_HANDLE.SESSION_NOT_FOUND"
    details = wire.FetchErrorDetailsRequest(error_id="x", **session.own)
    assert (await failure(session.call("FetchErrorDetails", details, wire.FetchErrorDetailsResponse))).condition == (
        "INVALID_HANDLE.SESSION_NOT_FOUND"
    )


async def test_a_session_cannot_be_cloned(session: ConnectSession) -> None:
    request = wire.CloneSessionRequest(**session.own)
    refused = await failure(session.call("CloneSession", request, wire.CloneSessionResponse))
    assert refused.code is grpc.StatusCode.UNIMPLEMENTED


async def test_a_wrong_token_is_refused(session: ConnectSession) -> None:
    session.token = "wrong"
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await session.begin(session.request(command=sql_command("SELECT 1"))).read()
    assert failed.value.code() is grpc.StatusCode.UNAUTHENTICATED
