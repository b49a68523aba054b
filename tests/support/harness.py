"""A user's view of the cluster: apply manifests, wait for conditions with a deadline, show what was seen when it fails."""

from __future__ import annotations

import base64
import copy
import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from sparksql.api.names import child_base
from sparksql.wire.driver import TLS_CERT_FILE, TOKEN_FILE
from tests.runner.starts import measured
from tests.support.cluster_view import ClusterView, Object

API_VERSION = "sparksql.dev/v1alpha1"
OPERATOR_NAMESPACE = "spark-sql-system"
DEFAULT_CLASS = "standard"
STORAGE_SECRET = "e2e-secret-key"
OPERATOR_LABELS = "app.kubernetes.io/name=spark-sql-operator,app.kubernetes.io/component=operator"

LOOK_AGAIN_SECONDS = 1
"""How long to wait for a change of an object before looking again: what is waited for may depend on something else."""

# Nothing of it can be known without looking at every row.
ENDLESS = "SELECT count(*) FROM range(0, 1000000000000, 1, 8) WHERE sha2(CAST(id AS STRING), 256) = 'none'"


class Cluster(ClusterView):
    """The test cluster with the operator installed: what there is, how long to wait for it, and the tools of a user."""

    # --- waiting

    def wait(
        self,
        kind: str,
        namespace: str,
        name: str,
        ready: Callable[[Object | None], bool],
        what: str,
        seconds: float = 120,
    ) -> Object:
        """The object once `ready` holds (None is a missing object). Fails with the last state and the events."""
        deadline = time.monotonic() + seconds
        while True:
            obj = self.get(kind, namespace, name)
            if ready(obj):
                return obj or {}
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"{kind} {namespace}/{name}: not {what} after {seconds:g} s\n{self.describe(obj, namespace)}"
                )
            self.until_changed(kind, namespace, name, obj, LOOK_AGAIN_SECONDS)

    def wait_phase(self, kind: str, namespace: str, name: str, *phases: str, seconds: float = 600) -> Object:
        return self.wait(kind, namespace, name, lambda o: phase(o) in phases, f"in {' or '.join(phases)}", seconds)

    def wait_finished(self, namespace: str, name: str, seconds: float = 600) -> Object:
        """The statement once it has ended, whatever the outcome."""
        return self.wait(
            "SqlStatement", namespace, name, lambda o: condition(o, "Finished") == "True", "Finished", seconds
        )

    def wait_gone(self, kind: str, namespace: str, name: str, seconds: float = 120) -> None:
        self.wait(kind, namespace, name, lambda o: o is None, "gone", seconds)

    def wait_until(
        self, holds: Callable[[], bool], what: str, seconds: float = 120, seen: Callable[[], Any] = str
    ) -> None:
        """Waits for anything at all; `seen` gives what to print when it does not come."""
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, f"not {what} after {seconds:g} s: {seen()}"
            time.sleep(0.25)

    def events(self, namespace: str) -> list[Object]:
        return self.list("Event", namespace)

    def describe(self, obj: Object | None, namespace: str) -> str:
        status = json.dumps((obj or {}).get("status", {}), indent=1)
        events = [
            f"{e['type']} {e['reason']} {e['involvedObject'].get('name')}: {e.get('message', '')[:300]}"
            for e in (self.events(namespace) if namespace else ())
        ]
        pods = [
            f"{p['metadata']['name']} {p['status'].get('phase')} {[c.get('state') for c in p['status'].get('containerStatuses', ())]}"
            for p in (self.list("Pod", namespace) if namespace else ())
        ]
        return "\n".join([status, "events:", *events[-15:], "pods:", *pods])

    # --- tools

    def kubectl(self, *args: str, stdin: bytes | None = None, check: bool = True) -> str:
        done = subprocess.run(
            ["kubectl", f"--kubeconfig={self.kubeconfig}", *args],
            input=stdin,
            capture_output=True,
            check=False,
            timeout=300,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(args)}: {done.stderr.decode()}")
        return done.stdout.decode()

    def cli(self, namespace: str, *args: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """`kubectl sparksql`, whatever its exit code."""
        program = Path(sys.executable).with_name("kubectl-sparksql")
        return subprocess.run(
            [program, f"--kubeconfig={self.kubeconfig}", f"--namespace={namespace}", *args],
            input=stdin, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip

    def logs(self, namespace: str, pod: str) -> str:
        return self.kubectl("logs", "-n", namespace, pod, "--tail=-1", check=False)

    def idle_pod(self, namespace: str, name: str, labels: dict[str, str] | None = None) -> None:
        """Makes a pod that has Python, does nothing, and is let in by the restricted profile."""
        container = {
            "name": "main",
            "image": self.operator_pods()[0]["spec"]["containers"][0]["image"],
            "command": ["python3", "-c", "import time; time.sleep(1200)"],
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
        context = {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
        spec = {"containers": [container], "securityContext": context, "terminationGracePeriodSeconds": 0}
        metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
        self.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def operator_pods(self) -> list[Object]:
        return self.list("Pod", OPERATOR_NAMESPACE, OPERATOR_LABELS)

    def kill_operator(self) -> None:
        """SIGKILL, as far as a user can: delete the pod without grace."""
        for pod in self.operator_pods():
            self.delete("Pod", OPERATOR_NAMESPACE, pod["metadata"]["name"], grace_seconds=0)

    def wait_operator(self, seconds: float = 600) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            pods = [p for p in self.operator_pods() if "deletionTimestamp" not in p["metadata"]]
            if pods and all(pod_ready(p) for p in pods):
                return
            time.sleep(0.2)
        raise AssertionError(f"operator not ready after {seconds:g} s: {[p['status'] for p in self.operator_pods()]}")


class Space:
    """A namespace of a test's own and short ways to make our objects in it.

    Its sessions begin in its own database, as the chart's default class says, so that no test sees another one's tables.
    """

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.database = name.replace("-", "_")

    def session(
        self,
        name: str = "main",
        wait: bool = True,
        seconds: float = 420,
        init: Iterable[str] = (),
        metadata: Object | None = None,
        **spec: Any,
    ) -> Object:
        """A new session, which stays until its namespace goes unless `spec` says when it is idle."""
        stays = {"timeoutSeconds": 0}  # what other tests do meanwhile must not close it
        spec = {"init": [{"sql": sql} for sql in init], "idle": stays, **spec}
        body = {
            "apiVersion": API_VERSION,
            "kind": "SqlSession",
            "metadata": {**(metadata or {}), "name": name, "namespace": self.name},
            "spec": spec,
        }
        if not wait:
            return self.cluster.create(body)
        with measured("session on the cluster"):
            self.cluster.create(body)
            return self.wait_session(name, "Ready", seconds=seconds)

    def wait_session(self, name: str, *phases: str, seconds: float = 420) -> Object:
        return self.cluster.wait_phase("SqlSession", self.name, name, *phases, seconds=seconds)

    def statement(self, sql: str | None, name: str | None = None, session: str | Object = "main", **spec: Any) -> str:
        """Name of a new statement in the session of that name, or in a dedicated one with that spec."""
        name = name or f"s-{uuid.uuid4().hex[:10]}"
        body: Object = {"sql": sql} if sql is not None else {}
        body |= {"sessionRef": {"name": session}} if isinstance(session, str) else {"session": session}
        manifest = {
            "apiVersion": API_VERSION,
            "kind": "SqlStatement",
            "metadata": {"name": name, "namespace": self.name},
            "spec": {**body, **spec},
        }
        self.cluster.create(manifest)
        return name

    def run(self, sql: str | None, seconds: float = 600, **kwargs: Any) -> Object:
        """The ended statement, whatever the outcome."""
        return self.cluster.wait_finished(self.name, self.statement(sql, **kwargs), seconds)

    def rows(self, sql: str, **kwargs: Any) -> list[list[str | None]]:
        """Preview rows of a statement that must finish."""
        ended = self.run(sql, **kwargs)
        assert phase(ended) == "Finished", ended["status"]
        preview: list[list[str | None]] = ended["status"].get("result", {}).get("preview", [])
        return preview

    def get(self, name: str) -> Object:
        found = self.cluster.get("SqlStatement", self.name, name)
        assert found is not None, f"statement {name} no longer exists"
        return found

    def get_session(self, name: str = "main") -> Object:
        found = self.cluster.get("SqlSession", self.name, name)
        assert found is not None, f"session {name} is gone"
        return found

    def change(self, kind: str, name: str, **spec: Any) -> Object:
        return self.cluster.patch(kind, self.name, name, {"spec": spec})

    def cancel(self, statement: str) -> None:
        self.change("SqlStatement", statement, desiredState="Canceled")

    def wait_phase(self, statement: str, *phases: str, seconds: float = 600) -> Object:
        return self.cluster.wait_phase("SqlStatement", self.name, statement, *phases, seconds=seconds)

    def wait_reason(self, kind: str, name: str, *reasons: str, seconds: float = 120) -> Object:
        what = f"for reason {' or '.join(reasons)}"
        return self.cluster.wait(kind, self.name, name, lambda o: reason(o) in reasons, what, seconds)

    def driver_pod(self, session: str = "main") -> str:
        name: str = self.get_session(session)["status"]["driver"]["podName"]
        return name

    def credentials(self, session: str = "main") -> tuple[str, str]:
        """The session's token and its certificate."""
        name = child_base(session, self.get_session(session)["metadata"]["uid"])
        secret = self.cluster.get("Secret", self.name, name)
        assert secret is not None, f"Secret {name} is missing"
        token, certificate = (base64.b64decode(secret["data"][file]).decode() for file in (TOKEN_FILE, TLS_CERT_FILE))
        return token, certificate

    def kill_driver(self, session: str = "main") -> None:
        """Delete the driver pod without grace, as a lost node would take it: nobody sees its end."""
        self.cluster.delete("Pod", self.name, self.driver_pod(session), grace_seconds=0)

    def crash_driver(self, session: str = "main", *, check: bool = True) -> None:
        """SIGKILL to the driver's JVM, as for too much memory: the kubelet sees the end. With `check` it must run."""
        kill = 'for p in /proc/[0-9]*; do read -r name < $p/comm; [ "$name" != java ] || kill -9 ${p#/proc/}; done'
        self.cluster.kubectl(
            "exec", f"--namespace={self.name}", self.driver_pod(session), "--", "/bin/sh", "-c", kill, check=check
        )

    def config_map(self, name: str, **data: str) -> None:
        metadata = {"name": name, "namespace": self.name}
        self.cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})

    def secret(self, name: str, **data: str) -> None:
        metadata = {"name": name, "namespace": self.name}
        self.cluster.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data})


