"""Streaming statements of a test: a source that counts, what a statement says of its query, and the ways to stop and start it."""

from __future__ import annotations

from typing import Any

from harness import Object, Space, phase

SECONDS = 420.0
QUICK = {"trigger": {"mode": "Interval", "intervalMillis": 500}, "restart": {"backoffSeconds": 1}}


def count_up(space: Space) -> None:
    """Makes `ticks`, a source that counts up from 0, 20 rows a second."""
    made = space.run("CREATE TABLE ticks USING rate OPTIONS (rowsPerSecond '20', numPartitions '1')")
    assert phase(made) == "Finished", made["status"]


def stream(statement: Object) -> dict[str, Any]:
    found: dict[str, Any] = statement["status"].get("streaming") or {}
    return found


def wait_batch(space: Space, name: str, more: int = 2) -> Object:
    """The statement once it runs and has committed so many batches more than it has now."""
    wanted = stream(space.get(name)).get("committedBatchId", -1) + more

    def reached(statement: Object | None) -> bool:
        return statement is not None and (
            phase(statement) in ("Error", "Finished", "Closed")
            or (phase(statement) == "Running" and stream(statement).get("committedBatchId", -1) >= wanted)
        )

    seen = space.cluster.wait("SqlStatement", space.name, name, reached, f"at batch {wanted}", SECONDS)
    assert phase(seen) == "Running", seen["status"]
    return seen


def stop(space: Space, name: str) -> Object:
    space.change("SqlStatement", name, desiredState="Stopped")
    return space.wait_phase(name, "Stopped", seconds=SECONDS)


def resume(space: Space, name: str) -> None:
    space.change("SqlStatement", name, desiredState="Running")
