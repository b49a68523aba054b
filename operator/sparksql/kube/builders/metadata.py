"""What all children of a session carry: its labels, and the owner reference by which they go when it goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from sparksql.api import names


class SessionIdentity(Protocol):
    """Whom a child belongs to: a session's metadata, or what its driver is made from."""

    @property
    def name(self) -> str:
        """Returns the session's name."""

    @property
    def namespace(self) -> str:
        """Returns the namespace that it and its children are in."""

    @property
    def uid(self) -> str:
        """Returns its UID."""


def labels(session: SessionIdentity, app: str, component: str) -> dict[str, str]:
    """Labels of a child: the app it belongs to, its part in it, and the session by name and by UID."""
    return {
        names.LABEL_NAME: app,
        names.LABEL_COMPONENT: component,
        names.LABEL_MANAGED_BY: names.MANAGED_BY,
        names.LABEL_SESSION: session.name,
        names.LABEL_SESSION_UID: session.uid,
    }


def pod_selector(pods_uid: str, component: str | None = None) -> dict[str, str]:
    """Labels that select a session's pods, or those of one component. By UID: a successor of the name is another."""
    by_component = {names.LABEL_COMPONENT: component} if component else {}
    return {names.LABEL_SESSION_UID: pods_uid, **by_component}


def base_name(session: SessionIdentity) -> str:
    """Returns the stable name that the names of a session's children begin with."""
    return names.child_base(session.name, session.uid)


def child(session: SessionIdentity, api_version: str, kind: str, **content: Any) -> dict[str, Any]:
    """A stable child: named from the session, owned by it, with `content` beside the metadata."""
    metadata = owned(session, base_name(session), labels(session, names.DRIVER_APP_NAME, names.DRIVER_COMPONENT))
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def owned(session: SessionIdentity, name: str, with_labels: Mapping[str, str]) -> dict[str, Any]:
    """Metadata of an object that the session owns."""
    return {
        "name": name,
        "namespace": session.namespace,
        "labels": dict(with_labels),
        "ownerReferences": [
            {
                "apiVersion": names.API_VERSION,
                "kind": "SqlSession",
                "name": session.name,
                "uid": session.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
