"""What an answer of the API server means for a driver that could not be created. Pure."""

from __future__ import annotations

from sparksql.api.reasons import Reason
from sparksql.domain.violation import Violation
from sparksql.kube.errors import ApiError, Forbidden, Invalid

_MAX_MESSAGE_CHARS = 1000
_CPU_LIMIT = "spec.driver.cpuLimit and spec.executors.cpuLimit of the session, or of its class's defaults, set one"


def violation_of(error: ApiError, class_name: str) -> Violation:
    """Returns the reason for which a driver of the class could not be created, with the server's own words.

    Every error but a refusal may pass by itself: admission webhooks answer any status, and time out.
    """
    match error:
        case Forbidden() if error.quota_exceeded:
            return _violation(Reason.QUOTA_EXCEEDED, error.message)
        case Forbidden() if error.namespace_terminating:
            return _violation(Reason.NAMESPACE_TERMINATING, "the namespace is being deleted")
        case Forbidden():
            # A quota names the resource in the message only. The hint is for people; nothing is decided by it.
            remedy = f"; {_CPU_LIMIT}" if "limits.cpu" in error.message else ""
            return _violation(Reason.NOT_ALLOWED, f"the cluster does not allow it: {error.message}{remedy}")
        case Invalid() if error.fields:
            message = f"the API server refuses what follows from class {class_name}: {error.message}"
            return _violation(Reason.INVALID_SPEC, message)
        case _:
            answer = f"{error.status} {error.reason}".strip()
            return _violation(
                Reason.FAILED_CREATE, f"the API server failed to create the pod ({answer}): {error.message}"
            )


def _violation(reason: Reason, message: str) -> Violation:
    return Violation(reason, message[:_MAX_MESSAGE_CHARS])
