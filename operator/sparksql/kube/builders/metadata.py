"""What all children of a session carry: its labels, and the owner reference by which they go when it goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparksql.api import names
from sparksql.domain.session.effective_session import EffectiveSession


def labels(session: EffectiveSession, app: str, component: str) -> dict[str, str]:
    """Labels of a child: the app it belongs to, its part in it, and the session by name and by UID."""
    return {
        names.LABEL_NAME: app,
        names.LABEL_COMPONENT: component,
        names.LABEL_MANAGED_BY: names.MANAGED_BY,
        names.LABEL_SESSION: session.name,
        names.LABEL_SESSION_UID: session.uid,
    }


def pod_selector(session: EffectiveSession, component: str | None = None) -> dict[str, str]:
    """Labels that select the session's pods, or those of one component. By UID: a successor of the name is another."""
    by_component = {names.LABEL_COMPONENT: component} if component else {}
    return {names.LABEL_SESSION_UID: session.uid, **by_component}


def base_name(session: EffectiveSession) -> str:
    """Returns the stable name that the names of a session's children begin with."""
    return names.child_base(session.name, session.uid)


def child(session: EffectiveSession, api_version: str, kind: str, **content: Any) -> dict[str, Any]:
    """A stable child: named from the session, owned by it, with `content` beside the metadata."""
    metadata = owned(session, base_name(session), labels(session, names.DRIVER_APP_NAME, names.DRIVER_COMPONENT))
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def belongs_to(obj: Mapping[str, Any], session_uid: str) -> bool:
    """Tells whether an object is the session's child: it has this one owner, as its controller, and no other.

    Whoever may make objects may name any owner; only one that `owned` would have made is taken for ours.
    """
    owners = obj["metadata"].get("ownerReferences") or ()
    return [(o.get("kind"), o.get("uid"), o.get("controller")) for o in owners] == [("SqlSession", session_uid, True)]


def owned(session: EffectiveSession, name: str, with_labels: Mapping[str, str]) -> dict[str, Any]:
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
