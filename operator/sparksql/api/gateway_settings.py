"""Settings of a session's gateway, given as configuration keys below `spark.sql.gateway.`.

They are read at a driver's start and follow the configuration layers like any other key; SET in a statement changes none of
them. Names and meanings are those of Flink's `sql-gateway.*` options (FLIP-91), defaults where a shared driver needs others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

PREFIX = "spark.sql.gateway."
API_VERSIONS = ("V1", "V2", "V3", "V4")
_UNITS = {"ms": 0.001, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_SIZES = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}


class InvalidSetting(ValueError):
    """A value that does not fit its key; the message names key, value and what fits. `keys` are those to look at."""

    def __init__(self, message: str, *keys: str) -> None:
        super().__init__(message)
        self.keys = keys


@dataclass(frozen=True)
class GatewaySettings:
    """Parsed settings: durations in seconds, sizes in bytes; 0 for a timeout means never."""

    session_max_num: int = 1000
    session_idle_timeout: float = 600.0
    session_check_interval: float = 60.0
    session_share_views: bool = False
    operation_max_num: int = 1000  # kept operations of one session, ended ones included
    operation_idle_timeout: float = 600.0  # an ended operation that nobody asks for is closed
    worker_threads_min: int = 5
    worker_threads_max: int = 500
    worker_threads_keepalive_time: float = 300.0
    session_result_max_size: int = 16 << 30
    result_max_size: int = 64 << 30
    rest_versions: tuple[str, ...] = API_VERSIONS
    rest_max_connections: int = 1000


def _count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise ValueError("a whole number")
    return int(text)


def _duration(text: str) -> float:
    match = re.fullmatch(r"([0-9]{1,12})\s*([a-z]+)", text.lower())
    if text == "0":
        return 0.0
    if match is None or match.group(2) not in _UNITS:
        raise ValueError("a number with a unit: ms, s, min, h or d")
    return int(match.group(1)) * _UNITS[match.group(2)]


def _interval(text: str) -> float:
    seconds = _duration(text)
    if seconds < 1:
        raise ValueError("at least 1s")
    return seconds


def _size(text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,15})\s*([a-z]*)", text.lower())
    if match is None or match.group(2) not in _SIZES:
        raise ValueError("a number of bytes, or one with k, m or g")
    return int(match.group(1)) * _SIZES[match.group(2)]


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.lower() == "true"


def _versions(text: str) -> tuple[str, ...]:
    wanted = {part.strip().upper() for part in text.split(",") if part.strip()}
    if not wanted or not wanted <= set(API_VERSIONS):
        raise ValueError(f"some of {','.join(API_VERSIONS)}, separated by commas")
    return tuple(version for version in API_VERSIONS if version in wanted)


# Key without the prefix -> parser. A field's name is its key with `.` and `-` written as `_`.
_PARSERS: Mapping[str, Callable[[str], object]] = {
    "session.max-num": _count,
    "session.idle-timeout": _duration,
    "session.check-interval": _interval,
    "session.share-views": _flag,
    "operation.max-num": _count,
    "operation.idle-timeout": _duration,
    "worker.threads.min": _count,
    "worker.threads.max": _count,
    "worker.threads.keepalive-time": _duration,
    "session.result.max-size": _size,
    "result.max-size": _size,
    "rest.versions": _versions,
    "rest.max-connections": _count,
}
KEYS = tuple(f"{PREFIX}{key}" for key in _PARSERS)
SHARE_VIEWS = f"{PREFIX}session.share-views"


def parse(conf: Mapping[str, str]) -> GatewaySettings:
    """The settings in a configuration. Raises InvalidSetting for an unknown key below the prefix and for a bad value."""
    found: dict[str, object] = {}
    for key, value in conf.items():
        if not key.startswith(PREFIX):
            continue
        parser = _PARSERS.get(key.removeprefix(PREFIX))
        if parser is None:
            raise InvalidSetting(f"{key}: no such setting of the gateway; there are {', '.join(KEYS)}", key)
        try:
            found[re.sub(r"[.-]", "_", key.removeprefix(PREFIX))] = parser(value.strip())
        except ValueError as problem:
            raise InvalidSetting(f"{key}: {value!r} is invalid; it must be {problem}", key) from None
    settings = GatewaySettings(**found)  # type: ignore[arg-type]
    if settings.worker_threads_min > settings.worker_threads_max or settings.worker_threads_max < 1:
        least, most = f"{PREFIX}worker.threads.min", f"{PREFIX}worker.threads.max"
        message = (
            f"{most}: {settings.worker_threads_max} is less than 1 or than {least} ({settings.worker_threads_min})"
        )
        raise InvalidSetting(message, most, least)
    return settings


assert {field.name for field in fields(GatewaySettings)} == {re.sub(r"[.-]", "_", key) for key in _PARSERS}
