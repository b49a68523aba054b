"""Credentials of a kubeconfig on a real API server: exec plugins, names of certificates, and proxies, by client and watches."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sparksql.kube.client import KubeClient
from sparksql.kube.credentials import Credentials
from sparksql.kube.errors import ApiError, Unavailable
from sparksql.kube.resources import CONFIG_MAPS, NAMESPACES, SESSION_CLASSES
from sparksql.process.watches import watch
from tests.support.apiserver import ApiServer

V1 = "client.authentication.k8s.io/v1"


def kubeconfig(server: ApiServer, folder: Path, user: dict[str, Any], **cluster: Any) -> Path:
    config = {
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [
            {"name": "test", "cluster": {"server": server.url, "certificate-authority": str(server.ca_file), **cluster}}
        ],
        "users": [{"name": "test", "user": user}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def by_plugin(server: ApiServer, folder: Path, **cluster: Any) -> Credentials:
    """Credentials of a plugin, a program in `folder` that prints its file `answer` and counts in `runs`."""
    plugin = folder / "plugin"
    plugin.write_text(f"#!/bin/sh\necho >>{folder / 'runs'}\ncat {folder / 'answer'}\n")
    plugin.chmod(0o755)
    spec = {"apiVersion": V1, "command": "./plugin", "interactiveMode": "Never"}
    return Credentials.from_kubeconfig(kubeconfig(server, folder, {"exec": spec}, **cluster))


def answer(folder: Path, **status: str) -> None:
    (folder / "answer").write_text(json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status}))


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text().splitlines())


def admin_certificate(server: ApiServer) -> dict[str, str]:
    return {"clientCertificateData": server.cert_file.read_text(), "clientKeyData": server.key_file.read_text()}


def admin_token(server: ApiServer, namespace: str) -> str:
    """A token of a new service account that may do everything."""
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    server.request("POST", account, {"metadata": {"name": "admin"}})
    binding = {
        "metadata": {"name": f"admin-{namespace}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "admin", "namespace": namespace}],
    }
    assert server.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).status == 201
    made = server.request("POST", f"{account}/admin/token", {"spec": {}})
    assert made.status == 201, made
    return str(made.body["status"]["token"])


async def test_client_logs_in_with_the_certificate_of_an_exec_plugin(apiserver: ApiServer, tmp_path: Path) -> None:
    answer(tmp_path, **admin_certificate(apiserver))
    async with KubeClient(by_plugin(apiserver, tmp_path)) as client:
        await asyncio.gather(*(client.get(NAMESPACES, "", "default") for _ in range(5)))
    assert runs(tmp_path) == 1


async def test_client_asks_an_exec_plugin_again_when_its_token_is_refused(
    apiserver: ApiServer, namespace: str, tmp_path: Path
) -> None:
    answer(tmp_path, token="of yesterday")
    async with KubeClient(by_plugin(apiserver, tmp_path)) as client:
        with pytest.raises(ApiError) as refused:
            await client.get(NAMESPACES, "", namespace)
        assert refused.value.status == 401
        answer(tmp_path, token=admin_token(apiserver, namespace))
        await client.get(NAMESPACES, "", namespace)
        assert runs(tmp_path) == 3
        await client.get(NAMESPACES, "", namespace)
        assert runs(tmp_path) == 3


async def test_client_changes_its_connections_with_the_certificate(
    apiserver: ApiServer, namespace: str, tmp_path: Path
) -> None:
    answer(tmp_path, token=admin_token(apiserver, namespace), expirationTimestamp="2026-01-01T00:00:00Z")
    async with KubeClient(by_plugin(apiserver, tmp_path)) as client:
        await client.get(NAMESPACES, "", namespace)
        answer(tmp_path, **admin_certificate(apiserver))
        await client.get(NAMESPACES, "", namespace)


async def test_client_without_a_login_is_unavailable_and_says_why(apiserver: ApiServer, tmp_path: Path) -> None:
    (tmp_path / "answer").write_text("please log in")
    async with KubeClient(by_plugin(apiserver, tmp_path)) as client:
        with pytest.raises(Unavailable, match="answered no ExecCredential"):
            await client.get(NAMESPACES, "", "default")


async def test_client_checks_the_name_that_the_kubeconfig_gives(apiserver: ApiServer, tmp_path: Path) -> None:
    answer(tmp_path, **admin_certificate(apiserver))
    async with KubeClient(by_plugin(apiserver, tmp_path, **{"tls-server-name": "localhost"})) as client:
        await client.get(NAMESPACES, "", "default")
    async with KubeClient(by_plugin(apiserver, tmp_path, **{"tls-server-name": "elsewhere.example"})) as client:
        with pytest.raises(Unavailable, match="elsewhere"):
            await client.get(NAMESPACES, "", "default")


async def test_client_skips_the_check_of_a_certificate_where_it_is_told_so(
    apiserver: ApiServer, tmp_path: Path
) -> None:
    user = {"client-certificate": str(apiserver.cert_file), "client-key": str(apiserver.key_file)}
    unknown = {"certificate-authority": None}
    async with KubeClient(Credentials.from_kubeconfig(kubeconfig(apiserver, tmp_path, user, **unknown))) as client:
        with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
            await client.get(NAMESPACES, "", "default")
    insecure = {**unknown, "insecure-skip-tls-verify": True}
    async with KubeClient(Credentials.from_kubeconfig(kubeconfig(apiserver, tmp_path, user, **insecure))) as client:
        await client.get(NAMESPACES, "", "default")


async def test_client_goes_through_the_proxy_of_a_kubeconfig(apiserver: ApiServer, tmp_path: Path) -> None:
    answer(tmp_path, **admin_certificate(apiserver))
    async with tunnel() as (url, asked):
        async with KubeClient(by_plugin(apiserver, tmp_path, **{"proxy-url": url})) as client:
            await client.get(NAMESPACES, "", "default")
        assert asked == [f"CONNECT {apiserver.url.removeprefix('https://')} HTTP/1.1"]


async def test_watches_log_in_as_the_client_does(crds: ApiServer, namespace: str, tmp_path: Path) -> None:
    """kopf has sessions of its own: plugin, certificate name and proxy must hold for them too."""
    seen = asyncio.Queue[str]()
    answer(tmp_path, token=admin_token(crds, namespace))
    async with tunnel() as (url, asked), asyncio.timeout(60):
        credentials = by_plugin(crds, tmp_path, **{"proxy-url": url, "tls-server-name": "localhost"})
        watching = asyncio.create_task(
            watch(
                ["SqlSession"],
                [namespace],
                credentials,
                lambda _kind, _change, o: seen.put_nowait(o["metadata"]["name"]),
            )
        )
        body = {"apiVersion": SESSION_CLASSES.api_version, "kind": "SqlSession", "metadata": {"name": "a"}, "spec": {}}
        path = f"/apis/{SESSION_CLASSES.api_version}/namespaces/{namespace}/sqlsessions"
        assert crds.request("POST", path, body).status == 201
        assert await seen.get() == "a"
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    assert asked
    assert runs(tmp_path) == 1


async def test_config_map_is_read_with_several_kubeconfigs(
    apiserver: ApiServer, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = tmp_path / "users"
    users.mkdir()
    (users / "config").write_text(yaml.safe_dump({"users": [{"name": "test", "user": {"tokenFile": "token"}}]}))
    (users / "token").write_text(admin_token(apiserver, namespace))
    whole = kubeconfig(apiserver, tmp_path, {"token": "of nobody"})
    monkeypatch.setenv("KUBECONFIG", f"{users / 'config'}:{whole}")
    async with KubeClient(Credentials.from_kubeconfig()) as client:
        assert (await client.list(CONFIG_MAPS, namespace)).items is not None


@contextlib.asynccontextmanager
async def tunnel() -> AsyncIterator[tuple[str, list[str]]]:
    """URL of an HTTP proxy that can CONNECT, and the requests that it got."""
    asked: list[str] = []
    tasks: set[asyncio.Task[None]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        asked.append(head.splitlines()[0])
        host, _, port = head.split()[1].partition(":")
        inner_reader, inner_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        for each in (pump(reader, inner_writer), pump(inner_reader, writer)):
            task = asyncio.create_task(each)
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}", asked
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
