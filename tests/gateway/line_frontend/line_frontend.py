"""A frontend as a package of its own has it: the token in a line, then a statement a line, each answered by a line of JSON."""

from __future__ import annotations

import asyncio
import json

from aiohttp import web

from sparksql.gateway.frontends.frontends import FrontendContext
from sparksql.gateway.sessions.model import ClientError, OperationStatus
from sparksql.gateway.spark.driver import SparkDriver

MOST_ROWS = 100


class LineFrontend:
    """Serves lines at its port, and tells of itself at a path of the gateway's."""

    def __init__(self, context: FrontendContext) -> None:
        self._context = context
        self._server: asyncio.Server | None = None

    def add_routes(self, app: web.Application) -> None:
        app.router.add_get("/lines", self._about)

    async def start(self, driver: SparkDriver) -> None:
        settings = self._context.settings
        self._server = await asyncio.start_server(
            self._serve, settings.listen_address, self._context.port, ssl=settings.tls
        )

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _about(self, request: web.Request) -> web.Response:
        return web.json_response({"port": self._context.port})

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if not self._context.is_token((await reader.readline()).decode().rstrip("\n")):
                writer.write(b'{"error": "wrong token"}\n')
                return
            session = (await self._context.sessions.open("lines", "line client", {})).handle
            try:
                while line := (await reader.readline()).decode().rstrip("\n"):
                    writer.write(json.dumps(await self._answer(session, line)).encode() + b"\n")
                    await writer.drain()
            finally:
                await self._context.sessions.close(session)
        finally:
            writer.close()

    async def _answer(self, session: str, sql: str) -> object:
        sessions = self._context.sessions
        try:
            view = await sessions.run(session, sql)
            if view.status is not OperationStatus.FINISHED:
                return {"error": str(view.error.message if view.error is not None else view.status)}
            table, _ = await sessions.page(session, view.handle, 0, MOST_ROWS)
            return {"rows": table.to_pylist()}
        except ClientError as refused:
            return {"error": str(refused)}


class BrokenFrontend(LineFrontend):
    """Does not start."""

    def add_routes(self, app: web.Application) -> None:
        """Adds none: the other one has them."""

    async def start(self, driver: SparkDriver) -> None:
        raise RuntimeError("it has no licence")


class EndingFrontend(LineFrontend):
    """Ends Spark's context, or the thread of its scheduler alone, when a client connects; the client's line has which."""

    async def start(self, driver: SparkDriver) -> None:
        self._driver = driver
        await super().start(driver)

    def add_routes(self, app: web.Application) -> None:
        """Adds none."""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        context = self._driver.context._jsc.sc()
        match (await reader.readline()).decode().strip():
            case "context":
                await asyncio.to_thread(context.stop)
            case "scheduler":
                await asyncio.to_thread(context.dagScheduler().eventProcessLoop().stop)
        writer.close()
