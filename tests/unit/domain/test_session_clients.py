"""Clients of a driver: they keep its session from being idle, are counted, are waited for, and are told when they are cut off."""

from __future__ import annotations

from typing import Any

import pytest

from sparksql.api.names import gateway_server_name
from sparksql.api.reasons import Reason
from sparksql.api.session import ClientCounts, EndpointStatus, FrontendAddress, SqlSession, StatementCounts
from sparksql.api.session import SessionPhase as Phase
from sparksql.api.session_class import Limits
from sparksql.api.settings import SessionSettings
from sparksql.domain.session.decide import decide
from sparksql.domain.session.resolve import Resolved, client_limits
from sparksql.domain.session.snapshot import Command, Deadlines, Decision
from sparksql.domain.violation import Violation
from sparksql.wire.control import GatewayState
from sparksql.wire.driver import ClientLimits, FrontendPort
from tests.unit.domain.builders.classes import session_class
from tests.unit.domain.builders.conditions import reason_of
from tests.unit.domain.builders.objects import NOW, removed, seconds, with_spec, with_status
from tests.unit.domain.builders.sessions import (
    SESSION_UID,
    draining,
    gateway,
    pod,
    ready,
    resolved,
    session,
    session_snapshot,
    starting,
)

CLOSE_AFTER_A_MINUTE = {"timeoutSeconds": 60, "action": "Close"}
RESTART = {"restartNonce": "2"}
HOST = gateway_server_name("analytics", SESSION_UID, "team-a")


def at(obj: SqlSession, count: float, *, state: GatewayState = GatewayState.READY, **word: Any) -> Decision:
    """Decision on a session whose driver says `word` of its clients, `count` seconds after NOW."""
    facts = {name: word.pop(name) for name in ("running", "queued") if name in word}
    return decide(
        session_snapshot(obj, now=NOW + seconds(count), pod=pod(obj), gateway=gateway(state, **word), **facts)
    )


def ready_with(sessions: int, obj: SqlSession | None = None) -> SqlSession:
    """A ready session whose status knows of `sessions` of clients."""
    obj = ready(obj)
    return with_status(obj, at(obj, 10, client_sessions=sessions))


# --- endpoints


@pytest.mark.parametrize(
    ("endpoints", "told"),
    [
        ({}, {"rest": f"https://{HOST}:8443"}),
        ({"rest": False, "connect": True}, {"connect": f"sc://{HOST}:15002/;use_ssl=true"}),
        ({"rest": False, "thrift": True}, {"thrift": f"jdbc:hive2://{HOST}:10000/default;ssl=true"}),
        ({"rest": False}, {}),
    ],
)
def test_a_ready_session_tells_where_its_endpoints_are(endpoints: dict[str, bool], told: dict[str, str]) -> None:
    assert ready(session(endpoints=endpoints)).status.endpoints == EndpointStatus(**told)


def test_endpoints_are_those_that_the_driver_was_started_with() -> None:
    obj = starting(session())
    klass = session_class(defaults={"endpoints": {"thrift": True}})
    for resolution in (resolved(obj, klass), Violation(Reason.CLASS_NOT_FOUND, "x")):
        decision = decide(session_snapshot(obj, pod=pod(obj), gateway=gateway(), resolution=resolution))
        assert decision.status.phase is Phase.READY
        assert decision.status.endpoints == EndpointStatus(rest=f"https://{HOST}:8443")


def test_a_frontend_of_the_class_has_the_address_of_the_driver_that_was_started_with_it() -> None:
    klass = session_class(frontends=[{"name": "lines", "port": 7777}])
    obj = session(endpoints={"rest": False})
    obj = with_status(obj, decide(session_snapshot(obj, resolution=resolved(obj, klass))))
    for later in (klass, session_class()):
        facts = {"pod": pod(obj), "gateway": gateway(), "resolution": resolved(obj, later)}
        told = decide(session_snapshot(obj, **facts)).status.endpoints
        assert told == EndpointStatus(frontends=(FrontendAddress(name="lines", address=f"{HOST}:7777"),))
    made = resolved(obj, klass)
    assert isinstance(made, Resolved)
    assert made.effective.endpoints.frontends == (FrontendPort(name="lines", port=7777),)


