"""Ends of driver and executor pods that were seen. A pod that vanished without one may still run, whatever the API server says.

The kubelet tells how a container ended before it lets the pod go; one that is deleted by force, or with its node, is
gone at once. Kept in memory: after a restart of the operator the ends that it missed are unknown, which costs time and
never safety.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import UTC, datetime, timedelta
from typing import Any

from sparksql.api.names import EXECUTOR_APP_NAME, LABEL_NAME
from sparksql.cache.views import ObjectView
from sparksql.domain.ownership import driver_of
from sparksql.domain.session.snapshot import ExecutorFailure, PodEnd

DRIVER_CONTAINER = "spark"
_FAILURES_FOR = timedelta(hours=1)
_FAILURES_REMEMBERED = 100  # of one driver: Spark ends one with fewer
_OUT_OF_MEMORY = 52  # the exit code of a Spark process whose heap is exhausted (SparkExitCode.OOM)
_REMEMBERED = 10_000  # hours of restarts in a large cluster
# Reasons of the pod condition DisruptionTarget with which the cluster takes a pod away for its own ends, or has lost its node:
# all that https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions lists, but for the
# kubelet's. That is also its word for a pod that used more than it may.
_DISRUPTIONS = frozenset(
    {"EvictionByEvictionAPI", "DeletionByTaintManager", "PreemptionByScheduler", "DeletionByPodGC"}
)


class PodTerminations:
    """Ends of the newest pods whose driver container has ended; fed with each pod that a watch brings, deleted ones as well.

    A disruption is known before the end: the cluster says why it takes a pod away, and then deletes it.
    """

    def __init__(self) -> None:
        self._ends: OrderedDict[str, PodEnd] = OrderedDict()
        self._disruptions: OrderedDict[str, str] = OrderedDict()
        self._deletions: OrderedDict[str, bool] = OrderedDict()
        self._failures: OrderedDict[str, OrderedDict[str, ExecutorFailure]] = OrderedDict()  # by driver, by executor

    def observe(self, pod: dict[str, Any]) -> None:
        """Takes in a pod as the API server has it: why it goes, and the end of its driver container, if it has ended."""
        uid, status = pod["metadata"]["uid"], pod.get("status", {})
        conditions = {c["type"]: c for c in status.get("conditions", ())}
        reason = conditions.get("DisruptionTarget", {}).get("reason")
        if reason in _DISRUPTIONS:
            _remember(self._disruptions, uid, reason)
        containers = {c["name"]: c for c in status.get("containerStatuses", ())}
        terminated = containers.get(DRIVER_CONTAINER, {}).get("state", {}).get("terminated")
        if ObjectView(pod).labels.get(LABEL_NAME) == EXECUTOR_APP_NAME:
            if terminated and reason not in _DISRUPTIONS:
                self._executor_ended(pod, terminated)
            return
        if uid not in self._ends and _is_deleted_first(pod["metadata"], terminated):
            _remember(self._deletions, uid, True)
        if terminated:
            _remember(self._ends, uid, PodEnd(disruption=reason if reason in _DISRUPTIONS else None))

    def end_of(self, uid: str) -> PodEnd | None:
        """Returns the end of the pod with this UID; None unless it was seen, and lately enough."""
        return self._ends.get(uid)

    def executor_failures(self, driver_uid: str, now: datetime) -> tuple[ExecutorFailure, ...]:
        """Returns the executors of the driver pod with this UID that were seen to fail within the last hour."""
        failures = self._failures.get(driver_uid)
        return tuple(each for each in (failures or {}).values() if now - each.time <= _FAILURES_FOR)

    def _executor_ended(self, pod: dict[str, Any], terminated: dict[str, Any]) -> None:
        """Takes in the end of an executor. One that was deleted first was not wanted any more, as when it was idle."""
        driver, metadata, code = driver_of(pod), pod["metadata"], terminated.get("exitCode")
        if driver is None or not code or "deletionTimestamp" in metadata or not terminated.get("finishedAt"):
            return
        known = self._failures.pop(driver["uid"], OrderedDict())
        reason = terminated.get("reason") or "Error"
        known[metadata["uid"]] = ExecutorFailure(
            pod_name=metadata["name"],
            time=datetime.fromisoformat(terminated["finishedAt"]).astimezone(UTC),
            end=f"{reason}, exit code {code}",
            out_of_memory=reason == "OOMKilled" or code == _OUT_OF_MEMORY,
        )
        if len(known) > _FAILURES_REMEMBERED:
            known.popitem(last=False)
        _remember(self._failures, driver["uid"], known)

    def was_deleted(self, uid: str) -> bool:
        """Tells whether the pod with this UID was deleted before its driver ended: by a user, or as its session goes on."""
        return uid in self._deletions

    def disruption_of(self, uid: str) -> str | None:
        """Returns the reason for which the cluster takes or took the pod with this UID away; None if it was no such thing."""
        return self._disruptions.get(uid)


def _is_deleted_first(metadata: dict[str, Any], terminated: dict[str, Any] | None) -> bool:
    """Tells whether a pod was deleted while its driver ran. The API server writes when the grace period of the request ends."""
    if "deletionTimestamp" not in metadata:
        return False
    if not terminated or not terminated.get("finishedAt"):
        return True
    grace = timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
    requested = datetime.fromisoformat(metadata["deletionTimestamp"]) - grace
    return datetime.fromisoformat(terminated["finishedAt"]) >= requested


def _remember(seen: OrderedDict[str, Any], uid: str, what: Any) -> None:
    seen[uid] = what
    if len(seen) > _REMEMBERED:
        seen.popitem(last=False)
