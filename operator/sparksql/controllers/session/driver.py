"""Making a driver: its children are applied in order, the pod last; nothing of anybody else's is ever adopted."""

from __future__ import annotations

import base64
import json
import secrets
from dataclasses import replace
from typing import Any

from sparksql.api.names import child_base, driver_pod_name, executor_secret_name, gateway_server_name, pool_member_name
from sparksql.api.reasons import Reason
from sparksql.api.session import DriverStatus, SqlSession
from sparksql.api.session_class import SqlSessionClass
from sparksql.cache.indexes import POD
from sparksql.controllers.accounts import binding_conflict, ensure_account
from sparksql.controllers.context import ControllerContext
from sparksql.controllers.session.kept_state import KeptStates
from sparksql.controllers.session.pods import is_driver
from sparksql.controllers.session.pools import PoolDrivers
from sparksql.controllers.start_failures import violation_of
from sparksql.domain.ownership import POD_OWNER, SESSION_OWNER, goes_with, owned_by
from sparksql.domain.session.effective_session import EffectiveSession
from sparksql.domain.session.resolve import Resolved
from sparksql.domain.violation import Violation
from sparksql.drivers.client import Address
from sparksql.kube.builders.driver import driver_pod
from sparksql.kube.builders.driver_config import driver_config
from sparksql.kube.builders.executor import executor_template
from sparksql.kube.builders.network import network_policy
from sparksql.kube.builders.session import executor_secret, secret, service
from sparksql.kube.builders.warm import INCARNATION
from sparksql.kube.config_maps import config_map_text
from sparksql.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from sparksql.kube.resources import (
    NETWORK_POLICIES,
    PODS,
    SECRETS,
    SERVICES,
    VOLUME_CLAIMS,
    Resource,
)
from sparksql.kube.tls import session_certificate, ssl_context
from sparksql.wire import driver as wire
from sparksql.wire.binding import BindRequest
from sparksql.wire.front import front_token

Object = dict[str, Any]
TOKEN_BYTES = 32
"""Random bytes of a session's token. They are written in hexadecimal, for clients take the token on command lines: `beeline -p`
reads a password that begins with `-`, as one in 64 of URL-safe base64 does, as an option."""


