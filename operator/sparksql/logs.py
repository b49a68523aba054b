"""Structured logs, one JSON object a line: of the operator and of drivers, whose image has this module as well."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime


class JsonFormatter(logging.Formatter):
    """Writes a record as one JSON object; `fields_of` gives what the process says in each line besides.

    A field with the name of one that is always there replaces it, in its place.
    """

    def __init__(self, fields_of: Callable[[logging.LogRecord], Mapping[str, object]]) -> None:
        super().__init__()
        self._fields_of = fields_of

    def format(self, record: logging.LogRecord) -> str:
        """Returns the record as one line of JSON."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **self._fields_of(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
