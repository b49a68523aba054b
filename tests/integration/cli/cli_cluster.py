"""What the plugin's tests see of a cluster: one namespace of a real API server, and an operator that is played."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from tests.support.apiserver import MERGE_PATCH, ApiServer

API = "/apis/sparksql.dev/v1alpha1"
PLUGIN = (sys.executable, "-m", "sparksql.cli.main")
DEADLINE_SECONDS = 120.0
POD_UID = "pod-uid-1"
ROWS = 12_000  # three pages


def eventually(what: str, probe: Callable[[], Any]) -> Any:
    """The first true answer of a probe; fails with the last one."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (seen := probe()):
        assert time.monotonic() < deadline, f"{what}: last seen {seen!r}"
        time.sleep(0.05)
    return seen


CONDITIONS = {  # Ready, Reconciling, Stalled, Succeeded, Finished: the contract's table
    "Initialized": ("False", "True", "False", "Unknown", "False"),
    "Running": ("False", "True", "False", "Unknown", "False"),
    "Finished": ("True", "False", "False", "True", "True"),
    "Canceled": ("True", "False", "False", "False", "True"),
    "Closed": ("False", "False", "True", "False", "True"),
    "Error": ("False", "False", "True", "False", "True"),
    "TimedOut": ("False", "False", "True", "False", "True"),
}
ONE_ROW = {"columns": [{"name": "a", "type": "int"}], "rowCount": 1, "preview": [["1"]], "bytes": 4}
NO_TABLE = {
    "condition": "TABLE_OR_VIEW_NOT_FOUND", "sqlState": "42P01", "message": "There is no `nope`.", "line": 1, "position": 15,
}  # fmt: skip
MANY_ROWS = {
    "columns": [{"name": "id", "type": "bigint"}, {"name": "text", "type": "string"}],
    "rowCount": ROWS,
    "preview": [["0", "row 0"], ["1", "row 1"]],
    "bytes": 99,
}
OTHER_KEY = "INSERT INTO t SELECT * FROM STREAM other_key"  # incompatible with the state that it is compared with
INCOMPATIBLE = {"condition": "STREAMING_STATE_INCOMPATIBLE", "sqlState": "55000", "message": "key day became month"}
DIFFERENCES = {
    "columns": [{"name": name, "type": "string"} for name in ("change", "operator", "column", "was", "is", "remedy")],
    "rowCount": 1,
    "preview": [["KeyChanged", "operator 1", "k", "day", "month", "change it back"]],
    "bytes": 60,
}
SCRIPT = "SELECT 0 AS n; SELECT 1 AS n; SELECT 1 AS a"
ENDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "SELECT 1 AS a": ("Finished", "Finished", {"result": ONE_ROW}),
    "SELECT * FROM nope": ("Error", "SqlError", {"error": NO_TABLE}),
    "SELECT many": ("Finished", "Finished", {"result": MANY_ROWS}),
    "SELECT cut": ("Finished", "Finished", {"result": {**ONE_ROW, "truncated": True}}),
    SCRIPT: ("Finished", "Finished", {"result": {**ONE_ROW, "earlierResults": 2}}),
    OTHER_KEY: ("Error", "StateIncompatible", {"error": INCOMPATIBLE, "result": DIFFERENCES}),
    "SELECT closed": ("Closed", "SessionClosed", {}),
    "SELECT slow": ("TimedOut", "ExecutionTimeout", {}),
}
FOREVER = "SELECT forever"  # runs until it is canceled
STUBBORN = "SELECT stubborn"  # does not even end then


