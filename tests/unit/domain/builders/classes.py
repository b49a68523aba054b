"""Session classes."""

from __future__ import annotations

from typing import Any

from sparksql.api.session_class import SqlSessionClass


def session_class(**spec: Any) -> SqlSessionClass:
    return SqlSessionClass.parse(
        {"metadata": {"name": "standard", "uid": "class-uid"}, "spec": {"image": "registry.example/session:1", **spec}}
    )
