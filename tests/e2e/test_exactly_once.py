"""Nothing runs twice and nothing is lost, whatever happens to the operator or the driver, and whenever.

The moments within a submission (intent, hand-over, result) are hit exactly by the integration tests, which script the gateway;
here the real operator is killed at what a user can see of them.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.gate import Gate
from tests.support.harness import OPERATOR_NAMESPACE, Cluster, Object, Space, condition, phase, reason
from tests.support.thorough import thorough_but

INSERTS = 4  # statements under way whenever the operator goes
SECONDS = 420.0
DELETION_SECONDS = 120.0  # the operator promises 15; the rest is for a loaded machine

pytestmark = pytest.mark.operator_lost


@pytest.fixture(scope="module")
def ledger(space: Space, gate: Gate) -> Space:
    """A session `main` behind a gate, with a table that every INSERT of this module leaves its key in."""
    gate.session(space, "main", maxConcurrentStatements=INSERTS)
    assert phase(space.run("CREATE TABLE ledger (key STRING) USING parquet")) == "Finished"
    return space


@pytest.fixture(autouse=True)
def closed(space: Space, gate: Gate, cluster: Cluster) -> Iterator[None]:
    """Each test finds the gate closed, and an operator at work, and leaves it so."""
    yield
    cluster.wait_operator()
    gate.close(space)


def insert(space: Space, key: str, **spec: object) -> str:
    """Name of the statement, which is the key's own."""
    return space.statement(f"INSERT INTO ledger SELECT '{key}' FROM range(1)", name=key.lower(), **spec)


def wait_any(space: Space, names: list[str], *phases: str) -> None:
    """Until one of them has come so far: writers of one table take turns."""

    def seen() -> list[str | None]:
        return [phase(space.get(name)) for name in names]

    space.cluster.wait_until(lambda: any(p in phases for p in seen()), f"in {phases}", SECONDS, seen)


def written(space: Space, gate: Gate, keys: list[str]) -> Counter[str]:
    """How often each of the keys is in the ledger."""
    gate.open()
    listed = ", ".join(f"'{key}'" for key in keys)
    rows = space.rows(f"SELECT key FROM ledger WHERE key IN ({listed})", result={"previewRows": 100})
    return Counter(row[0] or "" for row in rows)


def once(keys: list[str]) -> Counter[str]:
    return Counter(keys)


def restart_container(cluster: Cluster) -> None:
    """The operator's process ends, and its container starts again in the same pod."""
    (pod,) = (p for p in cluster.operator_pods() if "deletionTimestamp" not in p["metadata"])
    name, before = pod["metadata"]["name"], restarts(pod)
    stop = "import os, signal; os.kill(1, signal.SIGTERM)"
    cluster.kubectl("exec", "-n", OPERATOR_NAMESPACE, name, "--", "python3", "-c", stop)
    cluster.wait(
        "Pod", OPERATOR_NAMESPACE, name, lambda p: p is not None and restarts(p) > before, "restarted", SECONDS
    )


def restarts(pod: Object) -> int:
    count: int = pod["status"]["containerStatuses"][0]["restartCount"]
    return count


FAULTS: dict[str, Callable[[Cluster], None]] = {
    "killed": Cluster.kill_operator,
    "container-restarted": restart_container,
}


@pytest.mark.parametrize(
    ("moment", "fault"),
    thorough_but(
        [("Created", "killed"), ("Pending", "container-restarted"), ("Running", "killed")],
        itertools.product(("Created", "Pending", "Running"), FAULTS),
    ),
)
def test_the_operator_goes_before_the_work_is_done(
    ledger: Space, gate: Gate, moment: str, fault: str, cluster: Cluster
) -> None:
    keys = [f"{moment}-{fault}-{i}" for i in range(INSERTS)]
    names = [insert(ledger, key) for key in keys]
    if moment != "Created":
        wait_any(ledger, names, moment, "Running")
    FAULTS[fault](cluster)
    gate.open()
    cluster.wait_operator()
    ended = [cluster.wait_finished(ledger.name, name, SECONDS) for name in names]
    assert {phase(obj) for obj in ended} == {"Finished"}, [obj["status"] for obj in ended]
    assert {(obj["status"]["run"], obj["status"]["attempt"]) for obj in ended} == {(1, 1)}
    assert written(ledger, gate, keys) == once(keys)


@pytest.mark.parametrize("fault", thorough_but(["killed"], FAULTS))
def test_the_work_is_done_while_the_operator_is_away(ledger: Space, gate: Gate, fault: str, cluster: Cluster) -> None:
    keys = [f"away-{fault}-{i}" for i in range(INSERTS)]
    names = [insert(ledger, key) for key in keys]
    wait_any(ledger, names, "Running")
    gate.open()
    FAULTS[fault](cluster)
    ended = [cluster.wait_finished(ledger.name, name, SECONDS) for name in names]
    assert {(phase(obj), obj["status"]["attempt"]) for obj in ended} == {("Finished", 1)}
    assert written(ledger, gate, keys) == once(keys)


