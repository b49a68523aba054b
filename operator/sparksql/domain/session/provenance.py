"""Which layer each value of a session's configuration came from. Pure; what `kubectl sparksql config` shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sparksql.api.conf_policy import redacted
from sparksql.api.session import ConfigurationEntry, ConfigurationLayer
from sparksql.api.settings import SessionSettings
from sparksql.domain.session.layers import merge

Path = tuple[str, ...]


def configuration(
    layers: Sequence[tuple[ConfigurationLayer, SessionSettings]], enforced: Mapping[str, str]
) -> tuple[ConfigurationEntry, ...]:
    """All values in force, by name, secrets redacted. `layers` come strongest last; `enforced` wins over all of them."""
    shown = [(layer, settings.replace(conf=redacted(settings.conf))) for layer, settings in layers]
    said = [(layer, dict(_leaves(settings.to_dict()))) for layer, settings in shown]
    found: dict[Path, tuple[object, ConfigurationLayer]] = {
        path: (value, next(layer for layer, values in reversed(said) if path in values))
        for path, value in _leaves(merge(*(settings for _, settings in shown)).to_dict())
    }
    found |= {("conf", key): (value, ConfigurationLayer.ENFORCED) for key, value in redacted(enforced).items()}
    return tuple(
        ConfigurationEntry(name=".".join(path), value=_text(value), layer=layer)
        for path, (value, layer) in sorted(found.items())
    )


def _leaves(value: Mapping[str, Any], path: Path = ()) -> Iterator[tuple[Path, object]]:
    for name, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _leaves(inner, (*path, name))
        else:
            yield (*path, name), inner


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
