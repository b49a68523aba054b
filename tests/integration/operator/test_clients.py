"""Clients of a driver, as an operator sees them: protocols that are opened, counts, idleness, and what a restart means to them."""

from __future__ import annotations

from typing import Any

import pytest

from sparksql.api.names import child_base
from sparksql.kube.resources import NETWORK_POLICIES, PODS, SERVICES, SESSIONS, STATEMENTS
from sparksql.wire.driver import ClientLimits
from tests.integration.operator.environment import Environment, message_of

OPEN = {"rest": False, "connect": True, "thrift": True}


def counts(obj: dict[str, Any]) -> tuple[int, int, int]:
    """Sessions of clients, running and queued statements as the status tells them."""
    status = obj.get("status", {})
    statements = status.get("statements", {})
    return status.get("clients", {}).get("sessions", 0), statements.get("running", 0), statements.get("queued", 0)


async def counted(env: Environment, sessions: int, running: int, queued: int) -> dict[str, Any]:
    return await env.wait(SESSIONS, "s", "counts", lambda o: counts(o) == (sessions, running, queued))


async def test_enabled_endpoints_get_ports_network_rules_and_addresses(env: Environment) -> None:
    bi = {"podSelector": {"matchLabels": {"app": "bi"}}}
    await env.create_class(networkPolicy={"clients": [bi]}, limits={"executionSeconds": 60})
    session = await env.create_session(endpoints=OPEN, statementTimeouts={"queueSeconds": 5}, maxQueuedStatements=7)
    base = child_base("s", session["metadata"]["uid"])
    async with env.operator():
        gateway = await env.session_ready()
        ready = await env.get(SESSIONS, "s")
    host = f"{base}.{env.namespace}.svc"
    assert ready["status"]["endpoints"] == {
        "connect": f"sc://{host}:15002/;use_ssl=true",
        "thrift": f"jdbc:hive2://{host}:10000/default;ssl=true",
    }
    on = gateway.config.endpoints
    assert (on.rest, on.connect, on.thrift, on.connect_port, on.thrift_port) == (False, True, True, 15002, 10000)
    limits = ClientLimits(queue_seconds=5, execution_seconds=60, max_execution_seconds=60, max_queued=7)
    assert gateway.config.clients == limits
    ports = (await env.get(SERVICES, base))["spec"]["ports"]
    assert {port["name"]: port["port"] for port in ports}.items() >= {("connect", 15002), ("thrift", 10000)}
    [container] = (await env.get(PODS, f"{base}-1"))["spec"]["containers"]
    assert {port["containerPort"] for port in container["ports"]} >= {8443, 15002, 10000}
    rules = (await env.get(NETWORK_POLICIES, base))["spec"]["ingress"]
    assert [{port["port"] for port in rule["ports"]} for rule in rules if bi in rule["from"]] == [{15002, 10000}]


async def test_endpoint_that_is_turned_off_again_is_closed_with_the_next_driver(env: Environment) -> None:
    await env.create_class()
    session = await env.create_session(endpoints=OPEN)
    base = child_base("s", session["metadata"]["uid"])
    async with env.operator():
        await env.session_ready()
        await env.patch(SESSIONS, "s", {"endpoints": None})
        await env.wait(SESSIONS, "s", "second driver", lambda o: o["status"]["driver"]["incarnation"] == 2)
        await env.session_ready()
        ready = await env.get(SESSIONS, "s")
    assert list(ready["status"]["endpoints"]) == ["rest"]
    ports = (await env.get(SERVICES, base))["spec"]["ports"]
    assert {port["port"] for port in ports} == {8443, 7078, 7079}


async def test_statements_of_both_kinds_are_counted_and_none_twice(env: Environment) -> None:
    await env.create_class()
    await env.create_session(maxConcurrentStatements=1)
    async with env.operator():
        gateway = await env.session_ready()
        await env.create_statement("running", "INSERT HOLD")
        await env.in_phase(STATEMENTS, "running", "Running")
        await env.create_statement("waits")
        gateway.set_clients(2, pending=3, running=1)
        await counted(env, 2, 2, 4)
        gateway.set_clients()
        await counted(env, 0, 1, 1)
        env.ledger.release("running")
        await env.finished("waits")


async def test_session_that_a_client_has_open_is_not_closed_as_idle(env: Environment) -> None:
    idle = {"timeoutSeconds": 2, "action": "Close"}
    await env.create_class()
    await env.create_session()
    async with env.operator():
        gateway = await env.session_ready()
        gateway.set_clients(1)
        await counted(env, 1, 0, 0)
        # Only now: before, the session may be idle for as long as it takes to open a client's.
        await env.patch(SESSIONS, "s", {"idle": idle})
        await env.wait(SESSIONS, "s", "timeout seen", lambda o: o["status"]["observedGeneration"] == 2)
        await env.create_session("unused", idle=idle)
        await env.in_phase(SESSIONS, "unused", "Closed", "IdleTimeout")
        assert (await env.get(SESSIONS, "s"))["status"]["phase"] == "Ready"
        gateway.set_clients()
        closed = await env.in_phase(SESSIONS, "s", "Closed", "IdleTimeout")
    assert "endpoints" not in closed["status"]


async def test_change_waits_for_what_clients_run_and_tells_that_their_sessions_end(env: Environment) -> None:
    await env.create_class()
    await env.create_session()
    async with env.operator():
        gateway = await env.session_ready()
        gateway.set_clients(2, running=1)
        await env.until("the operator is told of them", lambda: gateway.is_heard)
        await env.patch(SESSIONS, "s", {"conf": {"spark.sql.ansi.enabled": "true"}})
        await env.until("the driver takes nothing new", lambda: gateway.is_draining)
        drains = await env.in_phase(SESSIONS, "s", "Draining", "SpecChanged")
        assert "endpoints" not in drains["status"]
        waits = "waits for 1 running statements, 1 of them from clients"
        await env.wait(SESSIONS, "s", "waits", lambda o: message_of(o) == waits)
        assert len(await env.driver_pods()) == 1
        gateway.set_clients(2)
        again = await env.wait(SESSIONS, "s", "second driver", lambda o: o["status"]["driver"]["incarnation"] == 2)
        assert "clients" not in again["status"]

        async def told() -> bool:
            return "ClientSessionsClosed" in await env.event_reasons("s")

        await env.until("an event tells it", told)
        await env.session_ready()


async def test_session_message_counts_the_client_sessions_lost_with_a_driver(env: Environment) -> None:
    await env.create_class()
    await env.create_session()
    async with env.operator():
        gateway = await env.session_ready()
        gateway.set_clients(1)
        await counted(env, 1, 0, 0)
        await env.kubelet.crash_driver("s")
        await env.wait(SESSIONS, "s", "told", lambda o: "1 session of clients ended with it" in message_of(o))
        await env.wait(SESSIONS, "s", "second driver", lambda o: o["status"]["driver"]["incarnation"] == 2)
        await env.session_ready()


@pytest.mark.parametrize("key", ["spark.sql.gateway.session.max-num"])
async def test_statement_cannot_set_what_is_read_at_a_drivers_start(env: Environment, key: str) -> None:
    await env.create_class()
    await env.create_session(conf={key: "5"})
    async with env.operator():
        gateway = await env.session_ready()
        await env.create_statement("late", conf={key: "9"})
        ended = await env.ended("late", "Error", "NotAllowed")
    assert "read when a driver starts" in message_of(ended)
    assert gateway.config.spark_conf[key] == "5"
    assert env.ledger.ran("late") == []
