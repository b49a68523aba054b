"""What a driver is told at its start, as far as it follows from its session and class."""

from __future__ import annotations

from typing import Any

from sparksql.api.session_class import SqlSessionClass
from sparksql.domain.session.effective_session import EffectiveSession
from sparksql.domain.session.resolve import Resolved, client_limits
from sparksql.kube.builders.conf import spark_conf
from sparksql.wire import driver as wire


def driver_config(
    resolved: Resolved,
    session_class: SqlSessionClass,
    incarnation: int,
    started_as: EffectiveSession | None = None,
    **own: Any,
) -> wire.DriverConfig:
    """Returns the configuration of the driver's `incarnation`, with fields of its own.

    `started_as` is the member of a pool that the driver was, whose names Spark has; without one it is made for the session.
    """
    built = resolved.effective
    conf = spark_conf(built, incarnation) if started_as is None else spark_conf(started_as, 1)
    values: dict[str, Any] = {
        "namespace": built.namespace,
        "session": built.name,
        "session_uid": built.uid,
        "incarnation": incarnation,
        "heap_mib": built.driver.heap_mib,
        "spark_conf": conf,
        "database": built.database,
        "policy": wire.SqlPolicy(
            conf_allow=session_class.spec.allow.conf,
            enforced_conf=dict(built.enforced_conf),
            jar_prefixes=session_class.spec.allow.jar_prefixes,
        ),
        "endpoints": built.endpoints,
        "clients": client_limits(resolved.settings, session_class.spec.limits),
        "max_concurrent_statements": resolved.settings.max_concurrent_statements or 1,
        "max_preview_rows": session_class.spec.limits.preview_rows,
        "result_root": built.result_root or wire.DriverConfig.model_fields["result_root"].default,
    }
    return wire.DriverConfig(**{**values, **own})
