"""The life of a session: its children, restarts, draining, stop and start, idle close; and what outlives its drivers."""

from __future__ import annotations

import pytest

from sparksql.api.names import child_base, driver_pod_name
from tests.e2e.gate import Gate
from tests.support.harness import Object, Space, condition, phase, pod_ready, reason

NEEDS_A_TASK = "SELECT sum(id) FROM range(0, 100, 1, 2)"


def test_a_ready_session_owns_its_service_secret_network_policy_and_driver_pod(main: Space) -> None:
    session = main.get_session()
    meta, status = session["metadata"], session["status"]
    expected = {"Ready": "True", "Reconciling": "False", "Stalled": "False"}
    shown = {c["type"]: c["status"] for c in status["conditions"]}
    assert {name: shown[name] for name in expected} == expected
    assert status["observedGeneration"] == meta["generation"]
    driver = status["driver"]
    assert driver["podName"] == driver_pod_name("main", meta["uid"], driver["incarnation"])
    assert driver["sparkVersion"].startswith("4.") and driver["sparkApplicationId"] and driver["bootId"]
    base = child_base("main", meta["uid"])
    for kind, name in (("Service", base), ("Secret", base), ("NetworkPolicy", base), ("Pod", driver["podName"])):
        child = main.cluster.get(kind, main.name, name)
        assert child is not None, f"{kind} {name} is missing"
        assert [owner["uid"] for owner in child["metadata"]["ownerReferences"]] == [meta["uid"]]
    # The gateway's word makes the session Ready; the kubelet's probe comes up to a second later.
    main.cluster.wait("Pod", main.name, driver["podName"], lambda p: pod_ready(p or {}), "ready")


def test_tables_outlive_drivers_and_are_shared_by_sessions(main: Space) -> None:
    for using in ("parquet", "iceberg"):
        main.run(f"CREATE TABLE kept_{using} USING {using} AS SELECT 1 AS id")
    main.run("CREATE TEMPORARY VIEW passing AS SELECT 1 AS id")
    main.session("other", wait=False)
    before = main.get_session()["status"]["driver"]
    main.change("SqlSession", "main", restartNonce="1")

    def is_renewed(obj: Object | None) -> bool:
        return phase(obj) == "Ready" and (obj or {})["status"]["driver"]["incarnation"] == before["incarnation"] + 1

    session = main.cluster.wait("SqlSession", main.name, "main", is_renewed, "Ready with a new driver", 420)
    assert session["status"]["driver"]["podUID"] != before["podUID"]
    assert session["status"]["observedRestartNonce"] == "1"
    assert main.cluster.get("Pod", main.name, before["podName"]) is None
    union = "SELECT id FROM kept_parquet UNION ALL SELECT id FROM kept_iceberg"
    assert main.rows(union) == [["1"], ["1"]]
    main.wait_session("other", "Ready")
    for using in ("parquet", "iceberg"):
        written = main.run(f"INSERT INTO kept_{using} VALUES (2)", session="other")
        assert phase(written) == "Finished", written["status"]
        assert main.rows(f"SELECT id FROM kept_{using} ORDER BY id") == [["1"], ["2"]]
    lost = main.run("SELECT * FROM passing")
    assert lost["status"]["error"]["condition"] == "TABLE_OR_VIEW_NOT_FOUND"
    assert condition(session, "SessionStateLost") == "True", session["status"]
    assert "SessionStateLost" in {e["reason"] for e in main.cluster.events(main.name)}


def test_a_lost_driver_is_replaced(main: Space) -> None:
    before = main.get_session()["status"]["driver"]
    main.kill_driver()
    session = main.wait_session("main", "Pending", "Starting")
    assert reason(session) in ("DriverLost", "DriverStarting", "DriverRestarting"), session["status"]
    after = main.wait_session("main", "Ready")["status"]["driver"]
    assert after["incarnation"] == before["incarnation"] + 1
    assert after["podUID"] != before["podUID"] and after["bootId"] != before["bootId"]
    assert main.rows("SELECT 1") == [["1"]]


