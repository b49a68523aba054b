"""Fixtures of the tests that run against a real API server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.apiserver import ApiServer, running_apiserver
from tests.support.crds import install_crds


@pytest.fixture(scope="session")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """An API server for the whole test run. Use `apiserver.namespace()` to be alone."""
    with running_apiserver(tmp_path_factory.mktemp("apiserver")) as server:
        yield server


@pytest.fixture(scope="session")
def crds(apiserver: ApiServer) -> ApiServer:
    """The same API server once it serves our resources."""
    install_crds(apiserver)
    return apiserver


@pytest.fixture
def namespace(apiserver: ApiServer) -> str:
    """Name of a fresh namespace."""
    return apiserver.namespace()
