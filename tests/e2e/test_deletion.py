"""Deleting any object in any state ends within its deadline, and leaves nothing behind."""

from __future__ import annotations

import pytest

from tests.e2e.gate import Gate
from tests.support.harness import Classes, Cluster, Object, Space, condition, phase, reason

NEEDS_A_TASK = "SELECT sum(id) FROM range(0, 100, 1, 2)"
STATEMENT_SECONDS = 15.0
SESSION_SECONDS = 30.0
NAMESPACE_SECONDS = 90.0
# The deadlines are the operator's, which keeps them by its own clock; on a loaded machine that is seen here much later.
MARGIN = 120.0
NOWHERE = {"driver": {"spec": {"nodeSelector": {"e2e.sparksql.dev/no-such-node": "true"}}}}


def delete(cluster: Cluster, kind: str, namespace: str, name: str, deadline: float) -> None:
    """Deletes the object and waits until it is gone."""
    cluster.delete(kind, namespace, name)
    cluster.wait_gone(kind, namespace, name, deadline + MARGIN)


def pods_of(space: Space, session: str) -> list[Object]:
    return space.cluster.list("Pod", space.name, f"sparksql.dev/session={session}")


def test_a_statement_in_any_state(gated: Space, gate: Gate, cluster: Cluster) -> None:
    names = {
        "no-session": gated.statement("SELECT 1", session="nobody"),
        "ended": gated.statement("VALUES (1)", session="gated"),
        "failed": gated.statement("SELECT nothing", session="gated"),
        "canceled": gated.statement("SELECT 1", session="gated", desiredState="Canceled"),
    }
    for state in ("ended", "failed", "canceled"):
        cluster.wait_finished(gated.name, names[state])
    names |= {f"running-{i}": gated.statement(NEEDS_A_TASK, session="gated") for i in range(4)}
    for i in range(4):
        gated.wait_phase(names[f"running-{i}"], "Running")
    names["queued"] = gated.statement(NEEDS_A_TASK, session="gated")
    gated.wait_reason("SqlStatement", names["queued"], "QueuedBehindStatements")
    names["dependent"] = gated.statement("SELECT 1", session="gated", dependsOn=[{"name": names["queued"]}])
    gated.wait_reason("SqlStatement", names["dependent"], "WaitingForDependencies")
    for name in names.values():
        cluster.delete("SqlStatement", gated.name, name)
    for state, name in names.items():
        seconds = STATEMENT_SECONDS + MARGIN
        cluster.wait("SqlStatement", gated.name, name, lambda o: o is None, f"gone ({state})", seconds)
    # The slots are free again.
    gate.open()
    assert gated.rows(NEEDS_A_TASK, session="gated") == [["4950"]]
    gate.close(gated)


def test_deleted_statement_that_was_just_made_goes_in_time(gated: Space, cluster: Cluster) -> None:
    for _ in range(5):
        delete(cluster, "SqlStatement", gated.name, gated.statement(NEEDS_A_TASK, session="gated"), STATEMENT_SECONDS)


def test_deleted_session_with_running_statements_goes_in_time(space: Space, gate: Gate, cluster: Cluster) -> None:
    gate.session(space, "working", maxConcurrentStatements=1)
    running = space.statement(NEEDS_A_TASK, session="working")
    space.wait_phase(running, "Running")
    queued = space.statement(NEEDS_A_TASK, session="working")
    space.wait_reason("SqlStatement", queued, "QueuedBehindStatements")
    delete(cluster, "SqlSession", space.name, "working", SESSION_SECONDS)
    for name in (running, queued):
        ended = space.get(name)  # ended before its session was gone
        assert (phase(ended), reason(ended)) == ("Closed", "SessionClosed"), ended["status"]
        assert condition(ended, "Stalled") == "True"
    cluster.wait_until(lambda: not pods_of(space, "working"), "without pods", 120, lambda: pods_of(space, "working"))


@pytest.mark.thorough
def test_deleted_session_that_drains_goes_in_time(space: Space, gate: Gate, cluster: Cluster) -> None:
    gate.session(space, "draining")
    name = space.statement(NEEDS_A_TASK, session="draining")
    space.wait_phase(name, "Running")
    space.change("SqlSession", "draining", restartNonce="1")
    space.wait_session("draining", "Draining")
    delete(cluster, "SqlSession", space.name, "draining", SESSION_SECONDS)
    assert phase(space.get(name)) == "Closed"


