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


async def test_stop_waits_for_running_statements_and_start_makes_a_new_driver(world: Environment) -> None:
    await world.create_class()
    await world.create_session()
    async with world.operator():
        await world.create_statement("running", "INSERT HOLD")
        await world.in_phase(STATEMENTS, "running", "Running")
        await world.patch(SESSIONS, "s", {"desiredState": "Stopped"})
        await world.in_phase(SESSIONS, "s", "Draining", "Stopped")
        await world.create_statement("waits")
        await world.in_phase(STATEMENTS, "waits", "Initialized", "SessionNotReady")
        world.ledger.release("running")
        await world.finished("running")
        await world.in_phase(SESSIONS, "s", "Stopped")
        assert await world.driver_pods() == []
        await world.patch(SESSIONS, "s", {"desiredState": "Running"})
        await world.finished("waits")
    assert [name[-2:] for name in world.kubelet.started] == ["-1", "-2"]


async def test_session_that_is_wanted_again_while_it_stops_starts_again(world: Environment) -> None:
    await world.create_class()
    await world.create_session()
    async with world.operator():
        await world.create_statement("running", "INSERT HOLD")
        await world.in_phase(STATEMENTS, "running", "Running")
        await world.patch(SESSIONS, "s", {"desiredState": "Stopped"})
        await world.in_phase(SESSIONS, "s", "Draining")
        await world.patch(SESSIONS, "s", {"desiredState": "Running"})
        world.ledger.release("running")
        await world.wait(SESSIONS, "s", "second driver", lambda o: o["status"]["driver"]["incarnation"] == 2)
        await world.session_ready()


@pytest.mark.parametrize("change", [{"restartNonce": "1"}, {"conf": {"spark.sql.ansi.enabled": "true"}}])
async def test_change_that_needs_a_new_driver_drains_the_old_one_first(
    world: Environment, change: dict[str, Any]
) -> None:
    await world.create_class()
    await world.create_session()
    async with world.operator():
        await world.create_statement("running", "INSERT HOLD")
        await world.in_phase(STATEMENTS, "running", "Running")
        await world.patch(SESSIONS, "s", change)
        await world.in_phase(SESSIONS, "s", "Draining")
        await world.create_statement("next", "INSERT 2")
        await world.in_phase(STATEMENTS, "next", "Initialized", "SessionNotReady")
        assert len(await world.driver_pods()) == 1
        world.ledger.release("running")
        await world.finished("running")
        await world.finished("next")
        config = world.kubelet.gateway_of("s").config
    assert config.incarnation == 2
    assert set(change.get("conf", {}).items()) <= set(config.spark_conf.items())


async def test_session_change_that_a_running_driver_can_take_over_keeps_the_driver(world: Environment) -> None:
    await world.create_class()
    await world.create_session()
    async with world.operator():
        await world.session_ready()
        await world.patch(SESSIONS, "s", {"idle": {"timeoutSeconds": 1000, "action": "Close"}})
        seen = await world.wait(SESSIONS, "s", "seen", lambda o: o["status"]["observedGeneration"] == 2)
        assert seen["status"]["phase"] == "Ready"
    assert len(world.kubelet.started) == 1


async def test_hibernation_is_told_to_be_missing(world: Environment) -> None:
    await world.create_class()
    await world.create_session(idle={"timeoutSeconds": 1, "action": "Hibernate"})
    async with world.operator():
        ready = await world.in_phase(SESSIONS, "s", "Ready")
    reasons = {c["type"]: c["reason"] for c in ready["status"]["conditions"]}
    assert reasons["Hibernation"] == "HibernateNotImplemented"


# --- drivers that are lost


@pytest.mark.parametrize("how", ["crash_driver", "remove_pod"])
async def test_lost_driver_ends_effects_and_repeats_reads(world: Environment, how: str) -> None:
    await world.create_class()
    await world.create_session()
    async with world.operator():
        await world.create_statement("effect", "INSERT HOLD")
        await world.create_statement("read", "SELECT HOLD")
        for name in ("effect", "read"):
            await world.in_phase(STATEMENTS, name, "Running")
        await getattr(world.kubelet, how)("s")
        await world.ended("effect", "Error", "SessionLost")
        world.ledger.release("read")
        again = await world.finished("read")
        session = await world.session_ready()
    assert again["status"]["attempt"] == 2
    assert len(world.ledger.ran("effect")) == 1
    assert len({e.operation_id for e in world.ledger.ran("read")}) == len(world.ledger.ran("read")) == 2
    assert session.config.incarnation == 2


