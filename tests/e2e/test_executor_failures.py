"""Executors that are killed for memory: statements fail with the cause and its remedy, the driver and its session live on."""

from __future__ import annotations

import json

from tests.support.harness import Classes, Object, Space, condition, phase

# Heap and little else: the kernel kills a process that fills its heap.
TIGHT = {"spark.executor.memoryOverhead": "70m", "spark.executor.extraJavaOptions": "-Xms512m"}
FILLS_A_HEAP = "SELECT sum(size(s)) FROM (SELECT sequence(id, id + 25000000L) AS s FROM range(0, 40, 1, 2))"


def test_executors_killed_for_memory_are_counted_and_their_driver_lives_on(space: Space, classes: Classes) -> None:
    space.session("tight", className=classes.make(enforcedConf=TIGHT), executors={"instances": 1, "memory": "512Mi"})
    before = space.get_session("tight")["status"]["driver"]
    for _ in range(2):  # Spark's own limit for one executor would be three failures
        ended = space.run(FILLS_A_HEAP, session="tight", seconds=300)
        assert phase(ended) == "Error", ended["status"]
        message = condition(ended, "Ready", "message") or ""
        assert "while it ran" in message and "spec.executors.memory" in message, message
        assert "container statuses" not in message, message

    def is_counted(session: Object | None) -> bool:
        return condition(session, "ExecutorsFailing") == "True"

    failing = space.cluster.wait("SqlSession", space.name, "tight", is_counted, "counting its failed executors")
    told = condition(failing, "ExecutorsFailing", "message") or ""
    assert "executors failed" in told and "spec.executors.memory" in told, told
    assert failing["status"]["driver"]["podUID"] == before["podUID"], json.dumps(failing["status"])
    assert phase(failing) == "Ready"
    assert space.rows("SELECT 1 AS one", session="tight") == [["1"]]