@pytest.mark.parametrize("how", ["drains", "lost", "deleted"])
def test_no_address_is_told_where_nobody_answers(how: str) -> None:
    obj = ready_with(1)
    match how:
        case "drains":
            decision = at(with_spec(obj, **RESTART), 20)
        case "lost":
            decision = decide(session_snapshot(obj, now=NOW + seconds(20), gateway=gateway()))
        case _:
            decision = at(removed(obj, NOW), 1)
    assert obj.status.endpoints is not None
    assert decision.status.endpoints is None


# --- counts


def test_statements_of_objects_and_of_clients_are_counted_once_each() -> None:
    obj = ready()  # two objects are among the driver's own seven
    word = gateway(pending=3, running=4, client_sessions=2, client_pending=2, client_running=3)
    status = decide(
        session_snapshot(obj, now=NOW + seconds(10), pod=pod(obj), gateway=word, running=2, queued=5)
    ).status
    assert (status.statements, status.clients) == (StatementCounts(running=5, queued=7), ClientCounts(sessions=2))


def test_clients_are_counted_at_most_every_five_seconds() -> None:
    obj = ready()
    early = at(obj, 3, client_sessions=1)
    assert (early.status.clients, early.requeue_after) == (ClientCounts(), 2.0)
    assert at(obj, 5, client_sessions=1).status.clients == ClientCounts(sessions=1)


def test_client_counts_of_a_session_are_kept_until_the_driver_answers() -> None:
    """An operator that has just started has not heard it yet."""
    obj = ready_with(2, session(idle=CLOSE_AFTER_A_MINUTE))
    decision = decide(session_snapshot(obj, now=NOW + seconds(500), pod=pod(obj), gateway=None))
    assert (decision.status.phase, decision.status.clients) == (Phase.READY, ClientCounts(sessions=2))


def test_a_session_without_a_driver_has_no_clients() -> None:
    obj = draining(with_spec(ready_with(2), desiredState="Stopped"), now=NOW + seconds(20))
    stopped = decide(session_snapshot(obj, now=NOW + seconds(30), gateway=gateway(client_sessions=2, client_running=1)))
    assert stopped.status.phase is Phase.STOPPED
    assert (stopped.status.statements, stopped.status.clients) == (StatementCounts(), None)


# --- idleness


@pytest.mark.parametrize("word", [{"client_sessions": 1}, {"client_sessions": 1, "client_running": 1}])
def test_a_session_that_a_client_has_open_is_not_idle(word: dict[str, int]) -> None:
    obj = ready(session(idle=CLOSE_AFTER_A_MINUTE))
    for minute in range(1, 10):
        decision = at(obj, 60 * minute, **word)
        assert decision.status.phase is Phase.READY
        assert decision.requeue_after is not None and decision.requeue_after <= 60
        obj = with_status(obj, decision)
    assert obj.status.last_activity_time == NOW + seconds(540)


def test_idle_time_counts_from_the_end_of_the_last_client() -> None:
    obj = ready_with(1, session(idle=CLOSE_AFTER_A_MINUTE))
    obj = with_status(obj, at(obj, 200))  # its counters are set right first
    assert (obj.status.phase, obj.status.clients) == (Phase.READY, ClientCounts())
    assert at(obj, 259).status.phase is Phase.READY
    over = at(obj, 260)
    assert (over.status.phase, reason_of(over.status)) == (Phase.DRAINING, Reason.IDLE_TIMEOUT)


# --- drain


def test_a_change_waits_for_clients_statements_up_to_the_deadline() -> None:
    obj = draining(with_spec(ready(), **RESTART))
    word = {"client_sessions": 1, "client_pending": 1, "client_running": 2}
    waits = at(obj, 5, **word)
    assert waits.commands == (Command.DRAIN_DRIVER,)
    assert waits.status.message == "waits for 3 running statements, 3 of them from clients"
    late = at(obj, Deadlines().drain_seconds, state=GatewayState.DRAINING, **word)
    assert late.commands == (Command.DELETE_DRIVER,)


