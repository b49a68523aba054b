"""The admission policy has an answer to every field of a pod that the API server knows: a new one must be decided here.

HELD is what the policy holds to a value. What is FREE gives an executor nothing that its driver does not have: its own
processes, sizes, places and network names.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.chart.helmchart import Rendered
from tests.support.apiserver import ApiServer

HELD = {
    "PodSpec": "automountServiceAccountToken containers ephemeralContainers hostIPC hostNetwork hostPID initContainers nodeName "
    "priorityClassName securityContext serviceAccountName volumes",
    "PodSecurityContext": "appArmorProfile fsGroup runAsGroup runAsNonRoot runAsUser seLinuxOptions seccompProfile "
    "supplementalGroups sysctls windowsOptions",
    "Container": "env envFrom image lifecycle livenessProbe ports readinessProbe securityContext startupProbe volumeDevices",
    "SecurityContext": "allowPrivilegeEscalation appArmorProfile capabilities privileged procMount runAsGroup runAsNonRoot "
    "runAsUser seLinuxOptions seccompProfile windowsOptions",
    "Capabilities": "add drop",
    "SeccompProfile": "type",
    "AppArmorProfile": "type",
    "SELinuxOptions": "role type user",
    "ContainerPort": "hostIP hostPort",
    "EnvFromSource": "secretRef",
    "EnvVarSource": "secretKeyRef",
    "Probe": "httpGet tcpSocket",
    "LifecycleHandler": "httpGet tcpSocket",
    "HTTPGetAction": "host",
    "TCPSocketAction": "host",
    "Volume": "configMap emptyDir persistentVolumeClaim secret",
    "OwnerReference": "apiVersion kind name uid",
    "ObjectMeta": "annotations finalizers labels ownerReferences",
}
FREE = {
    # `priority` and `overhead` are set by the API server from classes, `serviceAccount` is the old name of its neighbour. Where a
    # pod may run (tolerations, node selectors, its scheduler, its runtime) is the class's to say, which the policy cannot see.
    "PodSpec": "activeDeadlineSeconds affinity dnsConfig dnsPolicy enableServiceLinks hostAliases hostUsers hostname "
    "hostnameOverride imagePullSecrets nodeSelector os overhead preemptionPolicy priority readinessGates resourceClaims resources "
    "restartPolicy runtimeClassName schedulerName schedulingGates serviceAccount setHostnameAsFQDN shareProcessNamespace subdomain "
    "terminationGracePeriodSeconds tolerations topologySpreadConstraints workloadRef",
    "PodSecurityContext": "fsGroupChangePolicy seLinuxChangePolicy supplementalGroupsPolicy",
    "Container": "args command imagePullPolicy name resizePolicy resources restartPolicy restartPolicyRules stdin stdinOnce "
    "terminationMessagePath terminationMessagePolicy tty volumeMounts workingDir",
    "SecurityContext": "readOnlyRootFilesystem",
    "Capabilities": "",
    "SeccompProfile": "localhostProfile",  # of type Localhost only
    "AppArmorProfile": "localhostProfile",
    "SELinuxOptions": "level",
    "ContainerPort": "containerPort name protocol",
    "EnvFromSource": "configMapRef prefix",
    "EnvVarSource": "configMapKeyRef fieldRef fileKeyRef resourceFieldRef",  # a file is one of the pod's own volumes
    "Probe": "exec failureThreshold grpc initialDelaySeconds periodSeconds successThreshold terminationGracePeriodSeconds "
    "timeoutSeconds",
    "LifecycleHandler": "exec sleep",
    "HTTPGetAction": "httpHeaders path port scheme",
    "TCPSocketAction": "port",
    "OwnerReference": "blockOwnerDeletion controller",
    "ObjectMeta": "creationTimestamp deletionGracePeriodSeconds deletionTimestamp generateName generation managedFields name "
    "namespace resourceVersion selfLink uid",
}
# A volume has exactly one source, so that any other than those above is refused, also one that nobody knows yet.
CLOSED = ("Volume",)


@pytest.fixture(scope="module")
def schemas(installed: ApiServer) -> dict[str, Any]:
    answer = installed.request("GET", "/openapi/v3/api/v1")
    assert answer.status == 200, answer.message
    found: dict[str, Any] = answer.body["components"]["schemas"]
    return found


@pytest.mark.parametrize("kind", HELD)
def test_every_field_of_a_kind_is_held_or_left_free(schemas: dict[str, Any], kind: str) -> None:
    [schema] = [body for name, body in schemas.items() if name.rpartition(".")[2] == kind]
    known = set(schema["properties"])
    held, free = set(HELD[kind].split()), set(FREE.get(kind, "").split())
    assert not held & free
    assert held <= known, f"{kind} has no {held - known}"
    assert kind in CLOSED or known <= held | free, f"not decided in {kind}: {sorted(known - held - free)}"


@pytest.mark.parametrize("kind", HELD)
def test_every_pod_field_held_to_a_value_is_named_in_the_admission_policy(rendered: Rendered, kind: str) -> None:
    policy = rendered.one("ValidatingAdmissionPolicy", "sso-spark-sql-operator-driver-pods")
    parts = (*policy["spec"]["variables"], *policy["spec"]["validations"])
    text = " ".join(part["expression"] for part in parts)
    assert [field for field in HELD[kind].split() if field not in text] == []
