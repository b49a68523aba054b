"""The plugin as a user runs it: the real kubectl and API server; the operator's part is played."""

from __future__ import annotations

import base64
import os
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparksql.api.names import child_base, gateway_server_name
from tests.integration.cli.cli_cluster import ENDS, POD_UID, Cluster, operating, session_status, written
from tests.integration.cli.cli_gateway import TOKEN, FakeGateway, Served, certificate, serving
from tests.support.apiserver import ApiServer, binary


@pytest.fixture
def cluster(crds: ApiServer, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setenv("PATH", f"{binary('kubectl').parent}{os.pathsep}{os.environ['PATH']}")
    cluster = Cluster(crds, namespace)
    yield cluster
    for plugin in cluster.started:
        plugin.kill()
        plugin.communicate()


@pytest.fixture
def operator(cluster: Cluster) -> Iterator[None]:
    """Moves each statement of the namespace one step at a time."""
    with operating(cluster):
        yield


@pytest.fixture
def served(cluster: Cluster, tmp_path: Path) -> Iterator[Served]:
    session = cluster.create("sqlsessions", "SqlSession", "analytics", {"className": "standard"})
    cluster.write_status("sqlsessions", "analytics", session_status())
    uid = session["metadata"]["uid"]
    crt, key = certificate(tmp_path, gateway_server_name("analytics", uid, cluster.namespace))
    data = {"token": base64.b64encode(TOKEN.encode()).decode(), "tls.crt": base64.b64encode(crt.read_bytes()).decode()}
    secret = child_base("analytics", uid)
    answer = cluster.server.request(
        "POST", f"/api/v1/namespaces/{cluster.namespace}/secrets", {"metadata": {"name": secret}, "data": data}
    )
    assert answer.status == 201, answer
    cluster.create_statement("many", "SELECT many")
    phase, reason, extra = ENDS["SELECT many"]
    where = {"session": {"name": "analytics", "podUID": POD_UID}, "operationId": "op-many"}
    cluster.write_status("sqlstatements", "many", written(1, phase, reason, **extra, **where))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(crt, key)
    gateway = FakeGateway()
    with serving(gateway, context):
        yield Served(cluster, gateway, secret)
