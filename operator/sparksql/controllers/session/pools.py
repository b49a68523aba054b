"""Drivers of warm pools as sessions get them: found, kept for the one that takes it, claimed and bound.

A driver is somebody's once its pod says so, by a write that only succeeds while nobody has it. That two sessions of this operator
do not wish for the same one meanwhile, it is kept for the first that decides to take it, for RESERVED_SECONDS.
"""

from __future__ import annotations

import base64
import logging
from typing import Any

from sparksql.api.names import child_base, gateway_server_name, pool_member_name
from sparksql.api.session import DriverStatus, SqlSession
from sparksql.api.session_class import SqlSessionClass
from sparksql.cache.indexes import CLASS, POD, SESSION
from sparksql.cache.pools import members_of
from sparksql.controllers.context import ControllerContext
from sparksql.domain.ownership import CLASS_OWNER, POD_OWNER, SESSION_OWNER, goes_with, owned_by
from sparksql.domain.session.effective_session import EffectiveSession
from sparksql.domain.session.snapshot import WarmDriver
from sparksql.domain.session.warm import pool_key
from sparksql.drivers.binding import BoundError, bind
from sparksql.drivers.client import Address
from sparksql.engine.key import Key, log_extra
from sparksql.kube.builders.warm import claim
from sparksql.kube.errors import NotFound
from sparksql.kube.resources import PODS, SECRETS
from sparksql.kube.tls import ssl_context
from sparksql.wire import driver as wire
from sparksql.wire.binding import BindRequest

RESERVED_SECONDS = 30.0

logger = logging.getLogger(__name__)

Object = dict[str, Any]


class PoolDrivers:
    """Finds drivers of pools for sessions, and makes them theirs."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._reserved: dict[str, tuple[str, float]] = {}  # by the pod's UID: for which session, and until when

    def find(self, session: SqlSession, session_class: SqlSessionClass, built: EffectiveSession) -> WarmDriver | None:
        """Returns a driver that fits the session and is kept for no other, None if there is none.

        It is not kept yet: most sessions that are looked at do not start. Who decides to take it says so before anything is
        awaited.
        """
        members = members_of(self._context.store, session_class)
        if not members:
            return None
        now, key = self._context.clock().timestamp(), pool_key(built)
        self._reserved = {uid: each for uid, each in self._reserved.items() if each[1] > now}
        for member in sorted(members, key=lambda each: each.created):
            fits = member.namespace == built.namespace and member.key == key and member.is_ready and not member.is_over
            holder, _ = self._reserved.get(member.pod_uid, (session.metadata.uid, 0.0))
            if fits and holder == session.metadata.uid:
                return WarmDriver(member.pod_name, member.pod_uid, member.uid)
        return None

    def keep(self, session: SqlSession, pod_uid: str) -> None:
        """Keeps a driver for the session that has decided to take it."""
        until = self._context.clock().timestamp() + RESERVED_SECONDS
        self._reserved[pod_uid] = (session.metadata.uid, until)

    async def claim(self, built: EffectiveSession, driver: DriverStatus) -> Object | None:
        """Makes the pod of `driver` the session's, and returns it; None if it is gone or another's. Raises Conflict, ApiError.

        The pod's UID in the session's status is that of a driver which the class's status had when it was found.
        """
        assert driver.pod_name is not None
        try:
            pod = await self._context.client.get(PODS, built.namespace, driver.pod_name)
        except NotFound:
            return None
        if pod["metadata"]["uid"] != driver.pod_uid:
            return None
        if not owned_by(pod, SESSION_OWNER, built.uid):
            session_class = self._context.store.get(CLASS, "", built.class_name)
            if session_class is None or not owned_by(pod, CLASS_OWNER, session_class["metadata"]["uid"]):
                return None
            change = claim(built, pod["metadata"]["resourceVersion"])
            pod = await self._context.client.patch_merge(PODS, built.namespace, driver.pod_name, change)
        self._context.store.apply(POD, pod)
        return pod

    async def bind(self, built: EffectiveSession, pod: Object, request: BindRequest) -> None:
        """Gives a driver all that its session has; one that cannot be its any more is deleted. Raises ApiError, GatewayError."""
        name, namespace = pool_member_name(built.class_name), built.namespace
        try:
            secret = await self._context.client.get(SECRETS, namespace, child_base(name, built.pool_uid))
        except NotFound:
            return  # it goes with the pod
        if not goes_with(secret, POD_OWNER, pod["metadata"]["uid"]):
            await self._remove(built, pod, "the Secret with the name of its own is another's")
            return
        data = secret.get("data") or {}
        token, certificate = (base64.b64decode(data[file]).decode() for file in (wire.TOKEN_FILE, wire.TLS_CERT_FILE))
        address = Address(
            pod_uid=pod["metadata"]["uid"],
            host=pod["status"]["podIP"],
            port=wire.GATEWAY_PORT,
            server_name=gateway_server_name(name, built.pool_uid, namespace),
            token=token,
            trust=ssl_context(certificate),
        )
        try:
            await bind(self._context.drivers.http, address, request)
        except BoundError as refused:
            await self._remove(built, pod, str(refused))

    async def _remove(self, built: EffectiveSession, pod: Object, why: str) -> None:
        fields = log_extra(Key(SESSION, built.namespace, built.name), error=why)
        logger.warning("a driver of the warm pool has another configuration and is removed", extra=fields)
        await self._context.client.delete(PODS, built.namespace, pod["metadata"]["name"], uid=pod["metadata"]["uid"])
