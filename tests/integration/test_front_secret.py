"""The front's Secret on a real API server: made once, the same for who asks at the same time, and told where it is unusable."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sparksql.front.certificates import Certificates
from sparksql.kube.client import KubeClient
from sparksql.kube.credentials import Credentials
from sparksql.kube.front_secret import FrontSecretError, front_key
from sparksql.kube.resources import SECRETS
from tests.support.apiserver import ApiServer

NOW = datetime.now(UTC)


@pytest.fixture
async def kube(apiserver: ApiServer) -> AsyncIterator[KubeClient]:
    async with KubeClient(Credentials.from_kubeconfig(apiserver.kubeconfig)) as client:
        yield client


async def test_the_key_of_the_front_is_made_once_and_kept(kube: KubeClient, namespace: str, tmp_path: Path) -> None:
    keys = await asyncio.gather(*(front_key(kube, namespace, "front", NOW) for _ in range(5)))
    assert len(set(keys)) == 1 and len(keys[0]) == 32
    assert await front_key(kube, namespace, "front", NOW) == keys[0]
    data = (await kube.get(SECRETS, namespace, "front"))["data"]
    for file in ("tls.crt", "tls.key"):
        (tmp_path / file).write_bytes(base64.b64decode(data[file]))
    certificates = Certificates(tmp_path)
    assert isinstance(certificates.context, ssl.SSLContext) and not certificates.refresh()


async def test_a_secret_without_a_key_is_told(kube: KubeClient, namespace: str) -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "front"}, "data": {"key": "c2hvcnQ="}}
    await kube.create(SECRETS, namespace, body)
    with pytest.raises(FrontSecretError, match="has no key of 32 bytes; delete it"):
        await front_key(kube, namespace, "front", NOW)
