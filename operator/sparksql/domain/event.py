"""An Event for people. Its reason is also the reason of the condition that it announces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sparksql.api.reasons import Reason
from sparksql.domain.public_text import PublicText, public_of


@dataclass(frozen=True)
class Event:
    """Tells people of something that has happened to an object; becomes an Event of Kubernetes."""

    type: Literal["Normal", "Warning"]
    reason: Reason
    message: PublicText

    @classmethod
    def of(cls, type_: Literal["Normal", "Warning"], reason: Reason, message: str) -> Event:
        """Returns the Event that announces a message of a status."""
        return cls(type_, reason, public_of(message))
