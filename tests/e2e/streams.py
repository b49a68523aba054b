"""Streaming statements of a test: a source that counts, what a statement says of its query, and the ways to stop and start it."""

from __future__ import annotations

from typing import Any

from tests.support.harness import API_VERSION, Object, Space, condition, phase

SECONDS = 420.0
QUICK = {"trigger": {"mode": "Interval", "intervalMillis": 500}, "restart": {"backoffSeconds": 1}}


def count_up(space: Space, session: str = "main") -> None:
    """Makes `ticks`, a source that counts up from 0, 20 rows a second."""
    made = space.run("CREATE TABLE ticks USING rate OPTIONS (rowsPerSecond '20', numPartitions '1')", session=session)
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


def ask_savepoint(space: Space, name: str, statement: str, **spec: Any) -> None:
    body = {
        "apiVersion": API_VERSION,
        "kind": "SqlSavepoint",
        "metadata": {"name": name, "namespace": space.name},
        "spec": {"statementRef": {"name": statement}, **spec},
    }
    space.cluster.create(body)


def savepoint(space: Space, name: str, statement: str, **spec: Any) -> Object:
    """A new SqlSavepoint once it is over, whatever the outcome."""
    ask_savepoint(space, name, statement, **spec)
    return savepoint_over(space, name)


def savepoint_over(space: Space, name: str) -> Object:
    """A SqlSavepoint once it is over, whatever the outcome."""
    return space.cluster.wait(
        "SqlSavepoint", space.name, name, lambda s: condition(s, "Finished") == "True", "Finished", SECONDS
    )


def assert_each_once(space: Space, table: str, session: str = "main") -> None:
    """The table has what `ticks` counted in its column `value`: every number from 0 on, once."""
    query = f"SELECT count(*), count(DISTINCT value), min(value), max(value) FROM {table}"
    [[rows, distinct, least, most]] = seen = space.rows(query, session=session)
    assert (rows, least) == (distinct, "0"), seen
    assert rows is not None and most is not None
    assert int(rows) == int(most) + 1, seen
