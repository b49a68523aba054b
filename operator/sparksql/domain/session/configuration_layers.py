"""Configuration layers: operator defaults < class defaults < session (< statement). Later wins, field by field, key by key. Pure.

`configuration` tells which layer each value came from: it is kept in the session's status, where `kubectl sparksql config` and
`open_endpoints` read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from sparksql.api.base import ApiModel
from sparksql.api.conf_policy import redacted
from sparksql.api.fields import INT32_MAX
from sparksql.api.session import ConfigurationEntry, ConfigurationLayer
from sparksql.api.settings import (
    DriverResources,
    Endpoints,
    ExecutorResources,
    Idle,
    IdleAction,
    SessionSettings,
    StatementTimeouts,
)
from sparksql.wire.driver import FrontendPort, OpenEndpoints

OPERATOR_DEFAULTS = SessionSettings(
    driver=DriverResources(cpu="1", memory="1Gi"),
    executors=ExecutorResources(instances=1, cpu="1", memory="1Gi"),
    database="",
    idle=Idle(timeout_seconds=300, action=IdleAction.HIBERNATE, restore_state=False),
    statement_timeouts=StatementTimeouts(queue_seconds=0, execution_seconds=0),
    max_lifetime_seconds=0,
    max_concurrent_statements=4,
    max_queued_statements=INT32_MAX,
    endpoints=Endpoints(rest=True, connect=False, thrift=False),
)
"""The lowest layer, documented in the API reference; Helm values lie directly above it."""

FRONTEND_ENTRY = (
    "frontends."  # what begins the name of a frontend's entry in `status.configuration`; its value is the port
)

_Part = TypeVar("_Part", bound=ApiModel)
_Value = TypeVar("_Value", int, str)
_Path = tuple[str, ...]


def merge(*layers: SessionSettings) -> SessionSettings:
    """Merges to one `SessionSettings` of all layers, the last one strongest."""
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


def configuration(
    layers: Sequence[tuple[ConfigurationLayer, SessionSettings]], enforced: Mapping[str, str]
) -> tuple[ConfigurationEntry, ...]:
    """Returns all values in force, by name, secrets redacted. `layers` come strongest last; `enforced` wins over all of them."""
    shown = [(layer, settings.replace(conf=redacted(settings.conf))) for layer, settings in layers]
    said = [(layer, dict(_leaves(settings.to_dict()))) for layer, settings in shown]
    found: dict[_Path, tuple[object, ConfigurationLayer]] = {
        path: (value, next(layer for layer, values in reversed(said) if path in values))
        for path, value in _leaves(merge(*(settings for _, settings in shown)).to_dict())
    }
    found |= {("conf", key): (value, ConfigurationLayer.ENFORCED) for key, value in redacted(enforced).items()}
    return tuple(
        ConfigurationEntry(name=".".join(path), value=_text(value), layer=layer)
        for path, (value, layer) in sorted(found.items())
    )


def open_endpoints(configuration: Sequence[ConfigurationEntry]) -> OpenEndpoints:
    """Reads what a `configuration` turned on: the endpoints of the driver that was started with it."""
    on = {entry.name for entry in configuration if entry.value == _text(True)}
    frontends = (entry for entry in configuration if entry.name.startswith(FRONTEND_ENTRY))
    return OpenEndpoints(
        rest="endpoints.rest" in on,
        connect="endpoints.connect" in on,
        thrift="endpoints.thrift" in on,
        frontends=tuple(
            FrontendPort(name=entry.name.removeprefix(FRONTEND_ENTRY), port=int(entry.value)) for entry in frontends
        ),
    )


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


def _leaves(value: Mapping[str, Any], path: _Path = ()) -> Iterator[tuple[_Path, object]]:
    for name, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _leaves(inner, (*path, name))
        else:
            yield (*path, name), inner


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
