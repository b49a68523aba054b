"""How many drivers the limits leave to the warm pool of a class: which sessions count for which class."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sparksql.api.names import DEFAULT_CLASS_ANNOTATION
from sparksql.api.settings import SessionSettings
from sparksql.cache.indexes import CLASS, INDEXES, SESSION
from sparksql.controllers.context import ControllerContext
from sparksql.controllers.session_class import SessionClassController
from sparksql.domain.session_class import Decision
from sparksql.engine.store import Store
from tests.unit.domain.builders.conditions import conditions_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def put(store: Store, kind: str, name: str, namespace: str = "", **fields: Any) -> None:
    annotations = fields.pop("annotations", {})
    made = {"uid": name, "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    metadata = {"name": name, "namespace": namespace, "annotations": annotations, **made}
    store.apply(kind, {"metadata": metadata, **fields})


async def decision_on(name: str, *, most: int = 0, limit: int | None = 2) -> Decision:
    """The decision on one of two classes with a pool of two drivers; a session without className has a driver."""
    store = Store(INDEXES)
    spec = {"image": "i", "limits": {"sessions": limit}, "warmPool": {"size": 2, "namespaces": ["team-a"]}}
    put(store, CLASS, "standard", annotations={DEFAULT_CLASS_ANNOTATION: "true"}, spec=spec, status={})
    put(store, CLASS, "large", spec=spec, status={})
    put(store, SESSION, "one", "team-a", spec={}, status={"phase": "Ready"})
    config = SimpleNamespace(limits=SimpleNamespace(sessions=most), defaults=SessionSettings())
    parts = SimpleNamespace(store=store, clock=lambda: NOW, config=config)
    controller = SessionClassController(cast(ControllerContext, parts))
    obj = cast(dict[str, Any], store.get(CLASS, "", name))
    return await controller.decide(obj, controller.parse(obj), None)


@pytest.mark.parametrize(("name", "drivers"), [("standard", 1), ("large", 2)])
async def test_session_without_a_class_name_counts_for_the_default_class_alone(name: str, drivers: int) -> None:
    assert len((await decision_on(name)).commands) == drivers


async def test_pool_that_a_limit_keeps_small_names_the_limit() -> None:
    of_class, of_operator = await decision_on("standard"), await decision_on("large", most=2, limit=None)
    for decision, limit in ((of_class, "spec.limits.sessions (2)"), (of_operator, "operator.limits.sessions (2)")):
        assert conditions_of(decision.status)["WarmPool"] == ("False", "LimitExceeded")
        assert limit in decision.events[0].message.text
    assert "WarmPool" not in conditions_of((await decision_on("large")).status)
