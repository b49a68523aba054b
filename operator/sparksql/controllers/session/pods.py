"""Driver pods as decisions see them. A pod is called gone only after a live read: a watch may lag behind."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sparksql.api.session import SessionPhase, SqlSession
from sparksql.cache.indexes import POD
from sparksql.cache.pod_ends import DRIVER_CONTAINER
from sparksql.controllers.context import ControllerContext
from sparksql.domain.ownership import SESSION_OWNER, owned_by, owner_uid
from sparksql.domain.public_text import ClusterReason, Message, compose
from sparksql.domain.session.snapshot import PodFacts, has_outlived

Object = dict[str, Any]

# Waiting reasons of a container that starts as it should: the kubelet's only two such. Any other one is a problem.
_HARMLESS_WAITS = frozenset({"ContainerCreating", "PodInitializing"})
# Those of the others that concern the image, by kubelet/images and cri-api/errors of Kubernetes 1.34. They decide the session's
# reason and deadline only: a reason that is not here is a container that does not start.
_IMAGE_PROBLEMS = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)

_MAX_DETAIL_CHARS = 300  # of each component's words; the status has 1024 for all

# Exit codes with a known cause: Spark's own (SparkExitCode of Spark 4.1), and 128 + SIGKILL.
_REMEDIES = {
    11: "too many executors failed within spark.executor.failuresValidityInterval; if they ran out of memory, raise "
    "spec.executors.memory, else see the events of the executor pods, or raise spark.executor.maxNumFailures",
    52: "the driver's heap is exhausted; raise spec.driver.memory",
    137: "the driver was killed, as for more memory than its pod's limit; raise spec.driver.memory",
}


def is_driver(pod: Object, session_uid: str, uid: str | None) -> bool:
    """Tells whether a pod with a driver's name is that driver.

    It is if it has `uid`, or, while that is not known, if the session alone owns it. A pod that somebody else made
    under the name is none, and neither is one of a pool that another session was faster to take.
    """
    if uid is None:
        return owned_by(pod, SESSION_OWNER, session_uid)
    return bool(pod["metadata"]["uid"] == uid) and not (session_uid and _is_anothers(pod, session_uid))


def _is_anothers(pod: Object, session_uid: str) -> bool:
    return owner_uid(pod, SESSION_OWNER) not in (None, session_uid)


async def read_pod(
    context: ControllerContext, namespace: str, name: str, uid: str | None, session_uid: str = ""
) -> PodFacts | None:
    """Returns the driver pod of that name and UID, None once the API server has confirmed that there is none.

    Without a UID it is a pod that the session of `session_uid` alone owns. Raises ApiError.
    """
    obj = context.store.get(POD, namespace, name)
    if obj is None or not is_driver(obj, session_uid, uid):
        obj = await context.status.refresh(POD, namespace, name)
    return pod_snapshot(obj) if obj is not None and is_driver(obj, session_uid, uid) else None


def is_driver_over(context: ControllerContext, pod: PodFacts | None, session: SqlSession | None) -> bool:
    """Tells whether the driver that work was handed to is over.

    Its pod is gone or has ended, or its session waits for it no more.
    """
    if pod is None or pod.ended is not None:
        return True
    if not has_outlived(pod, context.clock(), context.config.deadlines.termination_seconds):
        return False
    status = session.status if session is not None else None
    return (
        status is None
        or status.phase is not SessionPhase.READY
        or status.driver is None
        or status.driver.pod_uid != pod.uid
    )


def pod_snapshot(pod: Object) -> PodFacts:
    """Returns what a decision sees of a raw pod."""
    metadata, spec, status = pod["metadata"], pod.get("spec", {}), pod.get("status", {})
    conditions = {c["type"]: c for c in status.get("conditions", ())}
    containers = {c["name"]: c for c in status.get("containerStatuses", ())}
    driver = containers.get(DRIVER_CONTAINER, {})
    scheduled = conditions.get("PodScheduled", {})
    unschedulable = scheduled.get("message", "") if scheduled.get("reason") == "Unschedulable" else None
    running = driver.get("state", {}).get("running")
    problem_reason, problem = _container_problem(status)
    due = metadata.get("deletionTimestamp")
    return PodFacts(
        name=metadata["name"],
        uid=metadata["uid"],
        created=_time(metadata["creationTimestamp"]),
        end_due=_time(due) if due is not None else None,
        ip=status.get("podIP"),
        gates=tuple(gate["name"] for gate in spec.get("schedulingGates") or ()),
        scheduler=spec.get("schedulerName") or "",
        has_node=bool(spec.get("nodeName")),
        unschedulable=unschedulable,
        image_problem=problem if problem_reason in _IMAGE_PROBLEMS else None,
        container_problem=problem if problem_reason not in _IMAGE_PROBLEMS else None,
        started=_time(running["startedAt"]) if running and running.get("startedAt") else None,
        ended=_ended(status, driver),
    )


def _container_problem(status: Object) -> tuple[str | None, str | None]:
    """Returns the kubelet's reason why a container does not start, and that reason with its message; None if all start."""
    for container in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        waiting = container.get("state", {}).get("waiting") or {}
        reason = waiting.get("reason")
        if reason and reason not in _HARMLESS_WAITS:
            message = waiting.get("message") or container.get("image", "")
            return reason, f"{reason}: {message[:_MAX_DETAIL_CHARS]}"
    return None, None


def _ended(status: Object, driver: Object) -> Message | None:
    """Describes how the driver's container ended, or why its pod failed without one (evicted, node lost).

    Ends with the words of the kubelet and of the container, clipped. None for a pod that has not ended.
    """
    if status.get("phase") not in ("Failed", "Succeeded"):
        return None
    terminated = driver.get("state", {}).get("terminated") or {}
    without = ClusterReason(status.get("reason") or str(status.get("phase")))
    end = _container_end(terminated) if terminated else compose("{reason}", reason=without)
    details = dict.fromkeys(text.strip() for text in (terminated.get("message"), status.get("message")) if text)
    words = ": ".join(detail[:_MAX_DETAIL_CHARS] for detail in details if detail)
    return compose("{end}: {words}", end=end, words=words) if words else end


def _container_end(terminated: Object) -> Message:
    reason, code = ClusterReason(terminated.get("reason") or "Terminated"), terminated.get("exitCode")
    end = compose("{reason}, exit code {code}", reason=reason, code=code if isinstance(code, int) else "unknown")
    remedy = _REMEDIES.get(code) if code is not None else None
    return end if remedy is None else compose("{end} ({remedy})", end=end, remedy=compose(remedy))


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
