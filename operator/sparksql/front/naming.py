"""How clients name a session, and the names of sessions that the front makes. Pure.

A client says `namespace/name`. `namespace/` means its own session in that namespace, and nothing its own session where the user
is at home: a service account in its own namespace, others in the one that the chart names.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from sparksql.front.model import FrontError, Refusal
from sparksql.wire.front import SESSION_PROPERTY

_ACCOUNT = re.compile(r"system:serviceaccount:([a-z0-9-]+):([a-z0-9.-]+)")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SLUG_CHARS = 30  # with a hash the name is within the 50 characters that a session's name may have
_HASH_DIGITS = 8
_DATABASE_KEY = "use:database"
# As Hive's clients write them: `jdbc:hive2://HOST/;...?sparksql.session=a/b` and beeline's --hiveconf.
_SESSION_KEYS = tuple(
    f"{prefix}{name}"
    for name in (SESSION_PROPERTY, "session")
    for prefix in ("", "set:hiveconf:", "set:hivevar:", "set:")
)


@dataclass(frozen=True)
class Asked:
    """Says which session a client wants: one by its name, or its own (`name` None), in a namespace or at the user's home."""

    namespace: str | None = None
    name: str | None = None


OWN = Asked()


def parse(text: str | None) -> Asked:
    """Returns what `namespace/name`, `namespace/` or nothing means. Raises FrontError for anything else."""
    if text is None or not text.strip():
        return OWN
    namespace, slash, name = text.strip().partition("/")
    if not slash:
        raise FrontError(
            Refusal.INVALID, f"session {text!r} is not named as NAMESPACE/NAME; NAMESPACE/ means your own session there"
        )
    for part in (namespace, *((name,) if name else ())):
        if len(part) > 63 or _LABEL.fullmatch(part) is None:
            raise FrontError(Refusal.INVALID, f"session {text!r}: {part!r} is no name of a Kubernetes object")
    return Asked(namespace, name or None)


def parse_thrift(configuration: Mapping[str, str] | None) -> tuple[Asked, dict[str, str]]:
    """Returns the session that an OpenSession means, and its configuration without that.

    Hive's JDBC driver sends the path of its URL as the database: `NAMESPACE/NAME`, or `NAMESPACE/NAME/DATABASE`. A session may be
    given as a property instead; then the database is one. Raises FrontError for two sessions, and for what names none.
    """
    left = dict(configuration or {})
    named = [value for key in _SESSION_KEYS if (value := left.pop(key, "").strip())]
    database = left.get(_DATABASE_KEY, "")
    if "/" in database:
        namespace, _, rest = database.partition("/")
        name, _, inner = rest.partition("/")
        named.append(f"{namespace}/{name}")
        left[_DATABASE_KEY] = inner or "default"
    if len({*named}) > 1:
        raise FrontError(
            Refusal.INVALID, f"the connection names several sessions: {', '.join(sorted({*named}))}; name one"
        )
    return parse(named[0] if named else None), left


def home_of(user: str, default_namespace: str) -> str:
    """Returns the namespace in which a user has an own session. Raises FrontError where there is none."""
    account = _ACCOUNT.fullmatch(user)
    if account is not None:
        return account[1]
    if not default_namespace:
        what = "name a session as NAMESPACE/NAME, or NAMESPACE/ for your own there"
        raise FrontError(Refusal.INVALID, f"the connection names no session, and user {user} has no namespace: {what}")
    return default_namespace


def own_name(user: str, connection: str = "") -> str:
    """Returns the name of a user's own session, or of one that is made for a connection alone."""
    account = _ACCOUNT.fullmatch(user)
    readable = account[2] if account is not None else user
    slug = re.sub(r"[^a-z0-9]+", "-", readable.lower())[:_SLUG_CHARS].strip("-") or "user"
    digest = hashlib.sha256(f"{user}\0{connection}".encode()).hexdigest()[: _HASH_DIGITS * (2 if connection else 1)]
    return f"{slug if slug[0].isalpha() else f'u-{slug}'}-{digest}"


def user_label(user: str) -> str:
    """Returns the value of the label by which sessions made for a user are found: names may hold what labels may not."""
    return hashlib.sha256(user.encode()).hexdigest()[:32]
