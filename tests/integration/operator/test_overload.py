"""An API server that sheds load says when to come back, and the operator comes back then."""

from __future__ import annotations

from typing import Any

import pytest

from sparksql.engine.key import Key
from sparksql.engine.queue import WorkQueue
from sparksql.kube.client import KubeClient
from sparksql.kube.errors import error_from
from sparksql.kube.resources import SESSIONS, STATEMENTS, Resource
from tests.integration.operator.environment import KINDS, Environment

Object = dict[str, Any]
TOLD_SECONDS = 2  # forty times the first backoff


@pytest.fixture(params=[429, 503])
def retries(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """For how many seconds at least statements are put off; the first write of a statement's status is turned away."""
    waits: list[float] = []
    writes: list[str] = []

    class Busy(KubeClient):
        async def patch_merge(
            self, resource: Resource, namespace: str, name: str, body: Object, subresource: str = ""
        ) -> Object:
            if resource == STATEMENTS and subresource == "status":
                writes.append(name)
                if len(writes) == 1:
                    raise error_from(request.param, b"", str(TOLD_SECONDS))
            return await super().patch_merge(resource, namespace, name, body, subresource)

    class Watched(WorkQueue):
        def add_rate_limited(self, key: Key, at_least: float = 0.0) -> None:
            if key.kind == KINDS[STATEMENTS]:
                waits.append(at_least)
            super().add_rate_limited(key, at_least)

    monkeypatch.setattr("sparksql.operator.KubeClient", Busy)
    monkeypatch.setattr("sparksql.controllers.manager.WorkQueue", Watched)
    return waits


async def test_a_write_that_is_turned_away_is_tried_again_when_the_server_says(
    env: Environment, retries: list[float]
) -> None:
    await env.create_class()
    await env.create_session()
    async with env.operator() as operator:
        await env.in_phase(SESSIONS, "s", "Ready")
        await env.create_statement("one", "INSERT INTO t")
        await env.finished("one")
        assert (
            'sparksql_reconcile_total{kind="SqlStatement",result="transient"} 1.0' in operator.metrics.render().decode()
        )
    assert retries == [TOLD_SECONDS]  # which the queue keeps by its clock
    assert len(env.ledger.ran("one")) == 1
