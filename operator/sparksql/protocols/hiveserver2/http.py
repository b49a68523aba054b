"""HiveServer2's HTTP transport: a message is the body of a POST, who asks is in its Authorization header."""

from __future__ import annotations

import base64
import binascii

HTTP_PATH = "/cliservice"  # the default of `httpPath` in clients' URLs
HTTP_TYPE = "application/x-thrift"


def presented_token(authorization: str) -> str:
    """Returns the token of a header: after Bearer, or the password of Basic, as JDBC sends user and password; empty without."""
    scheme, _, value = authorization.partition(" ")
    match scheme.lower():
        case "bearer":
            return value.strip()
        case "basic":
            return _login(value)[1]
        case _:
            return ""


def login_name(authorization: str) -> str:
    """Returns what a client calls itself in a Basic header, empty without."""
    scheme, _, value = authorization.partition(" ")
    return _login(value)[0] if scheme.lower() == "basic" else ""


def _login(value: str) -> tuple[str, str]:
    try:
        decoded = base64.b64decode(value.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return "", ""
    name, _, password = decoded.partition(":")
    return name, password
