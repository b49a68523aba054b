"""Structured logs, one JSON object a line: of the operator and of drivers, whose image has this module as well.

Invariants: a line holds no text of an exception, and of a library's record no text at all: libraries quote what clients send,
headers with tokens among it. A library's record shows its place in the source, its exception's classes and places, and for a
malformed request the status. One place writes at most one such line in PERIOD_SECONDS; the next line counts the others.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import IO

from aiohttp.http_exceptions import HttpProcessingError

OWN = "sparksql"  # the name of our loggers, and of the first part of their names
PERIOD_SECONDS = 10.0
MOST_PLACES = 1_000
MOST_FRAMES = 40
MOST_CAUSES = 10
_FOREIGN_MESSAGE = "a library's message, see its place"
_MALFORMED_MESSAGE = "a client's request is malformed"

log = logging.getLogger(__name__)


class JsonFormatter(logging.Formatter):
    """Writes a record as one JSON object; `fields_of` gives what the process says in each line besides.

    A field with the name of one that is always there replaces it, in its place.
    """

    def __init__(self, fields_of: Callable[[logging.LogRecord], Mapping[str, object]]) -> None:
        super().__init__()
        self._fields_of = fields_of

    def format(self, record: logging.LogRecord) -> str:
        """Returns the record as one line of JSON."""
        error = _error_of(record)
        is_own, is_malformed = _is_own(record), isinstance(error, HttpProcessingError)
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage() if is_own else _MALFORMED_MESSAGE if is_malformed else _FOREIGN_MESSAGE,
            **self._fields_of(record),
        }
        if not is_own:
            line["place"] = f"{record.pathname}:{record.lineno} in {record.funcName}"
        if (left_out := getattr(record, "left_out", 0)) > 0:
            line["left_out"] = left_out
        if isinstance(error, HttpProcessingError):
            line["status"] = error.code
        if error is not None:
            line["exception"] = _class_of(error) if is_malformed else described(error)
        return json.dumps(line, default=str)


class LibraryFilter(logging.Filter):
    """Bounds the records of libraries, and lowers what a client's malformed request causes to info. Safe among threads."""

    def __init__(self, level: int, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._level = level
        self._clock = clock
        self._lock = threading.Lock()
        self._places: dict[tuple[str, int, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Tells whether a record is written; counts the one that is not."""
        if _is_own(record):
            return True
        error = _error_of(record)
        if isinstance(error, HttpProcessingError):
            record.levelno, record.levelname = logging.INFO, logging.getLevelName(logging.INFO)
            if self._level > logging.INFO:
                return False
        place = record.pathname, record.lineno, "" if error is None else _class_of(error)
        with self._lock:
            now = self._clock()
            written, left_out = self._places.get(place, (None, 0))
            if written is not None and now - written < PERIOD_SECONDS:
                self._places[place] = written, left_out + 1
                return False
            if place not in self._places and len(self._places) >= MOST_PLACES:
                self._places.clear()
            self._places[place] = now, 0
        record.left_out = left_out
        return True


def handler(
    stream: IO[str], level: int, fields_of: Callable[[logging.LogRecord], Mapping[str, object]]
) -> logging.Handler:
    """Makes the one handler of a process's root logger, and has it write the exceptions that no code catches in a thread.

    `level` is the root logger's.
    """
    made = logging.StreamHandler(stream)
    made.setFormatter(JsonFormatter(fields_of))
    made.addFilter(LibraryFilter(level))
    threading.excepthook = _log_of_thread
    sys.unraisablehook = _log_unraisable
    return made


def silence_grpc() -> None:
    """Has gRPC's core write nothing: it does so beside all loggers, for each broken request, and quotes what the client has sent.

    Must come before the first import of `grpc`, which reads this.
    """
    os.environ["GRPC_VERBOSITY"] = "NONE"


def described(error: BaseException) -> str:
    """Returns an exception's class and places, the innermost last, and those of its causes; no text of theirs."""
    return "\ncaused by ".join(_one(each) for each in _chain(error))


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    todo: list[BaseException] = [error]
    while todo and len(seen) < MOST_CAUSES:
        each = todo.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        if isinstance(each, BaseExceptionGroup):
            todo += reversed(each.exceptions)
        cause = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
        if cause is not None:
            todo.append(cause)


def _one(error: BaseException) -> str:
    frames = [*_frames(error.__traceback__)][-MOST_FRAMES:]
    return "\n  ".join([_class_of(error), *frames])


def _frames(trace: TracebackType | None) -> Iterator[str]:
    while trace is not None:
        code = trace.tb_frame.f_code
        yield f"{code.co_filename}:{trace.tb_lineno} in {code.co_name}"
        trace = trace.tb_next


def _class_of(error: BaseException) -> str:
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return f"{name} (errno {error.errno})" if isinstance(error, OSError) and isinstance(error.errno, int) else name


def _error_of(record: logging.LogRecord) -> BaseException | None:
    return record.exc_info[1] if record.exc_info else None


def _is_own(record: logging.LogRecord) -> bool:
    return record.name.partition(".")[0] == OWN


def _log_of_thread(failed: threading.ExceptHookArgs) -> None:
    if failed.exc_value is not None and failed.exc_type is not SystemExit:
        log.error("a thread failed", exc_info=failed.exc_value)


def _log_unraisable(failed: sys.UnraisableHookArgs) -> None:
    log.error("an exception has no caller", exc_info=failed.exc_value)
