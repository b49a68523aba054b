"""The way of statements when nothing is wrong: results, order, limits, dependencies, runs, inputs."""

from __future__ import annotations

import asyncio

import pytest

from sparksql.kube.resources import CONFIG_MAPS, SESSIONS, STATEMENTS
from tests.integration.operator.contract_monitor import condition
from tests.integration.operator.environment import Environment, message_of
from tests.support.mistakes import assert_answered


@pytest.fixture
async def ready(env: Environment) -> Environment:
    """A class and a session `s`, still without an operator."""
    await env.create_class()
    await env.create_session()
    return env


async def test_session_becomes_ready_and_a_statement_finishes_with_its_preview(ready: Environment) -> None:
    async with ready.operator():
        await ready.create_statement("one")
        status = (await ready.finished("one"))["status"]
        session = (await ready.get(SESSIONS, "s"))["status"]
    assert status["result"]["preview"] == [["1"]]
    assert status["result"]["columns"] == [{"name": "1", "type": "int"}]
    assert (status["statementType"], status["run"], status["attempt"]) == ("SELECT", 1, 1)
    assert status["durationMillis"] >= 0
    assert status["session"]["podUID"] == session["driver"]["podUID"]
    assert session["driver"]["incarnation"] == 1
    assert session["driver"]["sparkVersion"] == "4.1.4"
    assert [e.operation_id for e in ready.ledger.ran("one")] == [status["operationId"]]


async def test_statement_created_before_its_session_waits_for_session_and_class(env: Environment) -> None:
    async with env.operator():
        await env.create_statement("early")
        await env.in_phase(STATEMENTS, "early", "Initialized", "SessionNotReady")
        await env.create_session()
        await env.in_phase(SESSIONS, "s", "Pending", "ClassNotFound")
        await env.create_class()
        await env.finished("early")


async def test_statement_with_a_misspelt_session_shows_the_sessions_of_its_namespace(ready: Environment) -> None:
    async with ready.operator():
        await ready.session_ready()
        await ready.create_statement("mistyped", session="ss")
        waiting = await ready.in_phase(STATEMENTS, "mistyped", "Initialized", "SessionNotReady")
    assert "spec.sessionRef.name: SqlSession ss does not exist in this namespace (there are: s);" in message_of(waiting)


async def test_statement_with_a_misspelt_dependency_shows_the_statement_that_it_resembles(ready: Environment) -> None:
    async with ready.operator():
        await ready.session_ready()
        await ready.create_statement("load-orders")
        await ready.finished("load-orders")
        await ready.create_statement("report", dependsOn=[{"name": "load-order"}])
        waiting = await ready.in_phase(STATEMENTS, "report", "Initialized", "WaitingForDependencies")
    assert "load-order (does not exist); did you mean load-orders for load-order?" in message_of(waiting)


async def test_statement_conditions_follow_the_phases_and_events_announce_them(ready: Environment) -> None:
    async with ready.operator():
        await ready.create_statement("held", "INSERT INTO t HOLD")
        running = await ready.in_phase(STATEMENTS, "held", "Running")
        assert condition(running, "Finished") == "False"
        ready.ledger.release("held")
        done = await ready.finished("held")
        assert condition(done, "Succeeded") == "True"
        assert all(c["observedGeneration"] == 1 for c in done["status"]["conditions"])
        assert done["status"]["observedGeneration"] == 1

        async def told() -> bool:
            reasons = await ready.event_reasons("held")
            return "Running" in reasons and "Finished" in reasons and "Ready" in await ready.event_reasons("s")

        await ready.until("events of statement and session", told)


async def test_short_statement_costs_a_finalizer_and_two_writes_of_its_status(ready: Environment) -> None:
    async with ready.operator():
        await ready.session_ready()
        await ready.create_statement("short")
        done = await ready.finished("short")
        assert "startTime" in done["status"]
        await ready.create_statement("long", "SELECT HOLD")
        await ready.in_phase(STATEMENTS, "long", "Running")
        ready.ledger.release("long")
        await ready.finished("long")
    assert ready.monitor.phases("short") == ["Pending", "Finished"]
    assert ready.monitor.writes("short") == 4  # made, finalizer, intent, end
    assert ready.monitor.phases("long") == ["Pending", "Running", "Finished"]