class _StartBlockedError(Exception):
    """Something outside stops the driver from being made; `violation` says what and what to do."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(violation.message)
        self.violation = violation


class SessionChildren:
    """Makes and deletes what a session needs for its driver."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._kept = KeptStates(context)
        self.pools = PoolDrivers(context)

    async def start_driver(
        self, session: SqlSession, session_class: SqlSessionClass, resolved: Resolved
    ) -> Violation | None:
        """Makes the children and the pod of `status.driver.incarnation`, and returns what prevents that, None if nothing does.

        Idempotent. Raises Conflict.
        """
        built, driver = resolved.effective, session.status.driver
        assert driver is not None and driver.pod_name is not None
        try:
            if driver.pool_uid is not None:
                await self._bind(session, session_class, resolved, driver, driver.pool_uid)
                return None
            config = await self._config(session, session_class, resolved, driver.incarnation)
            await self._create_all(session, built, driver.incarnation, config)
        except _StartBlockedError as blocked:
            return blocked.violation
        except Conflict:  # the session or a child changed meanwhile: the reconciler reads it again at once
            raise
        except ApiError as error:
            return violation_of(error, built.class_name)
        return None

    async def _create_all(self, session: SqlSession, built: EffectiveSession, incarnation: int, config: str) -> None:
        await self._check_claim(built)
        _refuse(await ensure_account(self._context.client, built))
        await self._secret(built, incarnation, config)
        await self._executor_secret(built, incarnation)
        await self._own(SERVICES, service(built, incarnation), session)
        if built.network_policy:
            policy = network_policy(built, self._context.pod_namespace, front=self._context.front_key is not None)
            await self._own(NETWORK_POLICIES, policy, session)
        pod = await self._pod(built, incarnation, wire.config_hash(config))
        await self._hand_over_executor_secret(built, pod)

    async def _bind(
        self, session: SqlSession, session_class: SqlSessionClass, resolved: Resolved, driver: DriverStatus, uid: str
    ) -> None:
        """Makes a driver of the pool the session's: claims its pod, makes the session's own children for it, and tells it all.

        Does nothing for one that is gone or somebody else's: the next look finds it lost.
        """
        built = replace(resolved.effective, pool_uid=uid)
        pod = await self.pools.claim(built, driver)
        if pod is None:
            return
        member = replace(built, name=pool_member_name(built.class_name), uid=uid, pool_uid="")
        config = await self._config(session, session_class, resolved, driver.incarnation, member)
        credentials = await self._secret(built, driver.incarnation, config)
        await self._own(SERVICES, service(built, INCARNATION), session)
        if built.network_policy:
            policy = network_policy(built, self._context.pod_namespace, front=self._context.front_key is not None)
            await self._own(NETWORK_POLICIES, policy, session)
        await self.pools.bind(built, pod, BindRequest(config=config, **credentials))

    async def start_blocker(self, session: SqlSession, resolved: Resolved) -> Violation | None:
        """Returns what kept the last driver from being made and still would, None if nothing does.

        Looked at before another one is asked for, so that waiting for it costs no incarnation. Raises ApiError.
        """
        built = resolved.effective
        try:
            await self._check_claim(built)
            await self._init(session)
            await self._check_names(built, session.status.driver)
        except _StartBlockedError as blocked:
            return blocked.violation
        return None

    async def address(self, session: SqlSession, host: str, pod_uid: str) -> Address | None:
        """Returns where the driver's gateway is and how to be let in; None while its Secret is missing. Raises ApiError."""
        metadata = session.metadata
        try:
            secret = await self._context.client.get(
                SECRETS, metadata.namespace, child_base(metadata.name, metadata.uid)
            )
        except NotFound:
            return None
        data = secret.get("data") or {}
        token, cert = _decoded(data, wire.TOKEN_FILE), _decoded(data, wire.TLS_CERT_FILE)
        if not owned_by(secret, SESSION_OWNER, metadata.uid) or not token or not cert:
            return None
        server = gateway_server_name(metadata.name, metadata.uid, metadata.namespace)
        return Address(pod_uid, host, wire.GATEWAY_PORT, server, token, ssl_context(cert))

    async def delete_pod(self, session: SqlSession, driver: DriverStatus, grace_seconds: int) -> None:
        """Deletes the pod of a driver, unless somebody did or it is another's. Raises ApiError."""
        namespace = session.metadata.namespace
        assert driver.pod_name is not None
        try:
            live = await self._context.client.get(PODS, namespace, driver.pod_name)
            uid, is_ours = live["metadata"]["uid"], is_driver(live, session.metadata.uid, driver.pod_uid)
            if is_ours and live["metadata"].get("deletionTimestamp") is None:
                await self._context.client.delete(
                    PODS, namespace, driver.pod_name, uid=uid, grace_seconds=grace_seconds
                )
        except NotFound:
            await self._context.status.refresh(POD, namespace, driver.pod_name)

    async def _config(
        self,
        session: SqlSession,
        session_class: SqlSessionClass,
        resolved: Resolved,
        incarnation: int,
        started_as: EffectiveSession | None = None,
    ) -> str:
        own = {"init": await self._init(session), "restore": await self._kept.read(session)}
        return driver_config(resolved, session_class, incarnation, started_as, **own).to_file()

    async def _init(self, session: SqlSession) -> tuple[wire.InitStatement, ...]:
        statements = []
        for i, entry in enumerate(session.spec.init):
            if entry.sql_from is None:
                statements.append(wire.InitStatement(sql=entry.sql or "", origin=f"spec.init[{i}].sql"))
                continue
            ref, namespace = entry.sql_from.config_map_key_ref, session.metadata.namespace
            text = await config_map_text(self._context.client, namespace, ref)
            if text is None:
                what = f"ConfigMap {ref.name} with key {ref.key} does not exist in namespace {namespace}; create it"
                raise _StartBlockedError(Violation(Reason.INIT_SOURCE_NOT_FOUND, f"spec.init[{i}].sqlFrom: {what}"))
            statements.append(wire.InitStatement(sql=text, origin=f"spec.init[{i}].sqlFrom"))
        return tuple(statements)

    async def _check_claim(self, built: EffectiveSession) -> None:
        if built.volume_claim is None:
            return
        name = built.volume_claim.name
        try:
            await self._context.client.get(VOLUME_CLAIMS, built.namespace, name)
        except NotFound:
            message = f"PersistentVolumeClaim {name} of class {built.class_name} does not exist in namespace {built.namespace}; create it"
            raise _StartBlockedError(Violation(Reason.STORAGE_NOT_READY, message)) from None

    async def _check_names(self, built: EffectiveSession, driver: DriverStatus | None) -> None:
        """Refuses to go on while somebody else has the name of a child, or of the pod that could not be made for that.

        Raises _StartBlockedError.
        """
        name = child_base(built.name, built.uid)
        for resource in (SECRETS, SERVICES, *((NETWORK_POLICIES,) if built.network_policy else ())):
            await self._find(resource, built, name)
        _refuse(await binding_conflict(self._context.client, built))
        if driver is not None and driver.pod_name is not None and driver.pod_uid is None:
            await self._find(PODS, built, driver.pod_name)

    async def _secret(self, built: EffectiveSession, incarnation: int, config: str) -> dict[str, Any]:
        """The Secret with this incarnation's configuration; token and certificate stay as they are once made.

        Returns what a driver is known by, as the fields of a BindRequest.
        """
        name = child_base(built.name, built.uid)
        existing = await self._find(SECRETS, built, name)
        data = (existing or {}).get("data") or {}
        token, cert, key = (_decoded(data, f) for f in (wire.TOKEN_FILE, wire.TLS_CERT_FILE, wire.TLS_KEY_FILE))
        if not (token and cert and key):
            cert, key = session_certificate(built.name, built.uid, built.namespace, self._context.clock())
            token = secrets.token_hex(TOKEN_BYTES)
        key_of_front = self._context.front_key
        front = None if key_of_front is None else front_token(key_of_front, built.uid)
        body = secret(
            built,
            token=token,
            cert_pem=cert,
            key_pem=key,
            config_json=config,
            executor_template_json=_json(executor_template(built, incarnation)),
            front_token=front,
        )
        await self._context.client.apply(SECRETS, built.namespace, name, body)
        return {"token": token, "certificate": cert, "key": key, "front_token": front}

    async def _executor_secret(self, built: EffectiveSession, incarnation: int) -> None:
        body = executor_secret(built, incarnation, secrets.token_bytes(TOKEN_BYTES))
        try:
            await self._context.client.create(SECRETS, built.namespace, body)
        except AlreadyExists:
            existing = await self._context.client.get(SECRETS, built.namespace, body["metadata"]["name"])
            if not await self._is_handed_over(existing, built, incarnation):
                _refuse_foreign(existing, built.uid)

    async def _is_handed_over(self, secret: Object, built: EffectiveSession, incarnation: int) -> bool:
        """Whether an executors' Secret is the driver pod's, which is there and is the session's."""
        try:
            pod = await self._context.client.get(
                PODS, built.namespace, driver_pod_name(built.name, built.uid, incarnation)
            )
        except NotFound:
            return False
        return owned_by(pod, SESSION_OWNER, built.uid) and goes_with(secret, POD_OWNER, pod["metadata"]["uid"])

    async def _hand_over_executor_secret(self, built: EffectiveSession, pod: Object) -> None:
        """Makes the pod its owner, so that it goes with the incarnation. Before the pod it had to be there for it to start."""
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}
        change = {"metadata": {"ownerReferences": [owner]}}
        try:
            await self._context.client.patch_merge(SECRETS, built.namespace, executor_secret_name(name), change)
        except NotFound:
            return  # the pod went meanwhile, and what it owned with it

    async def _own(self, resource: Resource, body: Object, session: SqlSession) -> None:
        metadata = body["metadata"]
        try:
            existing = await self._context.client.get(resource, metadata["namespace"], metadata["name"])
            _refuse_foreign(existing, session.metadata.uid)
        except NotFound:
            pass
        await self._context.client.apply(resource, metadata["namespace"], metadata["name"], body)

    async def _pod(self, built: EffectiveSession, incarnation: int, config_hash: str) -> Object:
        body = driver_pod(built, incarnation, config_hash)
        try:
            created = await self._context.client.create(PODS, built.namespace, body)
        except AlreadyExists:
            created = await self._context.client.get(PODS, built.namespace, body["metadata"]["name"])
            _refuse_foreign(created, built.uid)
        self._context.store.apply(POD, created)
        return created

    async def _find(self, resource: Resource, built: EffectiveSession, name: str) -> Object | None:
        try:
            existing = await self._context.client.get(resource, built.namespace, name)
        except NotFound:
            return None
        _refuse_foreign(existing, built.uid)
        return existing


def _refuse(violation: Violation | None) -> None:
    if violation is not None:
        raise _StartBlockedError(violation)


def _refuse_foreign(obj: Object, uid: str) -> None:
    if not owned_by(obj, SESSION_OWNER, uid):
        name, kind = obj["metadata"]["name"], obj.get("kind", "object")
        raise _StartBlockedError(
            Violation(Reason.CHILD_CONFLICT, f"{kind} {name} exists and is not this session's; delete or rename it")
        )


def _decoded(data: Object, key: str) -> str:
    return base64.b64decode(data.get(key, "")).decode()


def _json(obj: Object) -> str:
    return json.dumps(obj, sort_keys=True)
