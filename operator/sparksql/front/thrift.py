"""HiveServer2's clients: finds out who they are and which session they want, and then passes bytes on to its driver.

A client's first call opens a session; its connection then belongs to that session's driver, as with a server of its own.
Invariants: nothing of a client that has not authenticated in time is decoded further; what is told to the driver of the client's
name is what the cluster says; after the first call nothing is read or held but what is under way.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import struct
import uuid
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any

from sparksql.front.dialing import dialled
from sparksql.front.limits import FrontLimits
from sparksql.front.metrics import FrontMetrics
from sparksql.front.model import FrontError, Refusal, Target, User
from sparksql.front.naming import parse_thrift
from sparksql.front.reviews import Reviews
from sparksql.front.sessions import FrontSessions
from sparksql.front.thrift_messages import (
    OPEN_SESSION,
    Call,
    exception_reply,
    is_not_ready,
    open_call,
    read_call,
    refusal_reply,
)
from sparksql.protocols.bounds import MAX_OPENING_BYTES
from sparksql.protocols.budget import Budget, Lease, OverBudgetError
from sparksql.protocols.gate import Tls
from sparksql.protocols.hiveserver2.codec import ProtocolError, Reader
from sparksql.protocols.hiveserver2.connections import Connections, keep_alive, linger
from sparksql.protocols.hiveserver2.sasl import (
    NegotiationError,
    NegotiationStatus,
    Plain,
    RefusedFrameError,
    frame_head,
    log_in,
    negotiation_message,
    read_frame,
    read_plain,
)
from sparksql.protocols.slots import Slot, Slots
from sparksql.wire.control import ClientProtocol
from sparksql.wire.driver import THRIFT_PORT

log = logging.getLogger(__name__)

BUFFER_BYTES = 32 << 10  # asyncio holds twice as much before it reads no more
MAX_OPENED_BYTES = 1 << 20  # of a driver's answer that opens a session


@dataclass(frozen=True)
class _Driver:
    """A connection to a driver that has let the front in for a user. `answer` is its reply to the call that opens a session."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    answer: bytes = b""


