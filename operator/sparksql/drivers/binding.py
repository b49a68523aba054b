"""Gives a driver that was started ahead of need its session."""

from __future__ import annotations

import aiohttp
from pydantic import ValidationError

from sparksql.drivers.client import CONNECT_SECONDS, Address, GatewayUnreachable
from sparksql.wire.binding import BIND_PATH, BindRefusal, BindRequest

BIND_SECONDS = 30.0


class BoundError(Exception):
    """The driver will never be this session's; the message says why."""


async def bind(http: aiohttp.ClientSession, address: Address, request: BindRequest) -> None:
    """Binds the driver at `address`, which is known by what it was started with. Raises BoundError, GatewayUnreachable.

    One that does not know its token of before any more, or shows another certificate, is bound already: this was done before.
    """
    timeout = aiohttp.ClientTimeout(total=BIND_SECONDS, sock_connect=CONNECT_SECONDS)
    try:
        async with http.post(
            f"https://{address.host}:{address.port}{BIND_PATH}",
            data=request.to_json(),
            headers={"Authorization": f"Bearer {address.token}", "Content-Type": "application/json"},
            timeout=timeout,
            ssl=address.trust or False,
            server_hostname=address.server_name,
        ) as answer:
            match answer.status:
                case 204 | 401:
                    return
                case 409:
                    raise BoundError(_reason(await answer.text()))
                case status:
                    raise GatewayUnreachable(f"{status}: {(await answer.text())[:200]}")
    except aiohttp.ClientConnectorCertificateError:
        return
    except (aiohttp.ClientError, TimeoutError) as error:
        raise GatewayUnreachable(f"{type(error).__name__}: {error}") from error


def _reason(text: str) -> str:
    try:
        refusal = BindRefusal.model_validate_json(text)
    except ValidationError:
        return text[:200]
    return f"{refusal.message}: {', '.join(refusal.fixed)}" if refusal.fixed else refusal.message
