"""Spark Connect's service: names and kinds of its RPCs, and how one is passed on, bytes, metadata and errors as they come."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from enum import Enum, auto
from typing import Any

import grpc

from sparksql.protocols.bounds import MAX_MESSAGE_BYTES

SERVICE = "spark.connect.SparkConnectService"
Metadata = tuple[tuple[str, str | bytes], ...]
# Not for the other side: the connection's own, and the secrets of this one.
_OWN = frozenset({"authorization", "user-agent", "te", "content-type"})
_OWN_PREFIXES = (":", "grpc-")

MAX_STREAMS = 200  # of one connection
MAX_RPCS = 2000
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_metadata_size", 1 << 20),
    ("grpc.absolute_max_metadata_size", 1 << 20),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
)


def server_options(connections: int) -> tuple[tuple[str, int], ...]:
    """Returns the bounds of a server for so many connections."""
    return (
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_concurrent_streams", MAX_STREAMS),
        # Messages that are packed are UNIMPLEMENTED: none of Spark's clients sends any, and a small one unpacks to a large one.
        ("grpc.compression_enabled_algorithms_bitset", 1),
        # What comes of a message that is not read yet stays within HTTP/2's first window.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.max_allowed_incoming_connections", connections),
        ("grpc.max_metadata_size", 64 << 10),
        ("grpc.absolute_max_metadata_size", 64 << 10),
        ("grpc.server_handshake_timeout_ms", 10_000),
        # By default gRPC cancels some of a thousand calls that come at once, without a word; ours are told that there are too
        # many.
        ("grpc.server.max_pending_requests", 4 * MAX_RPCS),
        ("grpc.server.max_pending_requests_hard_limit", 4 * MAX_RPCS),
        # A client that is not there any more is noticed; one that pings more often than this is told to stop.
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
        ("grpc.so_reuseport", 0),
    )


class Kind(Enum):
    """Names the kinds of RPCs that the service has."""

    UNARY = auto()
    STREAM = auto()  # of answers
    UPLOAD = auto()  # a stream of requests


METHODS = {
    "AnalyzePlan": Kind.UNARY,
    "Config": Kind.UNARY,
    "ArtifactStatus": Kind.UNARY,
    "Interrupt": Kind.UNARY,
    "ReleaseExecute": Kind.UNARY,
    "ReleaseSession": Kind.UNARY,
    "FetchErrorDetails": Kind.UNARY,
    "CloneSession": Kind.UNARY,
    "ExecutePlan": Kind.STREAM,
    "ReattachExecute": Kind.STREAM,
    "AddArtifacts": Kind.UPLOAD,
}


class ClientGoneError(Exception):
    """The client's end of a stream is broken."""


class RelayedError(Exception):
    """The other side ended an RPC with an error, which is to be passed on."""

    def __init__(self, error: grpc.aio.AioRpcError) -> None:
        super().__init__(error.details() or "")
        self.code = error.code()
        self.trailing: Metadata = tuple(error.trailing_metadata() or ())


class Relay:
    """Passes RPCs on by a channel.

    `own` gives the metadata of a request, beside what its client sends; a key that is `withheld` is for whoever passes it on, and
    stays here. `failed` makes the errors.
    """

    def __init__(
        self,
        channel: Any,
        own: Callable[[], Metadata],
        withheld: Callable[[str], bool],
        failed: Callable[[grpc.aio.AioRpcError], RelayedError],
    ) -> None:
        self._channel = channel
        self._own = own
        self._withheld = withheld
        self._failed = failed

    async def unary(self, method: str, request: bytes, context: Any) -> bytes:
        """Forwards one request and returns its one answer. Raises RelayedError."""
        call = self._channel.unary_unary(path(method))(request, **self._options(context))
        return await self._answer(call, context)

    async def upload(self, method: str, requests: AsyncIterator[bytes], context: Any) -> bytes:
        """Forwards a stream of requests and returns their one answer. Raises RelayedError, or what `requests` raised."""
        refusals: list[Exception] = []
        call = self._channel.stream_unary(path(method))(_guarded(requests, refusals), **self._options(context))
        try:
            return await self._answer(call, context)
        except RelayedError:
            if refusals:
                raise refusals[0] from None
            raise

    async def relay(self, method: str, request: bytes, context: Any, seen: Callable[[bytes], None]) -> None:
        """Writes all answers to the client as fast as it takes them. Raises RelayedError, ClientGoneError."""
        call = self._channel.unary_stream(path(method))(request, **self._options(context))
        try:
            message = await call.read()
            await context.send_initial_metadata(passed(await call.initial_metadata()))
            while message is not grpc.aio.EOF:
                seen(message)
                await _write(context, message)
                message = await call.read()
            context.set_trailing_metadata(passed(await call.trailing_metadata()))
        except grpc.aio.AioRpcError as error:
            raise self._failed(error) from None
        finally:
            call.cancel()  # changes nothing once it has ended

    async def pass_on(self, method: str, requests: AsyncIterator[bytes], context: Any) -> None:
        """Passes any call on, its requests and its answers one at a time, and keeps neither.

        A request is asked for once the other side has taken the one before. Raises RelayedError, ClientGoneError, and what
        `requests` raises.
        """
        call = self._channel.stream_stream(path(method))(**self._options(context))
        try:
            await _hand_on(requests, call)
            await self._stream(call, context)
        except grpc.aio.AioRpcError as error:
            raise self._failed(error) from None
        finally:
            call.cancel()  # changes nothing once it has ended

    async def _stream(self, call: Any, context: Any) -> None:
        message = await call.read()
        await context.send_initial_metadata(passed(await call.initial_metadata()))
        while message is not grpc.aio.EOF:
            await _write(context, message)
            message = await call.read()
        context.set_trailing_metadata(passed(await call.trailing_metadata()))

    def _options(self, context: Any) -> dict[str, Any]:
        asked = tuple(each for each in passed(context.invocation_metadata()) if not self._withheld(each[0]))
        return {"metadata": (*asked, *self._own()), "timeout": context.time_remaining()}

    async def _answer(self, call: Any, context: Any) -> bytes:
        try:
            answer: bytes = await call
            await context.send_initial_metadata(passed(await call.initial_metadata()))
            context.set_trailing_metadata(passed(await call.trailing_metadata()))
        except grpc.aio.AioRpcError as error:
            raise self._failed(error) from None
        finally:
            call.cancel()
        return answer


def passed(metadata: Any) -> Metadata:
    """Returns what of metadata is for the other side."""
    return tuple((key, value) for key, value in metadata or () if key not in _OWN and not key.startswith(_OWN_PREFIXES))


def path(method: str) -> str:
    """Returns the path of a method of the service."""
    return f"/{SERVICE}/{method}"


async def _hand_on(requests: AsyncIterator[bytes], call: Any) -> None:
    async for request in requests:
        try:
            await call.write(request)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return  # it has ended, and its status says why
        del request  # the next one may take long to come
    with contextlib.suppress(asyncio.InvalidStateError):
        await call.done_writing()


async def _write(context: Any, message: bytes) -> None:
    try:
        await context.write(message)
    except Exception:
        raise ClientGoneError from None  # gRPC's error for a stream that is broken is not public


async def _guarded(requests: AsyncIterator[bytes], refusals: list[Exception]) -> AsyncIterator[bytes]:
    """Keeps why the stream of requests broke off: gRPC would only tell that it did."""
    try:
        async for request in requests:
            yield request
    except Exception as refused:
        refusals.append(refused)
        raise