async def test_sql_error_is_shown_as_the_gateway_told_it(ready: Environment) -> None:
    async with ready.operator():
        await ready.create_statement("bad", "SELECT FAIL")
        done = await ready.ended("bad", "Error", "SqlError")
    assert done["status"]["error"] == {
        "condition": "FAILED", "sqlState": "42000", "message": "it failed", "line": 1, "position": 1,
    }  # fmt: skip
    assert "it failed" in message_of(done)
    assert len(ready.ledger.ran("bad")) == 1


async def test_result_with_thousands_of_columns_arrives(ready: Environment) -> None:
    """A line of the event stream has no bound of its own."""
    async with ready.operator():
        await ready.create_statement("wide", "SELECT HOLD WIDE")
        await ready.in_phase(STATEMENTS, "wide", "Running")
        ready.ledger.release("wide")
        done = await ready.finished("wide")
        await ready.create_statement("next")
        await ready.finished("next")
    assert len(done["status"]["result"]["columns"]) == 2000


async def test_two_hundred_statements_of_one_session_all_finish_and_none_runs_twice(ready: Environment) -> None:
    names = [f"st-{i:03}" for i in range(200)]
    async with ready.operator(workers=8):
        await ready.session_ready()
        for batch in range(0, len(names), 20):
            await asyncio.gather(*(ready.create_statement(n, "INSERT INTO t") for n in names[batch : batch + 20]))
        await ready.all_finished(names, seconds=240)
    assert sorted(ready.ledger.order()) == names


async def test_order_is_priority_then_creation_and_at_most_so_many_run(env: Environment) -> None:
    await env.create_class()
    await env.create_session(maxConcurrentStatements=1)
    async with env.operator():
        await env.session_ready()
        await env.create_statement("first", "INSERT HOLD")
        await env.in_phase(STATEMENTS, "first", "Running")
        for name, priority in (("low", -1), ("c", 0), ("a", 0), ("b", 0), ("high", 5)):
            await env.create_statement(name, "INSERT INTO t", priority=priority)
            await env.in_phase(STATEMENTS, name, "Initialized", "QueuedBehindStatements")
            if name == "c":
                await env.next_second(await env.get(STATEMENTS, name))
        env.ledger.release("first")
        await env.all_finished(["first", "low", "a", "b", "c", "high"])
    assert env.ledger.order() == ["first", "high", "c", "a", "b", "low"]


async def test_at_most_max_concurrent_statements_are_handed_over(env: Environment) -> None:
    await env.create_class()
    await env.create_session(maxConcurrentStatements=3)
    names = [f"st-{i}" for i in range(8)]
    async with env.operator():
        gateway = await env.session_ready()
        # The gateway would run more: that the bound holds is the operator's doing.
        gateway._slots = asyncio.Semaphore(100)
        for name in names:
            await env.create_statement(name, "INSERT HOLD")
        await env.until("three run", lambda: len(env.ledger.executions) == 3)
        waiting = [n for n in names if not env.ledger.ran(n)]
        for name in waiting:
            await env.in_phase(STATEMENTS, name, "Initialized", "QueuedBehindStatements")
        env.ledger.release(*names)
        await env.all_finished(names)
    assert max(env.ledger.peak.values()) == 3


async def test_session_counts_its_statements(env: Environment) -> None:
    await env.create_class()
    await env.create_session(maxConcurrentStatements=1)
    async with env.operator():
        await env.session_ready()
        for name in ("a", "b", "c"):
            await env.create_statement(name, "SELECT HOLD")
        await env.reaches(SESSIONS, "s", statements={"running": 1, "queued": 2})


# --- dependencies


