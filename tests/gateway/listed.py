"""Marks a test as the case behind a line of `docs/upgrades.md`, see `upgrades_page`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

GOES_ON, PARKED, REWRITTEN = "continues", "parked", "rewritten"
Test = TypeVar("Test", bound=Callable[..., Any])


def listed(subject: str, change: str, outcome: str) -> Callable[[Test], Test]:
    """The line says that this `change` has this `outcome`. The page is made of the source, so all three are literals or names here."""
    assert outcome in (GOES_ON, PARKED), (subject, change, outcome)
    return lambda test: test