@pytest.mark.thorough
def test_stopped_session_starts_again_when_it_is_wished(main: Space) -> None:
    main.change("SqlSession", "main", desiredState="Stopped")
    stopped = main.wait_session("main", "Stopped")
    assert _basic_conditions(stopped) == AS_ASKED
    main.cluster.wait_gone("Pod", main.name, stopped["status"]["driver"]["podName"])
    waiting = main.statement("SELECT 'woken' AS word")
    main.wait_reason("SqlStatement", waiting, "SessionNotReady")
    main.change("SqlSession", "main", desiredState="Running")
    main.wait_session("main", "Ready")
    assert main.cluster.wait_finished(main.name, waiting)["status"]["result"]["preview"] == [["woken"]]


def test_a_changed_spec_drains_first(gated: Space, gate: Gate) -> None:
    gated.run("CREATE TABLE drained (id BIGINT) USING parquet", session="gated")
    running = gated.statement("INSERT INTO drained SELECT id FROM range(1)", session="gated")
    gated.wait_phase(running, "Running")
    before = gated.get_session("gated")["status"]["driver"]["incarnation"]
    gated.change("SqlSession", "gated", conf={"spark.sql.shuffle.partitions": "3"})
    draining = gated.wait_session("gated", "Draining")
    assert reason(draining) == "SpecChanged"
    assert condition(draining, "Reconciling") == "True"
    late = gated.statement("SET spark.sql.shuffle.partitions", session="gated")
    gated.wait_reason("SqlStatement", late, "SessionNotReady")
    assert phase(gated.get(running)) == "Running"
    gate.open()
    ended = gated.cluster.wait_finished(gated.name, running)
    assert phase(ended) == "Finished", ended["status"]
    renewed = gated.cluster.wait_finished(gated.name, late)
    assert renewed["status"]["result"]["preview"] == [["spark.sql.shuffle.partitions", "3"]]
    assert gated.get_session("gated")["status"]["driver"]["incarnation"] == before + 1
    assert gated.rows("SELECT count(*) FROM drained", session="gated") == [["1"]]


def test_a_session_change_that_a_running_driver_can_take_over_keeps_the_driver(main: Space) -> None:
    before = main.get_session()
    main.change("SqlSession", "main", idle={"timeoutSeconds": 0}, maxQueuedStatements=77)

    def is_observed(obj: Object | None) -> bool:
        return (obj or {})["status"]["observedGeneration"] > before["metadata"]["generation"]

    after = main.cluster.wait("SqlSession", main.name, "main", is_observed, "observed")
    assert phase(after) == "Ready"
    assert after["status"]["driver"] == before["status"]["driver"]


def test_an_idle_session_closes_for_good(space: Space, gate: Gate) -> None:
    session = gate.session(space, "short", idle={"timeoutSeconds": 3600, "action": "Close"})
    assert condition(session, "Hibernation") is None
    running = space.statement(NEEDS_A_TASK, session="short", timeouts={"executionSeconds": 8})
    space.wait_phase(running, "Running")
    # Only now: before, the session is idle for as long as it takes to close the gate and to hand the statement over.
    space.change("SqlSession", "short", idle={"timeoutSeconds": 3, "action": "Close"})
    ended = space.cluster.wait_finished(space.name, running)
    assert reason(ended) == "ExecutionTimeout", ended["status"]  # a busy session is not idle
    closed = space.wait_session("short", "Closed")
    assert reason(closed) == "IdleTimeout"
    assert _basic_conditions(closed) == AS_ASKED
    space.cluster.wait_gone("Pod", space.name, closed["status"]["driver"]["podName"])
    late = space.run("SELECT 1", session="short")
    assert (phase(late), reason(late)) == ("Closed", "SessionClosed"), late["status"]


@pytest.mark.thorough
def test_a_session_has_a_longest_life(space: Space) -> None:
    space.session("mortal", wait=False, maxLifetimeSeconds=1)
    closed = space.wait_session("mortal", "Closed")
    assert reason(closed) == "MaxLifetimeReached"


AS_ASKED = ("True", "False", "False")


def _basic_conditions(session: Object) -> tuple[str | None, ...]:
    return tuple(condition(session, type_) for type_ in ("Ready", "Reconciling", "Stalled"))
