"""The frontends of a driver: what clients and the operator speak to. Each is named by an entry point of a Python package.

An entry point in the group `sparksql.frontends` names a `Factory`. The gateway's own four are found the same way: `control` is
always there, `rest`, `thrift` and `connect` where the session's endpoints say so, and others where its class names them, each
with a port of its own. Their code is loaded only for a session that has them.

A frontend is made when the process starts, before Spark is there, and starts when statements can run. What is not the gateway's
own may fail: the session then fails with its name and what it said, as with a failing init statement.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Protocol

from sparksql.gateway.sessions.callers import Callers

if TYPE_CHECKING:
    from aiohttp import web

    from sparksql.gateway.frontends.control.service import ControlService
    from sparksql.gateway.sessions.service import SessionService
    from sparksql.gateway.settings import Settings
    from sparksql.gateway.spark.driver import SparkDriver

log = logging.getLogger(__name__)

GROUP = "sparksql.frontends"


OWN = ("control", "rest", "thrift", "connect")


class FrontendError(Exception):
    """A frontend that is no part of the gateway cannot serve; `name` says which, the message why."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


@dataclass(frozen=True)
class FrontendContext:
    """Holds what a frontend is made with.

    `sessions` is how clients' sessions are opened and their statements run; `control` how the driver is. `port` is the
    frontend's own, at `settings.listen_address` with `settings.tls`; the gateway's for one that shares it.
    """

    control: ControlService
    settings: Settings
    port: int

    @property
    def sessions(self) -> SessionService:
        """Returns the sessions of clients."""
        return self.control.clients

    @property
    def callers(self) -> Callers:
        """Returns who tells callers by what they present."""
        return Callers(self.settings.token, self.settings.front_token)

    def is_token(self, given: str) -> bool:
        """Tells whether a client has given the session's token, in constant time: who does not have it is not let in."""
        return self.callers.identify(given.encode(errors="surrogateescape"), None) is not None


class Frontend(Protocol):
    """One way to speak to a driver. Its calls come on the event loop, in this order."""

    def add_routes(self, app: web.Application) -> None:
        """Adds paths at the gateway's own port, which all need the session's token; most have none."""

    async def start(self, driver: SparkDriver) -> None:
        """Begins to serve clients: statements can run from now on."""

    async def close(self) -> None:
        """Ends what `start` has begun; not called where that failed."""


Factory = Callable[[FrontendContext], Frontend]


class Frontends:
    """The frontends of this process. `failure` tells of one that could not even be made; the gateway's own raise at once."""

    def __init__(self, control: ControlService, settings: Settings) -> None:
        self._control = control
        self._settings = settings
        self._made: list[tuple[str, Frontend]] = []
        self._started: list[Frontend] = []
        self.failure: FrontendError | None = None

    def make(self, app: web.Application) -> None:
        """Makes the frontends that the session has, and adds their paths."""
        for name, port in self._wanted():
            try:
                with self._told(name):
                    frontend = _factory(name)(FrontendContext(self._control, self._settings, port))
                    frontend.add_routes(app)
            except FrontendError as failed:
                self.failure = self.failure or failed
            else:
                self._made.append((name, frontend))

    async def start(self, driver: SparkDriver) -> None:
        """Starts them. Raises FrontendError, and for one of the gateway's own what it raises."""
        for name, frontend in self._made:
            with self._told(name):
                await frontend.start(driver)
            self._started.append(frontend)

    async def close(self) -> None:
        """Closes what has started, the last one first; failures are logged."""
        for frontend in reversed(self._started):
            try:
                await frontend.close()
            except Exception as failed:
                log.warning("a frontend did not close cleanly: %s", type(failed).__name__)

    def _wanted(self) -> Iterator[tuple[str, int]]:
        """Names and ports. The one that takes every path that is left comes after those with paths of their own."""
        config = self._settings.config
        endpoints = config.endpoints
        yield "control", config.port
        for frontend in endpoints.frontends:
            yield frontend.name, frontend.port
        if endpoints.thrift:
            yield "thrift", endpoints.thrift_port
        if endpoints.connect:
            yield "connect", endpoints.connect_port
        if endpoints.rest:
            yield "rest", config.port

    @contextmanager
    def _told(self, name: str) -> Iterator[None]:
        """Names the frontend in what it raises, unless it is the gateway's own."""
        try:
            yield
        except Exception as failed:
            if name not in {frontend.name for frontend in self._settings.config.endpoints.frontends}:
                raise
            log.error("frontend %s failed: %s", name, type(failed).__name__)
            raise FrontendError(name, f"{type(failed).__name__}: {failed}") from failed


def load_own() -> None:
    """Loads the code of the gateway's own frontends, which takes a while the first time."""
    for name in OWN:
        _factory(name)


def _factory(name: str) -> Factory:
    """Finds and loads the factory of a frontend. Raises LookupError, and what its module raises."""
    found = [*entry_points(group=GROUP, name=name)]
    if not found:
        there = ", ".join(sorted({each.name for each in entry_points(group=GROUP)})) or "none"
        raise LookupError(f"the image has no entry point {name} in the group {GROUP} (it has: {there})")
    if len({each.value for each in found}) > 1:
        raise LookupError(f"several packages have an entry point {name} in the group {GROUP}: {_packages(found)}")
    factory: Factory = found[0].load()
    return factory


def _packages(found: list[EntryPoint]) -> str:
    return ", ".join(sorted({each.dist.name if each.dist is not None else each.value for each in found}))
