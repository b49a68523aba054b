"""Whether a driver that was started ahead of need is what a session asks for. Pure.

What Spark and Kubernetes fix at the start of a driver is the pool's key: pods, image, account, sizes, storage, and all settings
but those of Spark SQL that can be changed while it runs. The rest is set when the driver is bound.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace

from pydantic_core import to_jsonable_python

from sparksql.api.base import ObjectMeta
from sparksql.api.conf_policy import STATIC_KEYS, is_reviewed, normalise, redacted
from sparksql.api.names import pool_member_name
from sparksql.api.session import SqlSession, SqlSessionSpec
from sparksql.api.session_class import SqlSessionClass
from sparksql.api.settings import DriverResources, Endpoints, ExecutorResources, SessionSettings
from sparksql.domain.session.effective_session import EffectiveSession
from sparksql.domain.session.resolve import Resolved, resolve
from sparksql.domain.violation import Violation
from sparksql.wire.driver import OpenEndpoints


def pool_key(session: EffectiveSession) -> str:
    """Returns a hash of what is fixed once a driver for the session has started; equal for sessions that one driver fits."""
    fixed = replace(
        session,
        name="",
        uid="",
        pool_uid="",
        database="",
        conf={key: value for key, value in session.conf.items() if not _is_set_at_binding(key)},
        # Connect's own service is a part of Spark; the other protocols are the gateway's.
        endpoints=OpenEndpoints(rest=True, thrift=True, connect=True, frontends=session.endpoints.frontends),
        network_policy=True,
        network_clients=(),
        front_only=False,
    )
    text = json.dumps(to_jsonable_python(fixed), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def pool_resolution(
    session_class: SqlSessionClass,
    namespace: str,
    uid: str,
    namespace_labels: Mapping[str, str],
    operator_defaults: SessionSettings,
) -> Resolved | Violation:
    """Returns what a driver of the class's pool is made from: a session that says nothing but its class.

    It has every protocol on, which fits most.
    """
    name = pool_member_name(session_class.metadata.name)
    spec = SqlSessionSpec(
        class_name=session_class.metadata.name, endpoints=Endpoints(rest=True, connect=True, thrift=True)
    )
    session = SqlSession(metadata=ObjectMeta(name=name, namespace=namespace, uid=uid), spec=spec)
    return resolve(session, session_class, namespace_labels, operator_defaults)


def misfits(session: Resolved, pool: Resolved) -> tuple[str, ...]:
    """Returns why no driver of the pool is what the session asks for: its fields that differ, each with both values.

    Empty if one fits. All else that a driver is fixed by is the class's and the operator's own, the same for both.
    """
    if pool_key(session.effective) == pool_key(pool.effective):
        return ()
    own, theirs = _fixed_fields(session), _fixed_fields(pool)
    return tuple(
        f"{name} is {own.get(name) or 'not set'}, the pool has {theirs.get(name) or 'none'}"
        for name in sorted(own.keys() | theirs.keys())
        if own.get(name) != theirs.get(name)
    )


def _fixed_fields(resolved: Resolved) -> dict[str, str]:
    """Values of what a session may set and a started driver cannot change, by their paths in the spec; secrets are redacted."""
    built, settings = resolved.effective, resolved.settings
    driver = (settings.driver or DriverResources()).to_dict()
    executors = (settings.executors or ExecutorResources()).to_dict()
    conf = {key: value for key, value in settings.conf.items() if not _is_set_at_binding(key)}
    return {
        "spec.image": built.image,
        "spec.serviceAccountName": built.service_account,
        **{f"spec.driver.{name}": str(value) for name, value in driver.items()},
        **{f"spec.executors.{name}": str(value) for name, value in executors.items()},
        **{f"spec.conf.{key}": value for key, value in redacted(conf).items()},
    }


def _is_set_at_binding(key: str) -> bool:
    name = normalise(key)
    return name.startswith("spark.sql.") and is_reviewed(key) and name not in STATIC_KEYS
