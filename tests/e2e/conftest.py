"""What the end-to-end tests share: namespaces, classes and sessions on the installed operator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

from tests.e2e.gate import Gate
from tests.support import installation
from tests.support.harness import Classes, Cluster, Space

LONGEST_FILES = ("test_spark_versions.py", "test_live_queries.py")
ONE_PROCESS = "one_session"  # a folder whose files share a session, so one process runs them all


def pytest_configure(config: pytest.Config) -> None:
    installation.use(config)
    config.addinivalue_line("markers", "operator_lost: kills the operator, which all tests share")
    config.addinivalue_line("markers", "alone: takes away what all tests share, the node, the storage or the front")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    return _ByFileOrFolder(config, log)


class _ByFileOrFolder(LoadFileScheduling):
    """Gives a process a file, or the folder that one process runs."""

    def _split_scope(self, nodeid: str) -> str:
        file = PurePath(super()._split_scope(nodeid))
        return str(file.parent if file.parent.name == ONE_PROCESS else file)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files come first: begun last, they would run on alone."""
    items.sort(key=lambda item: item.path.name not in LONGEST_FILES)


@pytest.fixture(scope="module")
def space(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Space]:
    """A namespace for the module."""
    with installation.new_space(
        cluster, request.module.__name__.rpartition(".")[2].removeprefix("test_").replace("_", "-")
    ) as made:
        yield made


@pytest.fixture(autouse=True)
def own_sessions(request: pytest.FixtureRequest) -> Iterator[None]:
    """Takes away the sessions that a test makes in its module's namespace; those of the module's fixtures stay.

    The node has memory for nine, as the tests' classes ask for it, and a driver that finds no place within 20 s has failed.
    """
    space: Space | None = request.getfixturevalue("space") if "space" in request.fixturenames else None
    before = names_of(space)
    yield
    for name in names_of(space) - before:
        assert space is not None
        space.cluster.delete("SqlSession", space.name, name)


def names_of(space: Space | None) -> set[str]:
    """The sessions in a namespace, but for those that go with their statements."""
    found = space.cluster.list("SqlSession", space.name) if space is not None else []
    return {each["metadata"]["name"] for each in found if not each["metadata"].get("ownerReferences")}


@pytest.fixture
def fresh(cluster: Cluster) -> Iterator[Space]:
    """A namespace for one test."""
    with installation.new_space(cluster, "one") as made:
        yield made


@pytest.fixture(scope="module")
def classes(cluster: Cluster) -> Iterator[Classes]:
    made = Classes(cluster)
    yield made
    made.remove()


@pytest.fixture(scope="module")
def gate(cluster: Cluster, classes: Classes) -> Iterator[Gate]:
    """A class whose executors start only while the gate is open."""
    made = Gate(cluster, classes)
    yield made
    made.remove()


@pytest.fixture(scope="module")
def gated(space: Space, gate: Gate) -> Space:
    """The module's namespace with a session `gated` that is Ready and whose gate is closed."""
    gate.session(space, "gated")
    return space


@pytest.fixture(scope="module")
def main(space: Space) -> Space:
    """The module's namespace with a session `main` that is Ready."""
    space.session("main", maxConcurrentStatements=4)
    return space
