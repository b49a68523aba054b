"""The plugin as a user runs it: the real kubectl and API server; the operator's part is played."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from apiserver import ApiServer, binary
from cli_cluster import (
    Cluster,
    operating,
)


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
