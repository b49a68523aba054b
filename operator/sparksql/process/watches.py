"""Watches of the API server, by kopf.

It is used for these alone (`on.event`): no handlers that write, no annotations, no finalizers of its own, no peering.
kopf runs in a thread and a loop of its own: it takes signals away from a loop, and cancels all of its tasks at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import kopf

from sparksql.api.names import GROUP
from sparksql.cache.executors import POD_SELECTOR
from sparksql.kube.client import Object
from sparksql.kube.credentials import Authenticator, Credentials
from sparksql.kube.identity import Identity
from sparksql.kube.resources import BY_KIND

IDENTITY = "spark-sql-operator"
LEFT_SECONDS = 5.0  # for what kopf leaves behind, which ends at once when it is asked to

OnEvent = Callable[[str, str | None, Object], None]
"""Takes kind, type of the change (ADDED, MODIFIED, DELETED; None for an object that was there at the start) and the object."""


async def watch(kinds: Sequence[str], namespaces: Sequence[str], credentials: Credentials, on_event: OnEvent) -> None:
    """Watches `kinds`, of pods those of sessions, in `namespaces` (none: everywhere); calls `on_event` in the caller's loop.

    Runs until it is cancelled. Raises RuntimeError when the watches end by themselves.
    """
    loop, kopf_loop = asyncio.get_running_loop(), asyncio.new_event_loop()
    task = kopf_loop.create_task(
        kopf.operator(
            registry=_registry(kinds, credentials, loop, on_event),
            settings=_settings(),
            standalone=True,
            # Without one, kopf makes it of the user's name, and a pod's user need not have one.
            identity=cast(Any, IDENTITY),
            clusterwide=not namespaces,
            namespaces=namespaces,
        )
    )
    thread = loop.run_in_executor(None, _run_to_its_end, kopf_loop, task)
    try:
        await asyncio.shield(thread)
    finally:
        with contextlib.suppress(RuntimeError):  # the loop has ended already
            kopf_loop.call_soon_threadsafe(task.cancel)
        await asyncio.wait([thread])
    raise RuntimeError("the watches ended")


def _registry(
    kinds: Sequence[str], credentials: Credentials, loop: asyncio.AbstractEventLoop, on_event: OnEvent
) -> kopf.OperatorRegistry:
    authenticator = Authenticator(credentials)
    last: Identity | None = None

    async def login(**_: Any) -> kopf.ConnectionInfo:
        """kopf asks at the start, and again when the last answer has expired or was refused."""
        nonlocal last
        last = await authenticator.identity(refused=last)
        return _connection(credentials, last)

    registry = kopf.OperatorRegistry()
    for kind in kinds:
        resource = BY_KIND[kind]
        kopf.on.event(resource.group, resource.version, resource.plural, id=kind, registry=registry)(
            _handler(kind, loop, on_event)
        )
    kopf.on.login(registry=registry)(login)
    return registry


def _handler(kind: str, loop: asyncio.AbstractEventLoop, on_event: OnEvent) -> Callable[..., Awaitable[None]]:
    async def seen(event: Any, **_: Any) -> None:
        loop.call_soon_threadsafe(on_event, kind, event["type"], dict(event["object"]))

    return seen


@dataclass(frozen=True, kw_only=True, repr=False)
class _Connection(kopf.ConnectionInfo):
    """One with TLS of our own making: kopf knows no `tls-server-name`."""

    context: ssl.SSLContext | None = field(compare=False)  # kopf compares what it got with what was refused

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.server})"  # kopf's own shows the token

    def as_ssl_context(self) -> ssl.SSLContext:
        return super().as_ssl_context() if self.context is None else self.context


def _connection(credentials: Credentials, identity: Identity) -> kopf.ConnectionInfo:
    scheme, _, token = (identity.authorization or "").partition(" ")
    return _Connection(
        server=credentials.server,
        context=credentials.ssl_context(identity),
        certificate_data=identity.certificate,
        private_key_data=identity.key,
        scheme=scheme or None,
        token=token or None,
        proxy_url=credentials.proxy_url,
        default_namespace=credentials.namespace,
        expiration=identity.expires,
    )


def _run_to_its_end(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> None:
    with contextlib.closing(loop):
        with contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(task)
        # kopf leaves tasks behind when it is cancelled as it starts; they must not outlive their loop.
        if left := asyncio.all_tasks(loop):
            for each in left:
                each.cancel()
            loop.run_until_complete(asyncio.wait(left, timeout=LEFT_SECONDS))


class _NoDiffs(kopf.DiffBaseStorage):
    """Keeps nothing: kopf copies every object deeply to find out what changed, for handlers that there are none of."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return cast(kopf.BodyEssence, {})

    def fetch(self, **_: Any) -> kopf.BodyEssence | None:
        return None

    def store(self, **_: Any) -> None:
        pass


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True
    settings.posting.enabled = False
    # kopf takes its own finalizer off every object that none of its handlers needs it for: it must never be ours.
    settings.persistence.finalizer = f"{GROUP}/kopf-has-none"
    settings.persistence.diffbase_storage = _NoDiffs()
    settings.watching.label_selectors["", "v1", "pods"] = POD_SELECTOR
    settings.watching.chunk_size = 500
    # One worker for each object that was ever listed lives this long: at a start that is all of them.
    settings.queueing.idle_timeout = 0.2
    return settings