class Classes:
    """Session classes of a test's own: the chart's default one with some fields changed."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.made: list[str] = []

    def make(self, name: str = "", **changes: Any) -> str:
        """Name of a new class. Maps are merged into those of the default class, everything else replaces it."""
        standard = self.cluster.get("SqlSessionClass", "", DEFAULT_CLASS)
        assert standard is not None, "the chart's default class is missing"
        name = name or f"e2e-{uuid.uuid4().hex[:8]}"
        spec = merged(standard["spec"], changes)
        body = {"apiVersion": API_VERSION, "kind": "SqlSessionClass", "metadata": {"name": name}, "spec": spec}
        self.cluster.create(body)
        self.made.append(name)
        return name

    def remove(self) -> None:
        for name in self.made:
            self.cluster.delete("SqlSessionClass", "", name)


def merged(base: Object, changes: Object) -> Object:
    result = copy.deepcopy(base)
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


def phase(obj: Object | None) -> str | None:
    return (obj or {}).get("status", {}).get("phase")


def condition(obj: Object | None, type_: str, field: str = "status") -> str | None:
    for c in (obj or {}).get("status", {}).get("conditions", ()):
        if c["type"] == type_:
            value: str = c.get(field, "")
            return value
    return None


def reason(obj: Object | None) -> str | None:
    return condition(obj, "Ready", "reason")


def pod_ready(pod: Object) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod.get("status", {}).get("conditions", ()))
