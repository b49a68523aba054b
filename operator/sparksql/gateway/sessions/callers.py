"""Who asks: somebody who has the session's token, or the front for one of its users.

The front has a token of its own and has found out who its user is, so what it says of that is believed; who has the session's
token may use all that the session has. Invariant: a user of the front reaches sessions that this user has opened, and no other.
"""

from __future__ import annotations

import hmac
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Caller:
    """Says for whom a request is made. `user` is None for who has the session's own token.

    `promised` is the handle that the front has given to its client already, for what this request begins.
    """

    user: str | None = None
    promised: str | None = None

    def may_use(self, owner: str | None) -> bool:
        """Tells whether a session is this caller's to use, by the user that has opened it."""
        return self.user is None or self.user == owner


DIRECT = Caller()

current: ContextVar[Caller] = ContextVar("caller", default=DIRECT)
"""The caller of the request that is being answered; frontends set it before they do anything for the request."""


class Callers:
    """Tells callers by what they present."""

    def __init__(self, token: str, front_token: str | None) -> None:
        self._token = token.encode()
        self._front_token = None if front_token is None else front_token.encode()

    def identify(self, presented: bytes, user: str | None, promised: str | None = None) -> Caller | None:
        """Returns the caller, None for one that is not let in, in constant time.

        `user` is for whom the front says that it asks; it asks for nobody without one. `promised` counts from the front alone.
        """
        if hmac.compare_digest(presented, self._token):
            return DIRECT
        if self._front_token is not None and hmac.compare_digest(presented, self._front_token) and user:
            return Caller(user, promised)
        return None
