"""An Event for people. Its reason is also the reason of the condition that it announces."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from sparksql.api.reasons import Reason


@dataclass(frozen=True)
class Event:
    """Tells people of something that has happened to an object; becomes an Event of Kubernetes."""

    type: Literal["Normal", "Warning"]
    reason: Reason
    message: str


class Error(Protocol):
    """Describes an error of Spark: in a driver's answer, and in a status."""

    @property
    def condition(self) -> str | None:
        """Returns Spark's error condition."""

    @property
    def sql_state(self) -> str | None:
        """Returns the SQLSTATE."""

    @property
    def line(self) -> int | None:
        """Returns the line of the error in the SQL text."""

    @property
    def position(self) -> int | None:
        """Returns the position in that line."""


def error_summary(error: Error) -> str:
    """Returns what an Event may hold of an error: condition, SQLSTATE and place, never its message."""
    parts = (
        error.condition,
        f"SQLSTATE {error.sql_state}" if error.sql_state else None,
        f"line {error.line}" if error.line is not None else None,
        f"position {error.position}" if error.position is not None else None,
    )
    known = ", ".join(part for part in parts if part)
    return f"{known}; see status" if known else "see status"


def without_texts(events: tuple[Event, ...], summaries: Mapping[str, str]) -> tuple[Event, ...]:
    """Returns the Events with each text replaced by its summary.

    The texts come from drivers, and may quote SQL and its values. More users may read Events than the object's status.
    """
    texts = sorted(filter(None, summaries), key=len, reverse=True)  # a text may contain another one
    if not texts or not events:
        return events
    pattern = re.compile("|".join(map(re.escape, texts)))
    return tuple(
        replace(event, message=pattern.sub(lambda found: summaries[found[0]], event.message)) for event in events
    )
