"""The cluster as asynchronous tests and benchmarks watch it: changes as they come, through the official Kubernetes client.

Not through the operator's own: who watches it must not share its blind spots.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Protocol

import aiohttp
from kubernetes.aio import client, config
from kubernetes.aio.client.exceptions import ApiException
from kubernetes.aio.dynamic import DynamicClient
from kubernetes.aio.watch import Watch

Object = dict[str, Any]

KINDS = {
    "configmaps": "ConfigMap",
    "leases": "Lease",
    "pods": "Pod",
    "sqlsavepoints": "SqlSavepoint",
    "sqlsessions": "SqlSession",
    "sqlstatements": "SqlStatement",
}
"""Kinds by plural: the client finds resources by kind alone."""

INTERRUPTIONS = (ApiException, aiohttp.ClientError, asyncio.TimeoutError)
"""What may end a watch early."""


class Named(Protocol):
    """A resource, by the words of its URL."""

    @property
    def api_version(self) -> str: ...
    @property
    def plural(self) -> str: ...


class Watcher:
    """Lists and watches. All methods raise ApiException for what the API server refuses."""

    def __init__(self, dynamic: DynamicClient) -> None:
        self._dynamic = dynamic
        # The client looks again for a kind that it does not find, and forgets meanwhile what another search is looking at.
        self._searching = asyncio.Lock()

    async def list(self, resource: Named, namespace: str = "", *, label_selector: str = "") -> tuple[list[Object], str]:
        """The objects, and the resourceVersion that they are the state of."""
        found = await self._found(resource)
        answer = await found.get(namespace=namespace or None, label_selector=label_selector or None, serialize=False)
        listing: Object = await answer.json()
        return listing["items"], listing["metadata"]["resourceVersion"]

    async def watch(
        self,
        resource: Named,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        timeout_seconds: int = 300,
    ) -> AsyncIterator[tuple[str, Object]]:
        """Changes as (ADDED, MODIFIED, DELETED; object) until the server ends the watch."""
        found = await self._found(resource)
        # One of our own, so that the response is closed when nobody wants to see more.
        async with Watch() as watch:
            async for change in self._dynamic.watch(
                found,
                namespace=namespace or None,
                resource_version=resource_version or None,
                label_selector=label_selector or None,
                timeout=timeout_seconds,
                watcher=watch,
            ):
                yield change["type"], change["raw_object"]

    async def _found(self, resource: Named) -> Any:
        async with self._searching:
            return await self._dynamic.resources.get(api_version=resource.api_version, kind=KINDS[resource.plural])


@contextlib.asynccontextmanager
async def watching(kubeconfig: Path | None = None) -> AsyncIterator[Watcher]:
    """A watcher of the cluster of a kubeconfig (default: $KUBECONFIG, ~/.kube/config)."""
    settings = client.Configuration()
    path = str(kubeconfig) if kubeconfig else None
    await config.load_kube_config(path, client_configuration=settings, persist_config=False)
    # The file is by default shared by all clusters that were ever at the same address.
    with tempfile.TemporaryDirectory(prefix="discovery-") as folder:
        async with client.ApiClient(settings) as api:
            yield Watcher(await DynamicClient(api, cache_file=str(Path(folder) / "discovery.json")))
