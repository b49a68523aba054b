"""Executor pods that a driver may not make: what is changed of a good one, and a part of the answer."""

from __future__ import annotations

from typing import Any

from tests.chart.drivers import IMAGE, Change, Manifest

UID_LABEL = "sparksql.dev/session-uid"


def container(pod: Manifest) -> Manifest:
    found: Manifest = pod["spec"]["containers"][0]
    return found


def volume(**source: Any) -> Change:
    return lambda p: p["spec"]["volumes"].append({"name": "more", **source})


def token(audience: str) -> Manifest:
    return {"serviceAccountToken": {"path": "token", "audience": audience}}


def projected(*sources: Manifest) -> Change:
    return volume(projected={"sources": [*sources]})


def label(key: str, value: str | None) -> Change:
    if value is None:
        return lambda p: p["metadata"]["labels"].pop(key)
    return lambda p: p["metadata"]["labels"].update({key: value})


def said(**fields: Any) -> Change:
    return lambda p: p["spec"].update(fields)


def pod_context(**fields: Any) -> Change:
    return lambda p: p["spec"]["securityContext"].update(fields)


def with_context(**fields: Any) -> Change:
    return lambda p: container(p)["securityContext"].update(fields)


def without_context(*names: str) -> Change:
    return lambda p: [container(p)["securityContext"].pop(name) for name in names]


def second_owner(pod: Manifest) -> None:
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "any", "uid": "0"}
    pod["metadata"]["ownerReferences"].append(other)


def loose_init_container(**context: Any) -> Change:
    """One whose security context is good but for `context`."""

    def change(pod: Manifest) -> None:
        own = {**container(pod)["securityContext"], **context}
        pod["spec"]["initContainers"] = [{"name": "init", "image": IMAGE, "securityContext": own}]

    return change


def block_device(pod: Manifest) -> None:
    pod["spec"]["volumes"].append({"name": "raw", "persistentVolumeClaim": {"claimName": "any"}})
    container(pod)["volumeDevices"] = [{"name": "raw", "devicePath": "/dev/raw"}]