def next_status(statement: dict[str, Any]) -> dict[str, Any] | None:
    """What an operator would write next; None when there is nothing to do."""
    spec, status = statement["spec"], statement.get("status", {})
    generation = statement["metadata"]["generation"]
    phase, seen = status.get("phase"), status.get("observedGeneration")
    if spec.get("desiredState") == "Stopped":
        return None
    if phase in CONDITIONS and CONDITIONS[phase][4] == "True" and seen == generation:
        return None
    if phase is None:
        return written(generation, "Initialized", "SessionNotReady")
    if phase == "Initialized":
        where = {"name": spec.get("sessionRef", {}).get("name", "own"), "podUID": POD_UID}
        progress = {"tasksDone": 1, "tasksTotal": 4, "stagesDone": 0, "stagesTotal": 1}
        extra = {"session": where, "operationId": "op-" + statement["metadata"]["name"], "progress": progress}
        return written(generation, "Running", "Running", **extra)
    if spec["sql"] in ENDS:
        phase, reason, extra = ENDS[spec["sql"]]
        return written(generation, phase, reason, **extra)
    if spec.get("desiredState") == "Canceled" and spec["sql"] != STUBBORN:
        return written(generation, "Canceled", "CanceledByUser")
    return None


def written(generation: int, phase: str, reason: str, **extra: Any) -> dict[str, Any]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    kinds = ("Ready", "Reconciling", "Stalled", "Succeeded", "Finished")
    conditions = [
        {"type": kind, "status": state, "reason": reason, "observedGeneration": generation, "lastTransitionTime": now}
        for kind, state in zip(kinds, CONDITIONS[phase], strict=True)
    ]
    return {"observedGeneration": generation, "phase": phase, "conditions": conditions, **extra}


@dataclasses.dataclass
class Cluster:
    """One namespace of the API server, as the plugin's user sees it and as the test does."""

    server: ApiServer
    namespace: str
    started: list[subprocess.Popen[str]] = dataclasses.field(default_factory=list)

    def path(self, plural: str, name: str = "") -> str:
        return f"{API}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def statements(self) -> list[dict[str, Any]]:
        return self.server.request("GET", self.path("sqlstatements")).body["items"]

    def statement(self, name: str) -> dict[str, Any]:
        return self.server.request("GET", self.path("sqlstatements", name)).body

    def create(self, plural: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
        document = {"apiVersion": "sparksql.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        answer = self.server.request("POST", self.path(plural), document)
        assert answer.status == 201, answer
        return answer.body

    def create_statement(self, name: str, sql: str) -> None:
        self.create("sqlstatements", "SqlStatement", name, {"sql": sql, "sessionRef": {"name": "analytics"}})

    def write_status(self, plural: str, name: str, status: dict[str, Any]) -> None:
        path = self.path(plural, name) + "/status"
        answer = self.server.request("PATCH", path, {"status": status}, content_type=MERGE_PATCH)
        assert answer.status in (200, 404), answer

    def flags(self) -> list[str]:
        return ["--kubeconfig", str(self.server.kubeconfig), "--namespace", self.namespace]

    def run(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """The plugin as a process of its own, to its end."""
        return subprocess.run(
            [*PLUGIN, *arguments, *self.flags()],
            input=stdin, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False,
        )  # fmt: skip

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        plugin = subprocess.Popen(
            [*PLUGIN, *arguments, *self.flags()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.started.append(plugin)
        return plugin

    def phase(self, name: str) -> str | None:
        answer = self.server.request("GET", self.path("sqlstatements", name))
        return answer.body.get("status", {}).get("phase") if answer.status == 200 else None


@contextmanager
def operating(cluster: Cluster) -> Iterator[None]:
    """Moves each statement of the namespace one step at a time while the block runs."""
    done = threading.Event()
    errors: list[BaseException] = []

    def reconcile() -> None:
        try:
            while not done.wait(0.05):
                for statement in cluster.statements():
                    status = next_status(statement)
                    if status is not None:
                        cluster.write_status("sqlstatements", statement["metadata"]["name"], status)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=reconcile)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    assert not errors, errors


def session_status(pod_uid: str = POD_UID) -> dict[str, Any]:
    """Status of a session whose driver runs."""
    return {
        "observedGeneration": 1,
        "phase": "Ready",
        "driver": {"podName": "analytics-driver-1", "podUID": pod_uid, "incarnation": 1},
        "statements": {"running": 1, "queued": 2},
    }
