"""Streaming statements: they run until they are stopped, go on from their checkpoint, and hold nobody back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from sparksql.api.names import dedicated_session_name
from sparksql.kube.resources import PODS, SESSIONS, STATEMENTS
from sparksql.wire.control import CheckpointContent
from tests.integration.operator.contract_monitor import condition
from tests.integration.operator.environment import Environment, message_of
from tests.integration.operator.faults import Faults, Step, crash
from tests.integration.operator.streaming_environment import (
    ROOT,
    TEXT,
    has_no_driver,
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


# --- start, stop, resume, end


async def test_stream_runs_until_stopped_and_resumes_from_its_checkpoint(env: Environment) -> None:
    async with env.operator():
        made = await stream(env, streaming={"trigger": {"mode": "Interval", "intervalMillis": 500}})
        first = await runs(env)
        await wish(env, desiredState="Stopped")
        rests = await env.in_phase(STATEMENTS, "st", "Stopped", "StoppedByUser")
        await wish(env, desiredState="Running")
        second = await runs(env, attempt=2)
    streaming = first["status"]["streaming"]
    uid = made["metadata"]["uid"]
    assert streaming["checkpointLocation"] == f"{ROOT}/{env.namespace}/st-{uid}/1"
    assert (streaming["batchId"], streaming["committedBatchId"], streaming["inputRowsPerSecond"]) == (1, 0, "12.5")
    assert (condition(first, "Ready"), condition(first, "Healthy")) == ("True", "True")
    assert rests["status"]["streaming"]["committedBatchId"] == 0
    assert "inputRowsPerSecond" not in rests["status"]["streaming"]
    after = second["status"]["streaming"]
    assert (after["queryId"], after["checkpointLocation"]) == (streaming["queryId"], streaming["checkpointLocation"])
    assert after["runId"] != streaming["runId"]
    assert after["restarts"] == 0
    one, two = (e.request.streaming for e in env.ledger.ran("st"))
    assert one is not None and two is not None
    assert two == one.model_copy(
        update={"known": CheckpointContent(query_id=streaming["queryId"], committed_batch_id=0)}
    )
    assert one is not None and (one.interval_millis, one.trigger) == (500, "Interval")
    assert {e.request.execution_seconds for e in env.ledger.ran("st")} == {0}


async def test_stream_created_as_stopped_starts_only_when_set_to_running(env: Environment) -> None:
    async with env.operator():
        await stream(env, desiredState="Stopped")
        await env.in_phase(STATEMENTS, "st", "Stopped", "StoppedByUser")
        assert env.ledger.ran("st") == []
        await wish(env, desiredState="Running")
        await runs(env)
    assert locations(env) == ["1"]


@pytest.mark.parametrize("way", ["running", "stopped"])
async def test_canceled_stream_ends_and_its_next_run_has_a_new_checkpoint(env: Environment, way: str) -> None:
    async with env.operator():
        await stream(env)
        await runs(env)
        if way == "stopped":
            await wish(env, desiredState="Stopped")
            await env.in_phase(STATEMENTS, "st", "Stopped")
        await wish(env, desiredState="Canceled")
        await env.ended("st", "Canceled", "CanceledByUser")
        await wish(env, desiredState="Running", runNonce="again", sql=f"{TEXT} WHERE true")
        await runs(env, run=2)
    assert locations(env) == ["1", "2"]


@pytest.mark.parametrize("way", ["running", "stopped"])
async def test_deleted_stream_is_canceled_in_the_driver(env: Environment, way: str) -> None:
    async with env.operator():
        await stream(env)
        await runs(env)
        if way == "stopped":
            await wish(env, desiredState="Stopped")
            await env.in_phase(STATEMENTS, "st", "Stopped")
        await env.delete(STATEMENTS, "st")
        await env.gone(STATEMENTS, "st")
        view = env.kubelet.gateway_of("s").view_of("st")
    assert view is not None and view.state == "Canceled"


async def test_stream_with_trigger_available_now_finishes(env: Environment) -> None:
    async with env.operator():
        await stream(env, streaming={"trigger": {"mode": "AvailableNow"}})
        done = await env.finished("st")
    assert done["status"]["streaming"]["committedBatchId"] == 0


async def test_stream_is_limited_by_its_own_execution_timeout_and_not_its_class(env: Environment) -> None:
    await env.create_class(f"other-{env.namespace}", storage={"checkpointRoot": ROOT}, limits={"executionSeconds": 1})
    await env.create_session("limited", className=f"other-{env.namespace}")
    async with env.operator():
        await stream(env, session="limited", timeouts={"executionSeconds": 600})
        await runs(env)
    assert [e.request.execution_seconds for e in env.ledger.ran("st")] == [600]


# --- failures


@pytest.mark.parametrize(("how", "is_seen"), [("crash_driver", True), ("remove_pod", False)])
async def test_lost_driver_is_followed_by_a_restart_from_the_checkpoint(
    env: Environment, how: str, is_seen: bool
) -> None:
    """The next driver is told of one that vanished without having been seen to end: it may still write the checkpoint."""
    async with env.operator():
        await stream(env)
        first = await runs(env)
        await getattr(env.kubelet, how)("s")
        again = await runs(env, attempt=2)
    boot = first["status"]["session"]["bootId"]
    told = [e.request.streaming.unconfirmed for e in env.ledger.ran("st") if e.request.streaming is not None]
    assert told == [(), () if is_seen else (boot,)]
    assert again["status"]["streaming"]["restarts"] == 1
    assert again["status"]["streaming"]["committedBatchId"] == 1
    assert locations(env) == ["1", "1"]


async def test_restart_of_a_driver_that_was_shut_down_is_not_counted(env: Environment) -> None:
    async with env.operator():
        await stream(env, streaming={"restart": {"limit": 0}})
        await runs(env)
        await env.client.delete(PODS, env.namespace, env.kubelet.pod_of("s"))
        again = await runs(env, attempt=2)
    assert again["status"]["streaming"]["restarts"] == 0
    assert {e.request.streaming.unconfirmed for e in env.ledger.ran("st") if e.request.streaming is not None} == {()}


async def test_operator_restart_leaves_a_running_stream_alone(env: Environment) -> None:
    async with env.operator():
        await stream(env)
        await runs(env)
    async with env.operator():
        await wish(env, streaming={"restart": {"limit": 3}})  # takes effect without a restart
        seen = await env.wait(STATEMENTS, "st", "seen", lambda o: o["status"]["observedGeneration"] == 2)
        assert (seen["status"]["phase"], seen["status"]["attempt"]) == ("Running", 1)
        await wish(env, desiredState="Stopped")
        await env.in_phase(STATEMENTS, "st", "Stopped")
    assert len(env.ledger.ran("st")) == 1


async def test_failing_query_is_restarted_after_a_while_and_parked_in_the_end(env: Environment) -> None:
    async with env.operator():
        await stream(env, sql=f"{TEXT} FAIL", streaming={"restart": {"limit": 2, "backoffSeconds": 1}})
        waits = await env.in_phase(STATEMENTS, "st", "Initialized", "Restarting")
        done = await env.in_phase(STATEMENTS, "st", "Stopped", "SqlError")
    assert message_of(waits) == "restart 1 of 2 in 1 s: FAILED: it failed"
    assert waits["status"]["nextAttemptTime"] == waits["status"]["streaming"]["nextRestartTime"]
    assert message_of(done).startswith("failed after 2 restarts in a row: it failed; ")
    assert done["status"]["error"]["condition"] == "FAILED"
    assert (done["status"]["attempt"], done["status"]["streaming"]["restarts"]) == (3, 0)
    assert len(env.ledger.ran("st")) == 3


async def test_stream_stopped_during_its_restart_backoff_has_no_next_attempt(env: Environment) -> None:
    async with env.operator():
        await stream(env, sql=f"{TEXT} FAIL", streaming={"restart": {"backoffSeconds": 600}})
        await env.in_phase(STATEMENTS, "st", "Initialized", "Restarting")
        await wish(env, desiredState="Stopped")
        rests = await env.in_phase(STATEMENTS, "st", "Stopped", "StoppedByUser")
    assert "nextAttemptTime" not in rests["status"]


async def test_text_that_cannot_start_is_not_tried_again(env: Environment) -> None:
    async with env.operator():
        await stream(env, sql=f"{TEXT} BROKEN")
        done = await env.ended("st", "Error", "SqlError")
    assert (done["status"]["attempt"], done["status"]["error"]["message"]) == (1, "it failed")


@pytest.mark.parametrize("step", [Step.INTENT, Step.SUBMIT, Step.RUNNING, Step.CANCEL])
async def test_operator_that_dies_on_the_way_starts_nothing_twice(env: Environment, faults: Faults, step: Step) -> None:
    async with env.operator():
        await env.session_ready()
    faults.after[step] = crash
    await stream(env, desiredState="Stopped" if step is Step.CANCEL else "Running")
    if step is Step.CANCEL:
        async with env.operator():
            await wish(env, desiredState="Running")
            await runs(env)
        await wish(env, desiredState="Stopped")
    await env.operator_dies()
    async with env.operator():
        if step is Step.CANCEL:
            await env.in_phase(STATEMENTS, "st", "Stopped")
        else:
            await runs(env, attempt=1)
    assert len(env.ledger.ran("st")) == 1


# --- others


async def test_first_batch_meets_a_dependency(env: Environment) -> None:
    async with env.operator():
        await stream(env, sql=f"{TEXT} IDLE")
        await env.create_statement("next", dependsOn=[{"name": "st"}])
        await env.in_phase(STATEMENTS, "st", "Running")
        await env.in_phase(STATEMENTS, "next", "Initialized", "WaitingForDependencies")
        env.ledger.release("st")
        await env.finished("next")
        assert (await env.get(STATEMENTS, "st"))["status"]["phase"] == "Running"


async def test_streams_take_no_slot_and_hold_nobody_back(env: Environment) -> None:
    async with env.operator():
        for name in ("a", "b", "c"):
            await stream(env, name)
        for name in ("a", "b", "c"):
            await runs(env, name)
        await env.create_statement("batch", "INSERT HOLD")
        await env.in_phase(STATEMENTS, "batch", "Running")
        await stream(env, "d")
        await runs(env, "d")
        env.ledger.release("batch")
        await env.finished("batch")


async def test_drain_waits_for_batch_statements_only(env: Environment) -> None:
    async with env.operator():
        await stream(env)
        await runs(env)
        await env.create_statement("batch", "INSERT HOLD")
        await env.in_phase(STATEMENTS, "batch", "Running")
        await env.patch(SESSIONS, "s", {"restartNonce": "1"})
        await env.in_phase(SESSIONS, "s", "Draining", "RestartRequested")
        assert (await env.get(STATEMENTS, "st"))["status"]["attempt"] == 1
        env.ledger.release("batch")
        await env.finished("batch")
        again = await runs(env, attempt=2)
        session = await env.session_ready()
    assert again["status"]["streaming"]["restarts"] == 0
    assert session.config.incarnation == 2


async def test_stopped_session_leaves_its_streams_waiting(env: Environment) -> None:
    async with env.operator():
        await stream(env)
        await runs(env)
        await env.patch(SESSIONS, "s", {"desiredState": "Stopped"})
        await env.in_phase(SESSIONS, "s", "Stopped")
        await env.in_phase(STATEMENTS, "st", "Initialized", "SessionNotReady")
        await env.patch(SESSIONS, "s", {"desiredState": "Running"})
        await runs(env, attempt=2)
    assert locations(env) == ["1", "1"]


async def test_deleted_session_closes_its_running_and_stopped_streams(env: Environment) -> None:
    async with env.operator():
        await stream(env, "a")
        await stream(env, "b")
        await runs(env, "a")
        await runs(env, "b")
        await wish(env, "b", desiredState="Stopped")
        await env.in_phase(STATEMENTS, "b", "Stopped")
        await env.delete(SESSIONS, "s")
        await env.ended("a", "Closed", "SessionClosed")
        await env.ended("b", "Closed", "SessionClosed")
        await env.gone(SESSIONS, "s")


# --- at rest


async def test_stopped_stream_is_not_queued_and_does_not_keep_its_session_open(env: Environment) -> None:
    async with env.operator():
        await stream(env)
        await runs(env)
        await wish(env, desiredState="Stopped")
        rests = await env.in_phase(STATEMENTS, "st", "Stopped", "StoppedByUser")
        assert condition(rests, "Ready") == "True"
        await env.reaches(SESSIONS, "s", statements={"running": 0, "queued": 0})
        await env.patch(SESSIONS, "s", {"idle": {"timeoutSeconds": 1, "action": "Close"}})
        await env.in_phase(SESSIONS, "s", "Closed", "IdleTimeout")
        await wish(env, desiredState="Running")
        closed = await env.ended("st", "Closed", "SessionClosed")
        assert rests["status"]["streaming"]["checkpointLocation"] in message_of(closed)


async def test_stopped_stream_gives_its_dedicated_session_back(env: Environment) -> None:
    async with env.operator():
        made = await env.dedicated("own", TEXT, streaming={"restart": {"backoffSeconds": 0}})
        await runs(env, "own")
        session = dedicated_session_name("own", made["metadata"]["uid"])
        first = env.monitor.latest(SESSIONS, session)
        await wish(env, "own", desiredState="Stopped")
        await env.in_phase(STATEMENTS, "own", "Stopped", "StoppedByUser")
        await env.gone(SESSIONS, session)
        await env.until("its driver is gone", lambda: has_no_driver(env, session))
        await wish(env, "own", desiredState="Running")
        await runs(env, "own", attempt=2)
        second = env.monitor.latest(SESSIONS, session)
        assert first is not None and second is not None
        assert first["metadata"]["uid"] != second["metadata"]["uid"]
    assert locations(env, "own") == ["1", "1"]
