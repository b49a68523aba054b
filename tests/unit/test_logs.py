"""A line of the log is one JSON object."""

from __future__ import annotations

import json
import logging
import sys
from datetime import date

from sparksql.logs import JsonFormatter


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


def test_log_line_of_an_exception_has_its_traceback() -> None:
    try:
        raise ValueError("no such thing")
    except ValueError:
        line = JsonFormatter(lambda _: {}).format(record(exc=sys.exc_info()))
    assert "ValueError: no such thing" in json.loads(line)["exception"]
    assert "\n" not in line
