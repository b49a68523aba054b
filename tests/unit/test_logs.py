"""A line of the log is one JSON object."""

from __future__ import annotations

import json
import logging
import sys
import threading
from datetime import date
from io import StringIO
from types import SimpleNamespace, TracebackType

import pytest
from aiohttp.http_exceptions import BadHttpMessage

from sparksql.logs import PERIOD_SECONDS, JsonFormatter, LibraryFilter, handler


def record(level: int = logging.INFO, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("sparksql.test", level, __file__, 1, "hello %s", ("world",), fields.pop("exc", None))  # type: ignore[arg-type]
    made.created = 1769846400.1234
    made.__dict__.update(fields)
    return made


def test_log_line_has_time_level_logger_message_and_the_fields_of_the_process() -> None:
    formatter = JsonFormatter(lambda line: {"name": "s", "day": getattr(line, "day", None)})
    assert json.loads(formatter.format(record(day=date(2026, 1, 31)))) == {
        "time": "2026-01-31T08:00:00.123+00:00",
        "level": "INFO",
        "logger": "sparksql.test",
        "message": "hello world",
        "name": "s",
        "day": "2026-01-31",
    }


def test_log_field_of_the_process_replaces_one_that_is_always_there_in_its_place() -> None:
    line = JsonFormatter(lambda line: {"level": line.levelname.lower()}).format(record(logging.WARNING))
    assert [*json.loads(line)] == ["time", "level", "logger", "message"]
    assert json.loads(line)["level"] == "warning"


SECRET = "a-token-that-no-log-shows"


def failure() -> tuple[type[BaseException], BaseException, TracebackType | None]:
    try:
        try:
            raise ValueError(SECRET)
        except ValueError as cause:
            raise OSError(13, SECRET) from cause
    except OSError as error:
        return type(error), error, error.__traceback__


def foreign(error: object = None, name: str = "aiohttp.server", line: int = 1) -> logging.LogRecord:
    return logging.LogRecord(name, logging.ERROR, "server.py", line, f"of {SECRET} %s", (SECRET,), error, "serve")  # type: ignore[arg-type]


def test_log_line_of_an_exception_has_classes_and_places_and_no_texts() -> None:
    line = JsonFormatter(lambda _: {}).format(record(exc=failure()))
    written = json.loads(line)["exception"]
    assert SECRET not in line and "\n" not in line
    assert written.startswith("PermissionError (errno 13)\n") and "\ncaused by ValueError\n" in written
    assert f"{__file__}:" in written and " in failure" in written


def test_log_line_of_an_exception_group_has_its_members() -> None:
    group = ExceptionGroup(SECRET, [KeyError(SECRET), LookupError(SECRET)])
    line = JsonFormatter(lambda _: {}).format(record(exc=(ExceptionGroup, group, None)))
    assert json.loads(line)["exception"] == "ExceptionGroup\ncaused by KeyError\ncaused by LookupError"


def test_log_line_of_a_library_has_its_place_and_no_text() -> None:
    line = json.loads(JsonFormatter(lambda _: {}).format(foreign(failure())))
    assert SECRET not in json.dumps(line)
    assert (line["logger"], line["place"]) == ("aiohttp.server", "server.py:1 in serve")
    assert line["exception"].startswith("PermissionError")


def test_log_line_of_a_malformed_request_has_its_class_and_status_at_info() -> None:
    error = BadHttpMessage(SECRET)
    made = foreign((BadHttpMessage, error, failure()[2]))
    assert LibraryFilter(logging.INFO).filter(made)
    line = json.loads(JsonFormatter(lambda _: {}).format(made))
    assert (line["level"], line["status"]) == ("INFO", 400)
    assert line["exception"] == "aiohttp.http_exceptions.BadHttpMessage" and SECRET not in json.dumps(line)
    assert not LibraryFilter(logging.WARNING).filter(foreign((BadHttpMessage, error, None)))


def test_log_lines_of_a_library_are_bounded_by_place_and_count_what_is_left_out() -> None:
    now = 0.0
    bound = LibraryFilter(logging.INFO, lambda: now)
    assert [bound.filter(foreign()) for _ in range(100)].count(True) == 1
    assert bound.filter(foreign(line=2)), "another place has its own bound"
    assert all(bound.filter(record()) for _ in range(100)), "our own lines are not bounded"
    now = PERIOD_SECONDS
    after = foreign()
    assert bound.filter(after)
    assert json.loads(JsonFormatter(lambda _: {}).format(after))["left_out"] == 99


def test_log_lines_of_threads_and_unraisable_exceptions_have_no_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    stream = StringIO()
    own, made = logging.getLogger("sparksql"), handler(stream, logging.INFO, lambda _: {})
    monkeypatch.setattr(own, "handlers", [made])

    def fail() -> None:
        raise ValueError(SECRET)

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    sys.unraisablehook(SimpleNamespace(exc_value=ValueError(SECRET)))  # type: ignore[arg-type]
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["message"] for line in lines] == ["a thread failed", "an exception has no caller"]
    assert all(line["exception"].startswith("ValueError") for line in lines) and SECRET not in stream.getvalue()
