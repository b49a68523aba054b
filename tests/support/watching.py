"""A watch of the API server as tests and benchmarks need it: changes as they come, to see what the operator makes of things."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

from sparksql.kube.client import KubeClient, lines_of
from sparksql.kube.errors import Unavailable, error_from
from sparksql.kube.resources import Resource

Object = dict[str, Any]
CONNECT_SECONDS = 5.0


async def watch(
    client: KubeClient,
    resource: Resource,
    namespace: str = "",
    *,
    resource_version: str = "",
    label_selector: str = "",
    timeout_seconds: int = 300,
) -> AsyncIterator[tuple[str, Object]]:
    """Changes as (ADDED, MODIFIED, DELETED; object) until the server ends the watch. Raises ApiError, also for an ERROR."""
    params = {"watch": "true", "timeoutSeconds": str(timeout_seconds)}
    params |= {"resourceVersion": resource_version} if resource_version else {}
    params |= {"labelSelector": label_selector} if label_selector else {}
    timeout = aiohttp.ClientTimeout(total=timeout_seconds + CONNECT_SECONDS, connect=CONNECT_SECONDS)
    url = client.credentials.server + resource.collection_path(namespace)
    try:
        identity = await client._authenticator.identity()
        session = await client._open(identity)
        async with session.get(url, params=params, headers=identity.headers, timeout=timeout) as response:
            if response.status != 200:
                raise error_from(response.status, await response.read())
            async for line in lines_of(response):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise error_from(event["object"].get("code", 500), json.dumps(event["object"]).encode())
                yield event["type"], event["object"]
    except (aiohttp.ClientError, TimeoutError) as error:
        raise Unavailable(0, type(error).__name__, str(error)) from error
