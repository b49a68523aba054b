"""Asks the gateway in a session's driver pod, for results above all, through `kubectl port-forward`.

The token and the certificate come from the session's Secret, which the user must be allowed to read. The certificate in
that Secret is the only one trusted, under the gateway's own server name: whatever answers on the forwarded port has to
prove that it is this session before it sees the token.

aiohttp is imported where it is used: it would double the start of every command, and few need it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, field

from sparksql.api.names import child_base, gateway_server_name
from sparksql.cli.errors import CliError
from sparksql.cli.kubectl import Child, Kubectl, KubectlError
from sparksql.cli.objects import SESSIONS, Session, Statement
from sparksql.cli.render import Row
from sparksql.wire.control import ResultPage
from sparksql.wire.driver import GATEWAY_PORT, TLS_CERT_FILE, TOKEN_FILE

PAGE_ROWS = 5000
FORWARD_SECONDS = 15.0
CONNECT_SECONDS = 10.0
READ_SECONDS = 60.0
_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) -> ")

Forward = Callable[[Kubectl, str, str], AbstractAsyncContextManager[str]]
"""Takes kubectl, namespace and pod; opens the host and port on this machine that lead to the pod's gateway."""


class UnavailableError(CliError):
    """The gateway does not give what it is asked for; the text says why, as the end of a sentence."""


class UnknownError(UnavailableError):
    """The gateway does not know what it is asked about."""


@dataclass(frozen=True)
class Gateway:
    """Holds where a session's gateway can be reached from here, and how to know it."""

    address: str  # host and port on this machine
    server_name: str
    token: str = field(repr=False)
    certificate: str  # PEM


def forwarded_port(line: str) -> int | None:
    """The local port in kubectl's `Forwarding from 127.0.0.1:40123 -> 8443`."""
    match = _FORWARDING.match(line)
    return int(match[1]) if match else None


async def _ready_port(child: Child, lines: AsyncIterator[str], pod: str) -> int:
    try:
        async with asyncio.timeout(FORWARD_SECONDS):
            async for line in lines:
                if (port := forwarded_port(line)) is not None:
                    return port
            await child.finish()
    except (KubectlError, TimeoutError) as error:
        raise UnavailableError(f"cannot connect to pod {pod}: {str(error) or 'timeout'}") from error
    raise UnavailableError(f"cannot connect to pod {pod}: kubectl port-forward ended")


@asynccontextmanager
async def port_forward(kubectl: Kubectl, namespace: str, pod: str) -> AsyncIterator[str]:
    """A free local address that leads to the pod's gateway while the block runs."""
    arguments = ("port-forward", f"pod/{pod}", f":{GATEWAY_PORT}", "--address=127.0.0.1")
    async with kubectl.start(*arguments, namespace=namespace) as child, aclosing(child.lines()) as lines:
        yield f"127.0.0.1:{await _ready_port(child, lines, pod)}"


async def _session_of(kubectl: Kubectl, statement: Statement) -> Session:
    """The session as it is now. UnavailableError unless the driver that ran the statement is still there."""
    if statement.is_dedicated:
        raise UnavailableError(
            "its dedicated session has ended and only the preview is left: use a named session to keep all rows"
        )
    namespace = statement.namespace
    try:
        session = Session.of(await kubectl.get(SESSIONS, statement.session_name, namespace))
        driver = session.status.driver
        if not driver.pod_name or driver.pod_uid != statement.status.session.pod_uid:
            raise UnavailableError("the driver with the result no longer exists")
    except KubectlError as error:
        raise UnavailableError(str(error)) from error
    return session


@asynccontextmanager
async def statement_gateway(kubectl: Kubectl, statement: Statement, forward: Forward) -> AsyncIterator[Gateway]:
    """The gateway that ran a statement. UnavailableError when it cannot be reached or is another by now."""
    session = await _session_of(kubectl, statement)
    async with session_gateway(kubectl, session, forward) as gateway:
        yield gateway


