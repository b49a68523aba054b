"""One session for all files of this folder: their tests run statements, and leave the session as it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import installation
from tests.support.harness import Cluster, Space


@pytest.fixture(scope="package")
def space(cluster: Cluster) -> Iterator[Space]:
    """A namespace for the files of the folder. Names of tables and views are of one test only."""
    with installation.new_space(cluster, "one-session") as made:
        yield made


@pytest.fixture(scope="package")
def main(space: Space) -> Space:
    """The namespace with a session `main` that is Ready."""
    space.session("main", maxConcurrentStatements=4)
    return space
