"""A wish that cannot be granted, with the reason and a message that names field, value and remedy."""

from __future__ import annotations

from dataclasses import dataclass

from sparksql.api.reasons import Reason


@dataclass(frozen=True)
class Violation:
    reason: Reason
    message: str
