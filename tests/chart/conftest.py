"""Fixtures of the chart's tests: the chart as rendered, and an API server to install it into."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chart.helmchart import OBJECT_STORE, Rendered, release, render
from tests.support.apiserver import ApiServer, running_apiserver


@pytest.fixture(scope="session")
def rendered() -> Rendered:
    """The chart with its default values."""
    return render()


@pytest.fixture(scope="session")
def rendered_demo() -> Rendered:
    """The chart with its own object store, hence with a default class."""
    return render(*OBJECT_STORE)


@pytest.fixture(scope="module")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with running_apiserver(tmp_path_factory.mktemp("chart-apiserver")) as server:
        yield server


@pytest.fixture(scope="module")
def installed(apiserver: ApiServer) -> ApiServer:
    """The API server after the chart's first installation."""
    release(apiserver.kubeconfig)
    return apiserver
