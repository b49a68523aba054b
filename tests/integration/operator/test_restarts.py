"""Drivers that are to go and drivers that are lost: stop, restart, change, crash, and what outlives them."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pytest

from sparksql.api.names import child_base
from sparksql.kube.resources import PODS, SECRETS, SESSIONS, STATEMENTS
from tests.integration.operator.contract_monitor import condition
from tests.integration.operator.environment import Environment, message_of
from tests.integration.operator.fake_kubelet import Plan

# --- stop, restart, change


async def test_stop_waits_for_running_statements_and_start_makes_a_new_driver(env: Environment) -> None:
    await env.create_class()
    await env.create_session()
    async with env.operator():
        await env.create_statement("running", "INSERT HOLD")
        await env.in_phase(STATEMENTS, "running", "Running")
        await env.patch(SESSIONS, "s", {"desiredState": "Stopped"})
        await env.in_phase(SESSIONS, "s", "Draining", "Stopped")
        await env.create_statement("waits")
        await env.in_phase(STATEMENTS, "waits", "Initialized", "SessionNotReady")
        env.ledger.release("running")
        await env.finished("running")
        await env.in_phase(SESSIONS, "s", "Stopped")
        assert await env.driver_pods() == []
        await env.patch(SESSIONS, "s", {"desiredState": "Running"})
        await env.finished("waits")
    assert [name[-2:] for name in env.kubelet.started] == ["-1", "-2"]


async def test_session_that_is_wanted_again_while_it_stops_starts_again(env: Environment) -> None:
    await env.create_class()
    await env.create_session()
    async with env.operator():
        await env.create_statement("running", "INSERT HOLD")
        await env.in_phase(STATEMENTS, "running", "Running")
        await env.patch(SESSIONS, "s", {"desiredState": "Stopped"})
        await env.in_phase(SESSIONS, "s", "Draining")
        await env.patch(SESSIONS, "s", {"desiredState": "Running"})
        env.ledger.release("running")
        await env.wait(SESSIONS, "s", "second driver", lambda o: o["status"]["driver"]["incarnation"] == 2)
        await env.session_ready()


@pytest.mark.parametrize("change", [{"restartNonce": "1"}, {"conf": {"spark.sql.ansi.enabled": "true"}}])
async def test_change_that_needs_a_new_driver_drains_the_old_one_first(
    env: Environment, change: dict[str, Any]
) -> None:
    await env.create_class()
    await env.create_session()
    async with env.operator():
        await env.create_statement("running", "INSERT HOLD")
        await env.in_phase(STATEMENTS, "running", "Running")
        await env.patch(SESSIONS, "s", change)
        await env.in_phase(SESSIONS, "s", "Draining")
        await env.create_statement("next", "INSERT 2")
        await env.in_phase(STATEMENTS, "next", "Initialized", "SessionNotReady")
        assert len(await env.driver_pods()) == 1
        env.ledger.release("running")
        await env.finished("running")
        await env.finished("next")
        config = env.kubelet.gateway_of("s").config
    assert config.incarnation == 2
    assert set(change.get("conf", {}).items()) <= set(config.spark_conf.items())


async def test_session_change_that_a_running_driver_can_take_over_keeps_the_driver(env: Environment) -> None:
    await env.create_class()
    await env.create_session()
    async with env.operator():
        await env.session_ready()
        await env.patch(SESSIONS, "s", {"idle": {"timeoutSeconds": 1000, "action": "Close"}})
        seen = await env.wait(SESSIONS, "s", "seen", lambda o: o["status"]["observedGeneration"] == 2)
        assert seen["status"]["phase"] == "Ready"
    assert len(env.kubelet.started) == 1


# --- drivers that are lost


@pytest.mark.parametrize("how", ["crash_driver", "remove_pod"])
async def test_lost_driver_ends_effects_and_repeats_reads(env: Environment, how: str) -> None:
    await env.create_class()
    await env.create_session()
    async with env.operator():
        await env.create_statement("effect", "INSERT HOLD")
        await env.create_statement("read", "SELECT HOLD")
        for name in ("effect", "read"):
            await env.in_phase(STATEMENTS, name, "Running")
        await getattr(env.kubelet, how)("s")
        await env.ended("effect", "Error", "SessionLost")
        env.ledger.release("read")
        again = await env.finished("read")
        session = await env.session_ready()
    assert again["status"]["attempt"] == 2
    assert len(env.ledger.ran("effect")) == 1
    assert len({e.operation_id for e in env.ledger.ran("read")}) == len(env.ledger.ran("read")) == 2
    assert session.config.incarnation == 2


async def test_insert_with_retry_on_session_loss_runs_again_after_a_driver_crash(env: Environment) -> None:
    await env.create_class()
    await env.create_session()
    async with env.operator():
        retry = {"limit": 1, "backoffSeconds": 0, "on": ["SessionLost"]}
        await env.create_statement("effect", "INSERT HOLD", retry=retry)
        await env.in_phase(STATEMENTS, "effect", "Running")
        await env.kubelet.crash_driver("s")
        env.ledger.release("effect")
        done = await env.finished("effect")
    assert done["status"]["attempt"] == 2


async def test_read_ends_with_the_second_lost_driver_and_its_session_goes_on(env: Environment) -> None:
    await env.create_class()
    await env.create_session()
    async with env.operator(maxDriverRestarts=0):
        await env.create_statement("read", "SELECT HOLD")
        pods = []
        for attempt in (1, 2):
            await env.reaches(STATEMENTS, "read", phase="Running", attempt=attempt)
            pods.append(env.kubelet.pod_of("s"))
            await env.kubelet.crash_driver("s")
        ended = await env.ended("read", "Error", "SessionLost")
        assert ended["status"]["lostDrivers"] == pods
        assert f"2 drivers were lost while the statement ran ({', '.join(pods)})" in message_of(ended)
        assert "target" not in message_of(ended)
        await env.create_statement("next")
        await env.finished("next")
        session = await env.get(SESSIONS, "s")
    assert (session["status"]["phase"], session["status"].get("restarts", 0)) == ("Ready", 0)


async def test_each_statement_counts_the_drivers_that_are_lost_while_it_runs(env: Environment) -> None:
    await env.create_class()
    await env.create_session()
    async with env.operator(maxDriverRestarts=0):
        retry = {"limit": 1, "backoffSeconds": 0, "on": ["SessionLost"]}
        await env.create_statement("read", "SELECT HOLD")
        await env.create_statement("retried", "INSERT HOLD", retry=retry)
        await env.create_statement("effect", "INSERT HOLD")
        for name in ("read", "retried", "effect"):
            await env.in_phase(STATEMENTS, name, "Running")
        await env.kubelet.crash_driver("s")
        await env.ended("effect", "Error", "SessionLost")
        await env.create_statement("later", "SELECT HOLD")
        for name, attempt in (("read", 2), ("retried", 2), ("later", 1)):
            await env.reaches(STATEMENTS, name, phase="Running", attempt=attempt)
        await env.kubelet.crash_driver("s")
        for name in ("read", "retried"):
            assert len((await env.ended(name, "Error", "SessionLost"))["status"]["lostDrivers"]) == 2
        env.ledger.release("later")
        done = await env.finished("later")
        await env.session_ready()
    assert (done["status"]["attempt"], len(done["status"]["lostDrivers"])) == (2, 1)


async def test_deleted_driver_is_not_counted_by_what_it_ran(env: Environment) -> None:
    await env.create_class()
    await env.create_session()
    async with env.operator():
        await env.create_statement("read", "SELECT HOLD")
        for attempt in (1, 2, 3):
            await env.reaches(STATEMENTS, "read", phase="Running", attempt=attempt)
            await env.kubelet.delete_driver("s")
        await env.reaches(STATEMENTS, "read", phase="Running", attempt=4)
        env.ledger.release("read")
        done = await env.finished("read")
    assert (done["status"]["attempt"], done["status"].get("lostDrivers", [])) == (4, [])


async def test_evicted_driver_is_counted_neither_by_what_it_ran_nor_by_its_session(env: Environment) -> None:
    await env.create_class()
    await env.create_session()
    async with env.operator(maxDriverRestarts=0):
        await env.create_statement("read", "SELECT HOLD")
        for attempt in (1, 2, 3):
            await env.reaches(STATEMENTS, "read", phase="Running", attempt=attempt)
            await env.kubelet.evict_driver("s")
        await env.reaches(STATEMENTS, "read", phase="Running", attempt=4)
        env.ledger.release("read")
        done = await env.finished("read")
    assert (done["status"]["attempt"], done["status"].get("lostDrivers", [])) == (4, [])


async def test_restarts_are_bounded_and_statements_wait_for_a_failed_session(env: Environment) -> None:
    await env.create_class()
    await env.create_session()
    async with env.operator(maxDriverRestarts=1):
        await env.session_ready()
        await env.kubelet.crash_driver("s")
        await env.reaches(SESSIONS, "s", phase="Ready", restarts=1)
        await env.kubelet.crash_driver("s")
        failed = await env.in_phase(SESSIONS, "s", "Failed", "MaxRestartsExceeded")
        assert "gave up after 1 restarts; the last loss was DriverLost: the driver ended" in message_of(failed)
        await env.create_statement("one")
        await env.in_phase(STATEMENTS, "one", "Initialized", "SessionNotReady")


@pytest.mark.parametrize("how", ["crash", "restart", "slow restart"])
async def test_lost_session_state_is_told(env: Environment, how: str) -> None:
    env.kubelet.plans["s"] = Plan(lingers_seconds=1 if how == "slow restart" else 0)
    await env.create_class()
    await env.create_session()
    async with env.operator():
        gateway = await env.session_ready()
        gateway.set_session_state()
        await env.create_statement("one")  # its end comes after that news in the same stream
        await env.finished("one")
        if how == "crash":
            await env.kubelet.crash_driver("s")
        else:
            await env.patch(SESSIONS, "s", {"restartNonce": "1"})
        await env.wait(SESSIONS, "s", "state lost", lambda o: condition(o, "SessionStateLost") == "True")

        async def told() -> bool:
            return "SessionStateLost" in await env.event_reasons("s")

        await env.until("an event tells it", told)
        await env.session_ready()


async def test_drained_driver_does_not_close_the_statements_of_a_living_session(env: Environment) -> None:
    """Somebody deletes the pod: the gateway closes what runs, but the session goes on."""
    await env.create_class()
    await env.create_session()
    async with env.operator():
        await env.create_statement("effect", "INSERT HOLD")
        await env.create_statement("read", "SELECT HOLD")
        for name in ("effect", "read"):
            await env.in_phase(STATEMENTS, name, "Running")
        await env.client.delete(PODS, env.namespace, env.kubelet.pod_of("s"))
        await env.ended("effect", "Error", "SessionLost")
        env.ledger.release("read")
        await env.finished("read")


async def test_token_and_certificate_stay_over_restarts(env: Environment) -> None:
    await env.create_class()
    session = await env.create_session()
    name = child_base("s", session["metadata"]["uid"])
    async with env.operator():
        await env.session_ready()
        first = (await env.get(SECRETS, name))["data"]
        await env.kubelet.crash_driver("s")
        await env.wait(SESSIONS, "s", "second driver", lambda o: o["status"]["driver"]["incarnation"] == 2)
        await env.session_ready()
        second = (await env.get(SECRETS, name))["data"]
    for file in ("token", "tls.crt", "tls.key"):
        assert first[file] == second[file]
    # A command line of any client takes it: it begins with no dash and has nothing that a shell reads.
    assert re.fullmatch("[0-9a-f]{64}", base64.b64decode(first["token"]).decode())
    incarnations = [json.loads(base64.b64decode(data["config.json"]))["incarnation"] for data in (first, second)]
    assert incarnations == [1, 2]
