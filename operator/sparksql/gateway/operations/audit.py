"""The audit log: one line for each state that a statement enters and for each session of a client, never with any SQL.

Lines go to the logger `sparksql.audit`, at info level, with fields of their own: `event`, `operation_id`, `state`,
`statement_type`, and for clients `door`, `session` (the handle) and `client` (what the client calls itself). They come in the
order of the changes, so the states of an operation read in order are its way through the state machine.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from sparksql.wire.control import Door, OperationView

FIELDS = ("event", "operation_id", "state", "statement_type", "door", "session", "client", "reason")

log = logging.getLogger("sparksql.audit")


def statement(view: OperationView) -> None:
    """A statement has entered its state."""
    reason = None if view.error is None else view.error.condition or str(view.error.reason)
    _write(
        f"statement {view.state}",
        {
            "event": "statement",
            "operation_id": view.operation_id,
            "state": str(view.state),
            "statement_type": view.statement_type,
            "door": view.door,
            "session": view.session,
            "reason": reason,
        },
    )


def session(event: str, handle: str, door: Door, name: str) -> None:
    """A client's session was opened, closed, or has expired."""
    fields = {"event": f"session {event}", "session": handle, "door": str(door), "client": name}
    _write(f"session of a client {event}", fields)


def _write(message: str, fields: Mapping[str, str | None]) -> None:
    log.info(message, extra={key: value for key, value in fields.items() if value is not None})
