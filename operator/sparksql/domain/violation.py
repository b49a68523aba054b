"""A wish that cannot be granted, with the reason and a message that names field, value and remedy."""

from __future__ import annotations

from dataclasses import dataclass

from sparksql.api.reasons import Reason


@dataclass(frozen=True)
class Violation:
    """Says why something cannot be granted: a reason for programs, and a message that names field, value and remedy."""

    reason: Reason
    message: str
