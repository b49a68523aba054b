"""What the drivers say: one follower a driver keeps its event stream open and the last view of each live operation.

Invariants
- A follower resumes from the last sequence number it has seen, so no change is lost over a broken connection.
- Views are kept only of operations that somebody waits for (`wanted`); the rest of a stream passes by.
- Changes of progress alone wake a statement at most every 5 s, all other changes at once.
- Changes of what clients do wake the session, which counts them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import aiohttp

from sparksql.domain.backoff import exponential
from sparksql.drivers.client import Address, GatewayClient, GatewayRefused, GatewayUnreachable
from sparksql.engine.key import Key
from sparksql.engine.queue import WorkQueue
from sparksql.wire.control import Event, GatewayInfo, OperationView

PROGRESS_SECONDS = 5.0
COUNTING_SECONDS = 0.5  # what a session runs is counted so late, all changes meanwhile at once
FIRST_RETRY_SECONDS = 0.1
MOST_RETRY_SECONDS = 1.0

logger = logging.getLogger(__name__)


@dataclass
class _Link:
    session: Key
    client: GatewayClient
    task: asyncio.Task[None] | None = None
    boot_id: str | None = None
    seq: int = 0
    info: GatewayInfo | None = None
    views: dict[str, OperationView] = field(default_factory=dict)


class Gateways:
    """All linked drivers.

    `wanted` maps an operation id to the key of the statement that waits for it, or None; `changed` is called with a
    session's key when its driver became known, ready, or another one.
    """

    def __init__(
        self,
        http: aiohttp.ClientSession,
        queue: WorkQueue,
        wanted: Callable[[str], Key | None],
        changed: Callable[[Key], None],
    ) -> None:
        self._http = http
        self._queue = queue
        self._wanted = wanted
        self._changed = changed
        self._links: dict[str, _Link] = {}
        self._sessions: dict[Key, str] = {}

    def link(self, session: Key, address: Address) -> None:
        """Follow the driver at `address` for `session`; a driver that the session had before is let go."""
        known = self._sessions.get(session)
        if known == address.pod_uid:
            return
        if known is not None:
            self.unlink(session)
        link = _Link(session, GatewayClient(self._http, address))
        link.task = asyncio.create_task(self._follow(link), name=f"follow {session}")
        self._links[address.pod_uid] = link
        self._sessions[session] = address.pod_uid

    def unlink(self, session: Key) -> None:
        pod_uid = self._sessions.pop(session, None)
        link = self._links.pop(pod_uid, None) if pod_uid is not None else None
        if link is not None and link.task is not None:
            link.task.cancel()
            if link.views:  # last words that may not be in a status yet
                self._links[link.client.address.pod_uid] = link

    def linked_pod(self, session: Key) -> str | None:
        return self._sessions.get(session)

    def info(self, session: Key) -> GatewayInfo | None:
        """What the session's driver last said of itself; None before its first word."""
        link = self._links.get(self._sessions.get(session, ""))
        return link.info if link else None

    def client(self, pod_uid: str) -> GatewayClient | None:
        link = self._links.get(pod_uid)
        return link.client if link else None

    def view(self, pod_uid: str, operation_id: str) -> OperationView | None:
        link = self._links.get(pod_uid)
        return link.views.get(operation_id) if link else None

    def record(self, pod_uid: str, view: OperationView) -> None:
        """Take in a view that came as an answer; an older one than what is known is dropped."""
        link = self._links.get(pod_uid)
        if link is not None:
            self._keep(link, view)

    def forget(self, pod_uid: str, operation_id: str) -> None:
        link = self._links.get(pod_uid)
        if link is None:
            return
        link.views.pop(operation_id, None)
        if not link.views and self._sessions.get(link.session) != pod_uid:
            del self._links[pod_uid]

    def heard(self, pod_uid: str, info: GatewayInfo) -> None:
        """Take in what a driver answered of itself."""
        link = self._links.get(pod_uid)
        if link is not None:
            self._set_info(link, info)

    async def close(self) -> None:
        tasks = [link.task for link in self._links.values() if link.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._links.clear()
        self._sessions.clear()

    async def _follow(self, link: _Link) -> None:
        failures = 0
        while True:
            try:
                async for event in link.client.events(link.seq):
                    failures = 0
                    await self._take(link, event)
            except (GatewayUnreachable, GatewayRefused) as error:
                logger.debug("gateway stream ended", extra=_fields(link, error=type(error).__name__))
            failures += 1
            await asyncio.sleep(exponential(failures, FIRST_RETRY_SECONDS, MOST_RETRY_SECONDS))

    async def _take(self, link: _Link, event: Event) -> None:
        if event.kind == "hello":
            if link.boot_id not in (None, event.boot_id):
                link.seq, link.views = 0, {}
            link.boot_id = event.boot_id
            self._set_info(link, await link.client.info())
        elif event.kind == "info" and event.info is not None:
            self._set_info(link, event.info)
        elif event.kind == "operation" and event.operation is not None:
            link.seq = max(link.seq, event.operation.seq)
            self._operation(link, event.operation)

    def _set_info(self, link: _Link, info: GatewayInfo) -> None:
        before, link.info = link.info, info
        if before is None or (before.state, before.boot_id) != (info.state, info.boot_id):
            self._changed(link.session)
        elif _clients(before) != _clients(info):
            self._queue.add_after(link.session, COUNTING_SECONDS)

    def _operation(self, link: _Link, view: OperationView) -> None:
        key = self._wanted(view.operation_id)
        if key is None:
            return
        before = link.views.get(view.operation_id)
        if not self._keep(link, view):
            return
        progress_only = before is not None and _without_progress(before) == _without_progress(view)
        self._queue.add_after(key, PROGRESS_SECONDS if progress_only else 0.0)

    def _keep(self, link: _Link, view: OperationView) -> bool:
        known = link.views.get(view.operation_id)
        if known is not None and known.seq >= view.seq:
            return False
        link.views[view.operation_id] = view
        return True


def _clients(info: GatewayInfo) -> tuple[int, int, int]:
    return info.client_sessions, info.client_pending, info.client_running


def _without_progress(view: OperationView) -> OperationView:
    """Without what changes while a statement runs: counts, and the rows that a preview has shown so far."""
    return view.model_copy(update={"progress": None, "result": None, "seq": 0})


def _fields(link: _Link, **more: str) -> dict[str, dict[str, str]]:
    return {"fields": {"namespace": link.session.namespace, "name": link.session.name, **more}}
