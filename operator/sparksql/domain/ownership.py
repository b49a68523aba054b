"""Compares the controlling owner of an object with one of ours, by kind and UID. Pure.

The creator of an object sets its labels, annotations and owner references, so none of them proves its origin. Callers compare
with a UID from a status, which tenants cannot write. docs/security.md ("Ownership of objects") has the rule for each kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Object = Mapping[str, Any]

SESSION_OWNER, CLASS_OWNER, STATEMENT_OWNER, POD_OWNER = "SqlSession", "SqlSessionClass", "SqlStatement", "Pod"


def owned_by(obj: Object, kind: str, uid: str) -> bool:
    """Returns whether this owner is the only one of an object and controls it; False for an empty UID."""
    owners = obj["metadata"].get("ownerReferences") or ()
    referred = [(each.get("kind"), each.get("uid"), each.get("controller")) for each in owners]
    return bool(uid) and referred == [(kind, uid, True)]


def goes_with(obj: Object, kind: str, uid: str) -> bool:
    """Returns whether this owner is the only one of an object, which is deleted with it; False for an empty UID."""
    owners = obj["metadata"].get("ownerReferences") or ()
    return bool(uid) and [(each.get("kind"), each.get("uid")) for each in owners] == [(kind, uid)]


def owner_uid(obj: Object, kind: str) -> str | None:
    """Returns the UID of the owner of a kind that controls an object, None without one: for indexes and wake-ups only."""
    owner = _controller(obj, kind)
    return None if owner is None else str(owner["uid"])


def owner_name(obj: Object, kind: str) -> str | None:
    """Returns the name of the owner of a kind that controls an object, None without one: for indexes and wake-ups only."""
    owner = _controller(obj, kind)
    return None if owner is None else str(owner["name"])


def driver_of(executor: Object) -> Object | None:
    """Returns the reference to the driver pod that an executor pod is owned by, None if it has any other owner."""
    return _controller(executor, POD_OWNER)


def _controller(obj: Object, kind: str) -> Object | None:
    owners: Sequence[Object] = obj["metadata"].get("ownerReferences") or ()
    if len(owners) != 1 or owners[0].get("kind") != kind or not owners[0].get("controller"):
        return None
    return owners[0]
