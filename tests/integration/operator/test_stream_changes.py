"""Streaming statements that change, and those that are refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from sparksql.kube.resources import SESSION_CLASSES, STATEMENTS
from tests.integration.operator.environment import Environment, message_of
from tests.integration.operator.streaming_environment import (
    TEXT,
    locations,
    runs,
    stream,
    streaming_environment,
    wish,
)
from tests.support.apiserver import ApiServer

Object = dict[str, Any]


@pytest_asyncio.fixture
async def env(crds: ApiServer, namespace: str) -> AsyncIterator[Environment]:
    async with streaming_environment(crds, namespace) as env:
        yield env


# --- changes


async def test_changed_text_goes_on_with_the_state_that_fits(env: Environment) -> None:
    other = f"{TEXT} WHERE true"
    async with env.operator():
        await stream(env)
        first = await runs(env)
        await wish(env, sql=other)
        again = await runs(env, attempt=2)
    assert again["status"]["streaming"]["queryId"] == first["status"]["streaming"]["queryId"]
    assert [e.sql for e in env.ledger.ran("st")] == [TEXT, other]
    assert locations(env) == ["1", "1"]


async def test_upgrade_without_state_begins_on_another_checkpoint(env: Environment) -> None:
    async with env.operator():
        await stream(env)
        first = await runs(env)
        await wish(env, sql=f"{TEXT} UNFIT")
        await env.in_phase(STATEMENTS, "st", "Running", "StateIncompatible")
        await wish(env, streaming={"upgradeMode": "Stateless"})
        second = await runs(env, attempt=2)
        await wish(env, sql=f"{TEXT} WHERE 2")
        third = await runs(env, attempt=3)
    ids = [obj["status"]["streaming"]["queryId"] for obj in (first, second, third)]
    assert len(set(ids)) == 3
    assert third["status"]["streaming"]["committedBatchId"] == 0
    assert locations(env) == ["1", "1-1", "1-2"]
    assert all(len(set(c.texts)) == 1 for c in env.ledger.checkpoints.known.values())


@pytest.mark.parametrize(
    "change", [{"conf": {"spark.sql.shuffle.partitions": "3"}}, {"streaming": {"outputMode": "Update"}}]
)
async def test_changed_settings_go_on_from_the_same_checkpoint(env: Environment, change: Object) -> None:
    async with env.operator():
        await stream(env)
        first = await runs(env)
        await wish(env, **change)
        second = await runs(env, attempt=2)
    assert second["status"]["streaming"]["queryId"] == first["status"]["streaming"]["queryId"]
    assert second["status"]["streaming"]["restarts"] == 0
    assert locations(env) == ["1", "1"]
    first_request, last_request = (e.request for e in env.ledger.ran("st"))
    assert (first_request.conf, first_request.streaming) != (last_request.conf, last_request.streaming)


async def test_stream_keeps_its_checkpoint_when_its_class_changes_checkpoint_root(env: Environment) -> None:
    async with env.operator():
        await stream(env)
        first = await runs(env)
        await env.client.patch_merge(
            SESSION_CLASSES, "", env.class_name, {"spec": {"storage": {"checkpointRoot": "file:///elsewhere"}}}
        )
        await wish(env, desiredState="Stopped")
        await env.in_phase(STATEMENTS, "st", "Stopped")
        await wish(env, desiredState="Running")
        second = await runs(env, attempt=2)
    place = "checkpointLocation"
    assert second["status"]["streaming"][place] == first["status"]["streaming"][place]


# --- refusals


async def test_schedule_that_cannot_be_followed_is_refused(env: Environment) -> None:
    async with env.operator():
        await stream(env, streaming={"savepoints": {"schedule": {"cron": "61 * * * *"}}})
        done = await env.ended("st", "Error", "InvalidSpec")
    assert message_of(done).startswith("spec.streaming.savepoints.schedule.cron: '61 * * * *': ")
    assert env.ledger.ran("st") == []


async def test_class_without_a_place_for_checkpoints_is_refused(env: Environment) -> None:
    name = f"other-{env.namespace}"
    await env.create_class(name)
    await env.create_session("bare", className=name)
    async with env.operator():
        await stream(env, session="bare")
        done = await env.ended("st", "Error", "InvalidSpec")
    wanted = (
        f"spec.streaming: class {name} has no storage.checkpointRoot; checkpoints need a place: "
        f"set spec.storage.checkpointRoot of SqlSessionClass {name}, or take a session of another class"
    )
    assert message_of(done) == wanted


async def test_validation_of_a_stream_is_a_batch_statement(env: Environment) -> None:
    async with env.operator():
        await stream(env, sql="SELECT 1", mode="Validate")
        done = await env.finished("st")
    assert {c["type"] for c in done["status"]["conditions"]}.isdisjoint({"Healthy", "CheckpointFresh"})
    assert env.ledger.ran("st")[0].request.streaming is None
