"""The ways around the class's allow-lists, tried by clients: each is refused with its reason, by each protocol, and leaves nothing."""

from __future__ import annotations

import asyncio
import glob
import itertools
import socket
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from sparksql.protocols.hiveserver2 import messages as m
from tests.support.connect_client import ConnectSession, Failed, connect_channel, until
from tests.support.ports import free_port
from tests.support.process import GatewayProcess, running
from tests.support.thorough import thorough_but
from tests.support.thrift_client import Fields, ThriftClient, rows_of

from .client import connect
from .rest_client import RestSession, connect_rest

ANSI = "spark.sql.ansi.enabled"  # enforced
TRANSFORM = "SELECT TRANSFORM (id) USING 'touch {mark}; cat' AS (id) FROM range(3)"
PREFIXES = "is not below any of the jar prefixes that the session's class allows"
ONE_PLACE = "must name one place by a plain path"
NO_COMMANDS = "TRANSFORM ... USING runs a command and is not allowed"
ENFORCED = "is enforced by the session's class"


_numbers = itertools.count(1000)


@dataclass(frozen=True)
class Answer:
    """How a statement ended: with rows, or with an error."""

    rows: tuple[tuple[Any, ...], ...] = ()
    error: str | None = None


class Refused(Exception):
    """No session was opened."""


Run = Callable[..., Awaitable[Answer]]  # (sql, **conf)


@dataclass(frozen=True)
class Frontends:
    """The gateway, and the ways into it by name."""

    gateway: GatewayProcess
    thrift_port: int

    def open(self, protocol: str, **properties: str) -> AbstractAsyncContextManager[Run]:
        """A session's way to run statements. Raises Refused."""
        return {"rest": self._rest, "thrift": self._thrift, "connect": self._connect}[protocol](properties)

    @asynccontextmanager
    async def _rest(self, properties: Mapping[str, str]) -> AsyncIterator[Run]:
        async with connect_rest(self.gateway) as rest:
            answer = await rest.call("POST", "/v4/sessions", {"properties": properties})
            if answer.status != 200:
                assert answer.status == 403, answer
                raise Refused(answer.told)
            session = RestSession(rest, answer.body["sessionHandle"])
            yield run_in(session)
            await session.close()

    @asynccontextmanager
    async def _thrift(self, properties: Mapping[str, str]) -> AsyncIterator[Run]:
        with await asyncio.to_thread(ThriftClient, self.thrift_port, self.gateway.client_tls()) as client:
            opened = client.call("OpenSession", m.TOpenSessionReq(9, "ada", properties))
            if opened[1][1] != 0:
                assert opened[1][3] == b"42501", opened
                raise Refused(opened[1][5].decode())
            handle = m.TSessionHandle(_identifier(opened[3]))

            def run(sql: str, conf: Mapping[str, str]) -> Answer:
                answer = client.call("ExecuteStatement", m.TExecuteStatementReq(handle, sql, conf))
                if answer[1][1] != 0:
                    return Answer(error=answer[1][5].decode())
                operation = m.TOperationHandle(_identifier(answer[2]), answer[2][2])
                found = rows_of(client.call("FetchResults", m.TFetchResultsReq(operation, 0, 100)))
                return Answer(tuple(tuple(v.decode() if isinstance(v, bytes) else v for v in row) for row in found))

            yield lambda sql, **conf: asyncio.to_thread(run, sql, conf)

    @asynccontextmanager
    async def _connect(self, _: Mapping[str, str]) -> AsyncIterator[Run]:
        async with connect_channel(self.gateway) as channel:
            session = ConnectSession(channel)

            async def run(sql: str) -> Answer:
                try:
                    command = await session.sql(sql)
                    return Answer(tuple((await session.execute(root=command.relation)).rows))
                except Failed as failed:
                    return Answer(error=failed.failure.message)

            yield run
            await session.close()


def run_in(session: RestSession) -> Run:
    async def run(sql: str, **conf: str) -> Answer:
        answer = await session.page(await session.submit(sql, executionConfig=conf), 0)
        if answer.status != 200:
            return Answer(error=answer.told)
        return Answer(tuple(tuple(row["fields"]) for row in answer.body["results"]["data"]))

    return run


def _identifier(handle: Fields) -> m.THandleIdentifier:
    return m.THandleIdentifier(handle[1][1], handle[1][2])


