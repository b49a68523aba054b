"""RPCs to Spark's own service, and how their answers go on to the client: bytes, metadata and errors as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc

from sparksql.gateway.frontends.connect.backend import Backend
from sparksql.gateway.frontends.connect.errors import ConnectError, Metadata, Told, told_by
from sparksql.gateway.spark.connect_conf import LOOPBACK

SERVICE = "spark.connect.SparkConnectService"
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_metadata_size", 1 << 20),
    ("grpc.absolute_max_metadata_size", 1 << 20),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
)
# Not for the other side: the connection's own, the secrets of this one, what is for the gateway.
_OWN = frozenset({"authorization", "user-agent", "te", "content-type"})
_OWN_PREFIXES = (":", "grpc-", "x-sparksql-")


class ClientGoneError(Exception):
    """The client's end of a stream is broken."""


class SparkError(Exception):
    """Spark ended an RPC with an error, which is to be passed on."""

    def __init__(self, error: grpc.aio.AioRpcError) -> None:
        super().__init__(error.details() or "")
        self.code = error.code()
        self.trailing: Metadata = tuple(error.trailing_metadata() or ())

    @property
    def told(self) -> Told:
        """Returns what the status says."""
        return told_by(str(self), self.trailing)


class Upstream:
    """A channel to Spark's service."""

    def __init__(self, backend: Backend) -> None:
        self._channel = grpc.aio.insecure_channel(f"{LOOPBACK}:{backend.port}", options=_OPTIONS)
        self._authorization = ("authorization", f"Bearer {backend.token}")

    async def unary(self, method: str, request: bytes, context: Any) -> bytes:
        """Forwards one request and returns its one answer. Raises SparkError."""
        call = self._channel.unary_unary(_path(method))(request, **self._options(context))
        return await _answer(call, context)

    async def upload(self, method: str, requests: AsyncIterator[bytes], context: Any) -> bytes:
        """Forwards a stream of requests and returns their one answer.

        Raises SparkError, or the ConnectError by which the requests' own iterator refused one.
        """
        refusals: list[ConnectError] = []
        call = self._channel.stream_unary(_path(method))(_guarded(requests, refusals), **self._options(context))
        try:
            return await _answer(call, context)
        except SparkError:
            if refusals:
                raise refusals[0] from None
            raise

    async def relay(self, method: str, request: bytes, context: Any, seen: Callable[[bytes], None]) -> None:
        """Writes all answers to the client as fast as it takes them. Raises SparkError, ClientGoneError."""
        call = self._channel.unary_stream(_path(method))(request, **self._options(context))
        try:
            message = await call.read()
            await context.send_initial_metadata(_passed(await call.initial_metadata()))
            while message is not grpc.aio.EOF:
                seen(message)
                await _write(context, message)
                message = await call.read()
            context.set_trailing_metadata(_passed(await call.trailing_metadata()))
        except grpc.aio.AioRpcError as error:
            raise SparkError(error) from None
        finally:
            call.cancel()  # changes nothing once it has ended

    async def close(self) -> None:
        """Closes the channel."""
        await self._channel.close()

    def _options(self, context: Any) -> dict[str, Any]:
        metadata = (*_passed(context.invocation_metadata()), self._authorization)
        return {"metadata": metadata, "timeout": context.time_remaining()}


async def _write(context: Any, message: bytes) -> None:
    try:
        await context.write(message)
    except Exception:
        raise ClientGoneError from None  # gRPC's error for a stream that is broken is not public


async def _answer(call: Any, context: Any) -> bytes:
    try:
        answer: bytes = await call
        await context.send_initial_metadata(_passed(await call.initial_metadata()))
        context.set_trailing_metadata(_passed(await call.trailing_metadata()))
    except grpc.aio.AioRpcError as error:
        raise SparkError(error) from None
    finally:
        call.cancel()
    return answer


async def _guarded(requests: AsyncIterator[bytes], refusals: list[ConnectError]) -> AsyncIterator[bytes]:
    """Keeps why the stream of requests broke off: gRPC would only tell that it did."""
    try:
        async for request in requests:
            yield request
    except ConnectError as refused:
        refusals.append(refused)
        raise


def _passed(metadata: Any) -> Metadata:
    return tuple((key, value) for key, value in metadata or () if key not in _OWN and not key.startswith(_OWN_PREFIXES))


def _path(method: str) -> str:
    return f"/{SERVICE}/{method}"
