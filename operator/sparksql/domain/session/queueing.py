"""Driver pods that a queue system holds back: by scheduling gates, or by a scheduler that finds no place for them yet. Pure."""

from __future__ import annotations

from sparksql.domain.session.resolve import Resolved
from sparksql.domain.session.snapshot import PodFacts, Snapshot

# The API server's default of `schedulerName`; it has no queue.
DEFAULT_SCHEDULER = "default-scheduler"


def queue_of(s: Snapshot, pod: PodFacts) -> str | None:
    """What a pod that waits in a queue waits for; None if it is in none."""
    if pod.gates:
        return f"a queue system holds pod {pod.name} back (scheduling gates: {', '.join(pod.gates)})"
    if pod.has_node or not _has_queue(s, pod):
        return None
    return f"pod {pod.name} waits for its place: {pod.unschedulable or 'the scheduler has not said why'}"


def _has_queue(s: Snapshot, pod: PodFacts) -> bool:
    """Whether the pod goes through a queue: its scheduler is not the cluster's own, or its class names one by label."""
    labelled = isinstance(s.resolution, Resolved) and bool(s.resolution.effective.scheduling.queue_label)
    return labelled or pod.scheduler not in ("", DEFAULT_SCHEDULER)
