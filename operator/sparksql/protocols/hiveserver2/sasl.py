"""SASL PLAIN as HiveServer2's clients speak it, and the frames that follow.

What a name and a password are worth is for the caller to say. Invariants: every length that a peer names has a bound; a refusal
is told in the protocol's own way where the peer speaks it at all.
"""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass, field
from enum import IntEnum

from sparksql.protocols.budget import Lease, OverBudgetError

MAX_NEGOTIATION_BYTES = 16 << 10
MAX_FRAME_BYTES = 8 << 20  # as the bodies of the control API: a statement and its configuration
MAX_DISCARDED_BYTES = 256 << 20  # a larger length is no request but another protocol's first bytes
MECHANISM = b"PLAIN"
_PIECE_BYTES = 1 << 16


class NegotiationStatus(IntEnum):
    """The first byte of a negotiation message, as libthrift's TSaslTransport has it."""

    START = 1
    OK = 2
    BAD = 3
    ERROR = 4
    COMPLETE = 5


class NegotiationError(Exception):
    """The client may not come in; the message tells it why."""


def negotiation_message(status: NegotiationStatus, payload: bytes = b"") -> bytes:
    """Returns a message of the negotiation, as Thrift's SASL transport frames it."""
    return struct.pack(">bi", status, len(payload)) + payload


@dataclass(frozen=True)
class Plain:
    """What a client says of itself. `name` is what it calls itself."""

    name: str
    password: bytes = field(repr=False)


async def read_plain(reader: asyncio.StreamReader) -> Plain:
    """Reads a client's name and password; the negotiation is then to be ended by COMPLETE or BAD.

    Raises NegotiationError, and EOFError when the client leaves.
    """
    status, mechanism = await _negotiation(reader)
    if status is not NegotiationStatus.START:
        raise NegotiationError("the negotiation must start with the name of a mechanism")
    if mechanism != MECHANISM:
        raise NegotiationError(
            "this server supports the SASL mechanism PLAIN only: give a user name, and the token as password"
        )
    status, response = await _negotiation(reader)
    if status not in (NegotiationStatus.OK, NegotiationStatus.COMPLETE):
        raise NegotiationError("the client has broken off the negotiation")
    return parse_plain(response)


def parse_plain(response: bytes) -> Plain:
    """Returns the name and the password of a PLAIN response. Raises NegotiationError."""
    parts = response.split(b"\0")
    if len(parts) != 3:
        raise NegotiationError("the response is not that of SASL PLAIN")
    _, name, password = parts
    return Plain(name.decode(errors="replace"), password)


async def log_in(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, plain: Plain) -> None:
    """Negotiates as a client. Raises NegotiationError with what the server says when it refuses."""
    writer.write(negotiation_message(NegotiationStatus.START, MECHANISM))
    writer.write(negotiation_message(NegotiationStatus.OK, b"\0" + plain.name.encode() + b"\0" + plain.password))
    await writer.drain()
    status, told = await _negotiation(reader)
    if status is not NegotiationStatus.COMPLETE:
        raise NegotiationError(told.decode(errors="replace"))


async def _negotiation(reader: asyncio.StreamReader) -> tuple[NegotiationStatus, bytes]:
    code, size = struct.unpack(">bi", await reader.readexactly(5))
    try:
        status = NegotiationStatus(code)
    except ValueError:
        raise NegotiationError(
            "this server speaks HiveServer2's binary protocol with SASL; use auth PLAIN, LDAP or CUSTOM"
        ) from None
    if not 0 <= size <= MAX_NEGOTIATION_BYTES:
        raise NegotiationError(f"a negotiation message has at most {MAX_NEGOTIATION_BYTES} bytes")
    return status, await reader.readexactly(size)


class RefusedFrameError(Exception):
    """A message was not taken, and its bytes were thrown away; the client may send another one."""


async def read_frame(reader: asyncio.StreamReader, seconds: float, held: Lease, most: int = MAX_FRAME_BYTES) -> bytes:
    """Reads the next frame once `held` has grown by its size, which the caller gives back when the frame is answered.

    Once its length is there, all of it must come within `seconds`. Raises EOFError when the client has left, TimeoutError,
    NegotiationError for a length that no client means, and RefusedFrameError for one beyond `most` or the share.
    """
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    if not 0 <= size <= MAX_DISCARDED_BYTES:
        raise NegotiationError(f"a request of {size} bytes cannot be")
    refusal = f"a request has at most {most} bytes"
    async with asyncio.timeout(seconds):
        if size <= most:
            try:
                held.grow(size)
            except OverBudgetError as over:
                refusal = str(over)
            else:
                return await reader.readexactly(size)
        while size > 0:
            piece = await reader.read(min(size, _PIECE_BYTES))
            if not piece:
                raise EOFError("the client has left within a request")
            size -= len(piece)
    raise RefusedFrameError(refusal)


def frame_head(size: int) -> bytes:
    """Returns the length that stands before a frame."""
    return struct.pack(">i", size)
