"""Asks drivers by HTTP for a user, and passes answers on as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Container, Iterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web
from yarl import URL

from sparksql.front.dialing import unreachable
from sparksql.front.limits import FrontLimits
from sparksql.front.model import FrontError, Refusal, Target, User
from sparksql.wire.driver import GATEWAY_PORT
from sparksql.wire.front import HANDLE_HEADER, PROBLEM_HEADER, UNKNOWN_SESSION, USER_HEADER, written_user
from sparksql.wire.target import read_target

FIRST_PAUSE_SECONDS = 0.1  # and each pause is twice the one before: seven requests at most
HAND_OVER_SECONDS = 5.0
"""For what a driver may come to know: a replica hands over what it has taken ahead as soon as it knows that the driver is Ready,
which another one may know a moment before."""
MAX_OPENED_BYTES = 1 << 20  # of a driver's answer that opens a session: a handle, or why not
_PASSED_HEADERS = ("Content-Type", "Accept", "Accept-Encoding")
_ANSWERED_HEADERS = ("Content-Type", "Content-Length", "Content-Encoding", "Retry-After", "Cache-Control")


class DriverHttp:
    """`http` is the session by which drivers are asked; it is not closed here."""

    def __init__(self, http: aiohttp.ClientSession, limits: FrontLimits) -> None:
        self._http = http
        self._limits = limits

    @asynccontextmanager
    async def asked(
        self, request: web.Request, user: User, target: Target, body: bytes, promised: str | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yields the driver's answer. Raises FrontError for a driver that does not know the front, and aiohttp's own errors.

        `promised` is the handle that the client has already for what it begins.
        """
        headers = {name: value for name in _PASSED_HEADERS if (value := request.headers.get(name)) is not None}
        headers |= {"Authorization": f"Bearer {target.token}", USER_HEADER: written_user(user.name)}
        if promised is not None:
            headers[HANDLE_HEADER] = promised
        host = f"[{target.host}]" if ":" in target.host else target.host
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=self._limits.dial_seconds, sock_read=self._limits.answer_seconds
        )
        async with self._http.request(
            request.method,
            URL(f"https://{host}:{GATEWAY_PORT}{read_target(request.raw_path)}", encoded=True),
            data=body or None,
            headers=headers,
            timeout=timeout,
            ssl=target.tls,
            server_hostname=target.server_name,
            allow_redirects=False,
        ) as answer:
            if answer.status == 401:
                what = f"the driver of session {target.key} has no key of the front: restart it (spec.restartNonce)"
                raise FrontError(Refusal.NOT_SERVED, what)
            yield answer

    async def opened(
        self, request: web.Request, user: User, target: Target, body: bytes, promised: str | None = None
    ) -> web.Response:
        """Returns the whole answer of a driver that is asked to open a session.

        Raises EOFError for one that drains, OSError and TimeoutError for one that is not there, FrontError; the last also for an
        answer of more than MAX_OPENED_BYTES.
        """
        async with self.asked(request, user, target, body, promised) as answer:
            if answer.status == 503:  # the next driver is on its way
                raise EOFError(f"the driver of session {target.key} is draining and accepts no clients")
            whole = bytearray()
            while piece := await answer.content.readany():
                whole.extend(piece)
                if len(whole) > MAX_OPENED_BYTES:
                    what = f"the driver of session {target.key} answers with more than {MAX_OPENED_BYTES} bytes"
                    raise FrontError(Refusal.UNAVAILABLE, f"{what}: restart it (spec.restartNonce)")
            return web.Response(status=answer.status, headers=headers_of(answer), body=bytes(whole))

    async def submitted(self, request: web.Request, user: User, target: Target, body: bytes, promised: str) -> None:
        """Hands a statement over, once: it is sent again only where the session was not known yet. Raises as `asked` does."""
        pauses = _pauses()
        while True:
            async with self.asked(request, user, target, body, promised) as answer:
                pause = next(pauses, None)
                if answer.headers.get(PROBLEM_HEADER) != UNKNOWN_SESSION or pause is None:
                    return
            await asyncio.sleep(pause)

    async def forward(
        self, request: web.Request, user: User, target: Target, body: bytes, to_come: Container[str] = ()
    ) -> web.StreamResponse:
        """Asks the driver what the client asks and answers what it answers. Raises FrontError for one that does not answer.

        `to_come` are problems of the driver that pass in a moment: it is asked again.
        """
        pauses = _pauses()
        try:
            while True:
                async with self.asked(request, user, target, body) as answer:
                    pause = next(pauses, None)
                    if answer.headers.get(PROBLEM_HEADER) not in to_come or pause is None:
                        return await _passed(request, answer)
                await asyncio.sleep(pause)
        except (aiohttp.ClientConnectionError, TimeoutError) as failed:
            raise unreachable(target.key, failed) from failed


def _pauses() -> Iterator[float]:
    """Pauses that grow, and together take HAND_OVER_SECONDS: whoever makes handles up must not have a driver asked for long."""
    pause, left = FIRST_PAUSE_SECONDS, HAND_OVER_SECONDS
    while left > 0:
        yield min(pause, left)
        left -= pause
        pause *= 2


async def _passed(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    """Passes an answer on: at no time is more of it here than what is under way."""
    response = web.StreamResponse(status=answer.status, headers=headers_of(answer))
    await response.prepare(request)
    try:
        async for piece in answer.content.iter_any():
            await response.write(piece)
        await response.write_eof()
    except (aiohttp.ClientError, TimeoutError):
        if request.transport is not None:  # a part was sent: only the connection's end tells that there is no more
            request.transport.abort()
    except asyncio.CancelledError:
        if request.transport is not None:  # nothing else may follow the part that was sent
            request.transport.abort()
        raise
    return response


def headers_of(answer: aiohttp.ClientResponse) -> dict[str, str]:
    """Returns what of an answer's headers is for the client."""
    return {name: value for name in _ANSWERED_HEADERS if (value := answer.headers.get(name)) is not None}
