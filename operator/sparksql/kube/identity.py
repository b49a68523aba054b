"""Who we are for the API server at one moment, as requests and TLS need it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


class CredentialsError(Exception):
    """The credentials are missing, incomplete or of a kind that is not supported; the text says which."""


@dataclass(frozen=True)
class Identity:
    """A value for the `Authorization` header, a client certificate with its key (PEM), both, or neither (anonymous).

    `expires` is when it must be asked for again; None when nobody knows.
    """

    authorization: str | None = field(default=None, repr=False)
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    expires: datetime | None = None

    @property
    def headers(self) -> dict[str, str]:
        """Returns the HTTP headers that say who we are, empty if a certificate does or nobody does."""
        return {"Authorization": self.authorization} if self.authorization else {}


ANONYMOUS = Identity()
