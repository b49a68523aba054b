"""A change of a streaming statement is looked at while its query runs, and a text is validated against the state of one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from sparksql.api.execution import StatementMode
from sparksql.kube.client import KubeClient
from sparksql.kube.credentials import Credentials
from sparksql.kube.resources import STATEMENTS
from sparksql.wire.control import RestoreOptions
from tests.integration.operator.contract_monitor import condition
from tests.integration.operator.environment import Environment, message_of
from tests.integration.operator.stream_contract_monitor import StreamContractMonitor
from tests.support.apiserver import ApiServer
from tests.support.watching import watching

Object = dict[str, Any]
TEXT = "INSERT INTO t SELECT * FROM STREAM s"
UNFIT = f"{TEXT} UNFIT"
ROOT = "file:///data/checkpoints"


@pytest_asyncio.fixture
async def env(crds: ApiServer, namespace: str) -> AsyncIterator[Environment]:
    credentials = Credentials.from_kubeconfig(crds.kubeconfig)
    async with KubeClient(credentials) as client, watching(crds.kubeconfig) as watcher:
        env = Environment(client, watcher, namespace, credentials)
        env.monitor = StreamContractMonitor(watcher, namespace)
        async with env.running():
            await env.create_class(storage={"checkpointRoot": ROOT})
            await env.create_session(maxConcurrentStatements=1)
            yield env
        assert env.ledger.checkpoints.overlaps == []


async def streams(env: Environment) -> Object:
    """A query that runs and has committed a batch."""
    await env.create_statement("st", TEXT, streaming={"restart": {"backoffSeconds": 0}})
    return await runs(env)


async def runs(env: Environment, **wanted: Any) -> Object:
    def well(obj: Object) -> bool:
        status = obj.get("status", {})
        is_as_wanted = all(status.get(field) == value for field, value in wanted.items())
        return is_as_wanted and condition(obj, "Ready") == condition(obj, "CheckpointFresh") == "True"

    return await env.wait(STATEMENTS, "st", f"streams {wanted}", well)


async def refused(env: Environment, reason: str = "StateIncompatible") -> Object:
    return await env.in_phase(STATEMENTS, "st", "Running", reason)


def ran(env: Environment) -> list[str]:
    return [e.sql for e in env.ledger.ran("st")]


async def test_running_stream_given_incompatible_sql_runs_on_with_the_old_sql(env: Environment) -> None:
    async with env.operator():
        first = await streams(env)
        await env.patch(STATEMENTS, "st", {"sql": UNFIT})
        seen = await refused(env)
        await env.patch(STATEMENTS, "st", {"sql": TEXT})
        healed = await runs(env, attempt=1, observedGeneration=3)
    told = message_of(seen)
    assert "the query continues with the previous query" in told and "operator 1: column k was int, is string" in told
    assert (condition(seen, "Stalled"), condition(seen, "Healthy")) == ("True", "True")
    assert seen["status"]["error"]["message"] == "operator 1: column k was int, is string"
    assert "error" not in healed["status"]
    runs_of = {obj["status"]["streaming"]["runId"] for obj in (first, seen, healed)}
    assert (len(runs_of), ran(env)) == (1, [TEXT])
    (look,) = env.ledger.looks
    assert (look.mode, look.sql, look.streaming) == (StatementMode.VALIDATE, UNFIT, None)


async def test_running_stream_given_other_aggregates_goes_on_with_its_state_rewritten_elsewhere(
    env: Environment,
) -> None:
    sql = f"{TEXT} REWRITE"
    async with env.operator():
        first = (await streams(env))["status"]["streaming"]
        validation = {"mode": "Validate", "validateAgainst": {"statementRef": {"name": "st"}}}
        await env.create_statement("ask", sql, **validation)
        told = await env.in_phase(STATEMENTS, "ask", "Finished", "Finished")
        await env.patch(STATEMENTS, "st", {"sql": sql})
        seen = (await runs(env, attempt=3))["status"]["streaming"]
        reasons = await env.event_reasons("st")
    assert message_of(told).endswith("once that is rewritten, which its start does: the result has what for (m)")
    place = first["checkpointLocation"]
    assert (seen["rewrittenFrom"], seen["queryId"]) == (place, first["queryId"])
    assert seen["checkpointLocation"] != place and seen["committedBatchId"] > first["committedBatchId"]
    last = env.ledger.ran("st")[-1].request.streaming
    assert last is not None
    assert last.restore == RestoreOptions(location=place, query_id=first["queryId"], rewrite=True)
    assert "Upgrading" in reasons and "StateIncompatible" not in reasons


@pytest.mark.parametrize("sql", [f"{TEXT} BROKEN"])
async def test_text_that_is_wrong_leaves_the_query_alone_and_names_the_place(env: Environment, sql: str) -> None:
    async with env.operator():
        await streams(env)
        await env.patch(STATEMENTS, "st", {"sql": sql})
        seen = await refused(env, "SqlError")
        await env.patch(STATEMENTS, "st", {"sql": f"{TEXT} WHERE true"})
        await runs(env, attempt=2)
    assert (seen["status"]["error"]["line"], seen["status"]["error"]["condition"]) == (1, "FAILED")
    assert ran(env) == [TEXT, f"{TEXT} WHERE true"]


async def test_conf_that_the_class_refuses_leaves_the_query_alone(env: Environment) -> None:
    async with env.operator():
        await streams(env)
        await env.patch(STATEMENTS, "st", {"conf": {"spark.driver.memory": "1g"}})
        seen = await refused(env, "NotAllowed")
        await env.patch(STATEMENTS, "st", {"conf": None})
        await runs(env, attempt=1)
    assert "spark.driver.memory" in message_of(seen)
    assert (ran(env), env.ledger.looks) == ([TEXT], [])


async def test_operator_that_starts_again_asks_at_most_once_more(env: Environment) -> None:
    async with env.operator():
        await streams(env)
        await env.patch(STATEMENTS, "st", {"sql": UNFIT})
        await refused(env)
    async with env.operator():
        await env.until("it has asked again", lambda: len(env.ledger.looks) == 2)
        for _ in range(3):
            await env.touch(STATEMENTS, "st")
        await refused(env)
        await env.patch(STATEMENTS, "st", {"sql": TEXT})
        await runs(env, attempt=1)
    assert len(env.ledger.looks) == 2
    assert "Stopped" not in env.monitor.phases("st")
    assert ran(env) == [TEXT]


async def test_driver_of_an_earlier_version_is_asked_nothing(env: Environment) -> None:
    env.ledger.compares_states = False
    async with env.operator():
        await streams(env)
        await env.patch(STATEMENTS, "st", {"sql": UNFIT})
        await env.in_phase(STATEMENTS, "st", "Stopped", "StateIncompatible")
        await env.patch(STATEMENTS, "st", {"sql": TEXT})
        await runs(env, attempt=3)
        await validate(env, "v", TEXT)
        done = await env.ended("v", "Error", "NotImplemented")
    assert env.ledger.looks == []
    assert "restartNonce" in message_of(done)


async def validate(env: Environment, name: str, sql: str, against: str = "st", **spec: Any) -> Object:
    reference = {"statementRef": {"name": against}}
    return await env.create_statement(name, sql, mode="Validate", validateAgainst=reference, **spec)


async def test_text_is_validated_against_a_query_that_runs_or_is_stopped(env: Environment) -> None:
    async with env.operator():
        running = await streams(env)
        await validate(env, "fits", TEXT)
        fits = await env.finished("fits")
        await validate(env, "unfit", UNFIT, streaming={"outputMode": "Update"})
        unfit = await env.ended("unfit", "Error", "StateIncompatible")
        await env.patch(STATEMENTS, "st", {"desiredState": "Stopped"})
        await env.in_phase(STATEMENTS, "st", "Stopped")
        await validate(env, "later", UNFIT)
        await env.ended("later", "Error", "StateIncompatible")
        await validate(env, "wrong", f"{TEXT} BROKEN")
        wrong = await env.ended("wrong", "Error", "SqlError")
    assert message_of(fits) == "the query is compatible with the state of SqlStatement st"
    assert [column["name"] for column in fits["status"]["result"]["columns"]][:3] == ["change", "operator", "column"]
    assert unfit["status"]["result"]["preview"] == [
        ["KeyChanged", "operator 1", "k", "int", "string", "change it back"]
    ]
    assert condition(unfit, "Succeeded") == "False"
    assert wrong["status"]["error"]["line"] == 1
    places = {look.validate_against.checkpoint for look in env.ledger.looks if look.validate_against is not None}
    assert places == {running["status"]["streaming"]["checkpointLocation"]}
    modes = [look.validate_against.output_mode for look in env.ledger.looks if look.validate_against is not None]
    assert modes == ["Append", "Update", "Append", "Append"]
    assert ran(env) == [TEXT]


async def test_statement_that_is_validated_against_is_waited_for(env: Environment) -> None:
    async with env.operator():
        await validate(env, "v", TEXT)
        waits = await env.in_phase(STATEMENTS, "v", "Initialized", "WaitingForSource")
        await streams(env)
        await env.finished("v")
    assert "spec.validateAgainst.statementRef.name: there is no SqlStatement st" in message_of(waits)


async def test_batch_statement_has_no_state_to_validate_against(env: Environment) -> None:
    async with env.operator():
        await env.create_statement("batch", "SELECT 1")
        await validate(env, "v", TEXT, against="batch")
        done = await env.ended("v", "Error", "InvalidSpec")
    assert message_of(done).endswith("has no spec.streaming; name a streaming one")
