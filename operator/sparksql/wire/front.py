"""How the front proves itself to a driver, says for whom it asks, and finds the driver of a handle.

The front keeps no secret of any session. It and the operator know one key; a driver gets the token that follows from the key and
its session's UID, and takes for the front whoever has it. So what a driver knows opens no other driver, and only the front can
say who a client is.
"""

from __future__ import annotations

import hashlib
import hmac
import uuid
from urllib.parse import quote, unquote

FRONT_TOKEN_FILE = "front-token"  # noqa: S105 - a file name
USER_HEADER = "x-sparksql-user"
SESSION_HEADER = "x-sparksql-session"
SESSION_PROPERTY = "sparksql.session"
HANDLE_HEADER = "x-sparksql-handle"
"""On a request of the front that opens a session or submits a statement: the handle that its client has been given already."""
PROBLEM_HEADER = "x-sparksql-problem"
"""On an answer of a driver's REST API that refuses a request: the name of the problem."""
UNKNOWN_SESSION = "UnknownSession"
UNKNOWN_OPERATION = "UnknownOperation"
PREFIX_DIGITS = 12
"""Hexadecimal digits of a client session's handle that follow from the session's UID. 48 bits: among 10,000 sessions two have the
same with a chance of one in five million; 74 random bits are left."""
KEY_BYTES = 32
_PROMISED_VERSION = 8  # of RFC 9562: the digits' meaning is its maker's
_TIME_MASK = 0xFFFF_FFFF
_SKEW_SECONDS = 30.0  # by which clocks of replicas may differ


def front_token(key: bytes, session_uid: str) -> str:
    """Returns what the front presents to the driver of a session. Raises ValueError for a key that is too short."""
    if len(key) < KEY_BYTES:
        raise ValueError(f"the front's key has {len(key)} bytes: {KEY_BYTES} are the least")
    return hmac.new(key, session_uid.encode(), hashlib.sha256).hexdigest()


def handle_prefix(session_uid: str) -> str:
    """Returns the digits by which handles of a session's clients begin, without dashes."""
    return hashlib.sha256(session_uid.encode()).hexdigest()[:PREFIX_DIGITS]


def new_handle(session_uid: str) -> str:
    """Returns a new handle for a session of a client: a UUID of version 4 whose first digits tell the driver."""
    return str(uuid.UUID(hex=handle_prefix(session_uid) + uuid.uuid4().hex[PREFIX_DIGITS:]))


def new_handle_beside(handle: str) -> str:
    """Returns a new handle that leads to the same driver as another one: that of an operation, beside its session's."""
    return str(uuid.UUID(hex=prefix_of(handle) + uuid.uuid4().hex[PREFIX_DIGITS:]))


def promised_handle(session_uid: str, now: float) -> str:
    """Returns a handle that is given before its driver knows of it: a UUID of version 8 that ends in the time, in seconds."""
    return _promised(handle_prefix(session_uid), now)


def promised_handle_beside(handle: str, now: float) -> str:
    """Returns such a handle that leads to the same driver as another one: that of an operation, beside its session's."""
    return _promised(prefix_of(handle), now)


def promise_age(handle: str, now: float) -> float | None:
    """Returns the seconds since a handle was promised.

    None for one that a driver has given, and for one of a time that is still to come, which no replica has given.
    """
    value = uuid.UUID(handle)
    age = now - (value.int & _TIME_MASK)
    return age if value.version == _PROMISED_VERSION and age >= -_SKEW_SECONDS else None


def _promised(prefix: str, now: float) -> str:
    digits = prefix + uuid.uuid4().hex[PREFIX_DIGITS:24] + f"{int(now) & _TIME_MASK:08x}"
    return str(uuid.UUID(hex=f"{digits[:12]}{_PROMISED_VERSION}{digits[13:]}"))


def prefix_of(handle: str) -> str:
    """Returns the digits of a handle by which its driver is found."""
    return handle.replace("-", "").lower()[:PREFIX_DIGITS]


def written_user(name: str) -> str:
    """Returns a user's name as a header holds it, in ASCII."""
    return quote(name, safe="")


def read_user(value: str) -> str:
    """Returns the user's name of a header."""
    return unquote(value)
