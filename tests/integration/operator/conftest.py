"""The operator under test: the real process code against a real API server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from sparksql.kube.client import KubeClient
from sparksql.kube.credentials import Credentials
from tests.integration.operator.environment import Environment
from tests.integration.operator.faults import Faults, inject
from tests.support.apiserver import ApiServer
from tests.support.watching import watching


@pytest.fixture(autouse=True)
def _on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKSQL_HTTP_HOST", "127.0.0.1")


@pytest_asyncio.fixture
async def env(crds: ApiServer, namespace: str) -> AsyncIterator[Environment]:
    """A namespace without an operator yet."""
    credentials = Credentials.from_kubeconfig(crds.kubeconfig)
    async with (
        KubeClient(credentials) as client,
        watching(crds.kubeconfig) as watcher,
        Environment(client, watcher, namespace, credentials).running() as env,
    ):
        yield env


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    """Faults for the operators of a test."""
    return inject(monkeypatch)
