"""The three classes of failures, and a verdict: the class of one failure with its justification. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FailureKind(StrEnum):
    """Names what has to change before another attempt can succeed.

    Statement: its text, its settings or its checkpoint, which a person changes. Environment: a service, a network, a right
    or a resource, which may heal by itself. Unknown: neither is certain, as for rows that the statement cannot take.
    """

    STATEMENT = "Statement"
    ENVIRONMENT = "Environment"
    UNKNOWN = "Unknown"


@dataclass(frozen=True)
class Verdict:
    """Holds the class of a failure and why it is that one."""

    kind: FailureKind
    why: str


def statement(why: str) -> Verdict:
    """Returns the verdict that the statement is wrong."""
    return Verdict(FailureKind.STATEMENT, why)


def environment(why: str) -> Verdict:
    """Returns the verdict that the environment failed."""
    return Verdict(FailureKind.ENVIRONMENT, why)


def unknown(why: str) -> Verdict:
    """Returns the verdict that the class of a failure is not certain."""
    return Verdict(FailureKind.UNKNOWN, why)
