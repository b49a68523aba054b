"""Statements that wait: for their session, their dependencies, their turn; and what ends the wait.

The session's executors are behind a gate, so that what runs keeps running until a test opens it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.gate import Gate
from tests.support.harness import Object, Space, condition, phase, reason

NEEDS_A_TASK = "SELECT sum(id) FROM range(0, 100, 1, 2)"
SLOTS = 2


@pytest.fixture(scope="module")
def narrow(space: Space, gate: Gate) -> Space:
    """A session `main` behind the closed gate that runs two statements at a time and lets four wait."""
    gate.session(space, "main", maxConcurrentStatements=SLOTS, maxQueuedStatements=4)
    return space


@pytest.fixture(autouse=True)
def closed(space: Space, gate: Gate) -> Iterator[None]:
    """Each test finds the gate closed and leaves nothing that waits behind it."""
    yield
    left = [s for s in space.cluster.list("SqlStatement", space.name) if condition(s, "Finished") != "True"]
    for statement in left:
        space.cancel(statement["metadata"]["name"])
    for statement in left:
        space.cluster.wait_finished(space.name, statement["metadata"]["name"])
    gate.close(space)


@pytest.fixture
def busy(narrow: Space) -> list[str]:
    """Both slots taken by statements that cannot go on."""
    names = [narrow.statement(NEEDS_A_TASK) for _ in range(SLOTS)]
    for name in names:
        narrow.wait_phase(name, "Running")
    return names


def test_waiting_and_running_statements_are_reconciling_and_not_ready(narrow: Space, busy: list[str]) -> None:
    running = narrow.get(busy[0])
    waiting = narrow.wait_reason("SqlStatement", narrow.statement(NEEDS_A_TASK), "QueuedBehindStatements")
    assert (phase(running), phase(waiting)) == ("Running", "Initialized")
    for obj in (running, waiting):
        expected = {
            "Ready": "False",
            "Reconciling": "True",
            "Stalled": "False",
            "Succeeded": "Unknown",
            "Finished": "False",
        }
        assert {c["type"]: c["status"] for c in obj["status"]["conditions"]} == expected

    def is_counted(obj: Object | None) -> bool:
        return (obj or {})["status"].get("statements") == {"running": 2, "queued": 1}

    narrow.cluster.wait("SqlSession", narrow.name, "main", is_counted, "counting two running and one queued")


def test_priority_then_age_decide_which_waiting_statement_runs_next(narrow: Space, busy: list[str]) -> None:
    late = [narrow.statement(NEEDS_A_TASK, name=f"plain-{i}") for i in range(2)]
    urgent = narrow.statement(NEEDS_A_TASK, name="urgent", priority=10)
    for name in (*late, urgent):
        narrow.wait_reason("SqlStatement", name, "QueuedBehindStatements")
    narrow.cancel(busy[0])
    narrow.wait_phase(urgent, "Running")
    assert [phase(narrow.get(name)) for name in late] == ["Initialized", "Initialized"]
    narrow.cancel(busy[1])  # one slot, so that one of them is chosen
    narrow.wait_phase(late[0], "Running")
    assert phase(narrow.get(late[1])) == "Initialized"


def test_the_queue_has_an_end(narrow: Space, busy: list[str]) -> None:
    names = [narrow.statement(NEEDS_A_TASK) for _ in range(5)]

    def refused() -> list[str]:
        return [name for name in names if reason(narrow.get(name)) == "LimitExceeded"]

    narrow.cluster.wait_until(lambda: bool(refused()), "refused")
    assert len(refused()) == 1
    assert phase(narrow.get(refused()[0])) == "Error"
    for name in set(names) - set(refused()):
        assert phase(narrow.wait_reason("SqlStatement", name, "QueuedBehindStatements")) == "Initialized"


def test_a_waiting_and_a_running_statement_are_canceled_by_the_user(narrow: Space, busy: list[str]) -> None:
    waiting = narrow.statement(NEEDS_A_TASK)
    narrow.wait_reason("SqlStatement", waiting, "QueuedBehindStatements")
    for name in (waiting, busy[0]):
        narrow.cancel(name)
        ended = narrow.cluster.wait_finished(narrow.name, name)
        assert (phase(ended), reason(ended)) == ("Canceled", "CanceledByUser"), ended["status"]


def test_statement_canceled_when_it_is_made_never_reaches_the_driver(narrow: Space, busy: list[str]) -> None:
    name = narrow.statement("SELECT 1", desiredState="Canceled")
    ended = narrow.cluster.wait_finished(narrow.name, name)
    assert (phase(ended), reason(ended)) == ("Canceled", "CanceledByUser")
    assert "operationId" not in ended["status"]


def test_waiting_statement_ends_at_its_queue_timeout(narrow: Space, busy: list[str]) -> None:
    ended = narrow.run(NEEDS_A_TASK, timeouts={"queueSeconds": 2})
    assert (phase(ended), reason(ended)) == ("TimedOut", "QueueTimeout"), ended["status"]
    assert condition(ended, "Stalled") == "True"
    assert "startTime" not in ended["status"]


def test_running_statement_ends_at_its_execution_timeout(narrow: Space) -> None:
    ended = narrow.run(NEEDS_A_TASK, timeouts={"executionSeconds": 2})
    assert (phase(ended), reason(ended)) == ("TimedOut", "ExecutionTimeout"), ended["status"]
    # So says the driver, whose own time it was; the operator, which would ask for it later, knows of no limit in its words.
    assert ended["status"]["error"]["message"] == "the statement ran longer than 2 s", ended["status"]


def test_a_session_that_does_not_exist_is_waited_for(space: Space) -> None:
    name = space.statement("SELECT 1", session="nobody", timeouts={"queueSeconds": 3})
    space.wait_reason("SqlStatement", name, "SessionNotReady")
    ended = space.cluster.wait_finished(space.name, name)
    assert (phase(ended), reason(ended)) == ("TimedOut", "QueueTimeout")


def test_statement_waits_for_its_dependencies(narrow: Space, gate: Gate) -> None:
    second = narrow.statement("SELECT 2", dependsOn=[{"name": "dep-first"}])
    narrow.wait_reason("SqlStatement", second, "WaitingForDependencies")
    assert "dep-first (does not exist)" in (condition(narrow.get(second), "Ready", "message") or "")
    narrow.statement("SELECT 1", name="dep-first")
    gate.open()
    ended = narrow.cluster.wait_finished(narrow.name, second)
    first = narrow.get("dep-first")
    assert phase(ended) == phase(first) == "Finished"
    assert ended["status"]["startTime"] >= first["status"]["completionTime"]


def test_a_failed_dependency_fails_its_dependants(narrow: Space) -> None:
    broken = narrow.statement("SELECT 1 FROM not_there")
    middle = narrow.statement("SELECT 2", dependsOn=[{"name": broken}])
    last = narrow.run("SELECT 3", dependsOn=[{"name": middle}])
    assert [reason(narrow.get(name)) for name in (broken, middle)] == ["SqlError", "DependencyFailed"]
    assert (phase(last), reason(last)) == ("Error", "DependencyFailed")
    assert middle in (condition(last, "Ready", "message") or "")


def test_a_cycle_is_told_to_every_member(narrow: Space) -> None:
    names = ["cycle-a", "cycle-b", "cycle-c"]
    for name, before in zip(names, (*names[1:], names[0]), strict=True):
        narrow.statement("SELECT 1", name=name, dependsOn=[{"name": before}])
    ended = [narrow.cluster.wait_finished(narrow.name, name) for name in names]
    assert {(phase(obj), reason(obj)) for obj in ended} == {("Error", "DependencyCycle")}


def test_a_nonce_changed_during_a_run_starts_one_more(narrow: Space, gate: Gate) -> None:
    name = narrow.statement(NEEDS_A_TASK)
    narrow.wait_phase(name, "Running")
    for nonce in ("a", "b", "c"):
        narrow.change("SqlStatement", name, runNonce=nonce)
    assert narrow.get(name)["status"]["run"] == 1
    gate.open()

    def has_run_twice(obj: Object | None) -> bool:
        return (obj or {})["status"]["run"] == 2 and condition(obj, "Finished") == "True"

    ended = narrow.cluster.wait("SqlStatement", narrow.name, name, has_run_twice, "at the end of run 2")
    assert ended["status"]["observedRunNonce"] == "c"
