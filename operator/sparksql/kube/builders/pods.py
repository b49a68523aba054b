"""What the pods of the session image have in common.

The class's pod template is underneath, our fields over it, and on top the security contexts of the restricted Pod
Security profile, which no template can loosen. Nothing of a template is lost that is not ours to say: sidecars, init
containers, volumes, node selectors, annotations and fields that this version has never heard of stay as they are.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from sparksql.api.session_class import Scheduling, VolumeClaim
from sparksql.wire import driver as wire

CONTAINER = "spark"
SPARK_USER = 185  # user and group of Spark's own images, and of ours
LOCAL_DIR = "/var/spark/local"
WORK_DIR = "/opt/spark/work-dir"
CONFIGURE = "sparksql-configure"
_CONFIG_VOLUME = "sparksql-config"
_SECRET_VOLUME = "sparksql-secrets"  # noqa: S105 - names
_SECRET_DIR = "/etc/sparksql-secrets"  # noqa: S105
_CONFIG_SIZE = "4Mi"  # a Secret has 1 MiB at most
# A shell that copies some files; less than what some container runtimes need for themselves is refused by them.
_CONFIGURE_RESOURCES = {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "64Mi"}}
# Kinds of volumes that hold data. Others hold what is the pod's own: keys, tokens, settings.
_DATA_VOLUMES = frozenset({"emptyDir", "ephemeral", "nfs", "persistentVolumeClaim"})
_HOST_FIELDS = ("hostNetwork", "hostPID", "hostIPC")

Json = dict[str, Any]


def from_template(template: Mapping[str, Any], labels: Mapping[str, str], annotations: Mapping[str, str]) -> Json:
    """A Pod with the template's labels, annotations and spec; ours win. Other metadata of a template is not a pod's."""
    metadata = template.get("metadata") or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "labels": {**(metadata.get("labels") or {}), **labels},
            "annotations": {**(metadata.get("annotations") or {}), **annotations},
        },
        "spec": copy.deepcopy(dict(template.get("spec") or {})),
    }


def take_container(spec: Json) -> Json:
    """The template's container named `spark`, or a new one, now the first of the pod's containers."""
    containers = spec.get("containers") or []
    ours = next((one for one in containers if one.get("name") == CONTAINER), {"name": CONTAINER})
    spec["containers"] = [ours, *(one for one in containers if one is not ours)]
    return ours


def cpu_limit(quantity: str) -> Json:
    """The limits of a container as far as they concern its CPU: none for an empty quantity."""
    return {"cpu": quantity} if quantity else {}


def put(entries: Sequence[Json] | None, ours: Sequence[Json], key: str) -> list[Json]:
    """A list of named entries with ours in it: an entry of the template with the same `key` gives way."""
    taken = {entry[key] for entry in ours}
    return [*(entry for entry in entries or () if entry.get(key) not in taken), *ours]


def add_volumes(spec: Json, container: Json, claim: VolumeClaim | None, writable: Sequence[str]) -> None:
    """Empty directories where a read-only root has to be writable, and the class's volume claim.

    A path that the template mounts already is left to it: a class may have faster disks for shuffle files.
    """
    mounted = {mount.get("mountPath") for mount in container.get("volumeMounts") or ()}
    sources: list[tuple[str, Json, str]] = [
        (f"sparksql{path.replace('/', '-')}", {"emptyDir": {}}, path) for path in writable if path not in mounted
    ]
    if claim is not None:
        sources.append(("sparksql-data", {"persistentVolumeClaim": {"claimName": claim.name}}, claim.mount_path))
    volumes = [{"name": name, **source} for name, source, _ in sources]
    mounts = [{"name": name, "mountPath": path} for name, _, path in sources]
    spec["volumes"] = put(spec.get("volumes"), volumes, "name")
    container["volumeMounts"] = put(container.get("volumeMounts"), mounts, "mountPath")


def add_secret(spec: Json, container: Json, secret: str, path: str = wire.DEFAULT_CONFIG_DIR) -> None:
    """Mounts a Secret. Readable to the container's group only, which fsGroup makes the files'."""
    volume = {"name": _CONFIG_VOLUME, "secret": {"secretName": secret, "defaultMode": 0o440}}
    mount = {"name": _CONFIG_VOLUME, "mountPath": path, "readOnly": True}
    spec["volumes"] = put(spec.get("volumes"), [volume], "name")
    container["volumeMounts"] = put(container.get("volumeMounts"), [mount], "mountPath")


def add_config_copy(
    spec: Json, container: Json, secrets: Sequence[str], image: str, pull_policy: str, config_hash: str
) -> None:
    """The files of Secrets at `/etc/sparksql` in memory, whence the container's program can remove them.

    The init container that copies them alone mounts the Secrets, the first one's `config.json` as of `config_hash`.
    """
    sources = [{"secret": {"name": secret}} for secret in secrets]
    volumes = [
        {"name": _CONFIG_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": _CONFIG_SIZE}},
        {"name": _SECRET_VOLUME, "projected": {"sources": sources, "defaultMode": 0o440}},
    ]
    copy_mount = {"name": _CONFIG_VOLUME, "mountPath": wire.DEFAULT_CONFIG_DIR}
    configure = {
        "name": CONFIGURE,
        "image": image,
        "imagePullPolicy": pull_policy,
        "args": ["configure", _SECRET_DIR, wire.DEFAULT_CONFIG_DIR],
        "env": [{"name": wire.CONFIG_HASH_ENV, "value": config_hash}],
        "resources": copy.deepcopy(_CONFIGURE_RESOURCES),
        "volumeMounts": [{"name": _SECRET_VOLUME, "mountPath": _SECRET_DIR, "readOnly": True}, copy_mount],
    }
    spec["initContainers"] = put(spec.get("initContainers"), [configure], "name")
    spec["volumes"] = put(spec.get("volumes"), volumes, "name")
    container["volumeMounts"] = put(container.get("volumeMounts"), [copy_mount], "mountPath")


def file_roots(spec: Json, container: Json, jar_prefixes: Sequence[str] = ()) -> Json:
    """The variable with the local folders that SQL may use: where volumes for data are mounted, and `file:` jar prefixes.

    Everything else stays out of sight: the rest of the image, /proc, and what a pod or its template mounts for itself.
    """
    kinds = {volume["name"]: volume.keys() for volume in spec.get("volumes") or ()}
    mounted = [
        mount["mountPath"]
        for mount in container.get("volumeMounts") or ()
        if kinds.get(mount["name"], set()) & _DATA_VOLUMES and mount["name"] != _CONFIG_VOLUME
    ]
    folders = [urlsplit(prefix).path.rpartition("/")[0] for prefix in jar_prefixes if prefix.startswith("file:/")]
    roots = sorted({*mounted, *(folder for folder in folders if folder)})
    return {"name": wire.FILE_ROOTS_ENV, "value": ":".join(roots)}


def schedule(pod: Json, scheduling: Scheduling) -> None:
    """Queue system by name and label, and priority, where the class names them."""
    pod["metadata"]["labels"] = {**scheduling.queue_label, **pod["metadata"]["labels"]}
    if scheduling.scheduler_name:
        pod["spec"]["schedulerName"] = scheduling.scheduler_name
    if scheduling.priority_class_name:
        pod["spec"]["priorityClassName"] = scheduling.priority_class_name


def restrict(spec: Json) -> None:
    """Enforces the restricted profile on the pod and on each of its containers, and a read-only root on ours.

    https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
    """
    for field in _HOST_FIELDS:
        spec.pop(field, None)
    spec["securityContext"] = {
        "fsGroupChangePolicy": "OnRootMismatch",  # a large volume is not walked at every start
        **(spec.get("securityContext") or {}),
        "runAsNonRoot": True,
        "runAsUser": SPARK_USER,
        "runAsGroup": SPARK_USER,
        "fsGroup": SPARK_USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        is_ours = container.get("name") in (CONTAINER, CONFIGURE)
        own = {"readOnlyRootFilesystem": True, "runAsUser": SPARK_USER} if is_ours else {}
        container["securityContext"] = {
            **(container.get("securityContext") or {}),
            "allowPrivilegeEscalation": False,
            "privileged": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
            **own,
        }
