"""Where pods wait and when they go: queues that hold drivers back, executors that are given back, names that are taken."""

from __future__ import annotations

import pytest

from sparksql.api.names import driver_pod_name
from tests.support.harness import Classes, Object, Space, condition, phase, reason

GATE = "kueue.x-k8s.io/admission"
EXECUTORS = "spark-role=executor"
READY, GIVEN_UP = "ready after", "no executor has done a task"  # in a driver's log
SHUFFLE = "SELECT count(*) FROM (SELECT id % 7 AS k, count(*) AS n FROM range(0, 1000, 1, 4) GROUP BY 1)"


def executors(space: Space, session: str) -> list[Object]:
    return space.cluster.list("Pod", space.name, f"{EXECUTORS},sparksql.dev/session={session}")


def test_a_driver_in_a_queue_waits_beyond_all_deadlines_and_starts_when_it_is_let_go(
    space: Space, classes: Classes
) -> None:
    """Scheduling deadlines of this installation are 20 s."""
    name = classes.make(podTemplate={"driver": {"spec": {"schedulingGates": [{"name": GATE}]}}})
    space.session("queued", wait=False, className=name)
    held = space.wait_reason("SqlSession", "queued", "WaitingInQueue")
    assert GATE in (condition(held, "Ready", "message") or "")
    statement = space.statement("SELECT 1", session="queued")
    space.wait_reason("SqlStatement", statement, "WaitingInQueue")
    # Another session's place is known to be lost after the deadline: then it is over for this one, too.
    nowhere = classes.make(podTemplate={"driver": {"spec": {"nodeSelector": {"e2e.sparksql.dev/no-such-node": "x"}}}})
    space.session("homeless", wait=False, className=nowhere)
    space.wait_reason("SqlSession", "homeless", "Unschedulable")
    assert reason(space.wait_session("homeless", "Pending")) == "Unschedulable"
    still = space.get_session("queued")
    assert (phase(still), reason(still)) == ("Starting", "WaitingInQueue"), still["status"]
    driver = still["status"]["driver"]
    assert (driver["incarnation"], still["status"].get("restarts", 0)) == (1, 0)
    space.cluster.patch("Pod", space.name, driver["podName"], {"spec": {"schedulingGates": None}})
    ready = space.wait_session("queued", "Ready")
    assert ready["status"]["driver"]["podUID"] == driver["podUID"]
    assert phase(space.cluster.wait_finished(space.name, statement)) == "Finished"


def test_a_session_whose_executors_find_no_place_is_ready_and_answers_what_needs_none(
    space: Space, classes: Classes
) -> None:
    nowhere = classes.make(podTemplate={"executor": {"spec": {"nodeSelector": {"e2e.sparksql.dev/no-such-node": "x"}}}})
    space.session("lonely", className=nowhere)
    assert space.rows("SELECT 1", session="lonely") == [["1"]]
    (waiting,) = executors(space, "lonely")
    assert waiting["status"]["phase"] == "Pending", waiting["status"]

    def is_told(session: Object | None) -> bool:
        return "nodes are available" in (session or {})["status"].get("executors", {}).get("message", "")

    shown = space.cluster.wait("SqlSession", space.name, "lonely", is_told, "with the scheduler's words")
    assert shown["status"]["executors"]["summary"] == "0/1"
    assert (condition(shown, "ExecutorsReady"), condition(shown, "Ready")) == ("False", "True")
    needs_one = space.statement(SHUFFLE, session="lonely")
    running = space.cluster.wait(
        "SqlStatement",
        space.name,
        needs_one,
        lambda s: "nodes are available" in (condition(s, "Ready", "message") or ""),
        "with what it waits for",
    )
    assert phase(running) == "Running", running["status"]
    space.cancel(needs_one)
    pod = space.driver_pod("lonely")

    def log() -> str:
        return space.cluster.logs(space.name, pod)

    space.cluster.wait_until(lambda: GIVEN_UP in log(), "without a warm-up", 120, log)
    lines = [line for line in log().splitlines() if READY in line or GIVEN_UP in line]
    assert READY in lines[0] and GIVEN_UP in lines[-1], lines  # Ready did not wait for the warm-up


def test_an_idle_executor_is_given_back_after_a_shuffle(space: Space, classes: Classes) -> None:
    """Without a timeout Spark keeps whoever has written shuffle files."""
    short = {
        "spark.dynamicAllocation.executorIdleTimeout": "5s",
        "spark.dynamicAllocation.shuffleTracking.timeout": "10s",
    }
    name = classes.make(defaults={"conf": short})
    size = {"min": 0, "max": 1, "cpu": "100m", "memory": "512Mi"}
    space.session("elastic", className=name, executors=size)
    assert space.rows(SHUFFLE, session="elastic") == [["7"]]
    space.cluster.wait_until(lambda: not executors(space, "elastic"), "without executors", 120)
    assert space.rows(SHUFFLE, session="elastic") == [["7"]]  # and they come again


@pytest.mark.thorough
def test_an_idle_executor_is_given_back_by_default(space: Space) -> None:
    size = {"min": 0, "max": 1, "cpu": "100m", "memory": "512Mi"}
    space.session("default-elastic", executors=size)
    assert space.rows(SHUFFLE, session="default-elastic") == [["7"]]
    space.cluster.wait_until(lambda: not executors(space, "default-elastic"), "without executors", 240)


def test_a_pod_that_has_the_drivers_name_is_a_conflict(space: Space, classes: Classes) -> None:
    made = space.session("taken", wait=False, className=f"later-{space.name}"[:50])
    name = driver_pod_name("taken", made["metadata"]["uid"], 1)
    space.cluster.idle_pod(space.name, name)
    classes.make(f"later-{space.name}"[:50])
    stalled = space.wait_reason("SqlSession", "taken", "ChildConflict")
    assert f"Pod {name} exists and is not this session's" in (condition(stalled, "Ready", "message") or "")
    space.cluster.delete("Pod", space.name, name, grace_seconds=0)
    space.wait_session("taken", "Ready")
