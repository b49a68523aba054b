"""The levels of tests: where their tests are, how pytest runs them, and which levels run side by side."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass


@dataclass(frozen=True)
class Level:
    """A part of the tests that pytest runs in one go.

    `mark` selects among the tests of the folders. `processes` is the number of workers of xdist, which take file after file: files
    that wait leave the cores to others.
    """

    name: str
    paths: tuple[str, ...]
    mark: str = ""
    processes: int = 1


LEVELS = {
    level.name: level
    for level in (
        Level("unit", ("tests/unit", "tests/chart", "tests/lint"), processes=3),
        Level("integration", ("tests/integration",), processes=6),
        # One level with streaming, windows and upgrades: each process starts the Sparks that its files share once.
        Level("gateway", ("tests/gateway", "tests/sqlsuite", "tests/local"), processes=3),
        Level("images", ("tests/images",)),
        Level("e2e", ("tests/e2e",), mark="not operator_lost and not alone", processes=4),
        Level("faults", ("tests/e2e",), mark="operator_lost", processes=2),
        Level("outages", ("tests/e2e",), mark="alone"),
        Level("conformance", ("tests/conformance",)),
    )
}
# What `make test` and `make test-cluster` run.
GROUPS = {
    "local": ("unit", "integration", "gateway"),
    "cluster": ("images", "e2e", "faults", "outages", "conformance"),
}

# Names the stage that a pytest runs in: levels side by side on the cluster share one installation.
STAGE_ENV = "SPARKSQL_TEST_STAGE"

Lane = tuple[str, ...]
Stage = tuple[Lane, ...]
# Stages follow each other, lanes of a stage run side by side, levels of a lane follow each other. The processes of one level keep two
# cores busy; levels side by side only wait longer, some beyond their deadlines. Faults kill the operator: clients of a session do not
# need it, and other faults are the same promise. Outages take the node or the storage away from all others.
STAGES: tuple[Stage, ...] = (
    (("unit",),),
    (("integration",),),
    (("gateway",),),
    (("images",),),
    (("e2e",),),
    (("faults",), ("conformance",)),
    (("outages",),),
)


def level_of(path: str, marks: Container[str | None] = ()) -> Level:
    """Returns the level whose tests a path or a node id of pytest names: of two with one folder, the one that selects these marks.

    Raises ValueError for a path of no level.
    """
    file = path.partition("::")[0].removeprefix("./").rstrip("/")
    found = [
        level
        for level in LEVELS.values()
        if any(file == folder or file.startswith(f"{folder}/") for folder in level.paths)
    ]
    if not found:
        raise ValueError(f"{path}: no level has tests there; levels have {', '.join(sorted(_folders()))}")
    return next((level for level in found if level.mark in marks), found[0])


def _folders() -> set[str]:
    return {folder for level in LEVELS.values() for folder in level.paths}
