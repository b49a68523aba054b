"""Which object of ours another one is of: by the one owner that controls it, by kind and UID. Pure.

Labels, annotations and owner references are written by whoever makes an object. So none of them proves who made it: what an
object refers to is compared here with a UID that the caller has from a record which tenants cannot write, a status. The rule for
each kind is in docs/security.md ("Whose an object is").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Object = Mapping[str, Any]

SESSION_OWNER, CLASS_OWNER, STATEMENT_OWNER, POD_OWNER = "SqlSession", "SqlSessionClass", "SqlStatement", "Pod"


def owned_by(obj: Object, kind: str, uid: str) -> bool:
    """Tells whether an object refers to this owner, as its controller, and to no other; an empty UID is nobody's."""
    owners = obj["metadata"].get("ownerReferences") or ()
    referred = [(each.get("kind"), each.get("uid"), each.get("controller")) for each in owners]
    return bool(uid) and referred == [(kind, uid, True)]


def goes_with(obj: Object, kind: str, uid: str) -> bool:
    """Tells whether an object refers to this owner and to no other, so that it is deleted with it; it need not control it."""
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
