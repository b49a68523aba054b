"""The answers of the API server and the kubelet's reasons for a driver's pod, each with its class and the justification.

`tests/integration/test_reasons_of_components.py` compares the tables with the sources of the Kubernetes that tests run.
"""

from __future__ import annotations

from typing import Any

from sparksql.api.reasons import Reason

# Reasons of metav1.StatusReason (apimachinery, Kubernetes 1.35), with the status that the API server sends them with.
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
    ("StorageReadError", 500, Reason.FAILED_CREATE, "etcd heals"),
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

# Waiting reasons of containers (kubelet/container, kubelet/images, cri-api/errors; Kubernetes 1.35).
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
    ("RemoveContainerError", "container", "the runtime"),
    ("ResizePodInPlaceError", "container", "the runtime, or the node has too little room"),
    ("ImageVolumeMountFailed", "container", "a volume of the class that is an image"),
    ("RROUnsupported", "container", "a volume of the class is read-only in a way that the runtime does not support"),
    ("ReasonOfALaterVersion", "container", "what is not known does not start as it should"),
]

# How containers end, and why pods fail without one (kubelet, node life cycle, pod garbage collector). Each end counts towards the
# limit of restarts, unless the condition DisruptionTarget is there: then the cluster took the pod away.
ENDS: list[tuple[str, dict[str, Any], str, str]] = [
    (
        "Completed",
        {"terminated": {"reason": "Completed", "exitCode": 0}},
        "Completed, exit code 0",
        "the driver has ended by itself, as after a stop of its context",
    ),
    (
        "Error",
        {"terminated": {"reason": "Error", "exitCode": 1}},
        "Error, exit code 1",
        "the driver has failed, see its log",
    ),
    (
        "OOMKilled",
        {"terminated": {"reason": "OOMKilled", "exitCode": 137}},
        "raise spec.driver.memory",
        "the container used more than its limit",
    ),
    (
        "heap of Spark",
        {"terminated": {"reason": "Error", "exitCode": 52}},
        "raise spec.driver.memory",
        "the exit code of Spark for an exhausted heap",
    ),
    (
        "executors failed",
        {"terminated": {"reason": "Error", "exitCode": 11}},
        "spec.executors.memory",
        "the exit code of Spark for too many failed executors",
    ),
    (
        "ContainerCannotRun",
        {"terminated": {"reason": "ContainerCannotRun", "exitCode": 127, "message": "w"}},
        ": w",
        "the runtime could not start the container",
    ),
    (
        "StartError",
        {"terminated": {"reason": "StartError", "exitCode": 128, "message": "no such file"}},
        "no such file",
        "the runtime could not start the command",
    ),
    (
        "ContainerStatusUnknown",
        {"terminated": {"reason": "ContainerStatusUnknown", "exitCode": 137}},
        "Unknown",
        "the kubelet has lost the container",
    ),
    (
        "DeadlineExceeded",
        {"reason": "DeadlineExceeded", "message": "Pod was active too long"},
        "active too long",
        "activeDeadlineSeconds of the class is over",
    ),
    (
        "Evicted",
        {"reason": "Evicted", "message": "The node was low on resource: memory"},
        "low on resource",
        "the node is short of a resource",
    ),
    (
        "Terminated",
        {"reason": "Terminated", "message": "Pod was terminated in response to node shutdown"},
        "shutdown",
        "the node shuts down",
    ),
    (
        "NodeAffinity",
        {"reason": "NodeAffinity", "message": "Pod was rejected"},
        "NodeAffinity: Pod was rejected",
        "the labels of the node were changed",
    ),
    (
        "OutOfmemory",
        {"reason": "OutOfmemory", "message": "Node didn't have enough resource"},
        "enough resource",
        "the kubelet has less room than the scheduler counted",
    ),
    (
        "UnexpectedAdmissionError",
        {"reason": "UnexpectedAdmissionError", "message": "devices"},
        "devices",
        "a device plugin failed",
    ),
    ("NodeLost", {"reason": "NodeLost"}, "NodeLost", "the node does not answer"),
    (
        "OutOfcpu",
        {"reason": "OutOfcpu", "message": "Node didn't have enough resource"},
        "enough resource",
        "the kubelet has less room than the scheduler counted",
    ),
    (
        "OutOfpods",
        {"reason": "OutOfpods", "message": "Node didn't have enough resource"},
        "enough resource",
        "the kubelet has less room than the scheduler counted",
    ),
    (
        "Preempting",
        {"reason": "Preempting", "message": "Preempted in order to admit critical pod"},
        "critical pod",
        "a critical pod needs the room",
    ),
    (
        "NodeShutdown",
        {"reason": "NodeShutdown", "message": "Pod was rejected as the node is shutting down"},
        "shutting",
        "the node shuts down",
    ),
    (
        "AppArmor",
        {"reason": "AppArmor", "message": "Cannot enforce AppArmor"},
        "AppArmor: Cannot enforce",
        "the class names a profile that the node lacks",
    ),
    (
        "SysctlForbidden",
        {"reason": "SysctlForbidden", "message": "forbidden sysctl"},
        "forbidden sysctl",
        "the class sets a sysctl that the kubelet forbids",
    ),
    (
        "PodOSNotSupported",
        {"reason": "PodOSNotSupported", "message": "Failed to admit pod"},
        "Failed to admit",
        "the class names another operating system",
    ),
    (
        "SIGTERM",
        {"terminated": {"reason": "Error", "exitCode": 143}},
        "Error, exit code 143",
        "the driver got the signal to end",
    ),
    ("SIGSEGV", {"terminated": {"reason": "Error", "exitCode": 139}}, "Error, exit code 139", "the driver has crashed"),
    ("no reason", {"terminated": {"exitCode": 1}}, "Terminated, exit code 1", "the runtime gives no reason"),
    (
        "OutOfephemeral-storage",
        {"reason": "OutOfephemeral-storage", "message": "its own words"},
        "OutOfephemeral-storage: its own words",
        "the kubelet has less room than the scheduler counted",
    ),
    (
        "PodOSSelectorNodeLabelDoesNotMatch",
        {"reason": "PodOSSelectorNodeLabelDoesNotMatch", "message": "its own words"},
        "PodOSSelectorNodeLabelDoesNotMatch: its own words",
        "the class selects another operating system",
    ),
    (
        "InvalidNodeInfo",
        {"reason": "InvalidNodeInfo", "message": "its own words"},
        "InvalidNodeInfo: its own words",
        "the kubelet could not read its node",
    ),
    (
        "InitContainerRestartPolicyForbidden",
        {"reason": "InitContainerRestartPolicyForbidden", "message": "its own words"},
        "InitContainerRestartPolicyForbidden: its own words",
        "the node is older than the class's pod template",
    ),
    (
        "SupplementalGroupsPolicyNotSupported",
        {"reason": "SupplementalGroupsPolicyNotSupported", "message": "its own words"},
        "SupplementalGroupsPolicyNotSupported: its own words",
        "the runtime is older than the class's pod template",
    ),
    (
        "UnknownReason",
        {"reason": "UnknownReason", "message": "its own words"},
        "UnknownReason: its own words",
        "the kubelet gives no reason for a refusal",
    ),
    (
        "UnexpectedPredicateFailureType",
        {"reason": "UnexpectedPredicateFailureType", "message": "its own words"},
        "UnexpectedPredicateFailureType: its own words",
        "the kubelet gives no reason for a refusal",
    ),
    (
        "PodLevelResourcesNotSupported",
        {"reason": "PodLevelResourcesNotSupported", "message": "its own words"},
        "PodLevelResourcesNotSupported: its own words",
        "the node is older than the class's pod template",
    ),
    (
        "PodFeatureUnsupported",
        {"reason": "PodFeatureUnsupported", "message": "its own words"},
        "PodFeatureUnsupported: its own words",
        "the node is older than the class's pod template",
    ),
    (
        "TopologyAffinityError",
        {"reason": "TopologyAffinityError", "message": "its own words"},
        "TopologyAffinityError: its own words",
        "no part of the node has all that the pod needs",
    ),
    (
        "VolumeAttachmentLimitExceeded",
        {"reason": "VolumeAttachmentLimitExceeded", "message": "its own words"},
        "VolumeAttachmentLimitExceeded: its own words",
        "the node holds no more volumes",
    ),
    (
        "node(s) had taints that the pod didn't tolerate",
        {"reason": "node(s) had taints that the pod didn't tolerate", "message": "its own words"},
        "node(s) had taints that the pod didn't tolerate: its own words",
        "the node got a taint",
    ),
    (
        "ReasonOfALaterVersion",
        {"reason": "Abducted", "message": "by a comet"},
        "Abducted: by a comet",
        "what is not known is shown as it is",
    ),
]
