"""Sessions that sleep while nobody uses them: what goes, what is kept, who wakes them, and operators that end meanwhile."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from sparksql.api.names import ANNOTATION_WAKE, child_base, state_secret_name
from sparksql.kube.errors import NotFound
from sparksql.kube.resources import PODS, SECRETS, SERVICES, SESSIONS, STATEMENTS
from sparksql.wire.session_state import SessionState
from tests.integration.operator.contract_monitor import condition
from tests.integration.operator.environment import Environment, message_of, reason_of

SLEEPS = {"timeoutSeconds": 1, "action": "Hibernate"}
RESTORES = {**SLEEPS, "restoreState": True}


async def hibernated(env: Environment) -> dict[str, Any]:
    return await env.in_phase(SESSIONS, "s", "Hibernated", "Hibernated")


async def awake_as(env: Environment, incarnation: int) -> dict[str, Any]:
    """The session once it is Ready with that driver; it falls asleep again a second later."""

    def is_awake(obj: dict[str, Any]) -> bool:
        status = obj.get("status", {})
        return bool(status.get("phase") == "Ready" and status["driver"]["incarnation"] == incarnation)

    return await env.wait(SESSIONS, "s", f"Ready as {incarnation}", is_awake)


async def another_falls_asleep(env: Environment) -> None:
    """Until a session that nobody uses is Hibernated, which was not there before: a timeout has passed since."""
    await env.create_session("unused", idle=SLEEPS)
    await env.in_phase(SESSIONS, "unused", "Hibernated", "Hibernated")


async def state_of(env: Environment, session: dict[str, Any]) -> dict[str, Any]:
    metadata = session["metadata"]
    return await env.get(SECRETS, state_secret_name(metadata["name"], metadata["uid"]))


async def test_a_session_sleeps_without_a_driver_and_the_next_statement_wakes_it(env: Environment) -> None:
    await env.create_class()
    session = await env.create_session(idle=SLEEPS)
    async with env.operator():
        asleep = await hibernated(env)
        assert condition(asleep, "Ready") == "True"
        assert "endpoints" not in asleep["status"]
        assert await env.driver_pods() == []
        assert await env.get(SERVICES, child_base("s", session["metadata"]["uid"]))
        await env.create_statement("wakes", "INSERT HOLD")
        await env.in_phase(STATEMENTS, "wakes", "Running")
        env.ledger.release("wakes")
        await env.finished("wakes")
        await hibernated(env)
        reasons = await env.event_reasons("s")
    assert {"Hibernating", "Waking"} <= set(reasons)
    assert [name[-2:] for name in env.kubelet.started] == ["-1", "-2"]
    assert [each.statement for each in env.ledger.executions] == ["wakes"]


async def test_a_session_that_sleeps_sleeps_on_under_another_operator(env: Environment) -> None:
    await env.create_class()
    await env.create_session(idle=SLEEPS)
    async with env.operator():
        await hibernated(env)
    async with env.operator():
        await env.touch(SESSIONS, "s")
        await env.create_session("other")
        await env.session_ready("other")
        await hibernated(env)
        await env.create_statement("wakes")
        await env.finished("wakes")
    assert [name for name in env.kubelet.started if name.startswith("s-")][1][-2:] == "-2"


async def test_statements_that_run_wait_or_stream_keep_a_session_awake(env: Environment) -> None:
    await env.create_class()
    await env.create_session(idle=SLEEPS)
    async with env.operator():
        await env.create_statement("long", "INSERT HOLD")
        await env.create_statement("waits", dependsOn=[{"name": "long"}])
        await env.in_phase(STATEMENTS, "long", "Running")
        await another_falls_asleep(env)
        seen = await env.in_phase(SESSIONS, "s", "Ready")
        assert seen["status"]["driver"]["incarnation"] == 1
        env.ledger.release("long")
        await env.finished("waits")
        await hibernated(env)
    assert len([name for name in env.kubelet.started if name.startswith("s-")]) == 1


async def test_a_client_keeps_a_session_awake_until_it_has_gone(env: Environment) -> None:
    await env.create_class()
    await env.create_session(idle=SLEEPS)
    async with env.operator():
        gateway = await env.session_ready()
        gateway.set_clients(sessions=1)
        await env.wait(SESSIONS, "s", "a client", lambda o: o["status"].get("clients", {}).get("sessions") == 1)
        await another_falls_asleep(env)
        await env.in_phase(SESSIONS, "s", "Ready")
        gateway.set_clients()
        await hibernated(env)


@pytest.mark.parametrize("how", ["annotation", "restart", "never idle"])
async def test_session_is_woken_by_whoever_wants_a_driver(env: Environment, how: str) -> None:
    await env.create_class()
    session = await env.create_session(idle=SLEEPS)
    async with env.operator():
        await hibernated(env)
        match how:
            case "annotation":
                wish = {"metadata": {"annotations": {ANNOTATION_WAKE: datetime.now(UTC).isoformat()}}}
                await env.client.patch_merge(SESSIONS, env.namespace, session["metadata"]["name"], wish)
            case "restart":
                await env.patch(SESSIONS, "s", {"restartNonce": "2"})
            case _:
                await env.patch(SESSIONS, "s", {"idle": {"timeoutSeconds": 0}})
        await awake_as(env, 2)
        if how == "annotation":
            await hibernated(env)


async def test_stop_and_run_of_a_session_that_sleeps(env: Environment) -> None:
    await env.create_class()
    await env.create_session(idle=SLEEPS)
    async with env.operator():
        await hibernated(env)
        await env.patch(SESSIONS, "s", {"desiredState": "Stopped"})
        await env.in_phase(SESSIONS, "s", "Stopped")
        await env.patch(SESSIONS, "s", {"desiredState": "Running"})
        await awake_as(env, 2)
    assert len(env.kubelet.started) == 2


async def test_a_session_that_sleeps_leaves_its_place_to_another(env: Environment) -> None:
    await env.create_class(limits={"sessionsPerNamespace": 1})
    await env.create_session(idle=SLEEPS)
    async with env.operator():
        await env.session_ready()
        await env.create_session("next")
        await env.session_ready("next")
        await hibernated(env)
        await env.create_statement("wakes")
        full = await env.in_phase(SESSIONS, "s", "Pending", "LimitExceeded")
        assert condition(full, "Stalled") == "True"
        await env.delete(SESSIONS, "next")
        await env.finished("wakes")


async def test_a_statement_that_comes_while_its_driver_goes_runs_once_in_the_next(env: Environment) -> None:
    """Handed over to a driver that takes nothing new, which nobody knew: it has not begun there."""
    await env.create_class()
    await env.create_session()
    async with env.operator():
        gateway = await env.session_ready()
        gateway.drain_unheard()
        await env.create_statement("late", "INSERT 1")
        await env.reaches(STATEMENTS, "late", phase="Initialized", attempt=2)
        await env.kubelet.crash_driver("s")
        await env.finished("late")
    assert [(each.statement, each.pod[-2:]) for each in env.ledger.executions] == [("late", "-2")]


# --- what statements have made of it


async def test_a_session_whose_state_would_be_lost_stays_awake_and_says_so(env: Environment) -> None:
    await env.create_class()
    await env.create_session(idle=SLEEPS)
    async with env.operator():
        gateway = await env.session_ready()
        gateway.set_session_state("CREATE TEMPORARY VIEW v AS SELECT 1")
        told = await env.wait(SESSIONS, "s", "told", lambda o: condition(o, "Hibernation") == "False")
        [why] = [c for c in told["status"]["conditions"] if c["type"] == "Hibernation"]
        assert why["reason"] == "HoldsSessionState"
        assert "idle.restoreState" in why["message"]
        await another_falls_asleep(env)
        assert (await env.in_phase(SESSIONS, "s", "Ready"))["status"]["driver"]["incarnation"] == 1
        await env.patch(SESSIONS, "s", {"idle": RESTORES})
        await hibernated(env)


async def test_session_state_is_kept_in_a_secret_and_given_to_the_next_driver(env: Environment) -> None:
    texts = ("CREATE TEMPORARY VIEW v AS SELECT 'private'", "SET spark.sql.shuffle.partitions = 7")
    await env.create_class()
    session = await env.create_session(idle=RESTORES)
    async with env.operator():
        gateway = await env.session_ready()
        gateway.set_session_state(*texts)
        asleep = await hibernated(env)
        assert asleep["status"]["keptState"] == {"statements": 2, "incarnation": 1}
        assert "private" not in json.dumps(asleep)
        secret = await state_of(env, session)
        [owner] = secret["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (session["metadata"]["uid"], True)
        assert condition(asleep, "SessionStateLost") is None
        await env.create_statement("wakes", "INSERT HOLD")
        await env.in_phase(STATEMENTS, "wakes", "Running")
        config = env.kubelet.gateway_of("s").config
        awake = await env.get(SESSIONS, "s")
    assert config.restore is not None
    assert [each.sql for each in config.restore.statements] == list(texts)
    assert config.restore.digest == "of 2"
    assert "keptState" not in awake["status"]


async def test_an_operator_that_dies_before_the_state_is_kept_leaves_it_to_the_next(env: Environment) -> None:
    await env.create_class()
    session = await env.create_session(idle=RESTORES)
    async with env.operator():
        gateway = await env.session_ready()
        gateway.set_session_state("SET a = 1")
        await env.in_phase(SESSIONS, "s", "Draining", "Hibernating")
    async with env.operator():
        await hibernated(env)
    state = SessionState.model_validate_json(
        base64.b64decode((await state_of(env, session))["data"]["session-state.json"])
    )
    assert [each.sql for each in state.statements] == ["SET a = 1"]


@pytest.mark.parametrize("what", ["gone", "of another driver", "somebody else's", "not to be read"])
async def test_a_kept_state_that_is_not_there_is_told_as_lost(env: Environment, what: str) -> None:
    await env.create_class()
    session = await env.create_session(idle=RESTORES)
    name = state_secret_name("s", session["metadata"]["uid"])
    async with env.operator():
        gateway = await env.session_ready()
        gateway.set_session_state("SET a = 1")
        await hibernated(env)
        match what:
            case "gone":
                await env.delete(SECRETS, name)
            case "of another driver":
                other = {"metadata": {"labels": {"sparksql.dev/incarnation": "7"}}}
                await env.client.patch_merge(SECRETS, env.namespace, name, other)
            case "somebody else's":
                owners = {"metadata": {"ownerReferences": None}}
                await env.client.patch_merge(SECRETS, env.namespace, name, owners)
            case _:
                data = {"data": {"session-state.json": base64.b64encode(b"{").decode()}}
                await env.client.patch_merge(SECRETS, env.namespace, name, data)
        await env.create_statement("wakes", "INSERT HOLD")
        await env.in_phase(STATEMENTS, "wakes", "Running")
        assert env.kubelet.gateway_of("s").config.restore == SessionState()


async def test_a_session_goes_with_what_it_has_kept(env: Environment) -> None:
    await env.create_class()
    session = await env.create_session(idle=RESTORES)
    async with env.operator():
        (await env.session_ready()).set_session_state("SET a = 1")
        await hibernated(env)
        await env.delete(SESSIONS, "s")
        await env.gone(SESSIONS, "s")
    assert (await state_of(env, session))["metadata"]["ownerReferences"][0]["uid"] == session["metadata"]["uid"]
    with pytest.raises(NotFound):
        await env.get(PODS, f"{child_base('s', session['metadata']['uid'])}-1")


async def test_a_statement_that_waits_for_a_waking_session_says_so(env: Environment) -> None:
    await env.create_class()
    await env.create_session(idle=SLEEPS)
    async with env.operator():
        await hibernated(env)
        await env.create_statement("wakes", "INSERT HOLD")
        seen = await env.wait(SESSIONS, "s", "waking", lambda o: reason_of(o) == "Waking")
        assert seen["status"]["phase"] in ("Pending", "Starting")
        assert "a statement" in message_of(seen) or "driver" in message_of(seen)
        env.ledger.release("wakes")
        await env.finished("wakes")
