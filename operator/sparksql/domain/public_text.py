"""Texts for Events, whose type keeps SQL and its values out. Pure.

More users may read Events than the object's status, which quotes Spark, drivers and schedulers. A PublicText has words of this
code, names of objects, reasons and numbers. A Message is a text of a status, with the PublicText that an Event shows of it: an
operation on it as on any str yields a plain str, whose public text is SEE_STATUS.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Protocol

# What Kubernetes takes as the name of an object (RFC 1123 subdomain), and as a reason (CamelCase, see metav1.Condition).
_NAME = re.compile(r"[a-z0-9.-]{1,253}", re.ASCII)
_REASON = re.compile(r"[A-Za-z][A-Za-z0-9]{0,63}", re.ASCII)
# Spark's error conditions (common/utils, error-conditions.json), and a SQLSTATE of the SQL standard.
_CONDITION = re.compile(r"[A-Z0-9_.]{1,200}", re.ASCII)
_SQL_STATE = re.compile(r"[A-Z0-9]{5}", re.ASCII)


@dataclass(frozen=True)
class PublicText:
    """Holds a text without SQL, values of it, and words of others. Made by this module alone; a test of the tree checks it."""

    text: str

    def __str__(self) -> str:
        return self.text


SEE_STATUS = PublicText("see status")


@dataclass(frozen=True)
class Name:
    """Marks a text as the name of an object of Kubernetes, or several."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return ", ".join(self.names)

    @property
    def public(self) -> PublicText:
        """Returns the names, if all of them can be names."""
        return PublicText(str(self)) if all(map(_NAME.fullmatch, self.names)) else SEE_STATUS


@dataclass(frozen=True)
class ClusterReason:
    """Marks a text as a reason of Kubernetes, such as OOMKilled."""

    reason: str

    def __str__(self) -> str:
        return self.reason

    @property
    def public(self) -> PublicText:
        """Returns the reason, if it can be one."""
        return PublicText(self.reason) if _REASON.fullmatch(self.reason) else SEE_STATUS


@dataclass(frozen=True)
class OwnLocation:
    """Marks a location that the operator has made from a class's root and names of objects."""

    location: str

    def __str__(self) -> str:
        return self.location

    @property
    def public(self) -> PublicText:
        """Returns the location."""
        return PublicText(self.location)


Part = int | float | datetime | Enum | PublicText | Name | ClusterReason | OwnLocation


class Message(str):
    """A text of a status, with the text that an Event shows of it."""

    public: PublicText = SEE_STATUS


def compose(template: str, /, **parts: Part | str) -> Message:
    """Returns the message of a template, which is a literal of the code, and its parts.

    The public text has SEE_STATUS in place of each part that is a plain str.
    """
    message = Message(template.format(**{name: _shown(part) for name, part in parts.items()}))
    message.public = PublicText(template.format(**{name: _public(part) for name, part in parts.items()}))
    return message


def quote(text: str, public: PublicText) -> Message:
    """Returns a message with a text of others, of which an Event shows `public`."""
    message = Message(text)
    message.public = public
    return message


def public_of(text: str) -> PublicText:
    """Returns what an Event may show of a text of a status."""
    return text.public if isinstance(text, Message) else SEE_STATUS


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


def error_summary(error: Error | None) -> PublicText:
    """Returns what an Event shows of an error: condition, SQLSTATE and place, never its message."""
    if error is None:
        return SEE_STATUS
    parts = (
        error.condition if _CONDITION.fullmatch(error.condition or "") else None,
        f"SQLSTATE {error.sql_state}" if _SQL_STATE.fullmatch(error.sql_state or "") else None,
        f"line {error.line}" if error.line is not None else None,
        f"position {error.position}" if error.position is not None else None,
        SEE_STATUS.text,
    )
    known = [part for part in parts if part]
    return PublicText(f"{', '.join(known[:-1])}; {known[-1]}") if len(known) > 1 else SEE_STATUS


def _shown(part: Part | str) -> object:
    return str(part) if isinstance(part, Name | ClusterReason | OwnLocation | PublicText) else part


def _public(part: Part | str) -> object:
    match part:
        case Message() | Name() | ClusterReason() | OwnLocation():
            return part.public.text
        case Enum() | int() | float() | datetime():
            return part
        case PublicText():
            return part.text
        case _:
            return SEE_STATUS.text
