"""Released clients against a session: a pod on the cluster, or with CONFORMANCE_TARGET=process gateways on this machine.

A client's program runs once, for all tests that look at its answers. Programs start as soon as the session is there, some at
a time, in the order in which the tests need them. Tests that need none of them come first: they run beside the programs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import target as targets
from tests.conformance.programs import Run
from tests.conformance.suite import OTHERS, SUITES, database
from tests.conformance.target import Target
from tests.support import installation

HERE = Path(__file__).parent
ON_CLUSTER = os.environ.get("CONFORMANCE_TARGET", "cluster") == "cluster"
PROGRAMS_AT_A_TIME = 2


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("target")
    if not ON_CLUSTER:
        with targets.of_processes(folder) as made:
            yield made
        return
    cluster = request.getfixturevalue("cluster")
    with installation.new_space(cluster, "conformance") as space, targets.of_pods(space, folder) as made:
        yield made


class Runs:
    """Programs of the clients that the collected tests name."""

    def __init__(self, pool: ThreadPoolExecutor, target: Target, folder: Path, names: list[str]) -> None:
        self._started: dict[str, Future[Run]] = {}
        for name in names:
            start = SUITES[name].start if name in SUITES else OTHERS[name]
            work = folder / name
            work.mkdir()
            self._started[name] = pool.submit(start, target, work, database(name))

    def of(self, client: str) -> Run:
        return self._started[client].result()


@pytest.fixture(scope="session")
def runs(request: pytest.FixtureRequest, target: Target, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    names: list[str] = []
    for item in request.session.items:
        for mark in item.iter_markers("client"):
            names += [name for name in mark.args if name not in names]
    with ThreadPoolExecutor(PROGRAMS_AT_A_TIME) as pool:
        yield Runs(pool, target, tmp_path_factory.mktemp("clients"), names)


@pytest.fixture(scope="session", autouse=True)
def started(runs: Runs) -> None:
    """The programs start before the first test."""


@pytest.fixture
def run(request: pytest.FixtureRequest, runs: Runs) -> Run:
    """The answers of the client that the test is marked with."""
    mark = request.node.get_closest_marker("client")
    assert mark is not None, "the test names no client"
    return runs.of(mark.args[0])


def pytest_configure(config: pytest.Config) -> None:
    installation.use(config)
    config.addinivalue_line("markers", "client(name): the test looks at the answers of this client's program")


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Tests of a client stand together, so that its program is needed as late as possible after those before it."""
    order = {name: position for position, name in enumerate([*SUITES, *OTHERS])}

    def position(item: Any) -> int:
        mark = item.get_closest_marker("client")
        return order.get(mark.args[0], len(order)) if mark else -1

    mine = [item for item in items if Path(item.path).parent == HERE]
    mine.sort(key=position)
    places = [index for index, item in enumerate(items) if Path(item.path).parent == HERE]
    for index, item in zip(places, mine, strict=True):
        items[index] = item