def test_clients_go_on_while_objects_run() -> None:
    obj = draining(with_spec(ready(), **RESTART))
    waits = at(obj, 5, running=1, client_sessions=1, client_running=1)
    assert (waits.status.phase, waits.commands) == (Phase.DRAINING, ())
    assert waits.status.message == "waits for 2 running statements, 1 of them from clients"


def test_driver_with_clients_is_deleted_only_once_it_drains_and_reports_them_idle() -> None:
    """Counts are told with delay: before it drains a client may have begun what is not counted yet."""
    obj = draining(with_spec(ready(), **RESTART))
    assert at(obj, 1, client_sessions=1).commands == (Command.DRAIN_DRIVER,)
    assert at(obj, 2, state=GatewayState.DRAINING, client_sessions=1).commands == (Command.DELETE_DRIVER,)
    assert at(obj, 1).commands == (Command.DELETE_DRIVER,)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (RESTART, Reason.RESTART_REQUESTED),
        ({"desiredState": "Stopped"}, Reason.STOPPED),
        ({"conf": {"spark.sql.ansi.enabled": "true"}}, Reason.SPEC_CHANGED),
    ],
)
def test_clients_that_are_cut_off_are_told_once(change: dict[str, Any], reason: Reason) -> None:
    obj = with_spec(ready_with(1), **change)
    first = at(obj, 20, client_sessions=3)
    assert [event.reason for event in first.events] == [reason, Reason.CLIENT_SESSIONS_CLOSED]
    assert "3 sessions of clients end with the driver" in (first.status.message or "")
    assert first.status.clients == ClientCounts(sessions=3)
    obj = with_status(obj, first)
    for state in (GatewayState.READY, GatewayState.DRAINING):
        assert at(obj, 21, state=state, client_sessions=3).events == ()


def test_session_reports_clients_of_a_lost_driver_even_if_the_driver_closed_them() -> None:
    """A pod that somebody deletes ends its clients before it goes, and says so with its last word."""
    obj = ready_with(1)
    gone = decide(session_snapshot(obj, now=NOW + seconds(20), gateway=gateway(GatewayState.DRAINING)))
    assert "1 session of clients ended with it" in (gone.status.message or "")
    assert Reason.CLIENT_SESSIONS_CLOSED in [event.reason for event in gone.events]
    calm = decide(session_snapshot(ready(), now=NOW + seconds(20), gateway=gateway()))
    assert [event.reason for event in calm.events] == [Reason.DRIVER_LOST]


# --- limits


@pytest.mark.parametrize(
    ("settings", "limits", "expected"),
    [
        ({}, {}, ClientLimits(max_queued=2**31 - 1)),
        (
            {"statementTimeouts": {"queueSeconds": 5, "executionSeconds": 7}, "maxQueuedStatements": 9},
            {},
            ClientLimits(queue_seconds=5, execution_seconds=7, max_queued=9),
        ),
        (
            {},
            {"executionSeconds": 60},
            ClientLimits(execution_seconds=60, max_execution_seconds=60, max_queued=2**31 - 1),
        ),
        (
            {"statementTimeouts": {"executionSeconds": 90}, "maxQueuedStatements": 9},
            {"executionSeconds": 60, "queuedStatementsPerSession": 3},
            ClientLimits(execution_seconds=60, max_execution_seconds=60, max_queued=3),
        ),
        ({"maxQueuedStatements": 0}, {}, ClientLimits(max_queued=1)),
    ],
)
def test_clients_are_held_to_what_objects_are(
    settings: dict[str, Any], limits: dict[str, Any], expected: ClientLimits
) -> None:
    assert client_limits(SessionSettings.parse(settings), Limits.parse(limits)) == expected


def test_limits_of_clients_are_those_of_the_merged_layers() -> None:
    made = resolved(session(), session_class(defaults={"statementTimeouts": {"queueSeconds": 5}}))
    assert isinstance(made, Resolved)
    assert client_limits(made.settings, Limits()).queue_seconds == 5
