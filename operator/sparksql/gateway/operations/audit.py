"""The audit log: one line for each state that a statement enters and for each session of a client, never with any SQL.

Lines go to the logger `sparksql.audit`, at info level, with fields of their own: `event`, `operation_id`, `state`,
`statement_type`, and for clients `protocol`, `session` (the handle), `client` (what the client calls itself) and `user` (who it
is, as the front says). They come in the order of the changes, so the states of an operation read in order are its way through the
state machine.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from sparksql.wire.control import AnyClientProtocol, OperationView

FIELDS = ("event", "operation_id", "state", "statement_type", "protocol", "door", "session", "client", "user", "reason")

log = logging.getLogger("sparksql.audit")


def statement(view: OperationView) -> None:
    """Writes that a statement has entered its state."""
    reason = None if view.error is None else view.error.condition or str(view.error.reason)
    _write(
        f"statement {view.state}",
        {
            "event": "statement",
            "operation_id": view.operation_id,
            "state": str(view.state),
            "statement_type": view.statement_type,
            **_protocol(view.protocol),
            "session": view.session,
            "user": view.user,
            "reason": reason,
        },
    )


def session(event: str, handle: str, protocol: AnyClientProtocol, name: str, user: str | None = None) -> None:
    """Writes that a client's session was opened, closed, or has expired."""
    fields = {"event": f"session {event}", "session": handle, **_protocol(protocol), "client": name, "user": user}
    _write(f"session of a client {event}", fields)


def _protocol(protocol: AnyClientProtocol | None) -> dict[str, str | None]:
    """The protocol by its name and by the one of earlier versions, which is deprecated."""
    name = None if protocol is None else str(protocol)
    return {"protocol": name, "door": name}


def _write(message: str, fields: Mapping[str, str | None]) -> None:
    log.info(message, extra={key: value for key, value in fields.items() if value is not None})