@pytest.mark.thorough
def test_a_session_without_a_driver(space: Space, classes: Classes, cluster: Cluster) -> None:
    homeless = classes.make(podTemplate=NOWHERE)
    space.session("failed", wait=False, className=homeless)
    space.session("pending", wait=False, className="no-such-class")
    space.session("stopped", wait=False, desiredState="Stopped")
    space.wait_session("pending", "Pending")
    space.wait_session("stopped", "Stopped")
    space.session("starting", wait=False, className=homeless)  # last, as it will not stay so
    space.wait_session("starting", "Starting")
    waiting = space.statement("SELECT 1", session="stopped")
    space.wait_reason("SqlStatement", waiting, "SessionNotReady")
    for name in ("pending", "starting", "stopped"):
        delete(cluster, "SqlSession", space.name, name, SESSION_SECONDS)
    assert phase(cluster.wait_finished(space.name, waiting, MARGIN)) == "Closed"
    space.wait_session("failed", "Failed")
    delete(cluster, "SqlSession", space.name, "failed", SESSION_SECONDS)


def test_deleted_session_that_was_just_made_goes_in_time(space: Space, cluster: Cluster) -> None:
    for i in range(3):
        space.session(f"brief-{i}", wait=False)
        delete(cluster, "SqlSession", space.name, f"brief-{i}", SESSION_SECONDS)


@pytest.mark.parametrize("moment", ["Starting", "Running"])
def test_a_dedicated_session_goes_with_a_deleted_statement(
    space: Space, gate: Gate, cluster: Cluster, moment: str
) -> None:
    name = space.statement(NEEDS_A_TASK, session={"className": gate.class_name})
    cluster.wait_until(lambda: bool(owned(space, name)), "owning a session")
    own = owned(space, name)[0]
    if moment == "Running":
        space.wait_phase(name, "Running")
    delete(cluster, "SqlStatement", space.name, name, STATEMENT_SECONDS)
    cluster.wait_gone("SqlSession", space.name, own, SESSION_SECONDS + MARGIN)


def owned(space: Space, statement: str) -> list[str]:
    """Names of the sessions that a statement owns."""
    uid = space.get(statement)["metadata"]["uid"]
    sessions = space.cluster.list("SqlSession", space.name)
    return [
        s["metadata"]["name"]
        for s in sessions
        if any(owner["uid"] == uid for owner in s["metadata"].get("ownerReferences", ()))
    ]


def test_deleted_savepoint_of_no_statement_goes_in_time(space: Space, cluster: Cluster) -> None:
    body = {
        "apiVersion": "sparksql.dev/v1alpha1",
        "kind": "SqlSavepoint",
        "metadata": {"name": "one", "namespace": space.name},
        "spec": {"statementRef": {"name": "any"}},
    }
    cluster.create(body)
    delete(cluster, "SqlSavepoint", space.name, "one", 60)


def test_deleted_class_in_use_goes_before_its_session(space: Space, classes: Classes, cluster: Cluster) -> None:
    name = classes.make(podTemplate=NOWHERE)
    space.session("classless", wait=False, className=name)
    space.wait_session("classless", "Starting")
    delete(cluster, "SqlSessionClass", "", name, 0)
    delete(cluster, "SqlSession", space.name, "classless", SESSION_SECONDS)


def test_a_deleted_namespace_with_sessions_and_statements_is_gone_in_time(
    fresh: Space, gate: Gate, cluster: Cluster
) -> None:
    gate.session(fresh, "main")
    for session in ("main", "main", "nobody"):
        fresh.statement(NEEDS_A_TASK, session=session)
    fresh.session("starting", wait=False)
    fresh.statement("SELECT 1", session={})
    running = cluster.list("SqlStatement", fresh.name)[0]["metadata"]["name"]
    cluster.wait("SqlStatement", fresh.name, running, lambda o: phase(o) is not None, "seen by the operator")
    delete(cluster, "Namespace", "", fresh.name, NAMESPACE_SECONDS)
