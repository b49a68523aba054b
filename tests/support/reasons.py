"""Why tests of another project end differently here, and whose choice it is. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

UNEXPLAINED = "unexplained"


class Cause(StrEnum):
    """Whose choice a difference is."""

    POLICY = "policy"
    CATALOG = "catalog"
    SPARK = "Spark"
    CLIENT = "client"
    SUITE = "suite"
    FAULT = "fault"


@dataclass(frozen=True)
class Reason:
    """What causes a difference. A fault is a bug of this project."""

    cause: Cause
    text: str
