"""Fixtures of the tests that run against a real API server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.apiserver import ApiServer, running_apiserver

CRDS = Path(__file__).parents[2] / "crds"
CRD_API = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ESTABLISH_SECONDS = 120.0


@pytest.fixture(scope="session")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """An API server for the whole test run. Use `apiserver.namespace()` to be alone."""
    with running_apiserver(tmp_path_factory.mktemp("apiserver")) as server:
        yield server


@pytest.fixture(scope="session")
def crds(apiserver: ApiServer) -> ApiServer:
    """The same API server once it serves our resources."""
    for file in sorted(CRDS.glob("*.yaml")):
        definition = yaml.safe_load(file.read_text())
        response = apiserver.request("POST", CRD_API, definition)
        assert response.status == 201, f"{file.name}: {response.message}"
        _await_served(apiserver, definition)
    return apiserver


def _await_served(server: ApiServer, definition: dict) -> None:
    """A CRD is established a little before its resource is served."""
    spec = definition["spec"]
    path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
    deadline = time.monotonic() + ESTABLISH_SECONDS
    while (seen := server.request("GET", path)).status != 200:
        if time.monotonic() > deadline:
            state = server.request("GET", f"{CRD_API}/{definition['metadata']['name']}").body
            pytest.fail(f"{path} is not served: {seen}; conditions: {state['status']['conditions']}")
        time.sleep(0.05)


@pytest.fixture
def namespace(apiserver: ApiServer) -> str:
    """Name of a fresh namespace."""
    return apiserver.namespace()