async def test_statements_run_after_the_statements_they_depend_on(ready: Environment) -> None:
    async with ready.operator():
        await ready.create_statement("last", "INSERT 3", dependsOn=[{"name": "middle"}, {"name": "start"}])
        await ready.create_statement("middle", "INSERT 2", dependsOn=[{"name": "start"}])
        await ready.in_phase(STATEMENTS, "last", "Initialized", "WaitingForDependencies")
        await ready.create_statement("start", "INSERT 1")
        await ready.all_finished(["start", "middle", "last"])
    assert ready.ledger.order() == ["start", "middle", "last"]


async def test_failure_goes_through_a_chain_of_dependants(ready: Environment) -> None:
    async with ready.operator():
        await ready.create_statement("last", dependsOn=[{"name": "middle"}])
        await ready.create_statement("middle", dependsOn=[{"name": "start"}])
        await ready.create_statement("start", "SELECT FAIL")
        await ready.ended("middle", "Error", "DependencyFailed")
        await ready.ended("last", "Error", "DependencyFailed")
    assert ready.ledger.order() == ["start"]


async def test_every_statement_of_a_dependency_cycle_ends_in_error(ready: Environment) -> None:
    async with ready.operator():
        for name, on in (("a", "b"), ("b", "c"), ("c", "a")):
            await ready.create_statement(name, dependsOn=[{"name": on}])
        for name in ("a", "b", "c"):
            await ready.ended(name, "Error", "DependencyCycle")
    assert ready.ledger.executions == []


async def test_met_dependency_that_is_deleted_stays_met(ready: Environment) -> None:
    async with ready.operator():
        await ready.create_statement("a", ttlSecondsAfterFinished=0)
        await ready.create_statement("waits", dependsOn=[{"name": "a"}, {"name": "b"}])
        await ready.gone(STATEMENTS, "a")
        await ready.reaches(STATEMENTS, "waits", metDependencies=["a"])
        await ready.create_statement("b")
        await ready.finished("waits")


# --- runs and attempts


async def test_changed_nonce_runs_an_ended_statement_exactly_once_more(ready: Environment) -> None:
    async with ready.operator():
        await ready.create_statement("again", "INSERT INTO t")
        first = await ready.finished("again")
        await ready.patch(STATEMENTS, "again", {"runNonce": "2"})
        second = await ready.reaches(STATEMENTS, "again", run=2, phase="Finished")
        assert second["status"]["observedRunNonce"] == "2"
        assert second["status"]["operationId"] != first["status"]["operationId"]
    async with ready.operator():  # a restart runs nothing again
        await ready.create_statement("after")
        await ready.finished("after")
    assert len(ready.ledger.ran("again")) == 2


async def test_run_nonce_changed_during_a_run_starts_one_more_run_afterwards(ready: Environment) -> None:
    async with ready.operator():
        await ready.create_statement("again", "INSERT HOLD")
        await ready.in_phase(STATEMENTS, "again", "Running")
        for nonce in ("2", "3"):
            await ready.patch(STATEMENTS, "again", {"runNonce": nonce})
        ready.ledger.release("again")
        await ready.reaches(STATEMENTS, "again", run=2, phase="Finished")
        await ready.create_statement("after")
        await ready.finished("after")
    assert len(ready.ledger.ran("again")) == 2


async def test_failed_statement_is_tried_again_as_often_as_it_asks_for(ready: Environment) -> None:
    async with ready.operator():
        retry = {"limit": 2, "backoffSeconds": 0, "on": ["SqlError"]}
        await ready.create_statement("stubborn", "INSERT FAIL", retry=retry)
        done = await ready.ended("stubborn", "Error", "SqlError")
    assert done["status"]["attempt"] == 3
    ids = [e.operation_id for e in ready.ledger.ran("stubborn")]
    assert len(ids) == len(set(ids)) == 3


# --- inputs


