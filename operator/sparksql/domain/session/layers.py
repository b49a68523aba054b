"""Configuration layers: operator defaults < class defaults < session (< statement). Later wins, field by field, key by key."""

from __future__ import annotations

from typing import TypeVar

from sparksql.api.base import ApiModel
from sparksql.api.fields import INT32_MAX
from sparksql.api.settings import (
    DriverResources,
    Endpoints,
    ExecutorResources,
    Idle,
    IdleAction,
    SessionSettings,
    StatementTimeouts,
)

OPERATOR_DEFAULTS = SessionSettings(
    driver=DriverResources(cpu="1", memory="1Gi"),
    executors=ExecutorResources(instances=1, cpu="1", memory="1Gi"),
    database="",
    idle=Idle(timeout_seconds=300, action=IdleAction.CLOSE),
    statement_timeouts=StatementTimeouts(queue_seconds=0, execution_seconds=0),
    max_lifetime_seconds=0,
    max_concurrent_statements=4,
    max_queued_statements=INT32_MAX,
    endpoints=Endpoints(rest=True, connect=False, thrift=False),
)
"""The lowest layer, documented in the API reference; Helm values lie directly above it."""

_Part = TypeVar("_Part", bound=ApiModel)
_Value = TypeVar("_Value", int, str)


def merge(*layers: SessionSettings) -> SessionSettings:
    """One `SessionSettings` of all layers, the last one strongest."""
    merged = layers[0]
    for layer in layers[1:]:
        merged = SessionSettings(
            driver=_over(merged.driver, layer.driver),
            executors=_over_executors(merged.executors, layer.executors),
            conf={**merged.conf, **layer.conf},
            database=_last(merged.database, layer.database),
            idle=_over(merged.idle, layer.idle),
            statement_timeouts=_over(merged.statement_timeouts, layer.statement_timeouts),
            max_lifetime_seconds=_last(merged.max_lifetime_seconds, layer.max_lifetime_seconds),
            max_concurrent_statements=_last(merged.max_concurrent_statements, layer.max_concurrent_statements),
            max_queued_statements=_last(merged.max_queued_statements, layer.max_queued_statements),
            endpoints=_over(merged.endpoints, layer.endpoints),
        )
    return merged


def _last(below: _Value | None, above: _Value | None) -> _Value | None:
    return below if above is None else above


def _over(below: _Part | None, above: _Part | None) -> _Part | None:
    if below is None or above is None:
        return above or below
    return below.replace(**{name: value for name, value in above if value is not None})


def _over_executors(below: ExecutorResources | None, above: ExecutorResources | None) -> ExecutorResources | None:
    """A fixed number replaces a range of the layer below, and a range replaces a fixed number."""
    if below is not None and above is not None:
        if above.instances is not None:
            below = below.replace(min=None, max=None)
        elif above.min is not None or above.max is not None:
            below = below.replace(instances=None)
    return _over(below, above)
