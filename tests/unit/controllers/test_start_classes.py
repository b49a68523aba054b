"""What each answer of the API server and each word of the kubelet means for a session's start, and why.

A start that the environment refuses is repeated without end. One that the spec forbids is repeated as well, until the spec
changes: what admission refuses today may be allowed tomorrow. A driver that has ended counts towards the limit of restarts,
unless the cluster took it away.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from sparksql.api.reasons import Reason
from sparksql.controllers.session.pods import pod_snapshot
from sparksql.controllers.start_failures import violation_of
from sparksql.kube.errors import error_from

# Reasons of metav1.StatusReason (apimachinery, Kubernetes 1.34), with the status that the API server sends them with.
ANSWERS = [
    ("", 500, Reason.FAILED_CREATE, "the server says no more"),
    ("Unauthorized", 401, Reason.FAILED_CREATE, "credentials are renewed"),
    ("Forbidden", 403, Reason.NOT_ALLOWED, "rights, policies and webhooks are changed by those who own them"),
    ("NotFound", 404, Reason.FAILED_CREATE, "a namespace or an account may be made"),
    ("AlreadyExists", 409, Reason.FAILED_CREATE, "the name becomes free"),
    ("Conflict", 409, Reason.FAILED_CREATE, "another write was faster"),
    ("Gone", 410, Reason.FAILED_CREATE, "of a list, which a creation is not"),
    ("Expired", 410, Reason.FAILED_CREATE, "of a list, which a creation is not"),
    ("Invalid", 422, Reason.FAILED_CREATE, "no field is named: a policy could not be evaluated"),
    ("StoreReadError", 500, Reason.FAILED_CREATE, "etcd heals"),
    ("ServerTimeout", 500, Reason.FAILED_CREATE, "the server was slow"),
    ("Timeout", 504, Reason.FAILED_CREATE, "the server or a webhook was slow"),
    ("TooManyRequests", 429, Reason.FAILED_CREATE, "the server sheds load"),
    ("BadRequest", 400, Reason.FAILED_CREATE, "a webhook may answer it"),
    ("MethodNotAllowed", 405, Reason.FAILED_CREATE, "a webhook or a proxy may answer it"),
    ("NotAcceptable", 406, Reason.FAILED_CREATE, "a webhook or a proxy may answer it"),
    ("RequestEntityTooLarge", 413, Reason.FAILED_CREATE, "a webhook or a proxy may answer it"),
    ("UnsupportedMediaType", 415, Reason.FAILED_CREATE, "a webhook or a proxy may answer it"),
    ("InternalError", 500, Reason.FAILED_CREATE, "a webhook failed, or the server"),
    ("ServiceUnavailable", 503, Reason.FAILED_CREATE, "the server starts or is overloaded"),
]

# Waiting reasons of containers (kubelet/container, kubelet/images, cri-api/errors; Kubernetes 1.34).
WAITS = [
    ("ContainerCreating", None, "starts as it should; Events name volumes that are missing"),
    ("PodInitializing", None, "starts as it should"),
    ("ErrImagePull", "image", "the registry or its credentials"),
    ("ImagePullBackOff", "image", "the same, between two tries"),
    ("ErrImageNeverPull", "image", "the node has no such image"),
    ("InvalidImageName", "image", "the class or the session names it wrongly"),
    ("ImageInspectError", "image", "the node's store of images"),
    ("RegistryUnavailable", "image", "the registry"),
    ("SignatureValidationFailed", "image", "the image is not signed as the node demands"),
    ("CreateContainerConfigError", "container", "a Secret or ConfigMap is missing, or a key in it"),
    ("CreateContainerError", "container", "the runtime"),
    ("RunContainerError", "container", "the command is not in the image, or the runtime fails"),
    ("CrashLoopBackOff", "container", "an init container of the class ends with an error"),
    ("KillContainerError", "container", "the runtime"),
    ("CreatePodSandboxError", "container", "the network of the node"),
    ("ConfigPodSandboxError", "container", "the network of the node"),
    ("KillPodSandboxError", "container", "the network of the node"),
    ("PreCreateHookError", "container", "the kubelet"),
    ("PreStartHookError", "container", "the kubelet"),
    ("PostStartHookError", "container", "a hook of the class"),
    ("ReasonOfALaterVersion", "container", "what is not known does not start as it should"),
]

# How containers end, and why pods fail without one (kubelet, node life cycle, pod garbage collector).
ENDS: list[tuple[str, dict[str, Any], str]] = [
    ("Completed", {"terminated": {"reason": "Completed", "exitCode": 0}}, "Completed, exit code 0"),
    ("Error", {"terminated": {"reason": "Error", "exitCode": 1}}, "Error, exit code 1"),
    ("OOMKilled", {"terminated": {"reason": "OOMKilled", "exitCode": 137}}, "raise spec.driver.memory"),
    ("heap of Spark", {"terminated": {"reason": "Error", "exitCode": 52}}, "raise spec.driver.memory"),
    ("executors failed", {"terminated": {"reason": "Error", "exitCode": 11}}, "spec.executors.memory"),
    ("ContainerCannotRun", {"terminated": {"reason": "ContainerCannotRun", "exitCode": 127, "message": "w"}}, ": w"),
    (
        "StartError",
        {"terminated": {"reason": "StartError", "exitCode": 128, "message": "no such file"}},
        "no such file",
    ),
    ("ContainerStatusUnknown", {"terminated": {"reason": "ContainerStatusUnknown", "exitCode": 137}}, "Unknown"),
    ("DeadlineExceeded", {"reason": "DeadlineExceeded", "message": "Pod was active too long"}, "active too long"),
    ("Evicted", {"reason": "Evicted", "message": "The node was low on resource: memory"}, "low on resource"),
    ("Terminated", {"reason": "Terminated", "message": "Pod was terminated in response to node shutdown"}, "shutdown"),
    ("NodeAffinity", {"reason": "NodeAffinity", "message": "Pod was rejected"}, "NodeAffinity: Pod was rejected"),
    ("OutOfmemory", {"reason": "OutOfmemory", "message": "Node didn't have enough resource"}, "enough resource"),
    ("UnexpectedAdmissionError", {"reason": "UnexpectedAdmissionError", "message": "devices"}, "devices"),
    ("NodeLost", {"reason": "NodeLost"}, "NodeLost"),
    ("OutOfcpu", {"reason": "OutOfcpu", "message": "Node didn't have enough resource"}, "enough resource"),
    ("OutOfpods", {"reason": "OutOfpods", "message": "Node didn't have enough resource"}, "enough resource"),
    ("Preempting", {"reason": "Preempting", "message": "Preempted in order to admit critical pod"}, "critical pod"),
    (
        "NodeShutdown",
        {"reason": "NodeShutdown", "message": "Pod was rejected as the node is shutting down"},
        "shutting",
    ),
    ("AppArmor", {"reason": "AppArmor", "message": "Cannot enforce AppArmor"}, "AppArmor: Cannot enforce"),
    ("SysctlForbidden", {"reason": "SysctlForbidden", "message": "forbidden sysctl"}, "forbidden sysctl"),
    ("PodOSNotSupported", {"reason": "PodOSNotSupported", "message": "Failed to admit pod"}, "Failed to admit"),
    ("SIGTERM", {"terminated": {"reason": "Error", "exitCode": 143}}, "Error, exit code 143"),
    ("SIGSEGV", {"terminated": {"reason": "Error", "exitCode": 139}}, "Error, exit code 139"),
    ("no reason", {"terminated": {"exitCode": 1}}, "Terminated, exit code 1"),
    ("ReasonOfALaterVersion", {"reason": "Abducted", "message": "by a comet"}, "Abducted: by a comet"),
]


@pytest.mark.parametrize(("reason", "status", "expected", "why"), ANSWERS)
def test_answer_of_the_api_server_has_a_reason_and_its_words(
    reason: str, status: int, expected: Reason, why: str
) -> None:
    error = error_from(status, json.dumps({"reason": reason, "message": "its own words"}).encode())
    violation = violation_of(error, "standard")
    assert (violation.reason, "its own words" in violation.message) == (expected, True), why


@pytest.mark.parametrize(("reason", "kind", "why"), WAITS)
def test_waiting_reason_of_a_container_is_a_problem_unless_it_starts_as_it_should(
    reason: str, kind: str | None, why: str
) -> None:
    found = pod_snapshot(pod({"state": {"waiting": {"reason": reason, "message": "its own words"}}}))
    problems = {"image": found.image_problem, "container": found.container_problem}
    expected = {each: f"{reason}: its own words" if each == kind else None for each in problems}
    assert problems == expected, why


@pytest.mark.parametrize(("name", "end", "expected"), ENDS, ids=[name for name, _, _ in ENDS])
def test_end_of_a_driver_has_the_kubelets_words_or_a_remedy(name: str, end: dict[str, Any], expected: str) -> None:
    state = {"state": {"terminated": end["terminated"]}} if "terminated" in end else None
    rest = {key: value for key, value in end.items() if key != "terminated"}
    found = pod_snapshot(pod(state, phase="Failed", **rest))
    assert found.ended is not None and expected in found.ended, found


def pod(container: dict[str, Any] | None, **status: Any) -> dict[str, Any]:
    metadata = {"name": "s-1", "namespace": "team-a", "uid": "u", "creationTimestamp": "2026-01-31T08:00:00Z"}
    containers = [] if container is None else [{"name": "spark", **container}]
    return {"metadata": metadata, "spec": {}, "status": {"containerStatuses": containers, **status}}
