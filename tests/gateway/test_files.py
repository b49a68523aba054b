"""Local files: SQL reaches those in the session's own folders and no others, by no spelling, reader or setting."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from sparksql.wire.control import ErrorReason, OperationState
from sparksql.wire.driver import CONFIG_FILE, FILE_ROOTS_ENV, TLS_CERT_FILE, TLS_KEY_FILE, TOKEN_FILE
from tests.support.java_classes import class_path
from tests.support.process import TOKEN, GatewayProcess
from tests.support.thorough import thorough_but

from .client import GatewayClient, connect

CONTENT = "Unverwechselbar-9003"


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file that the process may read and SQL may not, because it is in none of the session's folders."""
    folder = Path("/var/tmp") / f"sparksql-private-{os.getpid()}"
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


@pytest.fixture
async def table(connected: GatewayClient) -> AsyncIterator[str]:
    """One of Hive's: Spark loads data into no others."""
    await connected.ok("CREATE TABLE loot (line STRING) STORED AS TEXTFILE")
    yield "loot"
    await connected.ok("DROP TABLE loot")


def test_a_running_gateway_has_removed_its_token_key_and_config_files(gateway: GatewayProcess) -> None:
    left = {file.name for file in (gateway.folder / "given").iterdir()}
    assert not left & {TOKEN_FILE, TLS_CERT_FILE, TLS_KEY_FILE, CONFIG_FILE}, left


def test_no_process_shows_the_token_or_a_key(gateway: GatewayProcess) -> None:
    pid = gateway.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    assert children, "the JVM is a child"
    for name in ("environ", "cmdline"):
        for process in (pid, *children):
            shown = Path(f"/proc/{process}/{name}").read_bytes()
            assert shown
            assert TOKEN.encode() not in shown and b"storage-credential" not in shown, (process, name)


# Methods that answer without looking at any file: paths, sizes and names that follow from their argument or from settings.
PURE = frozenset(
    {
        "cancelDeleteOnExit", "checkPath", "completeLocalOutput", "getChecksumFile", "getChecksumFileLength", "getDefaultBlockSize",
        "getDefaultReplication", "getEnclosingRoot", "getFileChecksum", "getServerDefaults", "getTrashRoot", "getUriPath",
        "handleEmptyDstDirectoryOnWindows", "hasPathCapability", "makeQualified", "reportChecksumFailure", "setReplication",
        "setWorkingDirectory", "startLocalOutput",
    }
)  # fmt: skip


def test_no_method_of_a_local_file_system_goes_outside(tmp_path: Path, private: Path) -> None:
    """Each public method that takes a path, of each local file system, with each of its paths outside in turn.

    One of two paths may be a reason of its own to give up, so each is called with a second path that is there and with one that is not.
    """
    (tmp_path / "there").write_text("x")
    before = state_of(private)
    outcomes = {**outcomes_of(tmp_path / "there", private)}
    for call, outcome in outcomes_of(tmp_path / "absent", private).items():
        outcomes[call] += outcome
    assert {call.split()[0] for call in outcomes} >= {"LocalFs", "LocalFileSystem", "RawLocalFileSystem"}
    refused = {call for call, outcome in outcomes.items() if "SQL may not use this local place" in outcome}
    assert len(refused) > 150, outcomes
    unsupported = {call for call, outcome in outcomes.items() if outcome.startswith("UnsupportedOperationException")}
    rest = {call: outcomes[call] for call in outcomes.keys() - refused - unsupported}
    assert not {call: outcome for call, outcome in rest.items() if re.findall(r"\w+", call)[1] not in PURE}
    assert state_of(private) == before


def test_files_are_made_and_moved_without_starting_a_program(tmp_path: Path) -> None:
    """Hadoop starts one for each where its native library is missing; none is on the path here."""
    folder, empty = tmp_path / "files", tmp_path / "empty"
    folder.mkdir()
    empty.mkdir()
    (folder / "aim").write_text("x")
    (folder / "link").symlink_to(folder / "aim")
    told = java("FileModes", str(folder), roots=tmp_path, PATH=str(empty))
    assert told == "renamed" + os.linesep
    assert names_in(folder) == [".new.crc", "aim", "made", "moved", "new"]
    modes = {name: oct((folder / name).stat().st_mode & 0o7777) for name in ("new", "made", "moved")}
    assert modes == {"new": "0o640", "made": "0o1777", "moved": "0o644"}


