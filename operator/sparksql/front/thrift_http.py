"""HiveServer2's HTTP transport: each request is one message, and the handle in it leads to the driver; nothing is kept."""

from __future__ import annotations

import uuid

from aiohttp import web

from sparksql.front.dialing import dialled
from sparksql.front.driver_http import DriverHttp
from sparksql.front.limits import FrontLimits
from sparksql.front.metrics import FrontMetrics
from sparksql.front.model import FrontError, Target, User
from sparksql.front.naming import parse_thrift
from sparksql.front.sessions import FrontSessions
from sparksql.front.thrift_messages import (
    OPEN_SESSION,
    Call,
    is_not_ready,
    open_call,
    read_begin,
    read_call,
    refusal_reply,
)
from sparksql.protocols.bounds import MAX_OPENING_BYTES
from sparksql.protocols.hiveserver2.codec import ProtocolError
from sparksql.protocols.hiveserver2.http import HTTP_TYPE
from sparksql.wire.control import ClientProtocol


class AnsweredError(Exception):
    """The answer to a request whose body was not read to the end."""

    def __init__(self, answer: web.Response) -> None:
        super().__init__()
        self.answer = answer


class ThriftHttp:
    """Answers messages of clients that have proven who they are."""

    def __init__(
        self, sessions: FrontSessions, drivers: DriverHttp, limits: FrontLimits, metrics: FrontMetrics
    ) -> None:
        self._sessions = sessions
        self._drivers = drivers
        self._limits = limits
        self._metrics = metrics

    async def extent(self, user: User, begun: bytes, most: int) -> int:
        """Returns how many bytes a message of a client may have, by its first ones: `most` once its right is known.

        Raises AnsweredError for a client that may not use the session of the handle, and for what is no message.
        """
        try:
            call = read_begin(begun)
            if call.name == OPEN_SESSION:
                return MAX_OPENING_BYTES
            await self._sessions.check_handle(user, call.handle)
        except ProtocolError as malformed:
            raise AnsweredError(_bad_message(malformed)) from malformed
        except FrontError as refusal:
            raise AnsweredError(self._refused(call, refusal)) from refusal
        return most

    async def serve(self, request: web.Request, user: User) -> web.StreamResponse:
        """Answers a POST. Refusals are in the protocol's own words; what is no message gets 400."""
        message = await request.read()
        try:
            call = read_call(message)
        except ProtocolError as malformed:
            return _bad_message(malformed)
        try:
            if call.opens is not None:
                return await self._open(request, user, call)
            target = await self._sessions.of_handle(user, call.handle, ClientProtocol.THRIFT)
            answer = await self._drivers.forward(request, user, target, message)
        except FrontError as refusal:
            return self._refused(call, refusal)
        if call.name == "CloseSession":
            await self._sessions.end(target)
        return answer

    def _refused(self, call: Call, refusal: FrontError) -> web.Response:
        self._metrics.refused("thrift", refusal)
        return web.Response(body=refusal_reply(call, refusal), content_type=HTTP_TYPE)

    async def _open(self, request: web.Request, user: User, call: Call) -> web.StreamResponse:
        asked, configuration = parse_thrift(call.opens.configuration if call.opens else None)
        body = open_call(call, user.name, configuration)
        connection = f"thrift-{uuid.uuid4()}"

        async def find(seconds: float) -> Target:
            return await self._sessions.open(user, asked, ClientProtocol.THRIFT, seconds, connection)

        async def dial(target: Target) -> web.Response:
            answer = await self._drivers.opened(request, user, target, body)
            if answer.status == 200 and isinstance(answer.body, bytes) and is_not_ready(answer.body):
                raise EOFError(f"the driver of session {target.key} is draining and accepts no clients")
            return answer

        with self._metrics.opening("thrift"):
            return (await dialled(find, dial, self._limits.hold_seconds))[1]


def _bad_message(malformed: ProtocolError) -> web.Response:
    return web.Response(status=400, text=str(malformed))
