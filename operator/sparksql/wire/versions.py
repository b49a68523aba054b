"""Versions of the control protocol: operator and driver are upgraded one after the other, and work together meanwhile.

How it may change
- Fields and values of enums are added, and never renamed, taken away or given another meaning. A missing field means what held
  before there was one; one that is not known is ignored.
- A value in an answer that is not known is read as what an older reader may safely take it for (`or_else`, and what it is for
  each enum). A request has only values that the other side knows: where that is not all of them, a field of `GatewayInfo`
  tells, as `compares_states` does.
- `PROTOCOL_VERSION` grows by one with each addition that somebody would miss, so that both sides can say that they differ.
- `OLDEST_GATEWAY` and `OLDEST_OPERATOR` grow only when what came before is really not understood any more.
"""

from __future__ import annotations

from enum import Enum, StrEnum, auto

from pydantic import BeforeValidator

PROTOCOL_VERSION = 1
FIRST_VERSION = 1  # of who does not say which one it has
OLDEST_GATEWAY = 1
"""The oldest version of a gateway that an operator of this version works with."""
OLDEST_OPERATOR = 1
"""The oldest version of an operator that a gateway of this version works with."""


class Skew(Enum):
    """Names how a gateway's version differs from the operator's own."""

    OLDER = auto()  # understood
    NEWER = auto()  # understood
    TOO_OLD = auto()
    TOO_NEW = auto()

    @property
    def is_understood(self) -> bool:
        """Returns whether the two versions understand each other all the same."""
        return self in (Skew.OLDER, Skew.NEWER)


def skew_of(version: int, oldest_operator: int) -> Skew | None:
    """Returns how a gateway of `version` differs from this operator; None if it does not.

    `oldest_operator` is the oldest version of an operator that the gateway works with.
    """
    if version < OLDEST_GATEWAY:
        return Skew.TOO_OLD
    if oldest_operator > PROTOCOL_VERSION:
        return Skew.TOO_NEW
    if version == PROTOCOL_VERSION:
        return None
    return Skew.OLDER if version < PROTOCOL_VERSION else Skew.NEWER


def or_else(otherwise: StrEnum) -> BeforeValidator:
    """Returns the annotation of an enum's field in an answer: a value that is not known is read as `otherwise`."""
    known = {member.value for member in type(otherwise)}

    def read(value: object) -> object:
        return otherwise if isinstance(value, str) and value not in known else value

    return BeforeValidator(read)
