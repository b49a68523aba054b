"""Drivers of other versions than the operator: what runs goes on, nothing restarts, and the session says so."""

from __future__ import annotations

from typing import Any

import pytest

from sparksql.kube.resources import EVENTS, SESSIONS, STATEMENTS
from sparksql.wire import versions
from sparksql.wire.versions import OLDEST_OPERATOR, PROTOCOL_VERSION
from tests.integration.operator.environment import Environment, message_of

Object = dict[str, Any]
NEWER = (PROTOCOL_VERSION + 1, OLDEST_OPERATOR)
TOO_NEW = (PROTOCOL_VERSION + 2, PROTOCOL_VERSION + 1)


def skew(session: Object) -> Object | None:
    return next((c for c in session["status"]["conditions"] if c["type"] == "VersionSkew"), None)


async def says(world: Environment, reason: str) -> Object:
    """The session once its condition has this reason."""
    found = await world.wait(SESSIONS, "s", f"says {reason}", lambda o: (skew(o) or {}).get("reason") == reason)

    async def is_told() -> bool:
        return reason in await world.event_reasons("s")

    await world.until("an event says so", is_told)
    return found


async def test_driver_of_a_later_version_that_says_more_than_is_known_is_worked_with(world: Environment) -> None:
    world.ledger.versions, world.ledger.says_more = NEWER, True
    await world.create_class()
    await world.create_session()
    async with world.operator():
        await world.session_ready()
        session = await says(world, "NewerDriver")
        await world.create_statement("one", "INSERT HOLD")
        await world.in_phase(STATEMENTS, "one", "Running")
        world.ledger.release("one")
        await world.finished("one")
    assert f"version {PROTOCOL_VERSION + 1}" in (skew(session) or {})["message"]
    assert len(world.ledger.ran("one")) == 1


async def test_operator_upgrade_keeps_drivers_and_their_running_statements(
    world: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.create_class()
    before = await world.create_session()
    async with world.operator():
        await world.session_ready()
        await world.create_statement("one", "INSERT HOLD")
        running = await world.in_phase(STATEMENTS, "one", "Running")
        before = await world.get(SESSIONS, "s")
        assert skew(before) is None
    monkeypatch.setattr(versions, "PROTOCOL_VERSION", PROTOCOL_VERSION + 1)
    async with world.operator():
        await says(world, "OlderDriver")
        world.ledger.release("one")
        done = await world.finished("one")
        await world.create_statement("two", "INSERT")
        await world.finished("two")
        after = await world.get(SESSIONS, "s")
    async with world.operator():  # and another one of its version: it is told once
        await world.create_statement("three", "INSERT")
        await world.finished("three")
        events = [
            e["count"]
            for e in (await world.client.list(EVENTS, world.namespace)).items
            if e["reason"] == "OlderDriver" and e["involvedObject"]["name"] == "s"
        ]
    assert events == [1]
    assert (after["status"]["phase"], after["status"]["driver"]) == ("Ready", before["status"]["driver"])
    assert done["status"]["attempt"] == running["status"]["attempt"] == 1
    assert [len(world.ledger.ran(name)) for name in ("one", "two", "three")] == [1, 1, 1]
    assert len(world.kubelet.started) == 1


async def test_incompatible_driver_gets_no_new_statement_and_keeps_the_running_one(
    world: Environment,
) -> None:
    await world.create_class()
    await world.create_session()
    async with world.operator():
        gateway = await world.session_ready()
        await world.create_statement("one", "INSERT HOLD")
        await world.in_phase(STATEMENTS, "one", "Running")
    world.ledger.versions = TOO_NEW
    async with world.operator():
        await says(world, "IncompatibleDriver")
        await world.create_statement("two", "INSERT")
        waits = await world.wait(STATEMENTS, "two", "says why", lambda o: "upgrade the operator" in message_of(o))
        world.ledger.release("one")
        await world.finished("one")
        assert (await world.get(SESSIONS, "s"))["status"]["phase"] == "Ready"
        assert waits["status"]["phase"] == "Initialized"
        assert world.ledger.ran("two") == []
        await world.patch(SESSIONS, "s", {"restartNonce": "1"})  # the next driver is of the operator's version
        await world.until("it is let go", lambda: gateway.pod not in world.kubelet.drivers)
        world.ledger.versions = (PROTOCOL_VERSION, OLDEST_OPERATOR)
        await world.finished("two")
