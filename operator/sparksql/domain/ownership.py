"""Compares the controlling owner of an object with one of ours, by API group, kind and UID. Pure.

The creator of an object sets its labels, annotations and owner references, so none of them proves its origin. Callers compare
with a UID from a status, which tenants cannot write. docs/security.md ("Ownership of objects") has the rule for each kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparksql.api.names import GROUP

Object = Mapping[str, Any]


@dataclass(frozen=True)
class OwnerKind:
    """Names a kind of owners: a kind of the same name in another API group is another kind, another version is the same."""

    group: str
    kind: str

    def is_kind_of(self, owner: Object) -> bool:
        """Returns whether an owner reference is to an object of this kind."""
        group, _, version = str(owner.get("apiVersion") or "").rpartition("/")
        return bool(version) and (group, owner.get("kind")) == (self.group, self.kind)


SESSION_OWNER, CLASS_OWNER = OwnerKind(GROUP, "SqlSession"), OwnerKind(GROUP, "SqlSessionClass")
STATEMENT_OWNER, POD_OWNER = OwnerKind(GROUP, "SqlStatement"), OwnerKind("", "Pod")


def owned_by(obj: Object, kind: OwnerKind, uid: str) -> bool:
    """Returns whether this owner is the only one of an object and controls it; False for an empty UID."""
    owner = _controller(obj, kind)
    return bool(uid) and owner is not None and owner.get("uid") == uid


def goes_with(obj: Object, kind: OwnerKind, uid: str) -> bool:
    """Returns whether this owner is the only one of an object, which is deleted with it; False for an empty UID."""
    owner = _only_owner(obj, kind)
    return bool(uid) and owner is not None and owner.get("uid") == uid


def owner_uid(obj: Object, kind: OwnerKind) -> str | None:
    """Returns the UID of the owner of a kind that controls an object, None without one: for indexes and wake-ups only."""
    owner = _controller(obj, kind)
    return None if owner is None else str(owner["uid"])


def owner_name(obj: Object, kind: OwnerKind) -> str | None:
    """Returns the name of the owner of a kind that controls an object, None without one: for indexes and wake-ups only."""
    owner = _controller(obj, kind)
    return None if owner is None else str(owner["name"])


def driver_of(executor: Object) -> Object | None:
    """Returns the reference to the driver pod that an executor pod is owned by, None if it has any other owner."""
    return _controller(executor, POD_OWNER)


def _controller(obj: Object, kind: OwnerKind) -> Object | None:
    owner = _only_owner(obj, kind)
    return owner if owner is not None and owner.get("controller") is True else None


def _only_owner(obj: Object, kind: OwnerKind) -> Object | None:
    owners: Sequence[Object] = obj["metadata"].get("ownerReferences") or ()
    return owners[0] if len(owners) == 1 and kind.is_kind_of(owners[0]) else None
