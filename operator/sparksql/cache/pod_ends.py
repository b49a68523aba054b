"""Ends of driver pods that were seen. A pod that vanished without one may still run, whatever the API server says.

The kubelet tells how a container ended before it lets the pod go; one that is deleted by force, or with its node, is
gone at once. Kept in memory: after a restart of the operator the ends that it missed are unknown, which costs time and
never safety.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from sparksql.domain.session.snapshot import PodEnd

DRIVER_CONTAINER = "spark"
_REMEMBERED = 10_000  # hours of restarts in a large cluster
# Reasons of the pod condition DisruptionTarget with which the cluster takes a pod away for its own ends. Not the kubelet's:
# that is also its word for a pod that used more than it may.
_DISRUPTIONS = frozenset({"EvictionByEvictionAPI", "DeletionByTaintManager", "PreemptionByScheduler"})


class PodTerminations:
    """Ends of the newest pods whose driver container has ended; fed with each pod that a watch brings, deleted ones as well.

    A disruption is known before the end: the cluster says why it takes a pod away, and then deletes it.
    """

    def __init__(self) -> None:
        self._ends: OrderedDict[str, PodEnd] = OrderedDict()
        self._disruptions: OrderedDict[str, str] = OrderedDict()

    def observe(self, pod: dict[str, Any]) -> None:
        """Takes in a pod as the API server has it: its disruption, and the end of its driver container, if it has ended."""
        uid, status = pod["metadata"]["uid"], pod.get("status", {})
        conditions = {c["type"]: c for c in status.get("conditions", ())}
        reason = conditions.get("DisruptionTarget", {}).get("reason")
        if reason in _DISRUPTIONS:
            _remember(self._disruptions, uid, reason)
        containers = {c["name"]: c for c in status.get("containerStatuses", ())}
        if containers.get(DRIVER_CONTAINER, {}).get("state", {}).get("terminated"):
            _remember(self._ends, uid, PodEnd(disruption=reason if reason in _DISRUPTIONS else None))

    def end_of(self, uid: str) -> PodEnd | None:
        """Returns the end of the pod with this UID; None unless it was seen, and lately enough."""
        return self._ends.get(uid)

    def disruption_of(self, uid: str) -> str | None:
        """Returns the reason for which the cluster takes or took the pod with this UID away; None if it was no such thing."""
        return self._disruptions.get(uid)


def _remember(seen: OrderedDict[str, Any], uid: str, what: Any) -> None:
    seen[uid] = what
    if len(seen) > _REMEMBERED:
        seen.popitem(last=False)
