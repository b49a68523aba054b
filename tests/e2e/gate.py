"""A gate that tests can close before a statement's first task and open again: work takes as long as a test needs, at no CPU.

Executors of the gate's class ask for a node label that no node has while the gate is closed. A statement that needs a task is
then Running and stays so.
"""

from __future__ import annotations

import uuid
from typing import Any

from tests.support.harness import Classes, Cluster, Object, Space

EXECUTORS = "spark-role=executor"


class Gate:
    def __init__(self, cluster: Cluster, classes: Classes) -> None:
        self._cluster = cluster
        self._label = f"e2e.sparksql.dev/gate-{uuid.uuid4().hex[:8]}"
        self.class_name = classes.make(
            podTemplate={"executor": {"spec": {"nodeSelector": {self._label: "open"}}}},
            # Each closing takes executors away, which Spark counts as failures of theirs.
            defaults={"conf": {"spark.executor.maxNumFailures": "1000"}},
        )

    def session(self, space: Space, name: str, **spec: Any) -> Object:
        """A Ready session behind the closed gate."""
        self.open()
        session = space.session(name, className=self.class_name, **spec)
        self.close(space)
        return session

    def open(self) -> None:
        self._set("open")

    def close(self, space: Space) -> None:
        """Takes the executors away that have passed; those that Spark starts instead wait."""
        self._set(None)
        self._cluster.wait_until(lambda: not self._expelled(space), "without executors behind the closed gate")

    def _expelled(self, space: Space) -> list[str]:
        """Deletes the executors that are on a node; their names."""
        pods = [
            p
            for p in self._cluster.list("Pod", space.name, EXECUTORS)
            if self._label in p["spec"].get("nodeSelector", {})
        ]
        names = [p["metadata"]["name"] for p in pods if p["spec"].get("nodeName")]
        for name in names:
            self._cluster.delete("Pod", space.name, name, grace_seconds=0)
        return names

    def remove(self) -> None:
        self._set(None)

    def _set(self, value: str | None) -> None:
        body = {"metadata": {"labels": {self._label: value}}}
        for node in self._cluster.request("GET", "/api/v1/nodes")["items"]:
            path = f"/api/v1/nodes/{node['metadata']['name']}"
            self._cluster.request("PATCH", path, body, "application/merge-patch+json")