def test_a_folder_that_is_deleted_while_it_is_looked_at_is_not_refused(tmp_path: Path) -> None:
    """As that of a writer which commits while a stream lists the table: Spark skips what is gone, and fails on a refusal."""
    assert java("Vanishing", str(tmp_path), roots=tmp_path) == "0 refused" + os.linesep


def java(program: str, *arguments: str, roots: Path, **environment: str) -> str:
    """What one of the programs beside the tests prints, confined to a folder."""
    source = Path(__file__).parent / "java" / f"{program}.java"
    found = shutil.which("java")
    assert found is not None
    done = subprocess.run(
        [found, "-cp", class_path(), str(source), *arguments],
        capture_output=True, text=True, check=False, env={**os.environ, FILE_ROOTS_ENV: str(roots), **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def outcomes_of(other: Path, private: Path) -> dict[str, str]:
    """What came of each call, by class, method and which of its parameters was the private path."""
    outcomes: dict[str, str] = {}
    for line in java("EveryMethod", str(other), str(private), roots=other.parent).splitlines():
        call, _, outcome = line.partition("\t")
        outcomes[call] = outcomes.get(call, "") + outcome
    return outcomes


def lines_of(file: Path) -> list[str]:
    return file.read_text().splitlines()


def names_in(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def state_of(file: Path) -> object:
    status = file.stat()
    return names_in(file.parent), file.read_text(), status.st_mode, status.st_mtime_ns, status.st_uid


# Ways to write a path that a reader of the text may take for another one than Hadoop does. `{p}` is the file, `{d}` its folder.
SPELLINGS = [
    "{p}", "file:{p}", "file://{p}", "FILE:{p}", "/tmp/..{p}", "/x?/..{p}", "/x#/..{p}", "/tmp/%2e%2e{p}", "/tmp//..//.{p}",
    "{d}/t*n", "{d}/[t]oken", "{d}/{{token}}", "{d}/toke?", "/v*r/t?p/{{{n},x}}/token", "file:/[v]ar/tmp/{n}/token", "{d}",
]  # fmt: skip


# What `make test` tries: a plain path, one with its scheme, dots, an escape, a pattern in a folder's name and one in the file's.
DAILY_SPELLINGS = ["{p}", "FILE:{p}", "/x#/..{p}", "/tmp/%2e%2e{p}", "{d}/t*n", "file:/[v]ar/tmp/{n}/token"]
SOURCES = ["text", "csv", "json", "binaryFile", "parquet"]


def spelled(spelling: str, file: Path) -> str:
    return spelling.format(p=file, d=file.parent, n=file.parent.name)


async def assert_hidden(client: GatewayClient, sql: str, *secrets: str) -> None:
    """The statement ends in an error that says nothing of the file."""
    view = await client.run(sql)
    assert view.state is OperationState.ERROR, (sql, view)
    assert view.error is not None
    for secret in (CONTENT, *secrets):
        assert secret not in view.to_json(), sql


@pytest.mark.parametrize("spelling", thorough_but(DAILY_SPELLINGS, SPELLINGS))
async def test_load_data_takes_nothing_from_outside(
    connected: GatewayClient, table: str, private: Path, spelling: str
) -> None:
    path = spelled(spelling, private)
    for local in ("LOCAL ", ""):
        await assert_hidden(connected, f"LOAD DATA {local}INPATH '{path}' INTO TABLE {table}")
    assert await connected.rows(f"SELECT * FROM {table}") == []
    assert lines_of(private) == [CONTENT]


@pytest.mark.parametrize(
    ("source", "spelling"),
    thorough_but(
        [("text", spelling) for spelling in SPELLINGS] + [(source, "{d}/t*n") for source in SOURCES[1:]],
        itertools.product(SOURCES, SPELLINGS),
    ),
)
async def test_no_reader_of_files_looks_outside(
    client: GatewayClient, private: Path, source: str, spelling: str
) -> None:
    await assert_hidden(client, f"SELECT * FROM {source}.`{spelled(spelling, private)}`")


@pytest.mark.parametrize("spelling", thorough_but(DAILY_SPELLINGS, SPELLINGS))
async def test_no_table_and_no_view_lies_outside(client: GatewayClient, private: Path, spelling: str) -> None:
    path = spelled(spelling, private)
    if "%" in path:  # to Spark it is no escape but a new folder's name, below /tmp
        await client.ok(f"CREATE TABLE inside (line STRING) USING text LOCATION '{path}'")
        assert await client.rows("SELECT * FROM inside") == []
        await client.ok("DROP TABLE inside")
    else:
        await assert_hidden(client, f"CREATE TABLE outside (line STRING) USING text LOCATION '{path}'")
    await assert_hidden(client, f"CREATE TEMPORARY VIEW outside USING text OPTIONS (path '{path}')")


@pytest.mark.parametrize(
    "path", ["/proc/self/environ", "/proc/self/cmdline", "/etc/passwd", "/etc/hosts", "/opt", "/", "/var/tmp"]
)
async def test_sql_reads_no_file_of_the_machine(client: GatewayClient, path: str) -> None:
    for sql in (f"SELECT * FROM text.`{path}`", f"SELECT * FROM binaryFile.`{path}`", f"SELECT * FROM text.`{path}/*`"):
        await assert_hidden(client, sql, "root:", "localhost")


@pytest.mark.parametrize(
    "options",
    [
        "'fs.file.impl' 'org.apache.hadoop.fs.LocalFileSystem', 'fs.file.impl.disable.cache' 'true'",
        "'fs.file.impl' 'org.apache.hadoop.fs.RawLocalFileSystem', 'fs.file.impl.disable.cache' 'true'",
        "'fs.file.impl' 'org.apache.hadoop.hive.ql.io.ProxyLocalFileSystem', 'fs.file.impl.disable.cache' 'true'",
        "'fs.AbstractFileSystem.file.impl' 'org.apache.hadoop.fs.local.RawLocalFs'",
        "'fs.defaultFS' 'file:///var/tmp'",
        "' FS.x.impl' 'org.apache.hadoop.fs.RawLocalFileSystem'",
        "'hadoop.security.credential.provider.path' 'localjceks://file/var/tmp/x'",
    ],
)
async def test_no_option_brings_another_file_system(client: GatewayClient, private: Path, options: str) -> None:
    await assert_hidden(client, f"CREATE TEMPORARY VIEW outside USING text OPTIONS (path '{private}', {options})")
    await assert_hidden(client, f"SELECT * FROM text WITH ({options}).`{private}`")


async def test_no_option_sets_up_a_file_system(client: GatewayClient, connected: GatewayClient, tmp_path: Path) -> None:
    """Not even for files that SQL may read: a file system may send what a setting names to where another setting says."""
    setting = "'fs.azure.account.oauth2.token.file' = '/var/run/secrets/kubernetes.io/serviceaccount/token'"
    (tmp_path / "lines").write_text("a\n")
    view = await client.run(f"CREATE TEMPORARY VIEW v USING text OPTIONS (path '{tmp_path}/lines', {setting})")
    assert view.error is not None and view.error.reason is ErrorReason.NOT_ALLOWED, view
    await connected.ok(f"CREATE TABLE set_up (line STRING) STORED AS TEXTFILE TBLPROPERTIES ({setting})")
    view = await connected.run("SELECT * FROM set_up")
    assert view.error is not None and view.error.reason is ErrorReason.NOT_ALLOWED, view
    await connected.ok("DROP TABLE set_up")


@pytest.mark.parametrize(
    "scheme", ["viewfs://x/", "viewfs:///", "har://file-x", "pfile:", "local:", "rawlocal:", "jar:file:", "nullscan:"]
)
async def test_no_other_scheme_leads_there(client: GatewayClient, private: Path, scheme: str) -> None:
    options = "'fs.viewfs.mounttable.x.link./var' 'file:///var', 'fs.viewfs.mounttable.default.link./var' 'file:///var'"
    await assert_hidden(client, f"SELECT * FROM text.`{scheme}{private}`")
    await assert_hidden(
        client, f"CREATE TEMPORARY VIEW outside USING text OPTIONS (path '{scheme}{private}', {options})"
    )


async def test_a_link_does_not_lead_outside(
    connected: GatewayClient, table: str, private: Path, tmp_path: Path
) -> None:
    """SQL cannot make links; an archive that was unpacked may hold some."""
    (tmp_path / "file").symlink_to(private)
    (tmp_path / "folder").symlink_to(private.parent)
    (tmp_path / "chain").symlink_to(tmp_path / "folder")
    (tmp_path / "nowhere").symlink_to(private.parent / "new")
    for path in ("file", "folder/token", "folder", "chain/token", "fold*/tok*", "nowhere"):
        await assert_hidden(connected, f"SELECT * FROM text.`{tmp_path}/{path}`")
        await assert_hidden(connected, f"LOAD DATA LOCAL INPATH '{tmp_path}/{path}' INTO TABLE {table}")
    for path in ("folder/out", "nowhere/out", "chain/out"):
        await assert_hidden(connected, f"INSERT OVERWRITE DIRECTORY '{tmp_path}/{path}' USING csv SELECT 1")
    assert names_in(private.parent) == ["token"]


async def test_sql_writes_and_removes_no_file_outside_the_sessions_folders(
    client: GatewayClient, private: Path
) -> None:
    folder = private.parent
    for sql in (
        f"INSERT OVERWRITE DIRECTORY '{folder}' USING csv SELECT 1",
        f"INSERT OVERWRITE LOCAL DIRECTORY '{folder}/x' USING text SELECT 'x'",
        f"CREATE TABLE outside USING parquet LOCATION '{folder}/y' AS SELECT 1 AS a",
        f"CREATE DATABASE outside LOCATION '{folder}/z'",
    ):
        await assert_hidden(client, sql)
        assert names_in(folder) == ["token"], sql


async def test_files_in_the_sessions_own_folders_are_as_before(
    connected: GatewayClient, table: str, tmp_path: Path
) -> None:
    (tmp_path / "lines").write_text("a\nb\n")
    (tmp_path / "near").symlink_to(tmp_path / "lines")
    await connected.ok(f"LOAD DATA LOCAL INPATH '{tmp_path}/lines' INTO TABLE {table}")
    assert await connected.rows(f"SELECT * FROM {table} ORDER BY line") == [("a",), ("b",)]
    assert await connected.rows(f"SELECT count(*) FROM text.`{tmp_path}/near`") == [(2,)]
    await connected.ok(f"INSERT OVERWRITE DIRECTORY '{tmp_path}/out' USING csv SELECT 1")
    assert await connected.rows(f"SELECT * FROM csv.`{tmp_path}/out/*.csv`") == [("1",)]


async def test_schemas_of_avro_and_xml_bring_no_other_files(
    connected: GatewayClient, private: Path, tmp_path: Path
) -> None:
    """Readers in the driver that open a second file: Avro's and Hive's schemas, and an XML schema with another one in it."""
    (tmp_path / "data.xml").write_text("<rows><row><a>1</a></row></rows>")
    entity = f'<!DOCTYPE s [<!ENTITY e SYSTEM "file://{private}">]>'
    inside = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">{}</xs:schema>'
    (tmp_path / "entity.xsd").write_text(entity + inside.format("&e;"))
    (tmp_path / "include.xsd").write_text(inside.format(f'<xs:include schemaLocation="file://{private}"/>'))
    xml = f"CREATE TEMPORARY VIEW x (a INT) USING xml OPTIONS (path '{tmp_path}/data.xml', rowTag 'row', mode 'FAILFAST', "
    for schema in (tmp_path / "entity.xsd", tmp_path / "include.xsd", private):
        await connected.ok("DROP VIEW IF EXISTS x")
        view = await connected.run(f"{xml} rowValidationXSDPath '{schema}')")
        if view.state is OperationState.FINISHED:
            await assert_hidden(connected, "SELECT * FROM x")
        await assert_hidden(
            connected,
            f"SELECT from_xml('<row><a>1</a></row>', 'a INT', map('mode', 'FAILFAST', 'rowValidationXSDPath', '{schema}'))",
        )
    for url in (
        f"file://{private}",
        f"FILE:{private}",
        f"File://{private}",
        str(private),
        f"jar:file:{private}!/x",
        f"url:file:{private}",
    ):
        avro = f"AS AVRO TBLPROPERTIES ('avro.schema.url' = '{url}')"
        await assert_hidden(connected, f"CREATE TABLE by_schema STORED {avro}")
        await assert_hidden(
            connected, f"CREATE TEMPORARY VIEW a USING avro OPTIONS (path '{tmp_path}', avroSchemaUrl '{url}')"
        )


async def test_sparks_own_embedded_database_is_closed(connected: GatewayClient, private: Path) -> None:
    load = f"CALL SYSCS_UTIL.SYSCS_IMPORT_TABLE(null, ''T'', ''{private}'', null, null, null, 0)"
    for options in (
        "url 'jdbc:derby:memory:x;create=true', dbtable 'sys.systables'",
        "url 'jdbc:derby:memory:x;create=true', driver 'org.apache.derby.iapi.jdbc.AutoloadedDriver', dbtable 'sys.systables'",
        f"url 'jdbc:derby:memory:x;create=true', query 'SELECT 1 FROM sys.systables', sessionInitStatement '{load}'",
        f"url 'jdbc:derby:{private.parent}/database;create=true', driver ' org.apache.derby.jdbc.EmbeddedDriver', dbtable 't'",
    ):
        await assert_hidden(connected, f"CREATE TEMPORARY VIEW d USING jdbc OPTIONS ({options})")
    assert names_in(private.parent) == ["token"]