@pytest.fixture(scope="module")
def frontends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Frontends]:
    folder = tmp_path_factory.mktemp("policy")
    for name in ("trusted", "other"):
        (folder / name).mkdir()
    thrift_port = free_port()
    with running(
        folder,
        policy={
            "confAllow": ["spark.sql.*", "spark.sql.mine", "spark.sql.other", "my.*"],
            "enforcedConf": {ANSI: "true"},
            "jarPrefixes": [f"file://{folder}/trusted/"],
        },
        endpoints={"thrift": True, "thrift_port": thrift_port, "connect": True, "connect_port": free_port()},
    ) as gateway:
        asyncio.run(_until_open(gateway, thrift_port))
        yield Frontends(gateway, thrift_port)


async def _until_open(gateway: GatewayProcess, port: int) -> None:
    async def is_open() -> bool:
        return socket.socket().connect_ex(("127.0.0.1", port)) == 0

    async with connect(gateway) as control:
        await control.until_started()
    await until("the Thrift frontend is open", is_open)


@pytest.fixture
def words(frontends: Frontends) -> dict[str, str]:
    """What stands for the braces in the statements below: names of this test alone, and jars that are there."""
    folder, number = frontends.gateway.folder, next(_numbers)
    for name in ("trusted", "other"):
        with zipfile.ZipFile(folder / name / f"{number}.jar", "w") as jar:
            jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
    return {
        "mark": str(folder / f"mark-{number}"),
        "refused": f"refused_{number}_",
        "bad": f"file://{folder}/other/{number}.jar",
        "good": f"file://{folder}/trusted/{number}.jar",
        "climbing": f"file://{folder}/trusted/../other/{number}.jar",
    }


def filled(sql: str, words: Mapping[str, str]) -> str:
    for name, word in words.items():
        sql = sql.replace(f"{{{name}}}", word)
    return sql


# By the rule that the error names.
REFUSED = {
    "ADD JAR '{bad}'": PREFIXES,
    "ADD JARS '{good}' '{bad}'": PREFIXES,
    "ADD JAR '{climbing}'": ONE_PLACE,
    "ADD JAR 'ivy://org.example:tool:1.0'": PREFIXES,
    "ADD FILE '/etc/hostname'": PREFIXES,
    "ADD ARCHIVE '{bad}'": PREFIXES,
    "CREATE FUNCTION {refused} AS 'a.B' USING JAR '{bad}'": PREFIXES,
    "CREATE FUNCTION {refused} AS 'a.B' USING FILE '{good}', ARCHIVE '{bad}'": PREFIXES,
    "CREATE OR REPLACE TEMPORARY FUNCTION {refused} AS 'a.B' USING JAR '{bad}'": PREFIXES,
    "CREATE FUNCTION IDENTIFIER('{refused}' || 'x') AS 'a.B' USING JAR '{bad}'": PREFIXES,
    "CREATE TEMPORARY FUNCTION IDENTIFIER('{refused}' || 'x') AS 'a.B' USING JAR '{bad}'": PREFIXES,
    "CREATE TEMPORARY FUNCTION {refused} AS 'org.apache.hadoop.hive.ql.udf.generic.GenericUDFReflect2'": "is not allowed",
    TRANSFORM: NO_COMMANDS,
    "FROM range(3) MAP id USING 'touch {mark}' AS id": NO_COMMANDS,
    "FROM range(3) REDUCE id USING 'touch {mark}' AS id": NO_COMMANDS,
    f"SELECT 1 WHERE (((SELECT max(id) FROM ({TRANSFORM})) = '2'))": NO_COMMANDS,
    f"WITH a AS (WITH b AS ({TRANSFORM}) SELECT * FROM b) SELECT * FROM a": NO_COMMANDS,
    f"SELECT * FROM range(1), LATERAL ({TRANSFORM})": NO_COMMANDS,
    f"CREATE TEMPORARY VIEW IDENTIFIER('{{refused}}' || 'x') AS {TRANSFORM}": NO_COMMANDS,
    f"CACHE TABLE {{refused}} AS {TRANSFORM}": NO_COMMANDS,
    f"EXPLAIN EXTENDED {TRANSFORM}": NO_COMMANDS,
    f"CREATE TEMPORARY FUNCTION {{refused}}() RETURNS TABLE (id STRING) RETURN {TRANSFORM}": NO_COMMANDS,
    f"CREATE FUNCTION {{refused}}() RETURNS STRING RETURN (SELECT max(id) FROM ({TRANSFORM}))": NO_COMMANDS,
    "SET spark.jars = {bad}": "'spark.jars' is never allowed",
    "SET `Spark.Jars ` = {bad}": "is never allowed",
    "SET `spark.sql.gateway.session.max-num` = 1": "set it in the session's spec.conf",
    "SET fs.s3a.endpoint = http://elsewhere": "'fs.s3a.endpoint' is never allowed",
    "SET fs.s3a.connection.maximum = 1": "not among the keys that the session's class allows",
    "SET spark.sql.hive.metastore.jars.path = {bad}": "is never allowed",
    "SET spark.sql.cache.serializer = a.B": "is never allowed",
    "SET spark.sql.noSuchKey = 1": "not among the keys that the session's class allows",
    "SET spark.sql.streaming.stateStore.providerClass = a.B": "it takes one of",
    f"SET {ANSI} = false": ENFORCED,
    f"set\n{ANSI.upper()}=false": ENFORCED,
    f"RESET {ANSI}": ENFORCED,
    "RESET spark.master": "'spark.master' is never allowed",
}
# Spark itself does not know these; `told` is what it says of them.
UNKNOWN = {
    "SELECT reflect('java.lang.System', 'getenv', 'HOME')": "reflect",
    "SELECT (SELECT builtin.java_method('java.lang.System', 'getenv', 'HOME'))": "java_method",
    "WITH a AS (SELECT try_reflect('java.lang.System', 'getenv', 'HOME') AS b) SELECT b FROM a": "try_reflect",
    "CREATE TEMPORARY FUNCTION {refused}() RETURNS STRING RETURN `reflect`('java.lang.System', 'getenv', 'HOME')": "reflect",
    "CREATE FUNCTION {refused}(a INT) RETURNS INT LANGUAGE PYTHON RETURN a": "PYTHON",
    "CREATE TEMPORARY FUNCTION {refused}(a INT) RETURNS INT LANGUAGE PYTHON AS $$ return a $$": "PARSE_SYNTAX_ERROR",
}
PLACES = {
    "alone": "{}",
    "second": "CREATE TEMPORARY VIEW {refused} AS SELECT 1; {}",
    "commented": "/* SELECT 1; /* */ */ -- SELECT 1;\n;{}\n",
    "immediate": "EXECUTE IMMEDIATE '{}'",
    "block": "BEGIN IF true THEN EXECUTE IMMEDIATE 'SELECT 1'; {}; END IF; END",
}


