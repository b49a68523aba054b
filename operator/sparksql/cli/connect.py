"""`kubectl sparksql connect`: what a client needs to use a session's endpoints, and a way to them from outside the cluster.

The token is not printed: it would stay in terminals and logs. What is printed are the commands that read it.
"""

from __future__ import annotations

import shlex
from contextlib import aclosing

from sparksql.api.names import child_base, gateway_server_name
from sparksql.cli import render
from sparksql.cli.console import Console
from sparksql.cli.errors import CliError, Exit
from sparksql.cli.kubectl import Kubectl
from sparksql.cli.objects import SESSIONS, Session
from sparksql.wire.control import ClientProtocol
from sparksql.wire.driver import CONNECT_PORT, GATEWAY_PORT, THRIFT_PORT, TLS_CERT_FILE, TOKEN_FILE

_PORTS = {ClientProtocol.REST: GATEWAY_PORT, ClientProtocol.CONNECT: CONNECT_PORT, ClientProtocol.THRIFT: THRIFT_PORT}


async def connect(kubectl: Kubectl, console: Console, name: str, protocol: str | None, *, forward: bool) -> Exit:
    """Prints addresses and commands; with `forward` the addresses on localhost, which lead there until interrupted."""
    session = Session.of(await kubectl.get(SESSIONS, name))
    urls = _urls(session, None if protocol is None else ClientProtocol(protocol))
    service = child_base(session.name, session.metadata.uid)
    ports = [str(_PORTS[served]) for served in urls]
    if forward:
        host = gateway_server_name(session.name, session.metadata.uid, session.namespace)
        urls = {served: url.replace(host, "localhost") for served, url in urls.items()}
    base = ("kubectl", *kubectl.flags, f"--namespace={session.namespace}")
    rows = [[served.value, url] for served, url in urls.items()]
    rows += [["token", _read(base, service, TOKEN_FILE)], ["certificate", _read(base, service, TLS_CERT_FILE)]]
    if not forward:
        rows += [["from outside", shlex.join((*base, "port-forward", f"service/{service}", *ports))]]
    console.write(render.grid(("WHAT", "VALUE"), rows))
    if forward:
        await _forward(kubectl, console, session.namespace, service, ports)
    return Exit.FINISHED


def _urls(session: Session, protocol: ClientProtocol | None) -> dict[ClientProtocol, str]:
    """Endpoints that are on, or the one that is asked for."""
    endpoints = session.status.endpoints
    addresses = {
        ClientProtocol.REST: endpoints.rest,
        ClientProtocol.CONNECT: endpoints.connect,
        ClientProtocol.THRIFT: endpoints.thrift,
    }
    urls = {served: url for served, url in addresses.items() if url and protocol in (None, served)}
    if urls:
        return urls
    if session.status.phase != "Ready":
        raise CliError(f"session {session.name} is not Ready: {session.status.phase or 'new'} {session.reason}")
    which = f"endpoint {protocol.value}" if protocol is not None else "every endpoint"
    raise CliError(f"{which} of session {session.name} is off: turn it on in spec.endpoints")


def _read(base: tuple[str, ...], secret: str, file: str) -> str:
    path = "{.data." + file.replace(".", "\\.") + "}"
    return shlex.join((*base, "get", "secret", secret, f"--output=jsonpath={path}")) + " | base64 --decode"


async def _forward(kubectl: Kubectl, console: Console, namespace: str, service: str, ports: list[str]) -> None:
    arguments = ("port-forward", f"service/{service}", *ports, "--address=127.0.0.1")
    async with kubectl.start(*arguments, namespace=namespace) as child, aclosing(child.lines()) as lines:
        async for line in lines:
            console.note(line)
        await child.finish()
