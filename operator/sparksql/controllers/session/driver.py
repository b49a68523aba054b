"""Making a driver: its children are applied in order, the pod last; nothing of anybody else's is ever adopted."""

from __future__ import annotations

import base64
import contextlib
import json
import secrets
from typing import Any

from sparksql.api.names import child_base, executor_secret_name, gateway_server_name
from sparksql.api.reasons import Reason
from sparksql.api.session import DriverStatus, SqlSession
from sparksql.api.session_class import SqlSessionClass
from sparksql.cache.indexes import POD
from sparksql.controllers.context import ControllerContext
from sparksql.controllers.session.pods import is_driver
from sparksql.domain.session.effective_session import EffectiveSession
from sparksql.domain.session.resolve import Resolved, client_limits
from sparksql.domain.violation import Violation
from sparksql.drivers.client import Address
from sparksql.kube.builders.access import role_binding, service_account
from sparksql.kube.builders.conf import spark_conf
from sparksql.kube.builders.driver import driver_pod
from sparksql.kube.builders.executor import executor_template
from sparksql.kube.builders.metadata import belongs_to
from sparksql.kube.builders.network import network_policy
from sparksql.kube.builders.session import executor_secret, secret, service
from sparksql.kube.config_maps import config_map_text
from sparksql.kube.errors import AlreadyExists, Forbidden, Invalid, NotFound
from sparksql.kube.resources import (
    NETWORK_POLICIES,
    PODS,
    ROLE_BINDINGS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    VOLUME_CLAIMS,
    Resource,
)
from sparksql.kube.tls import session_certificate, ssl_context
from sparksql.wire import driver as wire

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

    async def start_driver(
        self, session: SqlSession, session_class: SqlSessionClass, resolved: Resolved
    ) -> Violation | None:
        """Makes the children and the pod of `status.driver.incarnation`, and returns what prevents that, None if nothing does.

        Idempotent. Raises ApiError.
        """
        built, driver = resolved.effective, session.status.driver
        assert driver is not None and driver.pod_name is not None
        try:
            config = await self._config(session, session_class, resolved, driver.incarnation)
            await self._create_all(session, built, driver.incarnation, config)
        except _StartBlockedError as blocked:
            return blocked.violation
        return None

    async def _create_all(self, session: SqlSession, built: EffectiveSession, incarnation: int, config: str) -> None:
        try:
            await self._check_claim(built)
            await self._account(built)
            await self._secret(built, incarnation, config)
            await self._executor_secret(built, incarnation)
            await self._own(SERVICES, service(built, incarnation), session)
            if built.network_policy:
                await self._own(NETWORK_POLICIES, network_policy(built, self._context.pod_namespace), session)
            pod = await self._pod(built, incarnation, wire.config_hash(config))
            await self._hand_over_executor_secret(built, pod)
        except Forbidden as error:
            raise _StartBlockedError(_forbidden(error)) from error
        except Invalid as error:
            message = f"the API server refuses what follows from class {built.class_name}: {error.message}"
            raise _StartBlockedError(Violation(Reason.INVALID_SPEC, message[:1000])) from error

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
        if not belongs_to(secret, metadata.uid) or not token or not cert:
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
        self, session: SqlSession, session_class: SqlSessionClass, resolved: Resolved, incarnation: int
    ) -> str:
        built = resolved.effective
        config = wire.DriverConfig(
            namespace=built.namespace,
            session=built.name,
            session_uid=built.uid,
            incarnation=incarnation,
            heap_mib=built.driver.heap_mib,
            spark_conf=spark_conf(built, incarnation),
            database=built.database,
            init=await self._init(session),
            policy=wire.SqlPolicy(
                conf_allow=session_class.spec.allow.conf,
                enforced_conf=dict(built.enforced_conf),
                jar_prefixes=session_class.spec.allow.jar_prefixes,
            ),
            endpoints=built.endpoints,
            clients=client_limits(resolved.settings, session_class.spec.limits),
            max_concurrent_statements=resolved.settings.max_concurrent_statements or 1,
            max_preview_rows=session_class.spec.limits.preview_rows,
            result_root=built.result_root or wire.DriverConfig.model_fields["result_root"].default,
        )
        return config.to_file()

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
        if built.create_service_account:
            await self._find_binding(built)
        if driver is not None and driver.pod_name is not None and driver.pod_uid is None:
            await self._find(PODS, built, driver.pod_name)

    async def _account(self, built: EffectiveSession) -> None:
        """The class's account and its one role binding, made when absent and never changed."""
        if not built.create_service_account:
            return
        account = service_account(built.namespace, built.service_account)
        try:
            await self._context.client.get(SERVICE_ACCOUNTS, built.namespace, built.service_account)
        except NotFound:
            with contextlib.suppress(AlreadyExists):
                await self._context.client.create(SERVICE_ACCOUNTS, built.namespace, account)
        if await self._find_binding(built) is None:
            binding = role_binding(built.namespace, built.service_account)
            with contextlib.suppress(AlreadyExists):
                await self._context.client.create(ROLE_BINDINGS, built.namespace, binding)

    async def _find_binding(self, built: EffectiveSession) -> Object | None:
        """The account's role binding. One of that name that binds something else would leave drivers without executors."""
        binding = role_binding(built.namespace, built.service_account)
        name = binding["metadata"]["name"]
        try:
            existing = await self._context.client.get(ROLE_BINDINGS, built.namespace, name)
        except NotFound:
            return None
        subjects = [(s.get("kind"), s.get("name"), s.get("namespace")) for s in existing.get("subjects") or ()]
        is_bound = ("ServiceAccount", built.service_account, built.namespace) in subjects
        if not is_bound or existing["roleRef"]["name"] != binding["roleRef"]["name"]:
            role = binding["roleRef"]["name"]
            message = f"RoleBinding {name} exists and does not bind ServiceAccount {built.service_account} to ClusterRole {role}; delete it"
            raise _StartBlockedError(Violation(Reason.CHILD_CONFLICT, message))
        return existing

    async def _secret(self, built: EffectiveSession, incarnation: int, config: str) -> None:
        """The Secret with this incarnation's configuration; token and certificate stay as they are once made."""
        name = child_base(built.name, built.uid)
        existing = await self._find(SECRETS, built, name)
        data = (existing or {}).get("data") or {}
        token, cert, key = (_decoded(data, f) for f in (wire.TOKEN_FILE, wire.TLS_CERT_FILE, wire.TLS_KEY_FILE))
        if not (token and cert and key):
            cert, key = session_certificate(built.name, built.uid, built.namespace, self._context.clock())
            token = secrets.token_hex(TOKEN_BYTES)
        body = secret(
            built,
            token=token,
            cert_pem=cert,
            key_pem=key,
            config_json=config,
            executor_template_json=_json(executor_template(built, incarnation)),
        )
        await self._context.client.apply(SECRETS, built.namespace, name, body)

    async def _executor_secret(self, built: EffectiveSession, incarnation: int) -> None:
        body = executor_secret(built, incarnation, secrets.token_bytes(TOKEN_BYTES))
        try:
            await self._context.client.create(SECRETS, built.namespace, body)
        except AlreadyExists:
            existing = await self._context.client.get(SECRETS, built.namespace, body["metadata"]["name"])
            if not _is_handed_over(existing):
                _refuse_foreign(existing, built.uid)

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


def _is_handed_over(secret: Object) -> bool:
    """Whether an executors' Secret belongs to the driver pod that it is named after."""
    owners = secret["metadata"].get("ownerReferences", ())
    return any(o.get("kind") == "Pod" and executor_secret_name(o["name"]) == secret["metadata"]["name"] for o in owners)


def _refuse_foreign(obj: Object, uid: str) -> None:
    if not belongs_to(obj, uid):
        name, kind = obj["metadata"]["name"], obj.get("kind", "object")
        raise _StartBlockedError(
            Violation(Reason.CHILD_CONFLICT, f"{kind} {name} exists and is not this session's; delete or rename it")
        )


def _forbidden(error: Forbidden) -> Violation:
    if error.quota_exceeded:
        return Violation(Reason.QUOTA_EXCEEDED, error.message)
    if error.namespace_terminating:
        return Violation(Reason.NAMESPACE_TERMINATING, "the namespace is being deleted")
    return Violation(Reason.NOT_ALLOWED, f"the cluster does not allow it: {error.message}")


def _decoded(data: Object, key: str) -> str:
    return base64.b64decode(data.get(key, "")).decode()


def _json(obj: Object) -> str:
    return json.dumps(obj, sort_keys=True)
