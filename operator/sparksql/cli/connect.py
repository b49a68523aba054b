"""`kubectl sparksql connect`: what a client needs to use a session's endpoints, and a way to them from outside the cluster.

Where there is a front, clients come by it, with a token of their user's own. No token is printed: it would stay in terminals and
logs. What is printed are the commands that make or read one.
"""

from __future__ import annotations

import shlex
from contextlib import aclosing
from dataclasses import dataclass
from urllib.parse import quote

from sparksql.api.names import child_base, gateway_server_name
from sparksql.cli import render
from sparksql.cli.console import Console
from sparksql.cli.errors import CliError, Exit
from sparksql.cli.kubectl import Kubectl, KubectlError
from sparksql.cli.objects import SESSIONS, Session
from sparksql.cli.wake import awake
from sparksql.wire.control import ClientProtocol
from sparksql.wire.driver import CONNECT_PORT, GATEWAY_PORT, THRIFT_PORT, TLS_CERT_FILE, TOKEN_FILE
from sparksql.wire.front import SESSION_HEADER, SESSION_PROPERTY

_CLOSED_TO_CLIENTS = frozenset({"Stopped", "Closed", "Failed"})
_PORTS = {ClientProtocol.REST: GATEWAY_PORT, ClientProtocol.CONNECT: CONNECT_PORT, ClientProtocol.THRIFT: THRIFT_PORT}


@dataclass(frozen=True)
class Wish:
    """What is asked for: a session, one protocol of it or all, on localhost (`forward`), by its own address (`direct`)."""

    session: str
    protocol: ClientProtocol | None = None
    forward: bool = False
    direct: bool = False


async def connect(kubectl: Kubectl, console: Console, wish: Wish) -> Exit:
    """Prints addresses and commands; with `forward` the addresses on localhost, which lead there until interrupted."""
    session = Session.of(await kubectl.get(SESSIONS, wish.session))
    if session.status.front is not None and not wish.direct:
        return await _by_front(kubectl, console, wish, session, session.status.front)
    return await _direct(kubectl, console, wish, await awake(kubectl, console, session))


async def _by_front(kubectl: Kubectl, console: Console, wish: Wish, session: Session, front: str) -> Exit:
    """Prints the front's addresses, in which the session is named; it wakes the session itself when a client comes."""
    name, namespace = front.split(".")[:2]
    host = "localhost" if wish.forward else front
    named = f"{session.namespace}/{session.name}"
    addresses = {
        ClientProtocol.REST: f"https://{host}:{GATEWAY_PORT} with property {SESSION_PROPERTY}={named}",
        ClientProtocol.CONNECT: f"sc://{host}:{CONNECT_PORT}/;use_ssl=true;{SESSION_HEADER}={quote(named, safe='')}",
        ClientProtocol.THRIFT: f"jdbc:hive2://{host}:{THRIFT_PORT}/{named};ssl=true",
    }
    on = session.open_endpoints
    shown = {served: url for served, url in addresses.items() if wish.protocol in (None, served) and served.value in on}
    if not shown:
        raise _is_off(session, wish.protocol)
    base = ("kubectl", *kubectl.flags)
    rows = [[served.value, url] for served, url in shown.items()]
    rows += [["token", shlex.join((*base, f"--namespace={session.namespace}", "create", "token", "ACCOUNT"))]]
    rows += [["certificate", await _certificate(kubectl, namespace, name)]]
    ports = [str(_PORTS[served]) for served in shown]
    if not wish.forward:
        forward = (*base, f"--namespace={namespace}", "port-forward", f"service/{name}", *ports)
        rows += [["from outside", shlex.join(forward)]]
    console.write(render.grid(("WHAT", "VALUE"), rows))
    if session.status.phase in _CLOSED_TO_CLIENTS:
        console.note(f"No client gets in now: session {session.name} is {_state(session)}")
    if wish.forward:
        await _forward(kubectl, console, namespace, name, ports)
    return Exit.FINISHED


async def _direct(kubectl: Kubectl, console: Console, wish: Wish, session: Session) -> Exit:
    forward = wish.forward
    urls = _urls(session, wish.protocol)
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
        raise CliError(f"session {session.name} is not Ready: {_state(session)}")
    raise _is_off(session, protocol)


def _is_off(session: Session, protocol: ClientProtocol | None) -> CliError:
    which = f"endpoint {protocol.value}" if protocol is not None else "every endpoint"
    field = "spec.endpoints" if protocol is None else f"spec.endpoints.{protocol.value}"
    return CliError(f"{which} of session {session.name} is off: turn it on in {field}")


def _state(session: Session) -> str:
    told = f"{session.status.phase or 'new'} {session.reason}".rstrip()
    return f"{told}: {session.ready.message}" if session.ready.message else told


async def _certificate(kubectl: Kubectl, namespace: str, front: str) -> str:
    """The command that reads the front's certificate, or who has it, for those who may not read its Secret."""
    try:
        await kubectl.run("auth", "can-i", "get", f"secrets/{front}", "--quiet", namespace=namespace)
    except KubectlError:
        return f"ask your cluster's administrators for {TLS_CERT_FILE} of Secret {namespace}/{front}, which you may not read"
    return _read(("kubectl", *kubectl.flags, f"--namespace={namespace}"), front, TLS_CERT_FILE)


def _read(base: tuple[str, ...], secret: str, file: str) -> str:
    path = "{.data." + file.replace(".", "\\.") + "}"
    return shlex.join((*base, "get", "secret", secret, f"--output=jsonpath={path}")) + " | base64 --decode"


async def _forward(kubectl: Kubectl, console: Console, namespace: str, service: str, ports: list[str]) -> None:
    arguments = ("port-forward", f"service/{service}", *ports, "--address=127.0.0.1")
    async with kubectl.start(*arguments, namespace=namespace) as child, aclosing(child.lines()) as lines:
        async for line in lines:
            console.note(line)
        await child.finish()
