"""Probes and metrics of the operator over plain HTTP.

`/healthz` fails when the watches have been silent for too long or the queue is stuck, so that a blind operator is restarted;
`/readyz` fails while this replica starts up; one that waits for the lease is a ready standby.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from sparksql.engine.queue import WorkQueue
from sparksql.process.metrics import Metrics

STUCK_QUEUE_SECONDS = 300.0


@dataclass
class Health:
    """Holds what the probes look at; `watch_age` gives the seconds since the watches were last proven alive."""

    queue: WorkQueue
    stale_after: float
    watch_age: Callable[[], float]
    started: bool = False
    standby: bool = False

    def problem(self) -> str | None:
        """Returns why the process should be restarted, None if it should not."""
        if not self.started:
            return None
        if self.watch_age() > self.stale_after:
            return f"no watch event for {self.watch_age():.0f} s"
        if self.queue.oldest_age_seconds > STUCK_QUEUE_SECONDS:
            return f"the oldest key has been due for {self.queue.oldest_age_seconds:.0f} s"
        return None


def application(health: Health, metrics: Metrics) -> web.Application:
    """Returns the HTTP application of `/healthz`, `/readyz` and `/metrics`."""

    async def healthz(_: web.Request) -> web.Response:
        problem = health.problem()
        return web.Response(status=503 if problem else 200, text=problem or "ok")

    async def readyz(_: web.Request) -> web.Response:
        if health.started:
            return web.Response(text="ok")
        return web.Response(text="standby") if health.standby else web.Response(status=503, text="starting")

    async def render(_: web.Request) -> web.Response:
        metrics.queue_depth.set(health.queue.depth)
        metrics.queue_age.set(health.queue.oldest_age_seconds)
        metrics.watch_age.set(health.watch_age())
        return web.Response(body=metrics.render(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", render)])
    return app
