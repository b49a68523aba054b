"""Driver pods as facts. A pod is called gone only after a live read: a watch may lag behind."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sparksql.controllers.ended_pods import DRIVER_CONTAINER
from sparksql.controllers.indexes import POD
from sparksql.controllers.runtime import Runtime
from sparksql.domain.session.snapshot import PodFacts

Object = dict[str, Any]

_IMAGE_PROBLEMS = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "RegistryUnavailable",
        "ErrImageInspect",
    }
)


async def read_pod(rt: Runtime, namespace: str, name: str, uid: str | None) -> PodFacts | None:
    """The pod of that name (and UID, when one is known), None once the API server has confirmed that it is gone."""
    obj = rt.store.get(POD, namespace, name)
    if obj is None or (uid is not None and obj["metadata"]["uid"] != uid):
        obj = await rt.status.refresh(POD, namespace, name)
    elif obj.get("status", {}).get("phase") in ("Failed", "Succeeded"):
        return pod_facts(obj)
    if obj is None or (uid is not None and obj["metadata"]["uid"] != uid):
        return None
    return pod_facts(obj)


def pod_facts(pod: Object) -> PodFacts:
    """Facts of a raw pod."""
    metadata, status = pod["metadata"], pod.get("status", {})
    conditions = {c["type"]: c for c in status.get("conditions", ())}
    containers = {c["name"]: c for c in status.get("containerStatuses", ())}
    driver = containers.get(DRIVER_CONTAINER, {})
    scheduled = conditions.get("PodScheduled", {})
    unschedulable = scheduled.get("message", "") if scheduled.get("reason") == "Unschedulable" else None
    running = driver.get("state", {}).get("running")
    return PodFacts(
        name=metadata["name"],
        uid=metadata["uid"],
        created=_time(metadata["creationTimestamp"]),
        deleting=metadata.get("deletionTimestamp") is not None,
        ip=status.get("podIP"),
        unschedulable=unschedulable,
        image_problem=_image_problem(status),
        started=_time(running["startedAt"]) if running and running.get("startedAt") else None,
        ended=_ended(status, driver),
    )


def _image_problem(status: Object) -> str | None:
    for container in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        waiting = container.get("state", {}).get("waiting") or {}
        if waiting.get("reason") in _IMAGE_PROBLEMS:
            return f"{waiting['reason']}: {waiting.get('message') or container.get('image', '')}"
    return None


def _ended(status: Object, driver: Object) -> str | None:
    """How the driver's container ended; a pod that failed without one (evicted, node lost) tells by its own reason."""
    if status.get("phase") not in ("Failed", "Succeeded"):
        return None
    terminated = driver.get("state", {}).get("terminated")
    if terminated:
        reason = terminated.get("reason") or "Terminated"
        return f"{reason}, exit code {terminated.get('exitCode')}"
    return status.get("reason") or str(status.get("phase"))


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