async def test_parameters_come_from_values_config_maps_and_secrets(ready: Environment) -> None:
    await ready.create_secret("creds", key="geheim")
    parameters = [
        {"name": "day", "value": "2026-01-31", "type": "DATE"},
        {"name": "region", "valueFrom": {"configMapKeyRef": {"name": "where", "key": "region"}}},
        {"name": "token", "valueFrom": {"secretKeyRef": {"name": "creds", "key": "key"}}},
    ]
    async with ready.operator():
        await ready.create_statement("bound", "SELECT :day, :region, :token", parameters=parameters)
        waiting = await ready.in_phase(STATEMENTS, "bound", "Initialized", "WaitingForSource")
        missing = (
            "spec.parameters[1].valueFrom.configMapKeyRef: ConfigMap where with key region does not exist in namespace"
        )
        assert missing in message_of(waiting)
        assert_answered("missing ConfigMap of a parameter", message_of(waiting))
        await ready.create_config_map("where", region="eu")
        done = await ready.finished("bound")
    sent = {p.name: (p.value, p.type, p.secret) for p in ready.ledger.ran("bound")[0].request.parameters}
    assert sent == {
        "day": ("2026-01-31", "DATE", False), "region": ("eu", "STRING", False), "token": ("geheim", "STRING", True),
    }  # fmt: skip
    assert "geheim" not in str(done)


async def test_statement_that_waits_for_its_source_holds_nobody_up(env: Environment) -> None:
    await env.create_class()
    await env.create_session(maxConcurrentStatements=1)
    async with env.operator():
        source = {"configMapKeyRef": {"name": "later", "key": "q.sql"}}
        await env.create_statement("waits", None, sqlFrom=source, priority=5)
        waiting = await env.in_phase(STATEMENTS, "waits", "Initialized", "WaitingForSource")
        missing = "spec.sqlFrom.configMapKeyRef: ConfigMap later with key q.sql does not exist in namespace"
        assert missing in message_of(waiting)
        assert_answered("missing ConfigMap of a text", message_of(waiting))
        await env.create_statement("other")
        await env.finished("other")
        await env.create_config_map("later", **{"q.sql": "SELECT 2"})
        await env.finished("waits")
    assert [e.sql for e in env.ledger.ran("waits")] == ["SELECT 2"]


async def test_text_from_a_config_map_is_read_once_a_run(ready: Environment) -> None:
    await ready.create_config_map("job", **{"q.sql": "INSERT 1 HOLD"})
    async with ready.operator():
        source = {"configMapKeyRef": {"name": "job", "key": "q.sql"}}
        await ready.create_statement("job", None, sqlFrom=source)
        await ready.in_phase(STATEMENTS, "job", "Running")
        await ready.client.patch_merge(CONFIG_MAPS, ready.namespace, "job", {"data": {"q.sql": "INSERT 2"}})
        ready.ledger.release("job")
        await ready.finished("job")
        await ready.patch(STATEMENTS, "job", {"runNonce": "2"})
        await ready.reaches(STATEMENTS, "job", run=2, phase="Finished")
    assert [e.sql for e in ready.ledger.ran("job")] == ["INSERT 1 HOLD", "INSERT 2"]


async def test_statement_settings_reach_the_driver(env: Environment) -> None:
    await env.create_class(
        limits={"previewRows": 5, "executionSeconds": 100},
        defaults={"conf": {"spark.sql.shuffle.partitions": "2"}, "statementTimeouts": {"executionSeconds": 50}},
        enforcedConf={"spark.sql.ansi.enabled": "true"},
    )
    await env.create_session(conf={"spark.sql.shuffle.partitions": "4"})
    async with env.operator():
        await env.create_statement(
            "set", conf={"spark.sql.session.timeZone": "UTC"}, result={"maxRows": 7, "previewRows": 20}, mode="Explain"
        )
        await env.finished("set")
        config = env.kubelet.gateway_of("s").config
    request = env.ledger.ran("set")[0].request
    assert request.conf == {"spark.sql.session.timeZone": "UTC"}
    assert (request.result.max_rows, request.result.preview_rows) == (7, 5)
    assert request.execution_seconds == 50
    assert request.mode == "Explain"
    assert config.spark_conf["spark.sql.shuffle.partitions"] == "4"
    assert config.policy.enforced_conf == {"spark.sql.ansi.enabled": "true"}
    assert config.max_preview_rows == 5
