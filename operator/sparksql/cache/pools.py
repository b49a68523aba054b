"""Drivers of warm pools as the store has them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sparksql.api.names import ANNOTATION_POOL_KEY, LABEL_SESSION_UID
from sparksql.cache.indexes import POOL_BY_CLASS
from sparksql.cache.views import ObjectView
from sparksql.domain.warm_pool import PoolMember
from sparksql.engine.store import Store


def members_of(store: Store, class_name: str) -> list[PoolMember]:
    """Returns the drivers of a class's pool that no session has."""
    return [member_of(pod) for pod in store.by_index(POOL_BY_CLASS, class_name)]


def member_of(pod: dict[str, Any]) -> PoolMember:
    """Returns what is known of a pool's driver by its pod."""
    view, status = ObjectView(pod), pod.get("status", {})
    conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
    return PoolMember(
        namespace=view.namespace,
        pod_name=view.name,
        pod_uid=pod["metadata"]["uid"],
        uid=view.labels.get(LABEL_SESSION_UID, ""),
        key=view.annotations.get(ANNOTATION_POOL_KEY, ""),
        created=datetime.fromisoformat(view.created).astimezone(UTC),
        is_ready=conditions.get("Ready") == "True" and bool(status.get("podIP")),
        is_over=view.is_deleting or status.get("phase") in ("Failed", "Succeeded"),
    )