@pytest.mark.parametrize(
    ("protocol", "place"),
    thorough_but(
        [*(("rest", place) for place in PLACES), ("thrift", "second")], itertools.product(["rest", "thrift"], PLACES)
    ),
)
async def test_a_forbidden_client_statement_is_refused_with_its_reason_and_no_effect(
    frontends: Frontends, words: dict[str, str], protocol: str, place: str
) -> None:
    # What Spark finds when it runs a statement comes after the statement before it.
    statements = REFUSED if place == "second" else REFUSED | UNKNOWN
    async with frontends.open(protocol) as run:
        wrong = {}
        for sql, told in statements.items():
            if place == "block" and sql.upper().startswith(("SET", "RESET")):
                continue  # those are about variables there
            inner = sql.replace("'", "''") if place == "immediate" else sql
            answer = await run(filled(PLACES[place].replace("{}", inner), words))
            if answer.error is None or told not in answer.error:
                wrong[sql] = answer
        left = await left_behind(run, words)
    assert (wrong, left) == ({}, {})


async def left_behind(run: Run, words: Mapping[str, str]) -> dict[str, object]:
    """What the statements of this file would leave, by the place where it is."""
    found: dict[str, object] = {}
    jar = words["bad"].rpartition("/")[2]
    for what, mark in [("LIST JARS", jar), ("LIST FILES", "hostname"), ("LIST ARCHIVES", jar)]:
        found[what] = [row for row in (await run(what)).rows if mark in str(row)]
    for what in ("SHOW USER FUNCTIONS", "SHOW TABLES", "SHOW VIEWS"):
        found[what] = [row for row in (await run(what)).rows if words["refused"] in str(row)]
    found["enforced"] = [row for row in (await run(f"SET {ANSI}")).rows if row != (ANSI, "true")]
    found["commands"] = await asyncio.to_thread(glob.glob, words["mark"])
    return {place: seen for place, seen in found.items() if seen}


