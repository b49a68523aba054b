"""What the API server, or the way to it, may answer instead of an object. Made from the answer alone, without I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


class ApiError(Exception):
    """A refused request. `status` is the HTTP status (0: no answer), `reason` the API server's CamelCase word for it.

    `str()` is fit to be logged: the values that validation errors quote are left out. `message` has the whole text.
    """

    def __init__(self, status: int, reason: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(status, reason, message)
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details or {}

    def __str__(self) -> str:
        return f"{self.status} {self.reason}: {self.message}"

    @property
    def retry_after(self) -> float:
        """Seconds for which the server asks to be left alone, by its header or in its answer; 0 if it does not."""
        return float(self.details.get("retryAfterSeconds") or 0)


class NotFound(ApiError):
    """404: the object, or the whole resource, does not exist."""


class AlreadyExists(ApiError):
    """409 at a create: an object of that name is there."""


class Conflict(ApiError):
    """409 at a write: the object has changed since, or a precondition (UID, resourceVersion) does not hold."""


class Forbidden(ApiError):
    """403: not allowed, by RBAC, by an admission policy, by a quota, or because the namespace is going away."""

    @property
    def namespace_terminating(self) -> bool:
        """Tells whether the request was refused because its namespace is going away."""
        return any(cause.get("reason") == "NamespaceTerminating" for cause in self.details.get("causes") or ())

    @property
    def quota_exceeded(self) -> bool:
        """Tells whether a ResourceQuota has refused the request."""
        # The quota admission plugin says it in the message only.
        return "exceeded quota" in self.message


class Invalid(ApiError):
    """422: the object breaks its schema or a CEL rule, or an admission policy could not be evaluated."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Returns the object's fields that break a rule; empty for an admission policy, which names none."""
        causes = self.details.get("causes") or ()
        return tuple(field for cause in causes if (field := cause.get("field")))

    def __str__(self) -> str:
        fields = [f"{cause.get('field', '')} {cause.get('reason', '')}" for cause in self.details.get("causes") or ()]
        return f"{self.status} {self.reason}: {', '.join(fields)}"


class TooManyRequests(ApiError):
    """429: the server sheds load, or an eviction must wait; a second if it does not say for how long."""

    @property
    def retry_after(self) -> float:
        """Returns the seconds to wait that the server asks for, 1 if it does not say."""
        return super().retry_after or 1.0


class Unavailable(ApiError):
    """5xx, no connection, no answer in time, or no credentials to ask with. Whether a write took place is unknown."""


def error_from(status: int, body: bytes, retry_after: str | None = None) -> ApiError:
    """The error for an answer with this HTTP status, body and `Retry-After` header."""
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        answer = {"message": body[:200].decode(errors="replace")}
    details = dict(answer.get("details") or {})
    if retry_after is not None and retry_after.isdecimal():
        details["retryAfterSeconds"] = int(retry_after)
    reason = answer.get("reason") or ""
    return _error_type(status, reason)(status, reason, answer.get("message") or "", details)


def _error_type(status: int, reason: str) -> type[ApiError]:
    match status:
        case 403:
            return Forbidden
        case 404:
            return NotFound
        case 409:
            return AlreadyExists if reason == "AlreadyExists" else Conflict
        case 422:
            return Invalid
        case 429:
            return TooManyRequests
        case _:
            return Unavailable if status >= 500 else ApiError
