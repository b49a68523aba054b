"""A statement's settings: its own over the session's layers, within the limits and the policy of the class."""

from __future__ import annotations

from collections.abc import Mapping

from sparksql.api import gateway_settings
from sparksql.api.conf_policy import normalise
from sparksql.api.reasons import Reason
from sparksql.api.session import SessionTemplate
from sparksql.api.session_class import SqlSessionClass
from sparksql.api.settings import SessionSettings, StatementTimeouts
from sparksql.api.statement import SqlStatementSpec
from sparksql.domain.session.configuration_layers import merge
from sparksql.domain.session.resolve import conf_refusal, settings_of
from sparksql.domain.statement.snapshot import Settings
from sparksql.domain.statement.stream.spec import is_stream
from sparksql.domain.violation import Violation


def resolve(
    spec: SqlStatementSpec,
    template: SessionTemplate,
    session_class: SqlSessionClass,
    operator_defaults: SessionSettings,
) -> Settings | Violation:
    """Returns the settings of a statement in a session made from `template` and `session_class`."""
    violation = conf_refusal(spec.conf, session_class, "spec.conf") or _too_late(spec.conf)
    if violation is not None:
        return violation
    layers = settings_of(template, session_class, operator_defaults)
    timeouts = (
        merge(layers, SessionSettings(statement_timeouts=spec.timeouts)).statement_timeouts or StatementTimeouts()
    )
    own = spec.timeouts.execution_seconds if spec.timeouts else None
    execution, most = timeouts.execution_seconds or 0, session_class.spec.limits.execution_seconds
    if is_stream(spec):  # runs until it is stopped: only its own limit counts
        execution, most = own or 0, 0
    if most and own is not None and (own == 0 or own > most):
        limit = "no limit" if own == 0 else f"{own} s"
        message = (
            f"spec.timeouts.executionSeconds: {limit} is more than class {session_class.metadata.name} allows "
            f"({most} s); reduce it to {most} or less"
        )
        return Violation(Reason.LIMIT_EXCEEDED, message)
    if most:
        execution = min(execution or most, most)
    return Settings(
        conf=dict(spec.conf),
        queue_seconds=timeouts.queue_seconds or 0,
        execution_seconds=execution,
        preview_rows=min(spec.result.preview_rows, session_class.spec.limits.preview_rows),
        class_name=session_class.metadata.name,
        checkpoint_root=session_class.spec.storage.checkpoint_root,
    )


def _too_late(conf: Mapping[str, str]) -> Violation | None:
    """Returns why a key would change nothing: the gateway reads its settings when a driver starts."""
    for key in conf:
        if normalise(key).startswith(gateway_settings.PREFIX):
            message = f"spec.conf: key {key!r} is read when a driver starts; set it in the session or its class"
            return Violation(Reason.NOT_ALLOWED, message)
    return None
