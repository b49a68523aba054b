"""What a session counts, who gets a place among its kind, and what a class says of fields that do nothing."""

from __future__ import annotations

import contextlib
import time

from sparksql.kube.client import KubeClient
from sparksql.kube.credentials import Credentials
from sparksql.kube.resources import EVENTS, SESSION_CLASSES, SESSIONS, STATEMENTS
from tests.integration.operator.contract_monitor import condition
from tests.integration.operator.environment import Environment, message_of
from tests.integration.operator.stream_contract_monitor import StreamWitness
from tests.support.apiserver import ApiServer

NONE = {"running": 0, "queued": 0}
SHOWN_SECONDS = 1.0  # the end of the last statement is in the session's status after so long
SLACK_SECONDS = 2.0  # for a machine that runs other tests at the same time


async def test_end_of_the_last_statement_is_shown_at_once(world: Environment) -> None:
    await world.create_class()
    await world.create_session()
    async with world.operator():
        await world.session_ready()
        names = ("a", "b", "c")
        for name in names:
            await world.create_statement(name, "SELECT HOLD")
        await world.reaches(SESSIONS, "s", statements={"running": 3, "queued": 0})
        world.ledger.release(*names)
        await world.all_finished(names)
        ended = time.monotonic()
        await world.reaches(SESSIONS, "s", statements=NONE)
        assert time.monotonic() - ended < SHOWN_SECONDS + SLACK_SECONDS


async def test_end_of_the_last_statement_of_clients_is_shown_at_once(world: Environment) -> None:
    await world.create_class()
    await world.create_session()
    async with world.operator():
        gateway = await world.session_ready()
        gateway.set_clients(1, pending=1, running=2)
        await world.reaches(SESSIONS, "s", statements={"running": 2, "queued": 1})
        gateway.set_clients(1)
        ended = time.monotonic()
        await world.reaches(SESSIONS, "s", statements=NONE)
        assert time.monotonic() - ended < SHOWN_SECONDS + SLACK_SECONDS


async def test_stream_that_is_stopped_is_neither_running_nor_queued(crds: ApiServer, namespace: str) -> None:
    credentials = Credentials.from_kubeconfig(crds.kubeconfig)
    async with KubeClient(credentials) as client, contextlib.AsyncExitStack() as stack:
        world = Environment(client, namespace, credentials)
        world.witness = StreamWitness(client, namespace)
        await stack.enter_async_context(world.running())
        await world.create_class(storage={"checkpointRoot": "file:///data/checkpoints"})
        await world.create_session()
        await stack.enter_async_context(world.operator())
        await world.create_statement("st", "INSERT INTO t SELECT * FROM STREAM s", streaming={})
        await world.reaches(SESSIONS, "s", statements={"running": 1, "queued": 0})
        await world.patch(STATEMENTS, "st", {"desiredState": "Stopped"})
        await world.in_phase(STATEMENTS, "st", "Stopped", "StoppedByUser")
        stopped = time.monotonic()
        await world.reaches(SESSIONS, "s", statements=NONE)
        assert time.monotonic() - stopped < SHOWN_SECONDS + SLACK_SECONDS


async def test_statements_that_end_after_their_driver_are_not_counted_any_more(world: Environment) -> None:
    """The session is over before them: nothing else happens to it that could set its counters right."""
    await world.create_class()
    await world.create_session()
    async with world.operator(maxDriverRestarts=0):
        await world.session_ready()
        for name in ("a", "b"):
            await world.create_statement(name, "INSERT INTO t HOLD")
        await world.reaches(SESSIONS, "s", statements={"running": 2, "queued": 0})
        await world.kubelet.crash_driver("s")
        await world.in_phase(SESSIONS, "s", "Failed", "MaxRestartsExceeded")
        for name in ("a", "b"):
            await world.ended(name, "Error", "SessionLost")
        await world.reaches(SESSIONS, "s", statements=NONE)


async def test_sessions_of_a_class_have_a_bound_over_all_namespaces(world: Environment) -> None:
    await world.create_class(limits={"sessions": 1})
    async with world.operator():
        first = await world.create_session("a")
        await world.session_ready("a")
        await world.next_second(first)
        second = await world.create_session("b")
        refused = await world.in_phase(SESSIONS, "b", "Pending", "LimitExceeded")
        assert "limits.sessions)" in message_of(refused)
        assert condition(refused, "Stalled") == "True"
        await world.next_second(second)
        await world.create_session("c")
        await world.in_phase(SESSIONS, "c", "Pending", "LimitExceeded")
        await world.patch(SESSIONS, "a", {"desiredState": "Stopped"})
        await world.session_ready("b")  # at once, and before the younger one
        await world.delete(SESSIONS, "b")
        await world.session_ready("c")
    assert [name.split("-")[0] for name in world.kubelet.started] == ["a", "b", "c"]


async def test_all_sessions_together_have_a_bound(world: Environment) -> None:
    await world.create_class()
    await world.create_class(f"other-{world.namespace}")
    async with world.operator(limits={"sessions": 1}):
        await world.create_session("a")
        await world.session_ready("a")
        await world.create_session("b", className=f"other-{world.namespace}")
        refused = await world.in_phase(SESSIONS, "b", "Pending", "LimitExceeded")
        assert "operator.limits.sessions" in message_of(refused)
        await world.delete(SESSIONS, "a")
        await world.session_ready("b")


async def test_a_session_that_may_not_start_takes_no_place(world: Environment) -> None:
    await world.create_class(limits={"sessions": 1, "driver": {"cpu": "1"}})
    async with world.operator():
        first = await world.create_session("greedy", driver={"cpu": "2"})
        await world.in_phase(SESSIONS, "greedy", "Pending", "LimitExceeded")
        await world.next_second(first)
        await world.create_session("modest")
        await world.session_ready("modest")


async def test_a_class_says_that_its_warm_pool_does_nothing(world: Environment) -> None:
    await world.create_class(warmPool={"size": 2})

    async def pooled() -> bool:
        obj = await world.client.get(SESSION_CLASSES, "", world.class_name)
        return condition(obj, "WarmPool") == "False" and condition(obj, "Ready") == "True"

    async def told() -> bool:
        events = (await world.client.list(EVENTS, "")).items
        return any(e["involvedObject"]["name"] == world.class_name and e["reason"] == "NotImplemented" for e in events)

    async with world.operator():
        await world.until("the class says so", pooled)
        await world.until("an event says so", told)


async def test_a_canceled_statement_and_a_stopped_session_are_ready(world: Environment) -> None:
    await world.create_class()
    await world.create_session()
    async with world.operator():
        await world.session_ready()
        await world.create_statement("a", "SELECT HOLD")
        await world.in_phase(STATEMENTS, "a", "Running")
        await world.patch(STATEMENTS, "a", {"desiredState": "Canceled"})
        assert condition(await world.ended("a", "Canceled", "CanceledByUser"), "Ready") == "True"
        await world.patch(SESSIONS, "s", {"desiredState": "Stopped"})
        assert condition(await world.in_phase(SESSIONS, "s", "Stopped"), "Ready") == "True"
