"""The condition Compatible of a stopped stream, with a real API server: validated once a generation, and nothing is started."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from sparksql.api.execution import StatementMode
from sparksql.kube.client import KubeClient
from sparksql.kube.credentials import Credentials
from sparksql.kube.resources import SESSIONS, STATEMENTS
from tests.integration.operator.environment import Environment
from tests.integration.operator.stream_contract_monitor import StreamContractMonitor
from tests.support.apiserver import ApiServer
from tests.support.watching import watching

Object = dict[str, Any]
TEXT = "INSERT INTO t SELECT * FROM STREAM s"
OTHER_KEY = f"{TEXT} OTHER_KEY"
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


def compatible(obj: Object) -> Object | None:
    conditions = obj.get("status", {}).get("conditions", [])
    found = next((each for each in conditions if each["type"] == "Compatible"), None)
    is_current = found is not None and found["observedGeneration"] == obj["metadata"]["generation"]
    return found if is_current else None


async def has(env: Environment, status: str, reason: str) -> Object:
    """The condition, once it is about the present spec and has this status and reason."""

    def well(obj: Object) -> bool:
        found = compatible(obj)
        return found is not None and (found["status"], found["reason"]) == (status, reason)

    found = compatible(await env.wait(STATEMENTS, "st", f"Compatible {status} {reason}", well))
    assert found is not None
    return found


async def rests(env: Environment) -> None:
    """A stream that has committed a batch and is stopped."""
    await env.create_statement("st", TEXT, streaming={"restart": {"backoffSeconds": 0}})

    def has_committed(obj: Object) -> bool:
        return obj.get("status", {}).get("streaming", {}).get("committedBatchId") is not None

    await env.wait(STATEMENTS, "st", "commits", has_committed)
    await env.patch(STATEMENTS, "st", {"desiredState": "Stopped"})
    await env.in_phase(STATEMENTS, "st", "Stopped")


def ran(env: Environment) -> list[str]:
    return [each.sql for each in env.ledger.ran("st")]


async def test_changed_sql_of_a_stopped_stream_is_validated_once_a_generation(env: Environment) -> None:
    async with env.operator():
        await rests(env)
        unchanged = await has(env, "True", "Unchanged")
        assert env.ledger.looks == []
        await env.patch(STATEMENTS, "st", {"sql": OTHER_KEY})
        refused = await has(env, "False", "StateIncompatible")
        for _ in range(3):
            await env.touch(STATEMENTS, "st")
        await env.patch(STATEMENTS, "st", {"sql": f"{TEXT} BROKEN"})
        await has(env, "False", "SqlError")
        await env.patch(STATEMENTS, "st", {"sql": f"{TEXT} WHERE true"})
        await has(env, "True", "Compatible")
        seen = await env.get(STATEMENTS, "st")
    assert (unchanged["message"], refused["message"]) == (
        "the query ran with this spec",
        "operator 1: column k was int, is string",
    )
    looks = [(each.mode, each.sql, each.streaming) for each in env.ledger.looks]
    texts = (OTHER_KEY, f"{TEXT} BROKEN", f"{TEXT} WHERE true")
    assert looks == [(StatementMode.VALIDATE, each, None) for each in texts]
    assert (seen["status"]["phase"], ran(env)) == ("Stopped", [TEXT])


async def test_refused_start_has_the_reason_and_message_of_the_validation(env: Environment) -> None:
    async with env.operator():
        await rests(env)
        await env.patch(STATEMENTS, "st", {"sql": OTHER_KEY})
        validated = await has(env, "False", "StateIncompatible")
        await env.patch(STATEMENTS, "st", {"desiredState": "Running"})
        parked = await env.in_phase(STATEMENTS, "st", "Stopped", "StateIncompatible")
        started = await has(env, "False", "StateIncompatible")
        ready = next(each for each in parked["status"]["conditions"] if each["type"] == "Ready")
        await env.patch(STATEMENTS, "st", {"sql": TEXT})
        running = await env.in_phase(STATEMENTS, "st", "Running")
    assert validated["message"] == started["message"] == ready["message"]
    assert compatible(running) is None
    assert set(ran(env)) == {TEXT}


async def test_stopped_session_is_not_started_for_a_validation(env: Environment) -> None:
    async with env.operator():
        await rests(env)
        await has(env, "True", "Unchanged")
        await env.patch(SESSIONS, "s", {"desiredState": "Stopped"})
        await env.in_phase(SESSIONS, "s", "Stopped")
        await env.patch(STATEMENTS, "st", {"sql": OTHER_KEY})
        waits = await has(env, "Unknown", "SessionNotReady")
        assert "session s is Stopped" in waits["message"]
        assert (await env.get(SESSIONS, "s"))["status"]["phase"] == "Stopped"
        assert env.ledger.looks == []
        await env.patch(SESSIONS, "s", {"desiredState": "Running"})
        await has(env, "False", "StateIncompatible")
    assert (len(env.ledger.looks), ran(env)) == (1, [TEXT])


async def test_restarted_operator_keeps_the_condition_without_a_validation(env: Environment) -> None:
    async with env.operator():
        await rests(env)
        await env.patch(STATEMENTS, "st", {"sql": OTHER_KEY})
        await has(env, "False", "StateIncompatible")
    async with env.operator():
        for _ in range(3):
            await env.touch(STATEMENTS, "st")
        await env.patch(STATEMENTS, "st", {"sql": f"{TEXT} WHERE true"})
        await has(env, "True", "Compatible")
    assert [each.sql for each in env.ledger.looks] == [OTHER_KEY, f"{TEXT} WHERE true"]
