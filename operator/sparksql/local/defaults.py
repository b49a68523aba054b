"""The class that every instance begins with, and where its sessions keep their data. Pure."""

from __future__ import annotations

from typing import Any

from sparksql.api.names import API_VERSION, DEFAULT_CLASS_ANNOTATION
from sparksql.local.instance import Instance

DEFAULT_NAMESPACE = "default"
DEFAULT_CLASS = "local"
DEFAULT_SESSION = "local"
IMAGE = "local"  # a class has to name one; the session runs in this Python environment


def default_class(instance: Instance) -> dict[str, Any]:
    """Returns the default SqlSessionClass: its users are the owner of the machine, so it refuses little."""
    root = instance.data.as_uri()
    return {
        "apiVersion": API_VERSION,
        "kind": "SqlSessionClass",
        "metadata": {"name": DEFAULT_CLASS, "annotations": {DEFAULT_CLASS_ANNOTATION: "true"}},
        "spec": {
            "description": "Sessions on this machine",
            "image": IMAGE,
            "defaults": {
                "driver": {"memory": "1Gi"},
                "conf": {"spark.sql.session.timeZone": "UTC"},
            },
            "allow": {"images": ["*"], "conf": ["spark.*"], "jarPrefixes": ["file:/"]},
            "networkPolicy": {"enabled": False},
            "storage": {
                "warehouse": f"{root}/tables",
                "checkpointRoot": f"{root}/checkpoints",
                "savepointRoot": f"{root}/savepoints",
                "resultRoot": f"{root}/results",
            },
        },
    }


def default_session(namespace: str) -> dict[str, Any]:
    """Returns the SqlSession of statements that name none."""
    return {
        "apiVersion": API_VERSION,
        "kind": "SqlSession",
        "metadata": {"name": DEFAULT_SESSION, "namespace": namespace},
        "spec": {"className": DEFAULT_CLASS},
    }
