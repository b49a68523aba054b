"""What the parts of the front tell each other. Pure."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from enum import StrEnum


class Refusal(StrEnum):
    """Names why the front does not let a client through; each protocol tells it in its own way."""

    UNAUTHENTICATED = "Unauthenticated"
    FORBIDDEN = "Forbidden"
    INVALID = "Invalid"
    UNKNOWN_SESSION = "UnknownSession"
    TOO_MANY_SESSIONS = "TooManySessions"
    NOT_SERVED = "NotServed"  # the session is there, and will not serve this client until somebody changes something
    NOT_READY = "NotReady"  # it may work later
    UNAVAILABLE = "Unavailable"  # the cluster, or the driver, does not answer


class FrontError(Exception):
    """A client that is not let through. The message is for people: what was asked for, why not, what to do."""

    def __init__(self, refusal: Refusal, message: str) -> None:
        super().__init__(message)
        self.refusal = refusal


@dataclass(frozen=True)
class User:
    """Who a client is, as the cluster says. Equal are those about whom every question has the same answer.

    `extra` are pairs in the order of their keys: scopes, impersonation, the pod of an account. `token` is what the client has
    presented, to be reviewed again while it stays; it is no part of who the client is.
    """

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    token: bytes = field(default=b"", repr=False, compare=False)


@dataclass(frozen=True, order=True)
class SessionKey:
    """Names a SqlSession."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class Target:
    """A driver that serves a session now: where it is, how to know it, and what to present there."""

    key: SessionKey
    uid: str
    host: str
    server_name: str
    certificate: str
    token: str = field(repr=False)
    tls: ssl.SSLContext = field(repr=False, compare=False)
    is_of_connection: bool = False
    """Whether the session was made for one connection, and goes with it."""
