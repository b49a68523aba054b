"""Drivers of warm pools as the store has them.

A driver belongs to a pool if the class's status has the UID of its pod. The operator alone writes that status: the name before it
creates the pod, and the UID that the API server returned. Labels and owner references prove nothing: the creator of a pod sets
them.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from sparksql.api.session_class import SqlSessionClass, WarmPoolMember
from sparksql.cache.indexes import POD, POOL_BY_CLASS
from sparksql.cache.views import ObjectView
from sparksql.domain.ownership import CLASS_OWNER, owned_by
from sparksql.domain.warm_pool import PoolMember
from sparksql.engine.store import Store


def recorded_members(session_class: SqlSessionClass) -> tuple[WarmPoolMember, ...]:
    """Returns the drivers that the class's status has with their pods."""
    return tuple(each for each in _records(session_class) if each.pod_uid)


def recorded_intents(session_class: SqlSessionClass) -> tuple[WarmPoolMember, ...]:
    """Returns the drivers that the class's status has without a pod: their start was about to begin."""
    return tuple(each for each in _records(session_class) if not each.pod_uid)


def _records(session_class: SqlSessionClass) -> tuple[WarmPoolMember, ...]:
    pool = session_class.status.warm_pool
    return pool.members if pool is not None else ()


def members_of(store: Store, session_class: SqlSessionClass, made: Iterable[WarmPoolMember] = ()) -> list[PoolMember]:
    """Returns the drivers of a class's pool that no session has.

    `made` are those that were made a moment ago, which the status does not have yet.
    """
    known = {each.pod_uid: each for each in (*recorded_members(session_class), *made)}
    found = []
    for record in known.values():
        pod = store.get(POD, record.namespace, record.pod_name)
        if pod is None or pod["metadata"]["uid"] != record.pod_uid:
            continue
        if owned_by(pod, CLASS_OWNER, session_class.metadata.uid):
            found.append(_member(record, pod))
    return found


def strays_of(store: Store, session_class: SqlSessionClass, known: Iterable[str]) -> list[PoolMember]:
    """Returns pods which name the class as their owner and are none of those whose UIDs are `known`.

    Another account created it, or the operator ended before it recorded the UID. Kubernetes itself deletes pods by their owner
    references, so the deletion of such a pod gives its creator no new power.
    """
    ours = frozenset(known)
    pods = store.by_index(POOL_BY_CLASS, session_class.metadata.uid)
    strays = (each for each in pods if each["metadata"]["uid"] not in ours)
    return [_member(_unrecorded(each), each) for each in strays]


def _unrecorded(pod: dict[str, Any]) -> WarmPoolMember:
    view = ObjectView(pod)
    return WarmPoolMember(namespace=view.namespace, uid="", pod_name=view.name, pod_uid=pod["metadata"]["uid"], key="")


def _member(record: WarmPoolMember, pod: dict[str, Any]) -> PoolMember:
    view, status = ObjectView(pod), pod.get("status", {})
    conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
    return PoolMember(
        namespace=record.namespace,
        pod_name=record.pod_name,
        pod_uid=record.pod_uid,
        uid=record.uid,
        key=record.key,
        created=datetime.fromisoformat(view.created).astimezone(UTC),
        is_ready=conditions.get("Ready") == "True" and bool(status.get("podIP")),
        is_over=view.is_deleting or status.get("phase") in ("Failed", "Succeeded"),
    )