class ThriftFront:
    """The listening port and its connections. Belongs to the event loop."""

    def __init__(
        self,
        sessions: FrontSessions,
        reviews: Reviews,
        limits: FrontLimits,
        metrics: FrontMetrics,
        budget: Budget,
        slots: Slots,
    ) -> None:
        self._sessions = sessions
        self._reviews = reviews
        self._limits = limits
        self._metrics = metrics
        self._budget = budget
        self._connections = Connections(slots, self._serve, metrics.connections.labels("thrift").set)

    async def listen(self, address: str, port: int, tls: ssl.SSLContext | None) -> int:
        """Begins to listen and returns the port. Raises OSError when it is taken."""
        secured = None if tls is None else Tls(tls, self._limits.negotiation_seconds)
        return await self._connections.listen(address, port, secured, BUFFER_BYTES)

    async def close(self, seconds: float) -> None:
        """Takes no new connection, lets those that are open go on for so long, then ends them."""
        await self._connections.close(seconds)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, slot: Slot) -> None:
        user = await self._authenticated(reader, writer, slot)
        try:
            with self._budget.bytes.lease(user.name) as held:
                async with asyncio.timeout(self._limits.opening_seconds) as deadline:
                    target, driver = await self._opened(reader, writer, user, slot, held, deadline)
        except TimeoutError:
            fields = {"seconds": self._limits.opening_seconds}
            log.info("a connection ends that has opened no session in time", extra={"fields": fields})
            return
        try:
            writer.write(driver.answer)
            await _until_first(
                _passed(reader, driver.writer), _passed(driver.reader, writer), self._while_allowed(user, target)
            )
        finally:
            driver.writer.transport.abort()
            await self._sessions.end(target)

    async def _while_allowed(self, user: User, target: Target) -> None:
        """Until the right is taken from the user: a connection lasts for days."""
        while True:
            await asyncio.sleep(self._limits.allowed_seconds)
            if not await self._sessions.is_allowed(user, target.key):
                log.info("a connection ends whose user may not connect any more")
                return

    async def _authenticated(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, slot: Slot) -> User:
        """Whose token the password is. Raises NegotiationError, once the client was told why."""
        try:
            async with asyncio.timeout(self._limits.negotiation_seconds):
                plain = await read_plain(reader)
            user = await self._reviews.user(plain.password)
            slot.claim(user.name)
        except (NegotiationError, FrontError, OverBudgetError) as refusal:
            if isinstance(refusal, FrontError):
                self._metrics.refused("thrift", refusal)
            writer.write(negotiation_message(NegotiationStatus.BAD, str(refusal).encode()))
            await writer.drain()
            await linger(reader)
            raise NegotiationError(str(refusal)) from refusal
        slot.idles()
        writer.write(negotiation_message(NegotiationStatus.COMPLETE))
        return user

    async def _opened(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        user: User,
        slot: Slot,
        held: Lease,
        deadline: asyncio.Timeout,
    ) -> tuple[Target, _Driver]:
        """Reads calls until one opens a session, and hands that to its driver, which has a time of its own."""
        while True:
            try:
                message = await read_frame(reader, self._limits.frame_seconds, held, MAX_OPENING_BYTES)
            except RefusedFrameError as refused:
                _write(writer, exception_reply("", 0, str(refused)))
            else:
                slot.works()
                before = deadline.when()
                deadline.reschedule(None)
                opened = await self._answered(writer, user, message)
                held.end()
                if opened is not None:
                    return opened
                deadline.reschedule(before)
                slot.idles()
            await writer.drain()

    async def _answered(
        self, writer: asyncio.StreamWriter, user: User, message: bytes
    ) -> tuple[Target, _Driver] | None:
        """Answers a call before there is a session; None unless it opens one."""
        name, _, sequence = Reader(message).header()
        if name != OPEN_SESSION:
            text = f"{name[:64]!r}: the connection has no session yet, open one"
            _write(writer, exception_reply(name, sequence, text))
            return None
        try:
            call = read_call(message)
        except ProtocolError as malformed:
            _write(writer, exception_reply(name, sequence, f"{name}: {malformed}"))
            return None
        try:
            return await self._hand_over(user, call)
        except FrontError as refusal:
            self._metrics.refused("thrift", refusal)
            _write(writer, refusal_reply(call, refusal))
            return None

    async def _hand_over(self, user: User, call: Call) -> tuple[Target, _Driver]:
        asked, configuration = parse_thrift(call.opens.configuration if call.opens else None)
        message = open_call(call, user.name, configuration)
        connection = f"thrift-{uuid.uuid4()}"

        async def find(seconds: float) -> Target:
            return await self._sessions.open(user, asked, ClientProtocol.THRIFT, seconds, connection)

        async def dial(target: Target) -> _Driver:
            driver = await self._dial(target, user)
            try:
                return await self._called(driver, message, target)
            except BaseException:
                driver.writer.transport.abort()
                raise

        with self._metrics.opening("thrift"):
            return await dialled(find, dial, self._limits.hold_seconds)

    async def _called(self, driver: _Driver, call: bytes, target: Target) -> _Driver:
        """Has the driver open the session, and keeps its answer for the client. Raises EOFError for one that drains."""
        driver.writer.write(frame_head(len(call)) + call)
        async with asyncio.timeout(self._limits.answer_seconds):
            (size,) = struct.unpack(">i", await driver.reader.readexactly(4))
            if not 0 <= size <= MAX_OPENED_BYTES:
                what = f"the driver of session {target.key} answers with {size} bytes, of {MAX_OPENED_BYTES} at most"
                raise FrontError(Refusal.UNAVAILABLE, f"{what}: restart it (spec.restartNonce)")
            answer = await driver.reader.readexactly(size)
        if is_not_ready(answer):
            raise EOFError(f"the driver of session {target.key} is draining and accepts no clients")
        return replace(driver, answer=frame_head(size) + answer)

    async def _dial(self, target: Target, user: User) -> _Driver:
        """Raises OSError, TimeoutError, EOFError, and FrontError for a driver that does not know the front."""
        async with asyncio.timeout(self._limits.dial_seconds):
            reader, writer = await asyncio.open_connection(
                target.host, THRIFT_PORT, ssl=target.tls, server_hostname=target.server_name, limit=BUFFER_BYTES
            )
            keep_alive(writer)
            try:
                await log_in(reader, writer, Plain(user.name, target.token.encode()))
            except NegotiationError as refused:
                writer.transport.abort()
                raise FrontError(
                    Refusal.NOT_SERVED, f"the driver of session {target.key} refuses the front: {refused}"
                ) from refused
            except BaseException:
                writer.transport.abort()
                raise
        return _Driver(reader, writer)


async def _until_first(*works: Coroutine[Any, Any, None]) -> None:
    """Runs all until one of them ends."""
    ways = [asyncio.create_task(work) for work in works]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(BUFFER_BYTES):
        writer.write(data)
        await writer.drain()


def _write(writer: asyncio.StreamWriter, message: bytes) -> None:
    writer.write(frame_head(len(message)) + message)
