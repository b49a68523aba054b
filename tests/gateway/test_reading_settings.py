"""Settings by which texts are read: a client's session sets them between its texts, and never within one that has been read."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.process import GatewayProcess

from .client import GatewayClient
from .rest_client import RestClient, RestSession
from .test_thrift_frontend import COLUMNS, Frontend, Session, thrift_port

QUOTES = "spark.sql.ansi.doubleQuotedIdentifiers"
ESCAPES = "spark.sql.parser.escapedStringLiterals"
NAME = 'SELECT "a" AS "b;c" FROM VALUES (7) AS t("a")'
REFUSED = "changes how SQL is parsed"


@pytest.fixture
async def session(rest: RestClient) -> AsyncIterator[RestSession]:
    async with rest.session() as opened:
        yield opened


@pytest.mark.parametrize("setting", [f"SET {QUOTES} = true", f"SET '{QUOTES}' = 'true'"])
async def test_double_quotes_are_those_of_names_while_a_client_has_set_it(session: RestSession, setting: str) -> None:
    assert await session.value('SELECT "a"') == "a"
    await session.run(setting)
    first, rows = await session.run(NAME)
    assert ([column["name"] for column in first["results"]["columns"]], rows) == (["b;c"], [[7]])
    _, rows = await session.run(f"{NAME}; SELECT count(*) AS \"n\" FROM VALUES ('x;y')")
    assert rows == [[1]]
    assert "UNRESOLVED_COLUMN" in await session.failure('SELECT "a"')
    await session.run(f"RESET {QUOTES}")
    assert await session.value('SELECT "a"') == "a"


async def test_double_quotes_are_those_of_names_in_a_session_with_that_property(
    rest: RestClient, gateway: GatewayProcess
) -> None:
    async with rest.session(**{QUOTES: "true"}) as session:
        assert await session.value(NAME) == 7
    with Frontend(gateway, thrift_port(gateway)).connect() as connection:
        assert Session(connection, COLUMNS, **{f"set:hiveconf:{QUOTES}": "true"}).rows(NAME) == [(7,)]


async def test_escapes_stay_while_a_client_has_set_it(session: RestSession) -> None:
    await session.run(f"SET {ESCAPES} = true")
    assert await session.value(r"SELECT 'a\n'") == r"a\n"


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT 1; SET {QUOTES} = true",
        f"EXECUTE IMMEDIATE 'SET {QUOTES} = true'",
        f"BEGIN EXECUTE IMMEDIATE 'SET {ESCAPES} = true'; SELECT 1; END",
        f"BEGIN EXECUTE IMMEDIATE 'RESET {QUOTES}'; SELECT 1; END",
    ],
)
async def test_a_text_that_changes_how_it_is_read_is_refused(session: RestSession, text: str) -> None:
    assert REFUSED in await session.failure(text)


async def test_a_text_that_takes_back_how_it_is_read_is_refused_once_a_client_has_set_it(session: RestSession) -> None:
    reset = "BEGIN EXECUTE IMMEDIATE 'RESET'; SELECT 1; END"
    await session.run(reset)
    await session.run(f"SET {QUOTES} = true")
    assert REFUSED in await session.failure(reset)
    await session.run("RESET")
    await session.run(reset)


async def test_a_variable_named_as_a_literal_is_never_executed_unread(session: RestSession) -> None:
    await session.run("DECLARE VARIABLE `SELECT 1` STRING = 'SET spark.sql.ansi.enabled = false'")
    text = 'EXECUTE IMMEDIATE "SELECT 1"'
    assert await session.value(text) == 1
    await session.run(f"SET {QUOTES} = true")
    assert "must be a literal" in await session.failure(text)


async def test_a_quoted_setting_that_spark_refuses_is_told_with_its_condition(session: RestSession) -> None:
    key = "spark.sql.subquery.maxThreadThreshold"
    assert "CANNOT_MODIFY_STATIC_CONFIG" in await session.failure(f"SET '{key}' = '3'")
    assert key not in await session.properties()


@pytest.mark.parametrize("fields", [{"sql": f"SET {QUOTES} = true"}, {"sql": "SELECT 1", "conf": {QUOTES: "true"}}])
async def test_a_manifest_leaves_how_texts_are_read_to_its_session(
    client: GatewayClient, fields: dict[str, object]
) -> None:
    error = (await client.run(**fields)).error  # type: ignore[arg-type]
    assert error is not None and REFUSED in error.message and "spec.conf" in error.message
