"""How the target of an HTTP request is read: one way for the front and for drivers, so that both judge the same path. Pure.

Only what is understood is taken (RFC 3986, 3.3 and 3.4; RFC 9112, 3.2): the path's segments, decoded once. Empty segments do not
count. What another reader could take for other segments is refused: encoded slashes, dot segments, control characters, and bytes
that are no UTF-8. The written form of a target is read as the same target again. Each step takes time in the target's length.
"""

from __future__ import annotations

import string
import unicodedata
from dataclasses import dataclass, field
from urllib.parse import quote, unquote_to_bytes

from sparksql.protocols.hiveserver2.http import HTTP_PATH

_UNRESERVED = string.ascii_letters + string.digits + "-._~"
_PATH_CHARACTERS = frozenset(f"{_UNRESERVED}!$&'()*+,;=:@%/")
# Of queries also what clients write without encoding it, against the RFC: no reader takes it for another part.
_QUERY_CHARACTERS = frozenset(string.ascii_letters + string.digits + string.punctuation) - {"#"}
_AUTHORITY_CHARACTERS = frozenset(f"{_UNRESERVED}:[]")
_HEX = frozenset(string.hexdigits)
_SCHEMES = ("http://", "https://")
COMPAT_PREFIX = "compat"
_THRIFT = (HTTP_PATH.removeprefix("/"),)
_FIRST_OF_CLIENTS = frozenset({"info", "api_versions", "openapi.json", "sessions", "workflow"})
_VERSIONS = {"v1": 1, "v2": 2, "v3": 3, "v4": 4}


class BadTargetError(ValueError):
    """A target that is not understood. The message has no part of it."""


@dataclass(frozen=True)
class RequestTarget:
    """A path's segments, decoded, and the query as it came."""

    segments: tuple[str, ...]
    query: str = field(default="", repr=False)

    def __str__(self) -> str:
        path = "/" + "/".join(quote(segment, safe="") for segment in self.segments)
        return f"{path}?{self.query}" if self.query else path


@dataclass(frozen=True)
class ClientPath:
    """What a path of clients means: with `/compat` and a version before it or without, and the segments after those."""

    compat: bool
    version: int | None
    rest: tuple[str, ...]


def read_target(raw: str) -> RequestTarget:
    """Returns what a request's target means, in origin form or absolute form. Raises BadTargetError."""
    path, _, query = raw.partition("?")
    if not path.startswith("/"):
        path = _path_of_absolute(path)
    if not _PATH_CHARACTERS.issuperset(path):
        raise BadTargetError("the request's path has characters that have to be encoded: encode each as %XX")
    if not _QUERY_CHARACTERS.issuperset(query):
        raise BadTargetError("the request's query has characters that have to be encoded: encode each as %XX")
    return RequestTarget(tuple(_decoded(part) for part in path.split("/") if part), query)


def client_path(segments: tuple[str, ...]) -> ClientPath:
    """Returns what segments mean if they are a path of clients."""
    compat = segments[:1] == (COMPAT_PREFIX,)
    rest = segments[1:] if compat else segments
    version = _VERSIONS.get(rest[0]) if rest else None
    return ClientPath(compat, version, rest if version is None else rest[1:])


def is_thrift(segments: tuple[str, ...]) -> bool:
    """Tells whether a path is that of HiveServer2's HTTP transport."""
    return segments == _THRIFT


def is_for_clients(segments: tuple[str, ...]) -> bool:
    """Tells whether a path is one of clients. The front passes no other on, and a driver lets it use no other."""
    rest = client_path(segments).rest
    return is_thrift(segments) or (bool(rest) and rest[0] in _FIRST_OF_CLIENTS)


def _path_of_absolute(path: str) -> str:
    """The path after scheme and authority: a server has to take such a target, and what it names is this server."""
    for scheme in _SCHEMES:
        if path[: len(scheme)].lower() == scheme:
            authority, slash, rest = path[len(scheme) :].partition("/")
            if authority and _AUTHORITY_CHARACTERS.issuperset(authority):
                return slash + rest
    raise BadTargetError("the request's target is no path: send a path that begins with /")


def _decoded(part: str) -> str:
    pieces = part.split("%")[1:]
    if not all(len(piece) >= 2 and _HEX.issuperset(piece[:2]) for piece in pieces):
        raise BadTargetError(
            "the request's path has a % that is not followed by two hexadecimal digits: encode it as %25"
        )
    try:
        segment = unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        raise BadTargetError("the request's path is not in UTF-8") from None
    if "/" in segment or segment in (".", ".."):
        raise BadTargetError(
            "the request's path has an encoded slash, or a segment . or ..: neither can be a name here"
        )
    if any(unicodedata.category(character) == "Cc" for character in segment):
        raise BadTargetError("the request's path has a control character: none can be part of a name here")
    return segment
