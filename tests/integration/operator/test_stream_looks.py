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
from tests.integration.operator.contract_monitor import condition
from tests.integration.operator.environment import Environment, message_of
from tests.integration.operator.stream_contract_monitor import StreamWitness
from tests.support.apiserver import ApiServer

Object = dict[str, Any]
TEXT = "INSERT INTO t SELECT * FROM STREAM s"
UNFIT = f"{TEXT} UNFIT"
ROOT = "file:///data/checkpoints"


@pytest_asyncio.fixture
async def world(crds: ApiServer, namespace: str) -> AsyncIterator[Environment]:
    credentials = Credentials.from_kubeconfig(crds.kubeconfig)
    async with KubeClient(credentials) as client:
        world = Environment(client, namespace, credentials)
        world.witness = StreamWitness(client, namespace)
        async with world.running():
            await world.create_class(storage={"checkpointRoot": ROOT})
            await world.create_session(maxConcurrentStatements=1)
            yield world
        assert world.ledger.checkpoints.overlaps == []


async def streams(world: Environment) -> Object:
    """A query that runs and has committed a batch."""
    await world.create_statement("st", TEXT, streaming={"restart": {"backoffSeconds": 0}})
    return await runs(world)


async def runs(world: Environment, **wanted: Any) -> Object:
    def well(obj: Object) -> bool:
        status = obj.get("status", {})
        is_as_wanted = all(status.get(field) == value for field, value in wanted.items())
        return is_as_wanted and condition(obj, "Ready") == condition(obj, "CheckpointFresh") == "True"

    return await world.wait(STATEMENTS, "st", f"streams {wanted}", well)


async def refused(world: Environment, reason: str = "StateIncompatible") -> Object:
    return await world.in_phase(STATEMENTS, "st", "Running", reason)


def ran(world: Environment) -> list[str]:
    return [e.sql for e in world.ledger.ran("st")]


async def test_running_stream_given_incompatible_sql_runs_on_with_the_old_sql(world: Environment) -> None:
    async with world.operator():
        first = await streams(world)
        await world.patch(STATEMENTS, "st", {"sql": UNFIT})
        seen = await refused(world)
        await world.patch(STATEMENTS, "st", {"sql": TEXT})
        healed = await runs(world, attempt=1, observedGeneration=3)
    told = message_of(seen)
    assert "the query runs on with the text before it" in told and "operator 1: column k was int, is string" in told
    assert (condition(seen, "Stalled"), condition(seen, "Healthy")) == ("True", "True")
    assert seen["status"]["error"]["message"] == "operator 1: column k was int, is string"
    assert "error" not in healed["status"]
    runs_of = {obj["status"]["streaming"]["runId"] for obj in (first, seen, healed)}
    assert (len(runs_of), ran(world)) == (1, [TEXT])
    (look,) = world.ledger.looks
    assert (look.mode, look.sql, look.streaming) == (StatementMode.VALIDATE, UNFIT, None)


@pytest.mark.parametrize("sql", [f"{TEXT} BROKEN"])
async def test_text_that_is_wrong_leaves_the_query_alone_and_names_the_place(world: Environment, sql: str) -> None:
    async with world.operator():
        await streams(world)
        await world.patch(STATEMENTS, "st", {"sql": sql})
        seen = await refused(world, "SqlError")
        await world.patch(STATEMENTS, "st", {"sql": f"{TEXT} WHERE true"})
        await runs(world, attempt=2)
    assert (seen["status"]["error"]["line"], seen["status"]["error"]["condition"]) == (1, "FAILED")
    assert ran(world) == [TEXT, f"{TEXT} WHERE true"]


async def test_conf_that_the_class_refuses_leaves_the_query_alone(world: Environment) -> None:
    async with world.operator():
        await streams(world)
        await world.patch(STATEMENTS, "st", {"conf": {"spark.driver.memory": "1g"}})
        seen = await refused(world, "NotAllowed")
        await world.patch(STATEMENTS, "st", {"conf": None})
        await runs(world, attempt=1)
    assert "spark.driver.memory" in message_of(seen)
    assert (ran(world), world.ledger.looks) == ([TEXT], [])


