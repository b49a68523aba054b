"""A driver that was started ahead of need: Spark is up, and it waits to be told whose it is.

Until then it answers its probes and one call, to whoever has the token that it was started with. Invariants: it is bound once;
what Spark has fixed at its start is what its session asks for, or it is not bound; nothing of the session is there before, and
nothing that it was started with opens anything afterwards.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import ssl
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import web
from pydantic import ValidationError

from sparksql.api.gateway_settings import InvalidSetting, parse
from sparksql.gateway.rehearsal import rehearse
from sparksql.gateway.settings import Settings, TlsPair
from sparksql.protocols.budget import Budget
from sparksql.protocols.http_limits import BoundedSite, make_runner, mark_busy, read_body
from sparksql.protocols.slots import SlotLimits, Slots
from sparksql.wire.binding import BIND_PATH, BindRefusal, BindRequest
from sparksql.wire.driver import DriverConfig, config_hash

if TYPE_CHECKING:
    from sparksql.gateway.spark.driver import SparkDriver

log = logging.getLogger(__name__)

MAX_BODY_BYTES = 8 << 20  # as that of the control API
MAX_CONNECTIONS = 16


@dataclass(frozen=True)
class Binding:
    """Holds the settings of the session that a driver is bound to, and the call that has bound it."""

    settings: Settings
    answer: asyncio.Event
    runner: web.AppRunner

    async def answered(self) -> None:
        """Ends the wait of the operator's call, and with it what served it."""
        self.answer.set()
        await self.runner.cleanup()


class WarmDriver:
    """Serves until it is bound. Belongs to the event loop."""

    def __init__(self, settings: Settings, connecting: asyncio.Future[SparkDriver]) -> None:
        self._settings = settings
        self._prepared = asyncio.ensure_future(self._prepare(connecting))
        self._bound: asyncio.Future[Settings] = asyncio.get_running_loop().create_future()
        self._is_taken = False
        self._answer = asyncio.Event()

    async def bound(self, stop: asyncio.Event) -> Binding | None:
        """Returns the binding; None when the process is to end before.

        Raises OSError when the port is taken, and what Spark raises when it does not start.
        """
        settings = self._settings
        middlewares = [mark_busy, read_body(Budget.of(), lambda _: None)]
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=middlewares)
        app.add_routes(
            [web.get("/healthz", self._healthz), web.get("/readyz", self._readyz), web.post(BIND_PATH, self._bind)]
        )
        runner = make_runner(app)
        await runner.setup()
        slots = Slots(SlotLimits.of_one_token(MAX_CONNECTIONS))
        site = BoundedSite(runner, settings.listen_address, settings.config.port, settings.tls, slots)
        await site.start()
        log.info("waits for its session on port %d", settings.config.port)
        stopped = asyncio.ensure_future(stop.wait())
        ends: set[asyncio.Future[Any]] = {self._bound, stopped}
        await asyncio.wait({*ends, self._prepared}, return_when=asyncio.FIRST_COMPLETED)
        if self._prepared.done():
            self._prepared.result()  # raises why Spark did not start
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not self._bound.done():
            await runner.cleanup()
            return None
        await site.stop()
        return Binding(self._bound.result(), self._answer, runner)

    async def _prepare(self, connecting: asyncio.Future[SparkDriver]) -> SparkDriver:
        driver = await connecting
        began = time.monotonic()
        await asyncio.to_thread(rehearse, driver, self._settings)
        log.info("rehearsed for %.1f s", time.monotonic() - began)
        return driver

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _readyz(self, _: web.Request) -> web.Response:
        is_up = self._prepared.done() and not self._prepared.cancelled() and self._prepared.exception() is None
        return web.Response(status=200 if is_up and not self._is_taken else 503)

    async def _bind(self, request: web.Request) -> web.Response:
        given = request.headers.get("Authorization", "").encode(errors="surrogateescape")
        if not hmac.compare_digest(given, f"Bearer {self._settings.token}".encode()):
            return web.Response(status=401)
        if self._is_taken:
            return _refused("this driver is bound already")
        try:
            wish = BindRequest.model_validate_json(await request.read())
            settings = bound_settings(self._settings, wish)
        except (ValidationError, InvalidSetting, ssl.SSLError) as invalid:
            return web.Response(status=400, text=type(invalid).__name__)
        self._is_taken = True
        driver = await asyncio.shield(self._prepared)
        fixed = await asyncio.to_thread(driver.rebind, self._settings, settings)
        if fixed:
            self._is_taken = False
            return _refused("Spark has fixed these at its start", *fixed)
        self._bound.set_result(settings)
        await self._answer.wait()
        return web.Response(status=204)


def bound_settings(before: Settings, wish: BindRequest) -> Settings:
    """Returns the settings of a driver that is given what `wish` holds. Raises ValidationError, InvalidSetting, ssl.SSLError.

    Where it runs, and what its executors have, stays as it was.
    """
    config = DriverConfig.model_validate_json(wish.config)
    pair = TlsPair(wish.certificate.encode(), wish.key.encode())
    return replace(
        before,
        config=config,
        config_hash=config_hash(wish.config),
        token=wish.token,
        front_token=wish.front_token,
        tls=None if before.tls is None else _context(pair, before.folder),
        tls_pair=None if before.tls is None else pair,
        gateway=parse({**config.spark_conf, **config.policy.enforced_conf}),
    )


def _context(pair: TlsPair, folder: Path) -> ssl.SSLContext:
    """The ssl module takes certificates from files only. This one is gone before any SQL of the session runs."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".pem") as pem:
        pem.write(pair.certificate.rstrip() + b"\n" + pair.key)
        pem.flush()
        context.load_cert_chain(pem.name)
    return context


def _refused(message: str, *fixed: str) -> web.Response:
    refusal = BindRefusal(fixed=fixed, message=message)
    return web.Response(status=409, text=refusal.to_json(), content_type="application/json")
