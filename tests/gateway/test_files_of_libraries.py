"""Local files that Java's own libraries open without Hadoop: drivers of databases, descriptors, schemas, Hive's classes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sparksql.wire.control import ErrorReason, OperationState
from tests.support.process import GatewayProcess

from .client import GatewayClient, connect
from .test_files import java

CONTENT = "Unverwechselbar-9017"


@pytest.fixture(scope="module")
def private() -> Iterator[Path]:
    """A file that the process may read and SQL may not, because it is in none of the session's folders."""
    folder = Path("/var/tmp") / f"sparksql-libraries-{os.getpid()}"
    folder.mkdir()
    file = folder / "token"
    file.write_text(CONTENT + "\n")
    yield file
    file.unlink()
    folder.rmdir()


@pytest.fixture
async def connected(connected_gateway: GatewayProcess) -> AsyncIterator[GatewayClient]:
    """With Hive's tables and the image's connectors."""
    async with connect(connected_gateway) as client:
        await client.until_started()
        yield client


@asynccontextmanager
async def counted_server() -> AsyncIterator[tuple[int, list[bytes]]]:
    """A tenant's server on loopback: its port, and what each connection has sent first."""
    received: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read(4096))
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], received


async def refused(client: GatewayClient, sql: str) -> str:
    """The message of a statement that is not allowed, which shows nothing of the file."""
    view = await client.run(sql)
    assert view.error is not None and view.error.reason is ErrorReason.NOT_ALLOWED, (sql, view)
    assert CONTENT not in view.to_json()
    return view.error.message


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("url 'jdbc:hive2://127.0.0.1:{port}/d;initFile={file}', dbtable 't'", "jdbc.hive2"),
        ("url 'jdbc:hive2://127.0.0.1:{port}/d;auth=noSasl', driver 'org.apache.hive.jdbc.HiveDriver', dbtable 't'", "jdbc.hive2"),
        ("url concat('jdbc:hi', 've2://127.0.0.1:{port}/'), dbtable 't'", "jdbc.hive2"),
        ("url 'jdbc:postgresql://127.0.0.1:{port}/d?ssl=true&sslkey={file}', dbtable 't'", "'sslkey'"),
        ("url 'jdbc:postgresql://127.0.0.1:{port}/d?socketFactory=x&socketFactoryArg={file}', dbtable 't'", "'socketFactory'"),
        ("url 'jdbc:postgresql://127.0.0.1:{port}/d', sslrootcert '{file}', sslmode 'verify-ca', dbtable 't'", "'sslrootcert'"),
        ("url 'jdbc:postgresql://127.0.0.1:{port}/d', loggerFile concat('/var', '/tmp/x'), dbtable 't'", "'loggerFile'"),
        ("url 'jdbc:postgresql://127.0.0.1:{port}/d', keytab '{file}', principal 'p', dbtable 't'", "'keytab'"),
        ("url 'jdbc:postgresql://127.0.0.1:{port}/d', driver 'org.apache.hive.jdbc.HiveDriver', dbtable 't'", "'driver'"),
        ("url 'jdbc:PostgreSQL://127.0.0.1:{port}/d', dbtable 't'", "jdbc.postgresql"),
        ("url 'jdbc:mysql://127.0.0.1:{port}/d?allowLoadLocalInfile=true', dbtable 't'", "jdbc.mysql"),
        ("url 'file://{file}', dbtable 't'", "'url'"),
    ],
)  # fmt: skip
async def test_a_jdbc_source_with_an_unknown_option_or_driver_is_refused_before_it_connects(
    connected: GatewayClient, private: Path, options: str, named: str
) -> None:
    async with counted_server() as (port, received):
        given = options.format(port=port, file=private)
        for sql in (
            f"CREATE TEMPORARY VIEW d USING jdbc OPTIONS ({given})",
            f"CREATE TABLE d USING jdbc OPTIONS ({given})",
        ):
            if "concat" in given and "VIEW" in sql:
                continue  # only a table's options may be computed
            assert named in await refused(connected, sql)
        assert received == []