OWN = "its own executor pods only"
ROOT, ESCALATION, LOOSE = "run as root", "allowPrivilegeEscalation to false and drop ALL", "loosen seccomp"
PROBE = {"httpGet": {"port": 80, "host": "10.0.0.1"}}
FORBIDDEN: dict[str, tuple[Change, str]] = {
    # labels and owners
    "no role label": (label("spark-role", None), "executor pods only"),
    "no labels": (lambda p: p["metadata"].pop("labels"), "executor pods only"),
    "no owner": (lambda p: p["metadata"].pop("ownerReferences"), OWN),
    "another owner": (lambda p: p["metadata"]["ownerReferences"][0].update(name="neighbour"), OWN),
    "an owner of another uid": (lambda p: p["metadata"]["ownerReferences"][0].update(uid="0"), OWN),
    "a second owner": (second_owner, OWN),
    "the same owner twice": (
        lambda p: p["metadata"]["ownerReferences"].append({**p["metadata"]["ownerReferences"][0], "controller": False}),
        OWN,
    ),
    "a driver's name label": (label("app.kubernetes.io/name", "spark-sql-session"), "name label of another component"),
    "no name label": (label("app.kubernetes.io/name", None), "name label"),
    "a driver's component label": (label("app.kubernetes.io/component", "driver"), "another component"),
    "no component label": (label("app.kubernetes.io/component", None), "another component"),
    "another session's name": (label("sparksql.dev/session", "theirs"), "session and the incarnation"),
    "a part of its session's name": (label("sparksql.dev/session", "min"), "session and the incarnation"),
    "no session": (label("sparksql.dev/session", None), "session and the incarnation"),
    "another incarnation": (label("sparksql.dev/incarnation", "2"), "session and the incarnation"),
    "no incarnation": (label("sparksql.dev/incarnation", None), "session and the incarnation"),
    "no UID of a session": (label(UID_LABEL, None), "session's UID"),
    "a label of a statement": (label("sparksql.dev/statement", "s"), "no further label"),
    "a finalizer": (lambda p: p["metadata"].update(finalizers=["example.org/stays"]), "no finalizers"),
    "AppArmor off by annotation": (
        lambda p: p["metadata"]["annotations"].update(
            {"container.apparmor.security.beta.kubernetes.io/spark": "unconfined"}
        ),
        "AppArmor or seccomp",
    ),
    # identity and Secrets
    "a token": (lambda p: p["spec"].pop("automountServiceAccountToken"), "automountServiceAccountToken"),
    "another account": (said(serviceAccountName="admin"), "no service account but its driver's"),
    "a Secret volume": (volume(secret={"secretName": "s"}), "volumes only"),
    "a projected volume": (volume(projected={"sources": []}), "volumes only"),
    "a projected token for the API server": (projected(token("https://kubernetes.default.svc")), "volumes only"),
    "a projected token without an audience": (projected({"serviceAccountToken": {"path": "token"}}), "volumes only"),
    "a projected token of an unknown audience": (projected(token("vault")), "volumes only"),
    "a projected Secret": (projected({"secret": {"name": "s"}}), "volumes only"),
    "a projected Secret beside a token": (
        projected(token("sts.amazonaws.com"), {"secret": {"name": "s"}}),
        "volumes only",
    ),
    "a hostPath volume": (volume(hostPath={"path": "/"}), "volumes only"),
    "a volume of a CSI driver": (volume(csi={"driver": "secrets-store.csi.k8s.io"}), "volumes only"),
    "a Secret in its environment": (
        lambda p: container(p)["env"].append({"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}),
        "may read no Secret",
    ),
    "a Secret as its environment": (
        lambda p: container(p).update(envFrom=[{"secretRef": {"name": "s"}}]),
        "may read no Secret",
    ),
    # the node
    "the node's network": (said(hostNetwork=True), "node's namespaces"),
    "the node's processes": (said(hostPID=True), "node's namespaces"),
    "the node's IPC": (said(hostIPC=True), "node's namespaces"),
    "a node by name": (said(nodeName="node"), "node's namespaces"),
    "a port of the node": (lambda p: container(p)["ports"][0].update(hostPort=7079), "ports of its node"),
    "an address of the node": (lambda p: container(p)["ports"][0].update(hostIP="10.0.0.1"), "ports of its node"),
    "a block device": (block_device, "block devices"),
    "a probe of another host": (lambda p: container(p).update(livenessProbe=PROBE), "no other host"),
    "a hook to another host": (lambda p: container(p).update(lifecycle={"preStop": PROBE}), "no other host"),
    # the pod's security context
    "no security context": (lambda p: p["spec"].pop("securityContext"), ROOT),
    "a pod that may be root": (pod_context(runAsNonRoot=False), ROOT),
    "root's uid": (pod_context(runAsUser=0), ROOT),
    "root's group": (pod_context(runAsGroup=0), ROOT),
    "root's fsGroup": (pod_context(fsGroup=0), ROOT),
    "root's supplemental group": (pod_context(supplementalGroups=[0]), ROOT),
    "no seccomp": (pod_context(seccompProfile={"type": "Unconfined"}), "runtime's seccomp profile"),
    "a seccomp profile of its own": (
        pod_context(seccompProfile={"type": "Localhost", "localhostProfile": "x.json"}),
        "runtime's seccomp profile",
    ),
    "no word of seccomp": (lambda p: p["spec"]["securityContext"].pop("seccompProfile"), "runtime's seccomp profile"),
    "sysctls": (pod_context(sysctls=[{"name": "kernel.shm_rmid_forced", "value": "0"}]), "sysctls"),
    "an SELinux type": (pod_context(seLinuxOptions={"type": "spc_t"}), "sysctls"),
    "AppArmor off": (pod_context(appArmorProfile={"type": "Unconfined"}), "AppArmor"),
    # containers' security contexts
    "no security context of its container": (lambda p: container(p).pop("securityContext"), ESCALATION),
    "privileges": (with_context(privileged=True, allowPrivilegeEscalation=True), "privileged"),
    "escalation": (with_context(allowPrivilegeEscalation=True), ESCALATION),
    "no word of escalation": (without_context("allowPrivilegeEscalation"), ESCALATION),
    "an added capability": (with_context(capabilities={"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}), ESCALATION),
    "capabilities kept": (with_context(capabilities={"drop": ["NET_RAW"]}), ESCALATION),
    "a container that may be root": (with_context(runAsNonRoot=False), ROOT),
    "a container with root's uid": (with_context(runAsUser=0), ROOT),
    "a container with root's group": (with_context(runAsGroup=0), ROOT),
    "a container without seccomp": (with_context(seccompProfile={"type": "Unconfined"}), LOOSE),
    "a container with a profile of its own": (
        with_context(seccompProfile={"type": "Localhost", "localhostProfile": "x.json"}),
        LOOSE,
    ),
    "a container without AppArmor": (with_context(appArmorProfile={"type": "Unconfined"}), "AppArmor"),
    "a container with an SELinux role": (with_context(seLinuxOptions={"role": "system_r"}), LOOSE),
    "an init container with capabilities": (loose_init_container(capabilities={"add": ["ALL"]}), ESCALATION),
    "an init container that is root": (loose_init_container(runAsUser=0), ROOT),
    "an init container without seccomp": (loose_init_container(seccompProfile={"type": "Unconfined"}), LOOSE),
    # images
    "another image": (lambda p: container(p).update(image="other"), "session image only"),
    "another image at its start": (
        lambda p: p["spec"].update(
            initContainers=[{"name": "init", "image": "other", "securityContext": container(p)["securityContext"]}]
        ),
        "session image only",
    ),
}
