"""A statement's text and parameter values with their references read: only from its own namespace, only when needed."""

from __future__ import annotations

import base64
import binascii

from sparksql.api.fields import ConfigMapKeySelector, SecretKeySelector
from sparksql.api.reasons import Reason
from sparksql.api.statement import SqlStatement, StatementParameter
from sparksql.domain.statement.snapshot import Inputs, MissingReference
from sparksql.domain.violation import Violation
from sparksql.kube.client import KubeClient
from sparksql.kube.config_maps import config_map_text
from sparksql.kube.errors import NotFound
from sparksql.kube.resources import SECRETS
from sparksql.wire.control import Parameter


class _MissingError(Exception):
    pass


class _UnusableError(Exception):
    pass


async def read_inputs(client: KubeClient, statement: SqlStatement) -> Inputs | MissingReference | Violation:
    """Returns the inputs of the statement, or what they lack. Raises ApiError only when the API server itself fails."""
    spec, namespace = statement.spec, statement.metadata.namespace
    try:
        if spec.sql_from is not None:
            ref = spec.sql_from.config_map_key_ref
            sql = await _config_map_value(client, namespace, ref, "spec.sqlFrom.configMapKeyRef")
        else:
            sql = spec.sql or ""
        parameters = [await _parameter(client, namespace, p, i) for i, p in enumerate(spec.parameters)]
    except _MissingError as missing:
        return MissingReference(str(missing))
    except _UnusableError as unusable:
        return Violation(Reason.INVALID_SPEC, str(unusable))
    return Inputs(sql, tuple(parameters))


async def _parameter(client: KubeClient, namespace: str, parameter: StatementParameter, index: int) -> Parameter:
    source, field = parameter.value_from, f"spec.parameters[{index}].valueFrom"
    if source is None:
        return Parameter(name=parameter.name, value=parameter.value or "", type=parameter.type)
    if source.config_map_key_ref is not None:
        value = await _config_map_value(client, namespace, source.config_map_key_ref, f"{field}.configMapKeyRef")
        return Parameter(name=parameter.name, value=value, type=parameter.type)
    assert source.secret_key_ref is not None
    secret = await _secret_value(client, namespace, source.secret_key_ref, f"{field}.secretKeyRef")
    return Parameter(name=parameter.name, value=secret, type=parameter.type, secret=True)


async def _config_map_value(client: KubeClient, namespace: str, ref: ConfigMapKeySelector, field: str) -> str:
    value = await config_map_text(client, namespace, ref)
    if value is None:
        raise _MissingError(
            f"{field}: ConfigMap {ref.name} with key {ref.key} does not exist in namespace {namespace}; create it"
        )
    return value


async def _secret_value(client: KubeClient, namespace: str, ref: SecretKeySelector, field: str) -> str:
    try:
        secret = await client.get(SECRETS, namespace, ref.name)
        encoded = secret["data"][ref.key]
    except (NotFound, KeyError):
        message = f"{field}: Secret {ref.name} with key {ref.key} does not exist in namespace {namespace}; create it"
        raise _MissingError(message) from None
    try:
        return base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise _UnusableError(
            f"{field}: key {ref.key} of Secret {ref.name} is not UTF-8 text; a parameter needs text"
        ) from None