async def test_operator_that_starts_again_asks_at_most_once_more(world: Environment) -> None:
    async with world.operator():
        await streams(world)
        await world.patch(STATEMENTS, "st", {"sql": UNFIT})
        await refused(world)
    async with world.operator():
        await world.until("it has asked again", lambda: len(world.ledger.looks) == 2)
        for _ in range(3):
            await world.touch(STATEMENTS, "st")
        await refused(world)
        await world.patch(STATEMENTS, "st", {"sql": TEXT})
        await runs(world, attempt=1)
    assert len(world.ledger.looks) == 2
    assert "Stopped" not in world.witness.phases("st")
    assert ran(world) == [TEXT]


async def test_driver_of_an_earlier_version_is_asked_nothing(world: Environment) -> None:
    world.ledger.compares_states = False
    async with world.operator():
        await streams(world)
        await world.patch(STATEMENTS, "st", {"sql": UNFIT})
        await world.in_phase(STATEMENTS, "st", "Stopped", "StateIncompatible")
        await world.patch(STATEMENTS, "st", {"sql": TEXT})
        await runs(world, attempt=3)
        await validate(world, "v", TEXT)
        done = await world.ended("v", "Error", "NotImplemented")
    assert world.ledger.looks == []
    assert "restartNonce" in message_of(done)


async def validate(world: Environment, name: str, sql: str, against: str = "st", **spec: Any) -> Object:
    reference = {"statementRef": {"name": against}}
    return await world.create_statement(name, sql, mode="Validate", validateAgainst=reference, **spec)


async def test_text_is_validated_against_a_query_that_runs_or_is_stopped(world: Environment) -> None:
    async with world.operator():
        running = await streams(world)
        await validate(world, "fits", TEXT)
        fits = await world.finished("fits")
        await validate(world, "unfit", UNFIT, streaming={"outputMode": "Update"})
        unfit = await world.ended("unfit", "Error", "StateIncompatible")
        await world.patch(STATEMENTS, "st", {"desiredState": "Stopped"})
        await world.in_phase(STATEMENTS, "st", "Stopped")
        await validate(world, "later", UNFIT)
        await world.ended("later", "Error", "StateIncompatible")
        await validate(world, "wrong", f"{TEXT} BROKEN")
        wrong = await world.ended("wrong", "Error", "SqlError")
    assert message_of(fits) == "the text fits the state of SqlStatement st"
    assert [column["name"] for column in fits["status"]["result"]["columns"]][:3] == ["change", "operator", "column"]
    assert unfit["status"]["result"]["preview"] == [
        ["KeyChanged", "operator 1", "k", "int", "string", "change it back"]
    ]
    assert condition(unfit, "Succeeded") == "False"
    assert wrong["status"]["error"]["line"] == 1
    places = {look.validate_against.checkpoint for look in world.ledger.looks if look.validate_against is not None}
    assert places == {running["status"]["streaming"]["checkpointLocation"]}
    modes = [look.validate_against.output_mode for look in world.ledger.looks if look.validate_against is not None]
    assert modes == ["Append", "Update", "Append", "Append"]
    assert ran(world) == [TEXT]


async def test_statement_that_is_validated_against_is_waited_for(world: Environment) -> None:
    async with world.operator():
        await validate(world, "v", TEXT)
        waits = await world.in_phase(STATEMENTS, "v", "Initialized", "WaitingForSource")
        await streams(world)
        await world.finished("v")
    assert "spec.validateAgainst.statementRef.name: there is no SqlStatement st" in message_of(waits)


async def test_batch_statement_has_no_state_to_validate_against(world: Environment) -> None:
    async with world.operator():
        await world.create_statement("batch", "SELECT 1")
        await validate(world, "v", TEXT, against="batch")
        done = await world.ended("v", "Error", "InvalidSpec")
    assert message_of(done).endswith("has no spec.streaming; name a streaming one")
