"""Sessions and statements over the REST API: properties, configuration, completion, limits of time, cancelling."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.process import GatewayProcess

from .rest_client import RestClient, RestSession

ENDLESS = "SELECT count(*) FROM range(0, 1000000000000, 1, 1)"  # one task: it takes one of the two cores


@pytest.fixture
async def session(rest: RestClient) -> AsyncIterator[RestSession]:
    async with rest.session(name="tests", **{"my.own": "1", "some.client": "2"}) as opened:
        yield opened


async def configure(session: RestSession, statement: str, **fields: object) -> tuple[int, object]:
    answer = await session.client.call("POST", f"{session.path}/configure-session", {"statement": statement, **fields})
    return answer.status, answer.body if answer.status == 200 else answer.told


async def test_a_session_shows_given_set_and_reset_properties_and_batch_runtime_mode(session: RestSession) -> None:
    assert await session.properties() == {"execution.runtime-mode": "batch", "my.own": "1", "some.client": "2"}
    await session.run("SET 'sql-client.execution.result-mode' = 'tableau';")
    assert (await session.properties())["sql-client.execution.result-mode"] == "tableau"
    await session.run("RESET 'some.client'")
    assert "some.client" not in await session.properties()


async def test_a_runtime_mode_given_by_the_client_is_shown_in_the_session_properties(rest: RestClient) -> None:
    async with rest.session(**{"execution.runtime-mode": "streaming"}) as session:
        assert (await session.properties())["execution.runtime-mode"] == "streaming"


async def test_secrets_among_the_properties_are_hidden(rest: RestClient) -> None:
    async with rest.session(**{"my.password": "hidden", "my.url": "https://host/?token=hidden"}) as session:
        assert "hidden" not in str(await session.properties())


async def test_a_property_that_the_class_does_not_allow_is_refused(rest: RestClient) -> None:
    answer = await rest.call("POST", "/v4/sessions", {"properties": {"spark.executor.memory": "100g"}})
    assert answer.status == 403
    assert "spark.executor.memory" in answer.told


async def test_configuring_runs_at_once_and_only_what_configures(session: RestSession) -> None:
    assert await configure(session, "CREATE TEMPORARY VIEW rest_view AS SELECT 11 AS eleven;") == (200, {})
    assert await session.value("SELECT eleven FROM rest_view") == 11
    assert await configure(session, "USE CATALOG spark_catalog;") == (200, {})
    assert await configure(session, "SET spark.sql.shuffle.partitions=3") == (200, {})
    assert await session.value("SELECT 1") == 1
    for statement in (
        "SELECT 1",
        "SHOW TABLES",
        "INSERT INTO t VALUES (1)",
        "EXPLAIN SELECT 1",
        "SHOW CURRENT CATALOG",
    ):
        status, told = await configure(session, statement)
        assert status == 500 and "Unsupported statement for configuring session" in str(told), statement


async def test_setting_without_quotes_is_a_property_of_the_session_until_it_is_reset(session: RestSession) -> None:
    key = "spark.sql.shuffle.partitions"

    async def shown() -> object:
        return (await session.properties()).get(key)

    before = await shown()
    assert await configure(session, f"SET {key}=41") == (200, {})
    assert await shown() == "41"
    await session.value(f"SET {key}=43; SELECT 1")
    assert await shown() == "43"
    assert await configure(session, f"RESET {key}") == (200, {})
    assert await shown() == before


async def test_configuring_tells_sparks_error(session: RestSession) -> None:
    status, told = await configure(session, "CREATE TEMPORARY VIEW v AS SELECT * FROM nowhere")
    assert status == 500
    assert "[TABLE_OR_VIEW_NOT_FOUND]" in str(told) and "(line 1, position 42)" in str(told)


COMPLETIONS = [
    ("SELECT * FROM rest_comp", {"rest_completion"}),
    ("SELECT * FROM team_a.rest_comp", {"team_a.rest_completion"}),
    ("SELECT * FROM rest_own", {"rest_own_view"}),
    ("SELECT alp", {"alpha"}),
    ("SHOW TAB", {"TABLES"}),
    ("USE defa", {"default"}),
    ("zzzz", set()),
    ("SELECT 'FROM rest_comp", set()),
]


async def test_completion_knows_what_the_session_knows(session: RestSession, gateway: GatewayProcess) -> None:
    await session.run("CREATE TABLE rest_completion (alpha INT, `beta gamma` INT) USING parquet")
    await session.run("CREATE TEMPORARY VIEW rest_own_view AS SELECT 1 AS one")
    try:
        for text, expected in COMPLETIONS:
            statement = f"{text} FROM rest_completion r" if text.startswith("SELECT alp") else text
            body = {"statement": statement, "position": len(text)}
            for method in ("GET", "POST"):
                answer = await session.client.call(method, f"{session.path}/complete-statement", body)
                assert answer.status == 200 and list(answer.body) == ["candidates"], answer
                found = set(answer.body["candidates"])
                assert expected <= found and bool(expected) == bool(found), f"{text}: {found}\n{gateway.log_tail()}"
    finally:
        await session.run("DROP TABLE rest_completion")


async def test_submitting_never_waits_and_statements_of_a_session_run_one_by_one(session: RestSession) -> None:
    endless = await session.submit(ENDLESS)
    await session.until(endless, "RUNNING")
    second = await session.submit("SELECT 2 AS a")  # it would wait for ever
    assert await session.status(second) in ("INITIALIZED", "PENDING")
    answer = await session.client.call("POST", f"{session.path}/operations/{endless}/cancel")
    assert answer.body == {"status": "CANCELED"}
    assert await session.until(endless, "CANCELED") == "CANCELED"  # nearly always at the first look
    page = await session.page(second, 0)
    assert page.body["results"]["data"][0]["fields"] == [2]


async def test_sessions_do_not_wait_for_each_other(rest: RestClient, session: RestSession) -> None:
    endless = await session.submit(ENDLESS)
    await session.until(endless, "RUNNING")
    async with rest.session() as other:
        assert await other.value("SELECT 1") == 1
    assert await session.status(endless) == "RUNNING"


async def test_a_timeout_is_honoured(session: RestSession) -> None:
    operation = await session.submit(ENDLESS, executionTimeout=500)
    assert await session.until(operation, "TIMEOUT", "FINISHED", "ERROR") == "TIMEOUT"
    assert "0.5 s" in (await session.page(operation, 0)).told
    assert await session.value("SELECT 1") == 1


async def test_statement_conf_stays_with_the_statement_and_denied_keys_are_refused(session: RestSession) -> None:
    _, rows = await session.run(
        "SET spark.sql.shuffle.partitions", executionConfig={"spark.sql.shuffle.partitions": "7"}
    )
    assert rows == [["spark.sql.shuffle.partitions", "7"]]
    _, rows = await session.run("SET spark.sql.shuffle.partitions")
    assert rows == [["spark.sql.shuffle.partitions", "2"]]
    assert "spark.sql.shuffle.partitions" not in await session.properties()
    told = await session.failure("SELECT 1", executionConfig={"spark.executor.memory": "100g"})
    assert "spark.executor.memory" in told


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELEC 1", "org.apache.spark.SparkThrowable: [PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'. SQLSTATE: 42601; did you mean SELECT? (line 1, position 1)"),
        ("SELECT\n  nocol FROM (SELECT 1 AS a)", "(line 2, position 3)"),
        ("SELECT * FROM rest_nowhere", "[TABLE_OR_VIEW_NOT_FOUND]"),
        ("SELECT CAST('x' AS INT)", "[CAST_INVALID_INPUT]"),
        ("SELECT 1/0", "[DIVIDE_BY_ZERO]"),
        ("", "[PARSE_EMPTY_STATEMENT]"),
        ("SELECT reflect('java.lang.System', 'exit', 0)", "reflect"),
    ],
)  # fmt: skip
async def test_the_last_cause_is_sparks_own_error(session: RestSession, sql: str, told: str) -> None:
    assert told in await session.failure(sql)


async def test_a_script_runs_as_one_operation(session: RestSession) -> None:
    body = {"script": "CREATE TEMPORARY VIEW rest_script AS SELECT 5 AS five; SELECT five FROM rest_script;"}
    answer = await session.client.call("POST", f"{session.path}/scripts", body)
    assert answer.status == 200, answer
    page = await session.page(answer.body["clusterID"], 0)
    assert page.body["results"]["data"][0]["fields"] == [5]
    remote = await session.client.call("POST", f"{session.path}/scripts", {"scriptUri": "s3://bucket/script.sql"})
    assert remote.status == 500 and "script" in remote.told


async def test_version_1_waits_for_what_waits(rest: RestClient, session: RestSession) -> None:
    """Clients of version 1 take PENDING for done and read the result once."""
    endless = await session.submit(ENDLESS)
    await session.until(endless, "RUNNING")
    old = RestSession(rest, session.handle, "/v1")
    waiting = await old.submit("SELECT 1 AS a")
    asked = asyncio.create_task(old.status(waiting))
    fetched = asyncio.create_task(rest.call("GET", f"{old.path}/operations/{waiting}/result/0"))
    later = await rest.call("GET", f"/v2/sessions/{session.handle}/operations/{waiting}/result/0")
    assert later.body["resultType"] == "NOT_READY", "a later request of version 2 has waited as long as it may"
    assert not asked.done() and not fetched.done()
    await session.client.call("POST", f"{session.path}/operations/{endless}/cancel")
    assert await asked in ("RUNNING", "FINISHED")
    assert (await fetched).body["resultType"] == "PAYLOAD"


async def test_a_page_of_an_endless_statement_is_not_ready(session: RestSession) -> None:
    endless = await session.submit(ENDLESS)
    answer = await session.client.call("GET", f"{session.path}/operations/{endless}/result/0")
    assert answer.body["resultType"] == "NOT_READY"


async def test_closed_rest_operation_frees_its_slot_and_is_forgotten(session: RestSession) -> None:
    operation = await session.submit(ENDLESS)
    await session.until(operation, "RUNNING")
    path = f"{session.path}/operations/{operation}"
    for _ in range(2):
        assert (await session.client.call("DELETE", f"{path}/close")).body == {"status": "CLOSED"}
    assert (await session.client.call("GET", f"{path}/status")).status == 500
    await session.close()
    assert (await session.client.call("GET", session.path)).status == 500
