"""One driver's gateway over HTTPS: the wire protocol as calls, its failures as three kinds of GatewayError."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TypeVar

import aiohttp
from pydantic import ValidationError

from sparksql.wire.control import (
    HEARTBEAT_SECONDS,
    CancelRequest,
    Event,
    GatewayInfo,
    OperationView,
    SubmitRequest,
)
from sparksql.wire.model import WireModel
from sparksql.wire.savepoints import SavepointRequest, SavepointView
from sparksql.wire.session_state import SessionState

REQUEST_SECONDS = 10.0
CONNECT_SECONDS = 3.0
SILENCE_SECONDS = 3 * HEARTBEAT_SECONDS  # without even a heartbeat the stream is dead
MAX_ANSWER_BYTES = 32 << 20  # above a statement's outcome, and above a state, which fits a Secret
_MAX_REFUSAL_BYTES = 64 << 10

M = TypeVar("M", bound=WireModel)


class GatewayError(Exception):
    """A driver's gateway did not do what it was asked to."""


class GatewayUnreachable(GatewayError):
    """No answer, or none that makes sense: nothing is known about what was asked."""


class OtherBoot(GatewayError):
    """Another process answers than the one that was meant."""


class GatewayRefused(GatewayError):
    """The gateway understood and says no; `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


@dataclass(frozen=True)
class Address:
    """Says where a gateway is: the pod's IP, dialled with the TLS server name that its certificate carries."""

    pod_uid: str
    host: str
    port: int
    server_name: str
    token: str = field(repr=False)
    trust: ssl.SSLContext | None


class GatewayClient:
    """Calls the gateway at `address`. All calls raise GatewayUnreachable, and GatewayRefused for what the gateway does not do.

    The HTTP session is shared and not closed here.
    """

    def __init__(self, http: aiohttp.ClientSession, address: Address) -> None:
        self.address = address
        self._http = http
        scheme = "https" if address.trust else "http"
        self._base = f"{scheme}://{address.host}:{address.port}/control/v1"
        self._ssl = address.trust or False
        self._server_hostname = address.server_name if address.trust else None
        self._headers = {"Authorization": f"Bearer {address.token}"}

    async def info(self) -> GatewayInfo:
        """Returns what the driver says of itself."""
        return _parsed(GatewayInfo, await self._call("GET", "/info"))

    async def submit(self, operation_id: str, request: SubmitRequest) -> OperationView:
        """Has the operation run, at most once.

        Raises OtherBoot when the process that it is for is gone, GatewayRefused while it drains.
        """
        body = request.to_json()
        return _parsed(OperationView, await self._call("PUT", f"/statements/{operation_id}", body))

    async def get(self, operation_id: str) -> OperationView | None:
        """Returns the view of an operation, None if the driver does not know it."""
        try:
            return _parsed(OperationView, await self._call("GET", f"/statements/{operation_id}"))
        except GatewayRefused as refused:
            if refused.status == 404:
                return None
            raise

    async def cancel(self, operation_id: str, request: CancelRequest) -> OperationView:
        """Has the operation end; one that the driver does not know yet is refused from then on. Raises OtherBoot."""
        body = request.to_json()
        return _parsed(OperationView, await self._call("POST", f"/statements/{operation_id}/cancel", body))

    async def save(self, attempt_id: str, request: SavepointRequest) -> SavepointView:
        """Has the driver take or verify a savepoint, at most once for the id.

        Raises OtherBoot when the process that it is for is gone, GatewayRefused while it starts.
        """
        body = request.to_json()
        return _parsed(SavepointView, await self._call("PUT", f"/savepoints/{attempt_id}", body))

    async def saved(self, attempt_id: str) -> SavepointView | None:
        """Returns the view of an attempt, None if the driver does not know it."""
        try:
            return _parsed(SavepointView, await self._call("GET", f"/savepoints/{attempt_id}"))
        except GatewayRefused as refused:
            if refused.status == 404:
                return None
            raise

    async def cancel_save(self, attempt_id: str) -> SavepointView:
        """Has the attempt end; one that the driver does not know yet is refused from then on."""
        return _parsed(SavepointView, await self._call("DELETE", f"/savepoints/{attempt_id}"))

    async def drain(self) -> GatewayInfo:
        """Has it take no new statement from now on, from anybody. Repeatable."""
        return _parsed(GatewayInfo, await self._call("POST", "/drain"))

    async def session_state(self) -> SessionState:
        """Returns what brings the state of the session back in another driver."""
        return _parsed(SessionState, await self._call("GET", "/session-state"))

    async def events(self, after: int) -> AsyncIterator[Event]:
        """Yields the event stream from sequence number `after` on, until the connection ends."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS)
        try:
            async with self._http.get(
                f"{self._base}/events",
                params={"after": str(after)},
                headers=self._headers,
                timeout=timeout,
                ssl=self._ssl,
                server_hostname=self._server_hostname,
            ) as response:
                await _check(response)
                async for line in lines_of(response):
                    if line.strip():
                        yield Event.model_validate_json(line)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise GatewayUnreachable(str(error)) from error

    async def _call(self, method: str, path: str, body: str | None = None) -> bytes:
        timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS, sock_connect=CONNECT_SECONDS)
        headers = {**self._headers, "Content-Type": "application/json"} if body is not None else self._headers
        try:
            async with self._http.request(
                method,
                self._base + path,
                data=body,
                headers=headers,
                timeout=timeout,
                ssl=self._ssl,
                server_hostname=self._server_hostname,
            ) as response:
                await _check(response)
                return await _read(response, MAX_ANSWER_BYTES)
        except (aiohttp.ClientError, TimeoutError, asyncio.IncompleteReadError) as error:
            raise GatewayUnreachable(f"{type(error).__name__}: {error}") from error


def _parsed(model: type[M], body: bytes) -> M:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        fields = ", ".join(".".join(map(str, each["loc"])) or "body" for each in error.errors(include_input=False))
        raise GatewayUnreachable(f"an answer that is not a {model.__name__}: {fields}") from None


async def _check(response: aiohttp.ClientResponse) -> None:
    if response.status < 300:
        return
    text = (await _read(response, _MAX_REFUSAL_BYTES)).decode(errors="replace")[:500]
    if response.status == 412:
        raise OtherBoot(text)
    if response.status >= 500 and response.status != 503:
        raise GatewayUnreachable(f"{response.status}: {text}")
    raise GatewayRefused(response.status, text)


async def _read(response: aiohttp.ClientResponse, most: int) -> bytes:
    """Returns an answer's body. Raises GatewayUnreachable for one of more than `most` bytes."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > most:
            raise GatewayUnreachable(f"an answer of more than {most} bytes")
    return bytes(body)


async def lines_of(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yields lines: the reader's own limit of 64 KiB is less than one event may have.

    Raises GatewayUnreachable for one of more than MAX_ANSWER_BYTES.
    """
    rest = b""
    async for chunk in response.content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > MAX_ANSWER_BYTES:
            raise GatewayUnreachable(f"an event of more than {MAX_ANSWER_BYTES} bytes")
        for line in lines:
            yield line
