"""The identity that travels through queue, store and loop: which object, never what happened to it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True, slots=True)
class Key:
    """An object of the API by kind and name; `namespace` is empty for a cluster-scoped kind."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def log_extra(key: Key, **more: str) -> dict[str, dict[str, str]]:
    """Returns the `extra` of a log line about the object. Below one attribute, because `name` is taken in a LogRecord."""
    return {"fields": {"kind": key.kind, "namespace": key.namespace, "name": key.name, **more}}
