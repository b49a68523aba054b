"""What a session counts, who gets a place among its kind, and what a class says of fields that do nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from sparksql.domain.session_class import POOL_SECONDS
from sparksql.kube.client import KubeClient
from sparksql.kube.credentials import Credentials
from sparksql.kube.resources import EVENTS, SESSION_CLASSES, SESSIONS, STATEMENTS
from tests.integration.operator.contract_monitor import condition
from tests.integration.operator.environment import Environment, message_of
from tests.integration.operator.stream_contract_monitor import StreamContractMonitor
from tests.support.apiserver import ApiServer
from tests.support.watching import watching

NONE = {"running": 0, "queued": 0}
HOURS = 36_000.0


@pytest.fixture
def look_no_more(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From its call on nothing but an event makes an operator look at a session again before hours have passed."""
    monkeypatch.setattr("sparksql.domain.session.decide.ACTIVITY_SECONDS", HOURS)
    monkeypatch.setattr(
        "sparksql.domain.session.counters.COUNTER_SECONDS", 0.0
    )  # so that no look is due when it is called

    def called() -> None:
        monkeypatch.setattr("sparksql.domain.session.counters.COUNTER_SECONDS", HOURS)

    return called


async def test_end_of_the_last_statement_is_shown_at_once(env: Environment, look_no_more: Callable[[], None]) -> None:
    await env.create_class()
    await env.create_session()
    async with env.operator():
        await env.session_ready()
        names = ("a", "b", "c")
        for name in names:
            await env.create_statement(name, "SELECT HOLD")
        await env.reaches(SESSIONS, "s", statements={"running": 3, "queued": 0})
        look_no_more()
        env.ledger.release(*names)
        await env.all_finished(names)
        await env.reaches(SESSIONS, "s", statements=NONE)


async def test_end_of_the_last_statement_of_clients_is_shown_at_once(
    env: Environment, look_no_more: Callable[[], None]
) -> None:
    await env.create_class()
    await env.create_session()
    async with env.operator():
        gateway = await env.session_ready()
        gateway.set_clients(1, pending=1, running=2)
        await env.reaches(SESSIONS, "s", statements={"running": 2, "queued": 1})
        look_no_more()
        gateway.set_clients(1)
        await env.reaches(SESSIONS, "s", statements=NONE)


async def test_stream_that_is_stopped_is_neither_running_nor_queued(
    crds: ApiServer, namespace: str, look_no_more: Callable[[], None]
) -> None:
    credentials = Credentials.from_kubeconfig(crds.kubeconfig)
    async with (
        KubeClient(credentials) as client,
        watching(crds.kubeconfig) as watcher,
        contextlib.AsyncExitStack() as stack,
    ):
        env = Environment(client, watcher, namespace, credentials)
        env.monitor = StreamContractMonitor(watcher, namespace)
        await stack.enter_async_context(env.running())
        await env.create_class(storage={"checkpointRoot": "file:///data/checkpoints"})
        await env.create_session()
        await stack.enter_async_context(env.operator())
        await env.create_statement("st", "INSERT INTO t SELECT * FROM STREAM s", streaming={})
        await env.reaches(SESSIONS, "s", statements={"running": 1, "queued": 0})
        look_no_more()
        await env.patch(STATEMENTS, "st", {"desiredState": "Stopped"})
        await env.in_phase(STATEMENTS, "st", "Stopped", "StoppedByUser")
        await env.reaches(SESSIONS, "s", statements=NONE)


async def test_statements_that_end_after_their_driver_are_not_counted_any_more(env: Environment) -> None:
    """The session is over before them: nothing else happens to it that could set its counters right."""
    await env.create_class()
    await env.create_session()
    async with env.operator():
        await env.session_ready()
        for name in ("a", "b"):
            await env.create_statement(name, "INSERT INTO t HOLD")
        await env.reaches(SESSIONS, "s", statements={"running": 2, "queued": 0})
        await env.patch(SESSIONS, "s", {"desiredState": "Stopped"})
        await env.in_phase(SESSIONS, "s", "Draining")
        await env.kubelet.crash_driver("s")
        await env.in_phase(SESSIONS, "s", "Stopped")
        for name in ("a", "b"):
            await env.ended(name, "Error", "SessionLost")
        await env.reaches(SESSIONS, "s", statements=NONE)