async def test_a_jdbc_source_with_understood_options_connects(connected: GatewayClient) -> None:
    async with counted_server() as (port, received):
        options = (
            f"url 'jdbc:postgresql://127.0.0.1:{port}/d?sslmode=disable&gssEncMode=disable', dbtable 't', user 'u', "
            "password 'p', driver 'org.postgresql.Driver', fetchsize '10', ApplicationName 'a'"
        )
        view = await connected.run(f"CREATE TEMPORARY VIEW d USING jdbc OPTIONS ({options})")
        assert view.error is not None and view.error.reason is not ErrorReason.NOT_ALLOWED, view
        assert received


async def test_an_input_format_of_hadoop_opens_no_database(connected: GatewayClient, private: Path) -> None:
    properties = (
        "'mapreduce.jdbc.driver.class' = 'org.apache.derby.iapi.jdbc.AutoloadedDriver', "
        f"'mapreduce.jdbc.url' = 'jdbc:derby:{private.parent}/database;create=true', "
        "'mapreduce.jdbc.input.table.name' = 't', 'mapreduce.jdbc.input.field.names' = 'a', 'mapreduce.jdbc.input.orderby' = 'a'"
    )
    await connected.ok(
        "CREATE TABLE db (a STRING) ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe' STORED AS "
        "INPUTFORMAT 'org.apache.hadoop.mapred.lib.db.DBInputFormat' "
        f"OUTPUTFORMAT 'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat' TBLPROPERTIES ({properties})"
    )
    view = await connected.run("SELECT * FROM db")
    await connected.ok("DROP TABLE db")
    assert view.error is not None and view.error.reason is ErrorReason.NOT_ALLOWED, view
    assert os.listdir(private.parent) == [private.name]


async def test_protobuf_functions_answer_alike_for_files_that_exist_and_that_do_not(
    connected: GatewayClient, private: Path
) -> None:
    for call in ("from_protobuf(X'00', 'M', '{}')", "to_protobuf(named_struct('a', 1), 'M', '{}')"):
        there, absent = [
            await refused(connected, "SELECT " + call.format(path)) for path in (private, private.with_name("absent"))
        ]
        assert there.replace(str(private), "") == absent.replace(str(private.with_name("absent")), "")
        await refused(connected, "SELECT " + call.format("/tmp/../" + str(private)))


async def test_protobuf_functions_read_descriptors_of_the_sessions_own_folders(
    connected: GatewayClient, tmp_path: Path
) -> None:
    """What then is not there is Spark's own matter: the image has no protobuf module."""
    (tmp_path / "descriptor").write_bytes(b"")
    view = await connected.run(f"SELECT from_protobuf(X'00', 'M', '{tmp_path}/descriptor')")
    assert view.error is None or view.error.reason is not ErrorReason.NOT_ALLOWED, view


def test_no_library_opens_a_file_outside_the_sessions_folders(private: Path, tmp_path: Path) -> None:
    """The methods that open files without Hadoop, called directly: SQL may come to them by more ways than are known."""
    outcomes = dict(line.split("\t", 1) for line in java("LibraryFiles", str(private), roots=tmp_path).splitlines())
    assert len(outcomes) == 6, outcomes
    assert {
        name: told for name, told in outcomes.items() if not told.startswith("dev.sparksql.files.ConfinedException")
    } == {}


async def test_hives_functions_read_no_file(connected: GatewayClient, private: Path) -> None:
    entity = f'<!DOCTYPE a [<!ENTITY e SYSTEM "file://{private}">]><a>&e;</a>'
    included = f'<a xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include href="file://{private}" parse="text"/></a>'
    name = "org.apache.hadoop.hive.ql.udf.xml.UDFXPathString"
    await connected.run("DROP TEMPORARY FUNCTION IF EXISTS hive_xpath")
    await connected.ok(f"CREATE TEMPORARY FUNCTION hive_xpath AS '{name}'")
    for function in ("hive_xpath", "xpath_string"):
        for text in (entity, included):
            view = await connected.run(f"SELECT {function}('{text}', 'a') AS found")
            assert CONTENT not in view.to_json(), view
            if view.state is OperationState.FINISHED:
                assert CONTENT not in str(await connected.rows(f"SELECT {function}('{text}', 'a') AS found"))
    await connected.ok("DROP TEMPORARY FUNCTION hive_xpath")
