"""Executor pods as the store keeps them: apart from drivers, and without all that no decision reads.

A team's session may have hundreds of them. What is kept of one is a tenth of the pod.
"""

from __future__ import annotations

from typing import Any

from sparksql.api.names import DRIVER_APP_NAME, EXECUTOR_APP_NAME, LABEL_NAME
from sparksql.cache.indexes import EXECUTOR, POD
from sparksql.cache.views import ObjectView

Object = dict[str, Any]

POD_SELECTOR = f"{LABEL_NAME} in ({DRIVER_APP_NAME},{EXECUTOR_APP_NAME})"
"""The pods that are watched: drivers and executors."""

_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "ownerReferences")
_SPEC = ("nodeName", "schedulingGates", "schedulerName")
_STATUS = ("phase", "reason", "message", "conditions")
_CONTAINERS = ("initContainerStatuses", "containerStatuses")
_CONTAINER = ("name", "image", "state")


def stored_as(kind: str, obj: Object) -> tuple[str, Object]:
    """Returns the kind under which the store keeps an object of a watched kind, and what it keeps of it."""
    if kind != POD or ObjectView(obj).labels.get(LABEL_NAME) != EXECUTOR_APP_NAME:
        return kind, obj
    status = obj.get("status", {})
    containers = {name: [_part(each, _CONTAINER) for each in status[name]] for name in _CONTAINERS if name in status}
    return EXECUTOR, {
        "metadata": _part(obj["metadata"], _METADATA),
        "spec": _part(obj.get("spec", {}), _SPEC),
        "status": {**_part(status, _STATUS), **containers},
    }


def _part(obj: Object, names: tuple[str, ...]) -> Object:
    return {name: obj[name] for name in names if name in obj}
