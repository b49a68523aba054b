"""An API server that sheds load says when to come back, and the operator comes back then."""

from __future__ import annotations

import time
from typing import Any

import pytest

from sparksql.kube.client import KubeClient
from sparksql.kube.errors import error_from
from sparksql.kube.resources import SESSIONS, STATEMENTS, Resource
from tests.integration.operator.environment import Environment

Object = dict[str, Any]
TOLD_SECONDS = 2  # forty times the first backoff


@pytest.fixture(params=[429, 503])
def asked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Times of writes to a statement's status, of which the first is turned away."""
    times: list[float] = []

    class Busy(KubeClient):
        async def patch_merge(
            self, resource: Resource, namespace: str, name: str, body: Object, subresource: str = ""
        ) -> Object:
            if resource == STATEMENTS and subresource == "status":
                times.append(time.monotonic())
                if len(times) == 1:
                    raise error_from(request.param, b"", str(TOLD_SECONDS))
            return await super().patch_merge(resource, namespace, name, body, subresource)

    monkeypatch.setattr("sparksql.operator.KubeClient", Busy)
    return times


async def test_a_write_that_is_turned_away_is_tried_again_when_the_server_says(
    env: Environment, asked: list[float]
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
    assert asked[1] - asked[0] >= TOLD_SECONDS
    assert len(env.ledger.ran("one")) == 1
