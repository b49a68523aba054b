"""The order of files for several processes: those that took longest in earlier runs first, so that none runs on alone at the end."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.runner.events import Cost

ORDER_ENV = "SPARKSQL_TEST_ORDER"


def read(file: Path) -> dict[str, float]:
    """Returns the seconds of each file of tests; empty before the first run."""
    with contextlib.suppress(OSError, ValueError):
        found: dict[str, float] = json.loads(file.read_text())
        return found
    return {}


def write(file: Path, costs: Iterable[Cost]) -> None:
    """Keeps the seconds of the files that ran."""
    ran = {cost.name: round(cost.seconds, 1) for cost in costs if cost.kind == "file"}
    file.write_text(json.dumps({**read(file), **ran}, indent=1, sort_keys=True))


def position(name: str, seconds: Mapping[str, float]) -> float:
    """Returns the sort key of a file; one that has not run yet comes first, for it may be the longest."""
    return -seconds.get(name, float("inf"))
