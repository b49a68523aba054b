"""Making a driver: its children are applied in order, the pod last; nothing of anybody else's is ever adopted."""

from __future__ import annotations

import base64
import json
import secrets
from typing import Any

from sparksql.api.names import child_base, gateway_server_name
from sparksql.api.reasons import Reason
from sparksql.api.session import SqlSession
from sparksql.api.session_class import SqlSessionClass
from sparksql.controllers.gateway_client import Address
from sparksql.controllers.indexes import POD
from sparksql.controllers.runtime import Runtime
from sparksql.controllers.statement_inputs import config_map_text
from sparksql.domain.refusal import Refusal
from sparksql.domain.session.effective import EffectiveSession
from sparksql.domain.session.limits import client_limits
from sparksql.domain.session.resolve import Resolved
from sparksql.kube.builders.access import role_binding, service_account
from sparksql.kube.builders.conf import spark_conf
from sparksql.kube.builders.driver import driver_pod
from sparksql.kube.builders.executor import executor_template
from sparksql.kube.builders.network import network_policy, operator_peer
from sparksql.kube.builders.session import secret, service
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


class Refused(Exception):
    """Something outside stops the driver from being made; `refusal` says what and what to do."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class SessionChildren:
    def __init__(self, runtime: Runtime) -> None:
        self._rt = runtime

    async def start_driver(self, session: SqlSession, klass: SqlSessionClass, resolved: Resolved) -> None:
        """Children and pod of `status.driver.incarnation`. Idempotent. Raises Refused."""
        built, driver = resolved.effective, session.status.driver
        assert driver is not None and driver.pod_name is not None
        config = await self._config(session, klass, resolved, driver.incarnation)
        try:
            await self._check_claim(built)
            await self._account(built)
            await self._secret(built, config)
            await self._own(SERVICES, service(built), session)
            if built.network_policy:
                await self._own(NETWORK_POLICIES, network_policy(built, operator_peer("")), session)
            await self._pod(built, driver.incarnation, wire.config_hash(config))
        except Forbidden as error:
            raise Refused(_forbidden(error)) from error
        except Invalid as error:
            message = f"the API server refuses what follows from class {built.class_name}: {error.message}"
            raise Refused(Refusal(Reason.INVALID_SPEC, message[:1000])) from error

    async def obstacle(self, session: SqlSession, resolved: Resolved) -> Refusal | None:
        """What a driver would lack: looked at before one is started, so that waiting for it costs no incarnation."""
        try:
            await self._check_claim(resolved.effective)
            await self._init(session)
        except Refused as refused:
            return refused.refusal
        return None

    async def address(self, session: SqlSession, host: str, pod_uid: str) -> Address | None:
        """Where the driver's gateway is and how to be let in; None while its Secret is missing."""
        metadata = session.metadata
        try:
            found = await self._rt.client.get(SECRETS, metadata.namespace, child_base(metadata.name, metadata.uid))
        except NotFound:
            return None
        data = found.get("data") or {}
        token, cert = _decoded(data, wire.TOKEN_FILE), _decoded(data, wire.TLS_CERT_FILE)
        if not _is_owned(found, metadata.uid) or not token or not cert:
            return None
        server = gateway_server_name(metadata.name, metadata.uid, metadata.namespace)
        return Address(pod_uid, host, wire.GATEWAY_PORT, server, token, ssl_context(cert))

    async def delete_pod(self, session: SqlSession, name: str, grace_seconds: int) -> None:
        namespace = session.metadata.namespace
        try:
            live = await self._rt.client.get(PODS, namespace, name)
            if _is_owned(live, session.metadata.uid) and live["metadata"].get("deletionTimestamp") is None:
                await self._rt.client.delete(
                    PODS, namespace, name, uid=live["metadata"]["uid"], grace_seconds=grace_seconds
                )
        except NotFound:
            await self._rt.status.refresh(POD, namespace, name)

    async def _config(self, session: SqlSession, klass: SqlSessionClass, resolved: Resolved, incarnation: int) -> str:
        built = resolved.effective
        config = wire.DriverConfig(
            namespace=built.namespace,
            session=built.name,
            session_uid=built.uid,
            incarnation=incarnation,
            heap_mib=built.driver.heap_mib,
            spark_conf=spark_conf(built, incarnation),
            init=await self._init(session),
            policy=wire.SqlPolicy(
                conf_allow=klass.spec.allow.conf,
                enforced_conf=dict(built.enforced_conf),
                jar_prefixes=klass.spec.allow.jar_prefixes,
            ),
            endpoints=wire.Endpoints(
                rest=built.endpoints.rest, connect=built.endpoints.connect, thrift=built.endpoints.thrift
            ),
            clients=client_limits(resolved.settings, klass.spec.limits),
            max_concurrent_statements=resolved.settings.max_concurrent_statements or 1,
            max_preview_rows=klass.spec.limits.preview_rows,
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
            text = await config_map_text(self._rt.client, namespace, ref)
            if text is None:
                what = f"ConfigMap {ref.name} with key {ref.key} does not exist in namespace {namespace}; create it"
                raise Refused(Refusal(Reason.INIT_SOURCE_NOT_FOUND, f"spec.init[{i}].sqlFrom: {what}"))
            statements.append(wire.InitStatement(sql=text, origin=f"spec.init[{i}].sqlFrom"))
        return tuple(statements)

    async def _check_claim(self, built: EffectiveSession) -> None:
        if built.volume_claim is None:
            return
        name = built.volume_claim.name
        try:
            await self._rt.client.get(VOLUME_CLAIMS, built.namespace, name)
        except NotFound:
            message = f"PersistentVolumeClaim {name} of class {built.class_name} does not exist in namespace {built.namespace}; create it"
            raise Refused(Refusal(Reason.STORAGE_NOT_READY, message)) from None

    async def _account(self, built: EffectiveSession) -> None:
        """The class's account and its one role binding, made when absent and never changed."""
        if not built.create_service_account:
            return
        for resource, body in (
            (SERVICE_ACCOUNTS, service_account(built.namespace, built.service_account)),
            (ROLE_BINDINGS, role_binding(built.namespace, built.service_account)),
        ):
            try:
                await self._rt.client.get(resource, built.namespace, body["metadata"]["name"])
            except NotFound:
                await self._create(resource, built.namespace, body)

    async def _secret(self, built: EffectiveSession, config: str) -> None:
        """The Secret with this incarnation's configuration; token and certificate stay as they are once made."""
        name = child_base(built.name, built.uid)
        found = await self._find(SECRETS, built, name)
        data = (found or {}).get("data") or {}
        token, cert, key = (_decoded(data, f) for f in (wire.TOKEN_FILE, wire.TLS_CERT_FILE, wire.TLS_KEY_FILE))
        if not (token and cert and key):
            cert, key = session_certificate(built.name, built.uid, built.namespace, self._rt.clock())
            token = secrets.token_urlsafe(TOKEN_BYTES)
        body = secret(
            built,
            token=token,
            cert_pem=cert,
            key_pem=key,
            config_json=config,
            executor_template_json=_json(executor_template(built)),
        )
        await self._rt.client.apply(SECRETS, built.namespace, name, body)

    async def _own(self, resource: Resource, body: Object, session: SqlSession) -> None:
        metadata = body["metadata"]
        try:
            found = await self._rt.client.get(resource, metadata["namespace"], metadata["name"])
            _refuse_foreign(found, session.metadata.uid)
        except NotFound:
            pass
        await self._rt.client.apply(resource, metadata["namespace"], metadata["name"], body)

    async def _pod(self, built: EffectiveSession, incarnation: int, config_hash: str) -> None:
        body = driver_pod(built, incarnation, config_hash)
        try:
            created = await self._rt.client.create(PODS, built.namespace, body)
        except AlreadyExists:
            created = await self._rt.client.get(PODS, built.namespace, body["metadata"]["name"])
            _refuse_foreign(created, built.uid)
        self._rt.store.apply(POD, created)

    async def _find(self, resource: Resource, built: EffectiveSession, name: str) -> Object | None:
        try:
            found = await self._rt.client.get(resource, built.namespace, name)
        except NotFound:
            return None
        _refuse_foreign(found, built.uid)
        return found

    async def _create(self, resource: Resource, namespace: str, body: Object) -> None:
        try:
            await self._rt.client.create(resource, namespace, body)
        except AlreadyExists:
            return


def _is_owned(obj: Object, uid: str) -> bool:
    return any(owner.get("uid") == uid for owner in obj["metadata"].get("ownerReferences", ()))


def _refuse_foreign(obj: Object, uid: str) -> None:
    if not _is_owned(obj, uid):
        name, kind = obj["metadata"]["name"], obj.get("kind", "object")
        raise Refused(
            Refusal(Reason.CHILD_CONFLICT, f"{kind} {name} exists and is not this session's; delete or rename it")
        )


def _forbidden(error: Forbidden) -> Refusal:
    if error.quota_exceeded:
        return Refusal(Reason.QUOTA_EXCEEDED, error.message)
    if error.namespace_terminating:
        return Refusal(Reason.NAMESPACE_TERMINATING, "the namespace is being deleted")
    return Refusal(Reason.NOT_ALLOWED, f"the cluster does not allow it: {error.message}")


def _decoded(data: Object, key: str) -> str:
    return base64.b64decode(data.get(key, "")).decode()


def _json(obj: Object) -> str:
    return json.dumps(obj, sort_keys=True)
