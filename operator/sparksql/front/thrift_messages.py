"""Messages of HiveServer2 as far as the front reads them: what opens a session, and whose handle a call has. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sparksql.front.model import FrontError, Refusal
from sparksql.protocols.hiveserver2.codec import (
    STOP,
    Reader,
    TMessageType,
    TType,
    encode,
    field_header,
    header,
)
from sparksql.protocols.hiveserver2.messages import (
    ApplicationError,
    SessionRequest,
    StatusResponse,
    TApplicationException,
    TOpenSessionReq,
    TOpenSessionResp,
    TSessionHandle,
    TStatus,
    TStatusCode,
)

OPEN_SESSION = "OpenSession"
NOT_READY = "08001"  # of a driver that starts or drains, see the gateway's `thrift.errors`
_SQL_STATES = {
    Refusal.UNAUTHENTICATED: "28000",
    Refusal.FORBIDDEN: "42501",
    Refusal.INVALID: "08001",
    Refusal.UNKNOWN_SESSION: "08003",
    Refusal.TOO_MANY_SESSIONS: "08004",
    Refusal.NOT_SERVED: "08004",
    Refusal.NOT_READY: "08001",
    Refusal.UNAVAILABLE: "08001",
}


@dataclass(frozen=True)
class Call:
    """A client's call: its name and number, and what it is about, a request to open a session or a handle."""

    name: str
    sequence: int
    opens: TOpenSessionReq | None = None
    handle: str = ""


def read_call(message: bytes) -> Call:
    """Reads a call as far as the front needs to. Raises ProtocolError.

    The first field of every other argument is the session or the operation that it is about, and both are of one shape.
    """
    reader = Reader(message)
    name, _, sequence = reader.header()
    if name == OPEN_SESSION:
        return Call(name, sequence, opens=reader.argument(TOpenSessionReq))
    return Call(name, sequence, handle=_handle(reader.argument(SessionRequest).session_handle))


def read_begin(begun: bytes) -> Call:
    """Reads a call from its first bytes, without a request to open a session. Raises ProtocolError."""
    reader = Reader(begun)
    name, _, sequence = reader.header()
    if name == OPEN_SESSION:
        return Call(name, sequence)
    return Call(name, sequence, handle=_handle(reader.begin(TSessionHandle)))


def _handle(about: TSessionHandle) -> str:
    guid = about.session_id.guid
    return str(uuid.UUID(bytes=guid)) if len(guid) == 16 else ""


def open_call(call: Call, user: str, configuration: Mapping[str, str]) -> bytes:
    """Returns a client's call to open a session as its driver gets it."""
    assert call.opens is not None
    body = encode(replace(call.opens, username=user, configuration=configuration))
    return header(OPEN_SESSION, TMessageType.CALL, call.sequence) + field_header(TType.STRUCT, 1) + body + STOP


def is_not_ready(answer: bytes) -> bool:
    """Tells whether a driver's answer says that it takes nobody for now. Raises ProtocolError."""
    reader = Reader(answer)
    reader.header()
    return reader.result(StatusResponse).status.sql_state == NOT_READY


def refusal_reply(call: Call, refusal: FrontError) -> bytes:
    """Returns the reply that tells why a call is refused."""
    status = TStatus(TStatusCode.ERROR_STATUS, _SQL_STATES[refusal.refusal], 0, str(refusal))
    body = encode(TOpenSessionResp(status) if call.name == OPEN_SESSION else StatusResponse(status))
    return header(call.name, TMessageType.REPLY, call.sequence) + field_header(TType.STRUCT, 0) + body + STOP


def exception_reply(name: str, sequence: int, text: str) -> bytes:
    """Returns the reply to a call that cannot be answered otherwise."""
    return header(name, TMessageType.EXCEPTION, sequence) + encode(
        TApplicationException(text, ApplicationError.PROTOCOL_ERROR)
    )
