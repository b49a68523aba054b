"""What a request says of its client: user, session, operation, and properties in its metadata."""

from __future__ import annotations

import re
from typing import Any

from sparksql.api.gateway_settings import SHARE_VIEWS
from sparksql.gateway.frontends.connect.backend import SessionKey
from sparksql.gateway.frontends.connect.errors import bad_handle, malformed
from sparksql.gateway.sessions.callers import current
from sparksql.wire.front import USER_HEADER

SHARE_VIEWS_HEADER = "x-sparksql-session-share-views"
_OWN_HEADERS = "x-sparksql-"
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def name_user(request: Any) -> None:
    """Makes a user of the front the one of the request, so that no two of them can mean the same session."""
    user = current.get().user
    if user is not None:
        request.user_context.user_id = request.user_context.user_name = user


def session_key(request: Any) -> SessionKey:
    """Returns the session of a request."""
    return SessionKey(request.user_context.user_id, request.session_id)


def operation_id(text: str) -> str:
    """Returns an operation's id in the form in which Spark keeps it. Raises ConnectError."""
    if _UUID.fullmatch(text) is None:
        raise bad_handle(text)
    return text.lower()


def properties(context: Any) -> dict[str, str]:
    """Returns what the client asks of its session by metadata. Raises ConnectError for what nobody knows."""
    asked = {key: value for key, value in context.invocation_metadata() or () if key.startswith(_OWN_HEADERS)}
    share = asked.pop(SHARE_VIEWS_HEADER, None)
    asked.pop(USER_HEADER, None)
    if asked:
        raise malformed(f"{next(iter(asked))} is no parameter of this gateway; there is {SHARE_VIEWS_HEADER}")
    return {} if share is None else {SHARE_VIEWS: share}
