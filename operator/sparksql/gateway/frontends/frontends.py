"""Opens the frontends with ports of their own, Thrift and Connect, where the session asks for them.

REST has the gateway's port and is not opened here.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparksql.gateway.sessions.service import SessionService
    from sparksql.gateway.settings import Settings
    from sparksql.gateway.spark.driver import SparkDriver

log = logging.getLogger(__name__)

GRACE_SECONDS = 1.0  # for streams whose statements have ended


class Frontends:
    """Opens and closes the frontends that have ports of their own. Their code is loaded only for a session that has them."""

    def __init__(self) -> None:
        self._closers: list[Callable[[], Awaitable[None]]] = []

    async def open(self, clients: SessionService, settings: Settings, driver: SparkDriver) -> None:
        """Opens what the settings ask for. Raises OSError when a port is taken."""
        if settings.config.endpoints.thrift:
            from sparksql.gateway.frontends.thrift.server import serve_thrift

            thrift = await serve_thrift(clients, settings)
            self._closers.append(thrift.close)
        if settings.config.endpoints.connect:
            from sparksql.gateway.frontends.connect.server import connect_settings, serve_connect

            connect = await serve_connect(clients, driver, connect_settings(settings))
            self._closers.append(lambda: connect.stop(GRACE_SECONDS))

    async def close(self) -> None:
        """Closes what is open, the last opened first; failures are logged."""
        for close in reversed(self._closers):
            try:
                await close()
            except Exception as failed:
                log.warning("a frontend did not close cleanly: %s", type(failed).__name__)
