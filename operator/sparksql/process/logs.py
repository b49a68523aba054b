"""Structured logs: one JSON object a line, with the keys that a record carries in `fields`."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure(level: str) -> None:
    """Log everything of `level` and above to stderr; libraries that log each request are held at warnings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in ("kopf", "aiohttp.access", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # It warns that signals are not its own in a thread, which is what that thread is for.
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