# Texts that mean one thing when they are read and another when they run. What they end in is not said here, only that it
# has no effect.
TRICKS: dict[str, tuple[str, ...]] = {
    "a command put together by substitution": (
        "SET spark.sql.mine = TRANSFORM",
        TRANSFORM.replace("TRANSFORM", "${spark.sql.mine}"),
    ),
    "a statement substituted into a comment": (
        "SET spark.sql.mine = */ ADD JAR '{bad}' --",
        "/* ${spark.sql.mine} */ SELECT 1",
    ),
    "a statement substituted in a script": (
        "SET spark.sql.mine = SELECT 1",
        "SET spark.sql.mine = ADD JAR '{bad}'; ${spark.sql.mine}",
    ),
    "a literal that becomes a variable": (
        f"DECLARE VARIABLE `SELECT 1` STRING = 'SET {ANSI}=false'",
        "SET spark.sql.ansi.doubleQuotedIdentifiers = true",
        'EXECUTE IMMEDIATE "SELECT 1"',
    ),
    "a literal that becomes a variable in a block": (
        f"DECLARE VARIABLE `SELECT 1` STRING = 'SET {ANSI}=false'",
        "BEGIN EXECUTE IMMEDIATE 'SET spark.sql.ansi.doubleQuotedIdentifiers = true'; "
        "EXECUTE IMMEDIATE 'EXECUTE IMMEDIATE \"SELECT 1\"'; END",
    ),
    "a literal that is unescaped otherwise in a script": (
        "SET spark.sql.parser.escapedStringLiterals = true; "
        f"EXECUTE IMMEDIATE '--\\nSELECT 1 /*\n{TRANSFORM.replace(chr(39), chr(34))} --*/'"
    ),
    "a command at the end of a long block": (
        f"BEGIN {'SELECT 1; ' * 40} CASE (SELECT max(id) FROM ({TRANSFORM})) WHEN '2' THEN SELECT 1; END CASE; END",
    ),
    "a plan that is too long to be looked at": ("SET spark.sql.maxPlanStringLength = 1", TRANSFORM),
    "a function that runs a command": (
        f"CREATE TEMPORARY FUNCTION {{refused}}() RETURNS TABLE (id STRING) RETURN {TRANSFORM}",
        "SELECT * FROM {refused}()",
    ),
    "a function with a name that is computed": (
        "DECLARE VARIABLE name STRING = '{refused}'",
        "CREATE TEMPORARY FUNCTION IDENTIFIER(name) AS 'java.lang.String' USING JAR '{bad}'",
    ),
}


@pytest.mark.parametrize(
    ("protocol", "trick"),
    thorough_but(
        [
            *(("rest", trick) for trick in TRICKS),
            *((each, "a function that runs a command") for each in ("thrift", "connect")),
        ],
        itertools.product(["rest", "thrift", "connect"], TRICKS),
    ),
)
async def test_a_forbidden_client_statement_in_disguise_has_no_effect(
    frontends: Frontends, words: dict[str, str], protocol: str, trick: str
) -> None:
    async with frontends.open(protocol) as run:
        answers = [await run(filled(sql, words)) for sql in TRICKS[trick]]
        left = await left_behind(run, words)
    assert left == {}, answers


@pytest.mark.parametrize("protocol", ["rest", "thrift"])
async def test_a_property_of_the_session_is_not_read_as_sql(
    frontends: Frontends, words: dict[str, str], protocol: str
) -> None:
    hidden = filled(f"*/ {TRANSFORM} --", words)
    async with frontends.open(protocol, **{"spark.sql.mine": hidden}) as run:
        first = await run("/* ${spark.sql.mine} */ SELECT 1")
        second = await run("/* ${spark.sql.other} */ SELECT 1", **{"spark.sql.other": hidden})
        assert await left_behind(run, words) == {}, (first, second)


PREFIXED = {"rest": [""], "thrift": ["", "set:", "set:hiveconf:", "set:hivevar:"]}
KEYS = {
    "spark.jars": "is never allowed",
    "spark.hadoop.fs.s3a.endpoint": "is never allowed",
    "spark.hadoop.fs.s3a.connection.maximum": "not among the keys that the session's class allows",
    "spark.sql.streaming.commitProtocolClass": "is never allowed",
    "spark.sql.hive.metastore.jars": "is never allowed",
    "spark.sql.noSuchKey": "not among the keys that the session's class allows",
    "spark.sql.streaming.stateStore.providerClass": "it takes one of",
    "spark.sql.gateway.session.max-num": "set it in the session's spec.conf",
}