async def test_insert_with_retry_on_session_loss_runs_again_after_a_driver_crash(world: Environment) -> None:
    await world.create_class()
    await world.create_session()
    async with world.operator():
        retry = {"limit": 1, "backoffSeconds": 0, "on": ["SessionLost"]}
        await world.create_statement("effect", "INSERT HOLD", retry=retry)
        await world.in_phase(STATEMENTS, "effect", "Running")
        await world.kubelet.crash_driver("s")
        world.ledger.release("effect")
        done = await world.finished("effect")
    assert done["status"]["attempt"] == 2


async def test_read_gives_up_after_three_attempts(world: Environment) -> None:
    await world.create_class()
    await world.create_session()
    async with world.operator():
        await world.create_statement("read", "SELECT HOLD")
        for attempt in (1, 2, 3):
            await world.reaches(STATEMENTS, "read", phase="Running", attempt=attempt)
            await world.kubelet.crash_driver("s")
        await world.ended("read", "Error", "SessionLost")


async def test_restarts_are_bounded_and_statements_wait_for_a_failed_session(world: Environment) -> None:
    await world.create_class()
    await world.create_session()
    async with world.operator(maxDriverRestarts=1):
        await world.create_statement("one", "SELECT HOLD")
        for attempt in (1, 2):
            await world.reaches(STATEMENTS, "one", phase="Running", attempt=attempt)
            await world.kubelet.crash_driver("s")
        failed = await world.in_phase(SESSIONS, "s", "Failed", "MaxRestartsExceeded")
        assert "gave up after 1 restarts; the last loss was DriverLost: the driver ended" in message_of(failed)
        await world.reaches(STATEMENTS, "one", phase="Initialized", attempt=3)
        await world.in_phase(STATEMENTS, "one", "Initialized", "SessionNotReady")


@pytest.mark.parametrize("how", ["crash", "restart", "slow restart"])
async def test_lost_session_state_is_told(world: Environment, how: str) -> None:
    world.kubelet.plans["s"] = Plan(lingers_seconds=1 if how == "slow restart" else 0)
    await world.create_class()
    await world.create_session()
    async with world.operator():
        gateway = await world.session_ready()
        gateway.set_session_state()
        await world.create_statement("one")  # its end comes after that news in the same stream
        await world.finished("one")
        if how == "crash":
            await world.kubelet.crash_driver("s")
        else:
            await world.patch(SESSIONS, "s", {"restartNonce": "1"})
        await world.wait(SESSIONS, "s", "state lost", lambda o: condition(o, "SessionStateLost") == "True")

        async def told() -> bool:
            return "SessionStateLost" in await world.event_reasons("s")

        await world.until("an event tells it", told)
        await world.session_ready()


async def test_drained_driver_does_not_close_the_statements_of_a_living_session(world: Environment) -> None:
    """Somebody deletes the pod: the gateway closes what runs, but the session goes on."""
    await world.create_class()
    await world.create_session()
    async with world.operator():
        await world.create_statement("effect", "INSERT HOLD")
        await world.create_statement("read", "SELECT HOLD")
        for name in ("effect", "read"):
            await world.in_phase(STATEMENTS, name, "Running")
        await world.client.delete(PODS, world.namespace, world.kubelet.pod_of("s"))
        await world.ended("effect", "Error", "SessionLost")
        world.ledger.release("read")
        await world.finished("read")


async def test_token_and_certificate_stay_over_restarts(world: Environment) -> None:
    await world.create_class()
    session = await world.create_session()
    name = child_base("s", session["metadata"]["uid"])
    async with world.operator():
        await world.session_ready()
        first = (await world.get(SECRETS, name))["data"]
        await world.kubelet.crash_driver("s")
        await world.wait(SESSIONS, "s", "second driver", lambda o: o["status"]["driver"]["incarnation"] == 2)
        await world.session_ready()
        second = (await world.get(SECRETS, name))["data"]
    for file in ("token", "tls.crt", "tls.key"):
        assert first[file] == second[file]
    # A command line of any client takes it: it begins with no dash and has nothing that a shell reads.
    assert re.fullmatch("[0-9a-f]{64}", base64.b64decode(first["token"]).decode())
    incarnations = [json.loads(base64.b64decode(data["config.json"]))["incarnation"] for data in (first, second)]
    assert incarnations == [1, 2]
