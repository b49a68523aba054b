"""The operator's logs: what is logged, and the keys that a record carries in `fields`."""

from __future__ import annotations

import logging
import sys

from sparksql.logs import handler


def configure(level: str) -> None:
    """Log everything of `level` and above to stderr; libraries that log each request are held at warnings."""
    root = logging.getLogger()
    root.setLevel(level.upper())
    root.handlers[:] = [handler(sys.stderr, root.level, _fields_of)]
    for name in ("kopf", "aiohttp.access", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # It warns that signals are not its own in a thread, which is what that thread is for.
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)


def _fields_of(record: logging.LogRecord) -> dict[str, object]:
    return {"level": record.levelname.lower(), **getattr(record, "fields", {})}