async def test_sessions_of_a_class_have_a_bound_over_all_namespaces(env: Environment) -> None:
    await env.create_class(limits={"sessions": 1})
    async with env.operator():
        first = await env.create_session("a")
        await env.session_ready("a")
        await env.next_second(first)
        second = await env.create_session("b")
        refused = await env.in_phase(SESSIONS, "b", "Pending", "LimitExceeded")
        assert "limits.sessions)" in message_of(refused)
        assert condition(refused, "Stalled") == "True"
        await env.next_second(second)
        await env.create_session("c")
        await env.in_phase(SESSIONS, "c", "Pending", "LimitExceeded")
        await env.patch(SESSIONS, "a", {"desiredState": "Stopped"})
        await env.session_ready("b")  # at once, and before the younger one
        await env.delete(SESSIONS, "b")
        await env.session_ready("c")
    assert [name.split("-")[0] for name in env.kubelet.started] == ["a", "b", "c"]


async def test_all_sessions_together_have_a_bound(env: Environment) -> None:
    await env.create_class()
    await env.create_class(f"other-{env.namespace}")
    async with env.operator(limits={"sessions": 1}):
        await env.create_session("a")
        await env.session_ready("a")
        await env.create_session("b", className=f"other-{env.namespace}")
        refused = await env.in_phase(SESSIONS, "b", "Pending", "LimitExceeded")
        assert "operator.limits.sessions" in message_of(refused)
        await env.delete(SESSIONS, "a")
        await env.session_ready("b")


async def test_a_session_that_may_not_start_takes_no_place(env: Environment) -> None:
    await env.create_class(limits={"sessions": 1, "driver": {"cpu": "1"}})
    async with env.operator():
        first = await env.create_session("greedy", driver={"cpu": "2"})
        await env.in_phase(SESSIONS, "greedy", "Pending", "LimitExceeded")
        await env.next_second(first)
        await env.create_session("modest")
        await env.session_ready("modest")


async def test_a_class_says_that_its_warm_pool_has_no_namespaces(env: Environment) -> None:
    await env.create_class(warmPool={"size": 2})

    async def pooled() -> bool:
        obj = await env.client.get(SESSION_CLASSES, "", env.class_name)
        return condition(obj, "WarmPool") == "False" and condition(obj, "Ready") == "True"

    async def told() -> bool:
        events = (await env.client.list(EVENTS, "")).items
        return any(e["involvedObject"]["name"] == env.class_name and e["reason"] == "InvalidSpec" for e in events)

    async with env.operator():
        await env.until("the class says so", pooled)
        await env.until("an event says so", told)


async def test_a_class_says_which_namespace_of_its_warm_pool_is_not_there(env: Environment) -> None:
    await env.create_class(warmPool={"size": 1, "namespaces": ["nowhere-at-all"]})

    async def told() -> bool:
        obj = await env.client.get(SESSION_CLASSES, "", env.class_name)
        found = [each for each in obj.get("status", {}).get("conditions", ()) if each["type"] == "WarmPool"]
        return bool(found) and "nowhere-at-all" in found[0]["message"]

    async with env.operator():
        await env.until("the class says so", told, POOL_SECONDS + 30)


async def test_a_canceled_statement_and_a_stopped_session_are_ready(env: Environment) -> None:
    await env.create_class()
    await env.create_session()
    async with env.operator():
        await env.session_ready()
        await env.create_statement("a", "SELECT HOLD")
        await env.in_phase(STATEMENTS, "a", "Running")
        await env.patch(STATEMENTS, "a", {"desiredState": "Canceled"})
        assert condition(await env.ended("a", "Canceled", "CanceledByUser"), "Ready") == "True"
        await env.patch(SESSIONS, "s", {"desiredState": "Stopped"})
        assert condition(await env.in_phase(SESSIONS, "s", "Stopped"), "Ready") == "True"
