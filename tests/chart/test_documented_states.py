"""The diagrams of docs/architecture.md show the transitions that the code knows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import pytest

from sparksql.domain.savepoint.status import FOLLOWING
from sparksql.domain.statement.phases import WITHIN_ATTEMPT
from sparksql.gateway.operations.register import TRANSITIONS

PAGE = Path(__file__).resolve().parents[2] / "docs/architecture.md"
BEGIN = "[*]"


def diagrams() -> list[set[tuple[str, str]]]:
    found = re.findall(r"```mermaid\nstateDiagram-v2\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return [set(re.findall(r"(\S+) --> (\S+)", each)) for each in found]


def arrows(known: Mapping[StrEnum | None, frozenset[StrEnum]]) -> set[tuple[str, str]]:
    return {
        (BEGIN if before is None else str(before), str(after))
        for before, following in known.items()
        for after in following
        if after is not before
    }


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (0, arrows(WITHIN_ATTEMPT) | {(BEGIN, "Initialized")}),
        (1, arrows(TRANSITIONS) | {(BEGIN, "Pending")}),
        (2, arrows(FOLLOWING)),
    ],
    ids=["statement", "operation", "savepoint"],
)
def test_a_diagram_shows_each_transition(place: int, expected: set[tuple[str, str]]) -> None:
    assert diagrams()[place] == expected
