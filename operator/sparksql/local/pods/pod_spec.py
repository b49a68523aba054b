"""What a pod's spec means for a process of this machine: its files, its environment, its program. Pure.

Mounted volumes become folders of the pod, and a path below a mount that stands in a variable becomes a path in that folder.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from sparksql.kube.builders.pods import CONFIGURE, CONTAINER
from sparksql.wire.driver import FILE_ROOTS_ENV, LOCAL_MASTER_ENV

Object = Mapping[str, Any]
Read = Callable[[str, str], Object]
"""Takes kind (Secret or ConfigMap) and name, and returns the object of the pod's namespace. Raises NotFound."""

# What the session image's entry point runs for its argument (images/session/entrypoint.sh).
_PROGRAMS = {"driver": "sparksql.gateway.main"}
LOCAL_MASTER = "local[*]"
_ALL_FILES = "/"  # SQL reaches what its user reaches: the process has no other rights


class UnsupportedPodError(Exception):
    """Local mode does not run this pod; the message names the reason."""


def container_of(pod: Object) -> Object:
    """Returns the pod's one container that runs; sidecars of a template do not."""
    containers: list[Object] = pod["spec"]["containers"]
    return next(each for each in containers if each["name"] == CONTAINER)


def command(pod: Object) -> list[str]:
    """Returns the command of the pod's program. Raises UnsupportedPodError."""
    arguments = container_of(pod).get("args") or []
    module = _PROGRAMS.get(arguments[0]) if arguments else None
    if module is None:
        raise UnsupportedPodError(f"local mode has no program for the arguments {arguments}")
    return [sys.executable, "-m", module, *arguments[1:]]


def files(pod: Object, read: Read) -> dict[str, dict[str, bytes]]:
    """Returns the files of each volume by their names, none for an empty folder. Raises NotFound for what a volume needs."""
    volumes = {volume["name"]: _volume_files(volume, read) for volume in pod["spec"].get("volumes") or ()}
    for init in pod["spec"].get("initContainers") or ():
        if init["name"] == CONFIGURE:  # copies what it mounts first into what it mounts second
            source, target = (mount["name"] for mount in init["volumeMounts"])
            volumes[target] = volumes.pop(source)
    return volumes


def _volume_files(volume: Object, read: Read) -> dict[str, bytes]:
    sources = [volume, *(volume.get("projected") or {}).get("sources", ())]
    found: dict[str, bytes] = {}
    for source in sources:
        if (secret := source.get("secret")) is not None:
            name = secret.get("secretName") or secret.get("name")
            found |= _chosen(secret, _data(read("Secret", name)))
        if (config_map := source.get("configMap")) is not None:
            texts = read("ConfigMap", config_map["name"]).get("data") or {}
            found |= _chosen(config_map, {key: text.encode() for key, text in texts.items()})
    return found


def _chosen(source: Object, contents: Mapping[str, bytes]) -> dict[str, bytes]:
    items = source.get("items")
    if items is None:
        return dict(contents)
    return {item["path"]: contents[item["key"]] for item in items if item["key"] in contents}


def _data(secret: Object) -> dict[str, bytes]:
    return {key: base64.b64decode(value) for key, value in (secret.get("data") or {}).items()}


def environment(pod: Object, volumes: Path, read: Read) -> dict[str, str]:
    """Returns the variables of the pod's container, with paths below the pod's own `volumes`. Raises NotFound."""
    container = container_of(pod)
    mounts = {mount["mountPath"]: volumes / mount["name"] for mount in container.get("volumeMounts") or ()}
    values: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        prefix = source.get("prefix", "")
        values |= {f"{prefix}{key}": value for key, value in _all_of(source, read).items()}
    for entry in container.get("env") or ():
        value = entry.get("value", "") if "valueFrom" not in entry else _value_from(entry["valueFrom"], pod, read)
        values[entry["name"]] = _in_volume(value, mounts)
    return {**values, FILE_ROOTS_ENV: _ALL_FILES, LOCAL_MASTER_ENV: LOCAL_MASTER, **_temporary(mounts)}


def _temporary(mounts: Mapping[str, Path]) -> dict[str, str]:
    folder = mounts.get("/tmp")  # noqa: S108 - the pod's own
    return {} if folder is None else {"TMPDIR": str(folder)}


def _all_of(source: Object, read: Read) -> dict[str, str]:
    if (secret := source.get("secretRef")) is not None:
        return {key: value.decode() for key, value in _data(read("Secret", secret["name"])).items()}
    return dict(read("ConfigMap", source["configMapRef"]["name"]).get("data") or {})


def _value_from(source: Object, pod: Object, read: Read) -> str:
    if (field := source.get("fieldRef")) is not None:
        value: Any = pod
        for name in field["fieldPath"].split("."):
            value = value.get(name, "") if isinstance(value, Mapping) else ""
        return str(value)
    if (secret := source.get("secretKeyRef")) is not None:
        return _data(read("Secret", secret["name"])).get(secret["key"], b"").decode()
    if (config_map := source.get("configMapKeyRef")) is not None:
        return str((read("ConfigMap", config_map["name"]).get("data") or {}).get(config_map["key"], ""))
    return ""  # resourceFieldRef: a process has no limits of its own


def _in_volume(value: str, mounts: Mapping[str, Path]) -> str:
    path = PurePosixPath(value)
    for mount, folder in mounts.items():
        if value.startswith("/") and path.is_relative_to(mount):
            return str(folder / path.relative_to(mount))
    return value


def status(
    phase: str, state: Object, *, ready: bool = False, address: str | None = None, disrupted: bool = False
) -> dict[str, Any]:
    """Returns the status of a pod whose container is in this state, as the kubelet writes it."""
    conditions = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True" if ready else "False"}]
    if disrupted:  # the instance ends in order, as a node that is drained
        conditions.append({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"})
    container = {"name": CONTAINER, "ready": ready, "started": ready, "restartCount": 0, "state": state}
    where = {} if address is None else {"podIP": address, "podIPs": [{"ip": address}]}
    return {"phase": phase, "containerStatuses": [container], "conditions": conditions, **where}


def exit_code(code: int) -> int:
    """Returns the exit code as a container has it: 128 and the signal for a process that a signal ended."""
    return 128 - code if code < 0 else code