@pytest.mark.parametrize("protocol", PREFIXED)
async def test_keys_that_are_not_allowed_are_refused_in_properties_and_in_a_statements_configuration(
    frontends: Frontends, protocol: str
) -> None:
    async with frontends.open(protocol) as run, connect(frontends.gateway) as control:
        before = (await control.info()).client_sessions
        for prefix in PREFIXED[protocol]:
            for key, told in KEYS.items():
                with pytest.raises(Refused) as refused:
                    async with frontends.open(protocol, **{prefix + key: "x"}):
                        pass
                assert f"{key!r}" in str(refused.value) and told in str(refused.value)
                answer = await run("SELECT 1", **{prefix + key: "x"})
                assert answer.error is not None and key in answer.error and told in answer.error, (prefix, answer)
        assert (await control.info()).client_sessions == before


@pytest.mark.parametrize("spelling", [ANSI, f"{ANSI} ", "spark.SQL.ANSI.enabled"])
@pytest.mark.parametrize("protocol", PREFIXED)
async def test_a_client_cannot_override_an_enforced_configuration_key(
    frontends: Frontends, protocol: str, spelling: str
) -> None:
    for prefix in PREFIXED[protocol]:
        async with frontends.open(protocol, **{prefix + spelling: "false"}) as run:
            assert (await run(f"SET {ANSI}")).rows == ((ANSI, "true"),)
            assert (await run(f"SET {ANSI}", **{prefix + spelling: "false"})).rows == ((ANSI, "true"),)
            divided = await run("SELECT 1 / 0", **{prefix + spelling: "false"})
            assert divided.error is not None and "DIVIDE_BY_ZERO" in divided.error


@pytest.mark.parametrize("path", ["configure-session", "scripts"])
async def test_the_other_ways_of_rest_are_no_way_around(frontends: Frontends, words: dict[str, str], path: str) -> None:
    async with connect_rest(frontends.gateway) as rest, rest.session() as session:
        wrong = {}
        for sql, told in {**REFUSED, "SET 'spark.jars' = 'x'": "never allowed", f"RESET '{ANSI}'": ENFORCED}.items():
            field = "script" if path == "scripts" else "statement"
            answer = await rest.call("POST", f"{session.path}/{path}", {field: filled(sql, words)})
            if path == "scripts":
                assert answer.status == 200, answer
                answer = await session.page(answer.body["clusterID"], 0)
            allowed = told, "Unsupported statement for configuring"
            if answer.status != 500 or not any(text in answer.told for text in allowed):
                wrong[sql] = answer
        left = await left_behind(run_in(session), words)
    assert (wrong, left) == ({}, {})


ALLOWED = {
    "SELECT 'ADD JAR x', 'SET spark.jars = x' AS `ADD JAR`": (("ADD JAR x", "SET spark.jars = x"),),
    "SELECT 'TRANSFORM (a) USING' AS transform, 'reflect(1)' AS reflect": (("TRANSFORM (a) USING", "reflect(1)"),),
    "SELECT reduce(transform(array(1, 2), x -> x + 1), 0, (a, b) -> a + b) AS reduce": ((5,),),
    "WITH transform AS (SELECT 1 AS java_method) SELECT java_method FROM transform": ((1,),),
    "-- ADD JAR x\n/* SET spark.jars = x; */ SELECT 1": ((1,),),
    "SET my.own = ADD JAR x": (("my.own", "ADD JAR x"),),
    "SET spark.sql.shuffle.partitions = 3; SELECT 1": ((1,),),
    "EXECUTE IMMEDIATE 'SELECT ?' USING 'SET spark.jars = x'": (("SET spark.jars = x",),),
    "BEGIN DECLARE t STRING = 'ADD JAR x'; SELECT t; END": (("ADD JAR x",),),
    "CREATE TEMPORARY FUNCTION twice(x INT) RETURNS INT RETURN x * 2; SELECT twice(2)": ((4,),),
    "CREATE TEMPORARY FUNCTION f() RETURNS INT RETURN transform(array(1), x -> 2)[0]; SELECT f()": ((2,),),
    "CREATE TEMPORARY VIEW IDENTIFIER('m' || 'ine') AS SELECT 6 AS six; SELECT * FROM mine": ((6,),),
    "ADD JAR '{good}'; ADD FILE '{good}'; SELECT 1": ((1,),),
}


@pytest.mark.parametrize("protocol", ["rest", "thrift"])
async def test_a_harmless_client_statement_with_forbidden_words_runs(
    frontends: Frontends, words: dict[str, str], protocol: str
) -> None:
    async with frontends.open(protocol) as run:
        answers = {sql: await run(filled(sql, words)) for sql in ALLOWED}
        assert answers == {sql: Answer(rows) for sql, rows in ALLOWED.items()}
        assert words["good"].rpartition("/")[2] in str((await run("LIST JARS")).rows)
