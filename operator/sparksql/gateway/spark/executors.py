"""How many executors Spark asks for at the moment, as its scheduler's backend counts them."""

from __future__ import annotations

from typing import Any

from sparksql.gateway.spark.scala import elements

_BACKEND = "org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend"
_REQUESTED = "requestedTotalExecutorsPerResourceProfile"  # Spark 4.1 and 4.2; it has no accessor


def executors_wanted(context: Any) -> int | None:
    """Returns the number that dynamic allocation asks for, None where it has asked for none yet, as with a fixed number.

    None as well of a Spark that counts them otherwise. `context` is the JVM's SparkContext. Blocks.
    """
    backend = context.schedulerBackend()
    found = backend.getClass()
    while found is not None and found.getName() != _BACKEND:
        found = found.getSuperclass()
    if found is None:  # a local master, which has no executors of its own
        return None
    field = next((each for each in found.getDeclaredFields() if each.getName() == _REQUESTED), None)
    if field is None:
        return None
    field.setAccessible(True)
    requested = [int(each) for each in elements(field.get(backend).values().toSeq())]
    return sum(requested) if requested else None
