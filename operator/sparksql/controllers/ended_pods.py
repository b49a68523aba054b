"""Which driver pods were seen to end. A pod that vanished without that may still run, whatever the API server says.

The kubelet tells how a container ended before it lets the pod go; one that is deleted by force, or with its node, is gone at once.
Kept in memory: after a restart of the operator the ends that it missed are unknown, which costs time and never safety.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

DRIVER_CONTAINER = "spark"
_REMEMBERED = 10_000  # hours of restarts in a large cluster


class EndedPods:
    """UIDs of the newest pods whose driver container has ended; fed with each pod that a watch brings, deleted ones as well."""

    def __init__(self) -> None:
        self._uids: OrderedDict[str, None] = OrderedDict()

    def observe(self, pod: dict[str, Any]) -> None:
        containers = {c["name"]: c for c in pod.get("status", {}).get("containerStatuses", ())}
        if containers.get(DRIVER_CONTAINER, {}).get("state", {}).get("terminated"):
            self._uids[pod["metadata"]["uid"]] = None
            if len(self._uids) > _REMEMBERED:
                self._uids.popitem(last=False)

    def __contains__(self, uid: str) -> bool:
        return uid in self._uids
