"""How statements end otherwise than by finishing: cancel, timeouts, closed sessions, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from sparksql.kube.resources import SESSION_CLASSES, SESSIONS, STATEMENTS
from tests.integration.operator.environment import Environment, message_of


@pytest.fixture
async def ready(env: Environment) -> Environment:
    await env.create_class(allow={"conf": ["spark.sql.*"]})
    await env.create_session(maxConcurrentStatements=2)
    return env


# --- cancel


async def test_cancel_before_the_hand_over(env: Environment) -> None:
    async with env.operator():
        await env.create_statement("waits")
        await env.in_phase(STATEMENTS, "waits", "Initialized", "SessionNotReady")
        await env.patch(STATEMENTS, "waits", {"desiredState": "Canceled"})
        await env.ended("waits", "Canceled", "CanceledByUser")
    assert env.ledger.executions == []


@pytest.mark.parametrize(("sql", "phase", "runs"), [("INSERT QUEUE", "Pending", 0), ("INSERT HOLD", "Running", 1)])
async def test_cancel_after_the_hand_over_is_confirmed_by_the_gateway(
    ready: Environment, sql: str, phase: str, runs: int
) -> None:
    async with ready.operator():
        await ready.create_statement("one", sql)
        await ready.in_phase(STATEMENTS, "one", phase)
        await ready.patch(STATEMENTS, "one", {"desiredState": "Canceled"})
        await ready.ended("one", "Canceled", "CanceledByUser")
        view = ready.kubelet.gateway_of("s").view_of("one")
        await ready.create_statement("after")  # its place is free again
        await ready.finished("after")
    assert view is not None and view.state == "Canceled"
    assert len(ready.ledger.ran("one")) == runs


async def test_canceled_statement_stays_running_until_the_driver_has_stopped_it(ready: Environment) -> None:
    async with ready.operator():
        await ready.create_statement("one", "INSERT HOLD STUBBORN")
        await ready.in_phase(STATEMENTS, "one", "Running")
        await ready.patch(STATEMENTS, "one", {"desiredState": "Canceled"})
        await ready.wait(STATEMENTS, "one", "seen", lambda o: o["status"]["observedGeneration"] == 2)
        assert (await ready.get(STATEMENTS, "one"))["status"]["phase"] == "Running"
        ready.ledger.release("one")  # it finishes all the same: that is the truth
        await ready.finished("one")


# --- timeouts


async def test_queue_timeout_before_and_after_the_hand_over(ready: Environment) -> None:
    async with ready.operator():
        await ready.session_ready()  # or the time would be over before there is a driver to hand it to
        await ready.create_statement("nowhere", session="nobody", timeouts={"queueSeconds": 1})
        await ready.create_statement("inside", "INSERT QUEUE", timeouts={"queueSeconds": 1})
        await ready.ended("nowhere", "TimedOut", "QueueTimeout")
        await ready.ended("inside", "TimedOut", "QueueTimeout")
    assert ready.ledger.executions == []


async def test_execution_timeout_counts_from_running(ready: Environment) -> None:
    async with ready.operator():
        await ready.create_statement("slow", "INSERT HOLD", timeouts={"executionSeconds": 1})
        done = await ready.ended("slow", "TimedOut", "ExecutionTimeout")
    assert {"startTime", "completionTime", "durationMillis"} <= done["status"].keys()
    assert [each.request.execution_seconds for each in ready.ledger.ran("slow")] == [1]  # counted by who runs it


async def test_session_timeouts_hold_for_statements_without_their_own(env: Environment) -> None:
    await env.create_class()
    await env.create_session(statementTimeouts={"executionSeconds": 1})
    async with env.operator():
        await env.create_statement("own", "SELECT HOLD", timeouts={"executionSeconds": 0})
        await env.in_phase(STATEMENTS, "own", "Running")
        await env.create_statement("inherits", "SELECT HOLD")
        await env.ended("inherits", "TimedOut", "ExecutionTimeout")
        env.ledger.release("own")  # it has run for longer
        await env.finished("own")


# --- sessions that end


async def test_deleted_session_closes_every_statement_that_names_it(ready: Environment) -> None:
    async with ready.operator():
        await ready.create_statement("running", "INSERT HOLD")
        await ready.create_statement("pending", "INSERT QUEUE")
        for name in ("running", "pending"):
            await ready.in_phase(STATEMENTS, name, name.capitalize())
        await ready.create_statement("waiting")
        await ready.in_phase(STATEMENTS, "waiting", "Initialized", "QueuedBehindStatements")
        await ready.create_statement("depends", dependsOn=[{"name": "running"}, {"name": "never"}])
        await ready.in_phase(STATEMENTS, "depends", "Initialized")
        await ready.delete(SESSIONS, "s")
        for name in ("running", "pending", "waiting", "depends"):
            await ready.ended(name, "Closed", "SessionClosed")
        await ready.gone(SESSIONS, "s")
        assert await ready.driver_pods() == []
        await ready.create_statement("later")  # a session that is gone is waited for, as one that never was
        await ready.in_phase(STATEMENTS, "later", "Initialized", "SessionNotReady")
    assert ready.ledger.order() == ["running"]


async def test_session_closed_for_idleness_closes_statements_that_come_later(env: Environment) -> None:
    await env.create_class()
    idle = {"timeoutSeconds": 1, "action": "Close"}
    await env.create_session(idle=idle)
    await env.create_statement("first", "SELECT HOLD")  # there from the beginning: the session is never without it
    async with env.operator():
        await env.session_ready()
        await env.create_session("unused", idle=idle)
        await env.in_phase(SESSIONS, "unused", "Closed", "IdleTimeout")
        assert (await env.get(SESSIONS, "s"))["status"]["phase"] == "Ready"  # busy is not idle
        env.ledger.release("first")
        await env.finished("first")
        await env.in_phase(SESSIONS, "s", "Closed", "IdleTimeout")
        assert await env.driver_pods() == []
        await env.create_statement("late")
        await env.ended("late", "Closed", "SessionClosed")


async def test_session_is_closed_at_its_maximal_age(env: Environment) -> None:
    await env.create_class()
    await env.create_session(maxLifetimeSeconds=1)
    async with env.operator(deadlines={"drainSeconds": 0}):
        await env.create_statement("busy", "INSERT HOLD")
        await env.in_phase(SESSIONS, "s", "Closed", "MaxLifetimeReached")
        await env.ended("busy", "Closed", "SessionClosed")


async def test_stopped_session_is_waited_for(ready: Environment) -> None:
    async with ready.operator():
        await ready.session_ready()
        await ready.patch(SESSIONS, "s", {"desiredState": "Stopped"})
        await ready.in_phase(SESSIONS, "s", "Stopped")
        await ready.create_statement("waits")
        await ready.in_phase(STATEMENTS, "waits", "Initialized", "SessionNotReady")
        await ready.patch(SESSIONS, "s", {"desiredState": "Running"})
        await ready.finished("waits")


# --- refusals


@pytest.mark.parametrize(
    ("spec", "reason", "names"),
    [
        ({"conf": {"spark.kubernetes.namespace": "x"}}, "NotAllowed", "spark.kubernetes.namespace"),
        ({"conf": {"spark.sql.shuffle.partitions": "1", "spark.Jars": "x"}}, "NotAllowed", "spark.Jars"),
        ({"conf": {"spark.locality.wait": "1"}}, "NotAllowed", "spark.locality.wait"),
    ],
)
async def test_statement_with_conf_that_is_not_allowed_is_refused_naming_the_key(
    ready: Environment, spec: dict[str, Any], reason: str, names: str
) -> None:
    async with ready.operator():
        await ready.create_statement("refused", **spec)
        done = await ready.ended("refused", "Error", reason)
    assert names in message_of(done)
    assert ready.ledger.executions == []


async def test_time_beyond_the_class_limit_is_refused(env: Environment) -> None:
    await env.create_class(limits={"executionSeconds": 10})
    await env.create_session()
    async with env.operator():
        await env.create_statement("long", timeouts={"executionSeconds": 11})
        await env.create_statement("endless", timeouts={"executionSeconds": 0})
        await env.create_statement("fits", timeouts={"executionSeconds": 10})
        await env.create_statement("silent")
        await env.ended("long", "Error", "LimitExceeded")
        await env.ended("endless", "Error", "LimitExceeded")
        await env.all_finished(["fits", "silent"])
    assert env.ledger.ran("silent")[0].request.execution_seconds == 10


async def test_statement_beyond_the_queue_limit_of_its_session_is_refused(env: Environment) -> None:
    await env.create_class()
    await env.create_session(maxConcurrentStatements=1, maxQueuedStatements=2)
    async with env.operator():
        await env.create_statement("running", "SELECT HOLD")
        await env.in_phase(STATEMENTS, "running", "Running")
        for name in ("a", "b"):
            await env.create_statement(name)
            await env.in_phase(STATEMENTS, name, "Initialized", "QueuedBehindStatements")
        await env.next_second(await env.get(STATEMENTS, "b"))
        await env.create_statement("c")
        await env.ended("c", "Error", "LimitExceeded")
        env.ledger.release("running")
        await env.all_finished(["running", "a", "b"])


async def test_class_that_goes_away_does_not_end_running_statements(ready: Environment) -> None:
    async with ready.operator():
        await ready.create_statement("one", "INSERT HOLD")
        await ready.in_phase(STATEMENTS, "one", "Running")
        await ready.client.delete(SESSION_CLASSES, "", ready.class_name)
        ready.ledger.release("one")
        await ready.finished("one")
        await ready.create_statement("two")
        await ready.in_phase(STATEMENTS, "two", "Initialized", "SessionNotReady")
        await ready.create_class()
        await ready.finished("two")


# --- retention


async def test_ttl_removes_an_ended_statement(ready: Environment) -> None:
    async with ready.operator():
        await ready.create_statement("short", ttlSecondsAfterFinished=1)
        await ready.create_statement("failed", "SELECT FAIL", ttlSecondsAfterFinished=0)
        await ready.gone(STATEMENTS, "failed")
        await ready.gone(STATEMENTS, "short")
    assert [ready.monitor.phases(name)[-1] for name in ("failed", "short")] == ["Error", "Finished"]


async def test_ttl_is_kept_over_a_restart(ready: Environment) -> None:
    async with ready.operator():
        await ready.create_statement("short", ttlSecondsAfterFinished=2)
        await ready.finished("short")
    async with ready.operator():
        await ready.gone(STATEMENTS, "short")