@asynccontextmanager
async def session_gateway(kubectl: Kubectl, session: Session, forward: Forward) -> AsyncIterator[Gateway]:
    """The gateway in the session's driver. UnavailableError when it cannot be reached or its Secret cannot be read."""
    try:
        obj = await kubectl.get("secrets", child_base(session.name, session.metadata.uid), session.namespace)
    except KubectlError as error:
        raise UnavailableError(str(error)) from error
    secret = obj.get("data", {})
    missing = [key for key in (TOKEN_FILE, TLS_CERT_FILE) if key not in secret]
    if missing:
        raise UnavailableError(f"the session's Secret has no {' and no '.join(missing)}")
    token, certificate = (base64.b64decode(secret[key]).decode() for key in (TOKEN_FILE, TLS_CERT_FILE))
    server_name = gateway_server_name(session.name, session.metadata.uid, session.namespace)
    async with forward(kubectl, session.namespace, session.status.driver.pod_name) as address:
        yield Gateway(address, server_name, token.strip(), certificate)


def _trust(certificate: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=certificate)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the Secret's certificate itself is the anchor
    return context


async def ask(gateway: Gateway, path: str, body: str | None = None) -> bytes:
    """Returns what the control API answers to a GET, or to a POST of `body`.

    Raises UnavailableError unless that is a good answer.
    """
    import aiohttp

    url = f"https://{gateway.address}/control/v1{path}"
    headers = {"Authorization": f"Bearer {gateway.token}", "Content-Type": "application/json"}
    timeout = aiohttp.ClientTimeout(total=READ_SECONDS, connect=CONNECT_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=headers) as client,
            client.request(
                "GET" if body is None else "POST",
                url,
                data=body,
                ssl=_trust(gateway.certificate),
                server_hostname=gateway.server_name,
            ) as response,
        ):
            answer = await response.read()
            if response.status == 404:
                raise UnknownError("the gateway has no such statement")
            if response.status != 200:
                raise UnavailableError(_refusal(response.status, answer))
            return answer
    except (aiohttp.ClientError, TimeoutError) as error:
        raise UnavailableError(f"the gateway could not be reached: {error or type(error).__name__}") from error


async def result_pages(gateway: Gateway, statement: Statement) -> AsyncGenerator[list[Row], None]:
    """All rows of a statement's result, a page at a time. UnavailableError if the gateway has no (more) rows."""
    import aiohttp

    path = f"https://{gateway.address}/control/v1/statements/{statement.status.operation_id}/results"
    context, headers = _trust(gateway.certificate), {"Authorization": f"Bearer {gateway.token}"}
    timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=READ_SECONDS)
    token: int | None = 0
    try:
        async with aiohttp.ClientSession(timeout=timeout, headers=headers) as client:
            while token is not None:
                query = {"token": str(token), "maxRows": str(PAGE_ROWS)}
                request = client.get(path, params=query, ssl=context, server_hostname=gateway.server_name)
                async with request as response:
                    body = await response.read()
                    if response.status != 200:
                        raise UnavailableError(_refusal(response.status, body))
                rows, token = json_rows(body)
                yield rows
    except (aiohttp.ClientError, TimeoutError) as error:
        raise UnavailableError(f"the gateway could not be reached: {error or type(error).__name__}") from error


async def earlier_result(gateway: Gateway, statement: Statement, number: int) -> ResultPage:
    """Returns an earlier result of a script, of the given number from 0 on: all rows that are kept, in one page.

    Raises UnavailableError if the gateway does not have it any more.
    """
    path = f"/statements/{statement.status.operation_id}/results"
    page = ResultPage.model_validate_json(await ask(gateway, f"{path}?earlier={number}&maxRows={PAGE_ROWS}"))
    while (token := page.next_token) is not None:
        body = await ask(gateway, f"{path}?earlier={number}&maxRows={PAGE_ROWS}&token={token}")
        more = ResultPage.model_validate_json(body)
        page = more.model_copy(update={"rows": (*page.rows, *more.rows)})
    return page


def _refusal(status: int, body: bytes) -> str:
    match status:
        case 401 | 403:
            return "the gateway refused the session's token"
        case 404:
            return "the gateway no longer has this result"
        case 410:
            return "the result has expired"
        case _:
            return f"the gateway answered {status}: {body[:500].decode(errors='replace')}"


def json_rows(body: bytes) -> tuple[list[Row], int | None]:
    """Rows of a `ResultPage` and the next token; what JSON cannot hold exactly is text there."""
    page = json.loads(body)
    return [tuple(row) for row in page["rows"]], page.get("nextToken")
