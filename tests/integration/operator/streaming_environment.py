"""An operator whose class has a place for checkpoints, and what tests of its streaming statements ask."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sparksql.api.names import LABEL_SESSION
from sparksql.kube.client import KubeClient
from sparksql.kube.credentials import Credentials
from sparksql.kube.resources import STATEMENTS
from tests.integration.operator.contract_monitor import condition
from tests.integration.operator.environment import Environment
from tests.integration.operator.stream_contract_monitor import StreamContractMonitor
from tests.support.apiserver import ApiServer
from tests.support.watching import watching

Object = dict[str, Any]
TEXT = "INSERT INTO t SELECT * FROM STREAM s"
ROOT = "file:///data/checkpoints"


@asynccontextmanager
async def streaming_environment(crds: ApiServer, namespace: str) -> AsyncIterator[Environment]:
    """A session of a class that has a place for checkpoints; at the end no two queries ever had the same one."""
    credentials = Credentials.from_kubeconfig(crds.kubeconfig)
    async with KubeClient(credentials) as client, watching(crds.kubeconfig) as watcher:
        env = Environment(client, watcher, namespace, credentials)
        env.monitor = StreamContractMonitor(watcher, namespace)
        async with env.running():
            await env.create_class(storage={"checkpointRoot": f"{ROOT}/"})
            await env.create_session(maxConcurrentStatements=1)
            yield env
        assert env.ledger.checkpoints.overlaps == []


async def stream(env: Environment, name: str = "st", sql: str = TEXT, **spec: Any) -> Object:
    return await env.create_statement(name, sql, **{"streaming": {"restart": {"backoffSeconds": 0}}, **spec})


async def runs(env: Environment, name: str = "st", **wanted: Any) -> Object:
    """As soon as it runs well and has committed a batch."""

    def well(obj: Object) -> bool:
        status = obj.get("status", {})
        is_as_wanted = all(status.get(field) == value for field, value in wanted.items())
        return is_as_wanted and condition(obj, "CheckpointFresh") == "True"

    return await env.wait(STATEMENTS, name, f"streams {wanted}", well)


async def wish(env: Environment, name: str = "st", **spec: Any) -> None:
    await env.patch(STATEMENTS, name, spec)


async def has_no_driver(env: Environment, session: str) -> bool:
    return all(pod["metadata"]["labels"][LABEL_SESSION] != session for pod in await env.driver_pods())


def locations(env: Environment, name: str = "st") -> list[str]:
    """Folders below the root of the attempts that ran, without the statement's own prefix."""
    options = [e.request.streaming for e in env.ledger.ran(name)]
    return [o.checkpoint.rsplit("/", 1)[-1] for o in options if o is not None]
