"""What the kubelet writes of a pod: its status, its end, Events about it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sparksql.kube.errors import NotFound
from sparksql.kube.resources import BY_KIND, EVENTS, PODS
from sparksql.local.objects.store import ObjectStore
from sparksql.local.pods import pod_spec

Object = dict[str, Any]


@dataclass(frozen=True)
class PodReports:
    """Writes about one pod. A pod that was deleted meanwhile needs no report, so none raises NotFound but `pod`."""

    store: ObjectStore
    namespace: str
    name: str
    uid: str

    def pod(self) -> Object:
        """Returns the pod as it is. Raises NotFound."""
        return self.store.get(PODS, self.namespace, self.name)

    def bind(self, node: str) -> Object:
        """Gives the pod its node and returns it. Raises NotFound."""
        return self.store.patch_merge(PODS, self.namespace, self.name, {"spec": {"nodeName": node}})

    def read(self, kind: str, name: str) -> Object:
        """Returns a Secret or a ConfigMap of the pod's namespace. Raises NotFound."""
        return self.store.get(BY_KIND[kind], self.namespace, name)

    def running(self, started: str, address: str, *, ready: bool) -> None:
        """Reports a program that runs since `started`."""
        self._status(pod_spec.status("Running", {"running": {"startedAt": started}}, ready=ready, address=address))

    def ended(
        self, code: int, started: str | None, address: str | None, *, message: str = "", disrupted: bool = False
    ) -> None:
        """Reports the end of the program with an exit code."""
        reason, phase = ("Completed", "Succeeded") if code == 0 else ("Error", "Failed")
        state = {"reason": reason, "exitCode": code, "startedAt": started, "finishedAt": now(), "message": message}
        present = {key: value for key, value in state.items() if value not in ("", None)}
        self._status(pod_spec.status(phase, {"terminated": present}, address=address, disrupted=disrupted))

    def confirm_deletion(self) -> None:
        """Lets the API server remove the pod: its program does not run."""
        with suppress(NotFound):
            self.store.delete(PODS, self.namespace, self.name, uid=self.uid, grace_seconds=0)

    def warn(self, reason: str, message: str) -> None:
        """Writes a Warning about the pod."""
        involved = {"kind": "Pod", "namespace": self.namespace, "name": self.name, "uid": self.uid}
        body = {
            "metadata": {"generateName": f"{self.name}."},
            "type": "Warning", "reason": reason, "message": message, "involvedObject": involved,
            "firstTimestamp": now(), "lastTimestamp": now(), "source": {"component": "kubelet"},
        }  # fmt: skip
        self.store.create(EVENTS, self.namespace, body)

    def _status(self, status: Object) -> None:
        with suppress(NotFound):
            self.store.patch_merge(PODS, self.namespace, self.name, {"status": status}, "status")


def reports_of(store: ObjectStore, pod: Object) -> PodReports:
    """Returns what writes about a pod."""
    metadata = pod["metadata"]
    return PodReports(store, metadata["namespace"], metadata["name"], metadata["uid"])


def now() -> str:
    """Returns the time as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