def test_the_operator_goes_again_and_again(ledger: Space, gate: Gate, cluster: Cluster) -> None:
    gate.open()
    keys = [f"again-{i}" for i in range(12)]
    names: list[str] = []
    for round_ in range(3):
        names += [insert(ledger, key) for key in keys[round_ * 4 : round_ * 4 + 4]]
        cluster.kill_operator()
        cluster.wait_operator()
    ended = [cluster.wait_finished(ledger.name, name, SECONDS) for name in names]
    assert {(phase(obj), obj["status"]["attempt"]) for obj in ended} == {("Finished", 1)}
    assert written(ledger, gate, keys) == once(keys)


@pytest.mark.parametrize(
    "with_kill", [pytest.param(False, marks=pytest.mark.thorough), True], ids=["alone", "operator-killed"]
)
def test_a_cancel_leaves_nothing_half_done(ledger: Space, gate: Gate, with_kill: bool, cluster: Cluster) -> None:
    counts: Counter[str] = Counter()
    ends: dict[str, Object] = {}
    for moment in ("Created", "Pending", "Running", "Ending"):
        if moment == "Ending":
            counts = written(ledger, gate, [f"cancel-{m}-{with_kill}" for m in ends])
        name = insert(ledger, f"cancel-{moment}-{with_kill}")
        match moment:
            case "Pending":
                ledger.wait_phase(name, "Pending", "Running")
            case "Running" | "Ending":
                ledger.wait_phase(name, "Running", "Finished")
        ledger.cancel(name)
        if with_kill:
            cluster.kill_operator()
        ends[moment] = cluster.wait_finished(ledger.name, name, SECONDS)
    assert not counts
    for moment in ("Created", "Pending", "Running"):
        assert (phase(ends[moment]), reason(ends[moment])) == ("Canceled", "CanceledByUser"), ends[moment]["status"]
    assert phase(ends["Ending"]) in ("Finished", "Canceled"), ends["Ending"]["status"]
    key = f"cancel-Ending-{with_kill}"
    count = written(ledger, gate, [key])[key]
    assert count == 1 if phase(ends["Ending"]) == "Finished" else count <= 1


def test_a_deletion_that_the_operator_did_not_see(ledger: Space, cluster: Cluster) -> None:
    name = insert(ledger, "deleted")
    ledger.wait_phase(name, "Running")
    cluster.kill_operator()
    cluster.delete("SqlStatement", ledger.name, name)
    cluster.wait_operator()
    cluster.wait_gone("SqlStatement", ledger.name, name, DELETION_SECONDS)


def test_statements_under_conflicting_writes_of_others_run_exactly_once(
    ledger: Space, gate: Gate, cluster: Cluster
) -> None:
    """Someone else writes to the statements all the time, so that the operator's own writes meet conflicts."""
    gate.open()
    keys = [f"conflict-{i}" for i in range(8)]
    stop = threading.Event()
    writes = 0

    def disturb() -> None:
        nonlocal writes
        other = Cluster(cluster.kubeconfig)
        while not stop.is_set():
            for name in keys:
                if other.get("SqlStatement", ledger.name, name) is not None:
                    writes += 1
                    body = {"metadata": {"annotations": {"e2e/write": str(writes)}}}
                    other.patch("SqlStatement", ledger.name, name, body)

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        names = [insert(ledger, key) for key in keys]
        ended = [cluster.wait_finished(ledger.name, name, SECONDS) for name in names]
    finally:
        stop.set()
        thread.join()
    assert {(phase(obj), obj["status"]["attempt"]) for obj in ended} == {("Finished", 1)}
    assert written(ledger, gate, keys) == once(keys)
    assert writes > len(keys)


def test_a_lost_driver_ends_writes_and_repeats_reads(ledger: Space, gate: Gate, cluster: Cluster) -> None:
    write = insert(ledger, "lost")
    ledger.wait_phase(write, "Running")  # it holds the table from here on
    asked = insert(ledger, "lost-asked", retry={"limit": 1, "backoffSeconds": 1, "on": ["SessionLost"]})
    read = ledger.statement("SELECT count(*) FROM range(0, 100, 1, 2)")
    ledger.wait_phase(read, "Running")
    ledger.wait_phase(asked, "Pending")
    first = ledger.get(read)["status"]["operationId"]
    ledger.kill_driver()
    lost = cluster.wait_finished(ledger.name, write, SECONDS)
    assert (phase(lost), reason(lost)) == ("Error", "SessionLost"), lost["status"]
    assert "outcome unknown" in (condition(lost, "Ready", "message") or "")
    assert condition(lost, "Stalled") == "True"
    gate.open()
    again = cluster.wait_finished(ledger.name, read, SECONDS)
    assert phase(again) == "Finished", again["status"]
    assert again["status"]["result"]["preview"] == [["100"]]
    assert again["status"]["attempt"] == 2 and again["status"]["operationId"] != first
    retried = cluster.wait_finished(ledger.name, asked, SECONDS)
    assert (phase(retried), retried["status"]["attempt"]) == ("Finished", 2), retried["status"]
    assert written(ledger, gate, ["lost", "lost-asked"]) == once(["lost-asked"])
