"""The REST API in the gateway's HTTP application.

Invariants: every answer of a path that is not the gateway's own has a body of the released forms, whatever went wrong; a
request's body is read, and found to be what the route takes, before its parameters are looked at, in the released order.
"""

from __future__ import annotations

import logging
import re
from importlib.metadata import version
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.typedefs import Handler as WebHandler
from aiohttp.typedefs import Middleware

from sparksql.gateway.frontends.control.service import ControlError
from sparksql.gateway.frontends.rest.errors import (
    RETRY_SECONDS,
    RestError,
    bad_body,
    bad_parameter,
    not_found,
    refused,
    short,
)
from sparksql.gateway.frontends.rest.handlers import Call, Handler, Handlers, json_response
from sparksql.gateway.frontends.rest.listings import Listings
from sparksql.gateway.frontends.rest.models import BadBodyError, RestModel, read_body
from sparksql.gateway.frontends.rest.openapi import document
from sparksql.gateway.frontends.rest.paging import Bookmarks
from sparksql.gateway.frontends.rest.results import Results
from sparksql.gateway.frontends.rest.routing import ROUTES, Match, match_route
from sparksql.gateway.sessions.callers import current
from sparksql.gateway.sessions.model import ClientError
from sparksql.wire.front import PROBLEM_HEADER
from sparksql.wire.target import BadTargetError, read_target

if TYPE_CHECKING:
    from sparksql.gateway.frontends.frontends import FrontendContext
    from sparksql.gateway.sessions.service import SessionService
    from sparksql.gateway.spark.driver import SparkDriver

log = logging.getLogger(__name__)

ARROW_PAGE_ROWS = 10_000
_OWN = frozenset({"control", "healthz", "readyz", "metrics"})  # what the gateway's own paths begin with
_HANDLE = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HANDLES = ("session_handle", "operation_handle")


class RestFrontend:
    """Flink's SQL Gateway REST API, at the gateway's own port."""

    def __init__(self, context: FrontendContext) -> None:
        self._sessions = context.sessions

    def add_routes(self, app: web.Application) -> None:
        """Takes every path that nobody else has."""
        add_routes(app, self._sessions)

    async def start(self, driver: SparkDriver) -> None:
        """Does nothing: before Spark is there, clients are told to come back."""

    async def close(self) -> None:
        """Does nothing: the port is the gateway's."""


def add_routes(app: web.Application, service: SessionService, *, arrow_page_rows: int = ARROW_PAGE_ROWS) -> None:
    """Serves the API at every path that no other route of the application has."""
    api = _Api(service, arrow_page_rows)
    app.router.add_route("*", "/{path:.*}", api.serve)


@web.middleware
async def rest_errors(request: web.Request, handler: WebHandler) -> web.StreamResponse:
    """Gives errors of the API's paths a released form, those of authentication and of HTTP itself too; others pass."""
    if _is_own(request):
        return await handler(request)
    try:
        return await handler(request)
    except RestError as error:
        return _error_response(error)
    except ControlError as error:
        return _error_response(short(error.status, str(error)))
    except BadTargetError as malformed:
        return _error_response(short(400, str(malformed)))
    except web.HTTPNotFound:
        return _error_response(not_found(request.path))
    except web.HTTPException as error:
        return _error_response(short(error.status, error.reason))
    except ConnectionResetError:
        raise  # the client went away
    except Exception as exception:
        log.exception("a request failed")
        return _error_response(short(500, f"Internal server error. {type(exception).__name__}"))


def check_right(service: SessionService) -> Middleware:
    """Makes the middleware that refuses a user of the front, before the body is read, a session that another user has opened.

    Who has the session's token may use all of them, and gets errors in the released order. Must be between authentication and
    what reads bodies. It raises RestError.
    """

    @web.middleware
    async def check(request: web.Request, handler: WebHandler) -> web.StreamResponse:
        if current.get().user is not None and not _is_own(request):
            segments = read_target(request.raw_path).segments
            match = match_route(request.method, segments, service.settings.rest_versions)
            handle = None if match is None else match.parameters.get("session_handle")
            if match is not None and handle is not None and _HANDLE.fullmatch(handle):
                try:
                    service.session(handle.lower())
                except ClientError as error:
                    raise _refusal(match, error) from error
        return await handler(request)

    return check


def _is_own(request: web.Request) -> bool:
    try:
        segments = read_target(request.raw_path).segments
    except BadTargetError:
        return False  # no path at all; who has authenticated gets to know why
    return bool(segments) and segments[0] in _OWN


class _Api:
    def __init__(self, service: SessionService, arrow_page_rows: int) -> None:
        bookmarks = Bookmarks(service.settings.operation_max_num)
        handlers = Handlers(service, bookmarks, version("pyspark"))
        own: dict[str, Handler] = {
            "fetch_results": Results(service, bookmarks, arrow_page_rows).fetch,
            "openapi": _openapi,
            **Listings(service).handlers(),
        }
        self._service = service
        self._handlers = {route.name: own.get(route.name) or getattr(handlers, route.name) for route in ROUTES}

    async def serve(self, request: web.Request) -> web.Response:
        segments = read_target(request.raw_path).segments
        match = match_route(request.method, segments, self._service.settings.rest_versions)
        if match is None:
            raise web.HTTPNotFound
        body = await request.read()
        call = Call(match, _read(match, body), request.query, current.get().promised)
        for name in _HANDLES:
            value = match.parameters.get(name)
            if value is not None and not _HANDLE.fullmatch(value):
                raise bad_parameter("path", name, value)
        try:
            return await self._handlers[match.route.name](call)
        except ClientError as error:
            raise _refusal(match, error) from error


def _refusal(match: Match, error: ClientError) -> RestError:
    made = refused(match.route.form, match.route.failure, error)
    made.problem = error.problem
    return made


async def _openapi(call: Call) -> web.Response:
    return json_response(document(call.match.version).encode())


def _read(match: Match, body: bytes) -> RestModel | None:
    model = match.route.request
    if model is None:
        return None
    try:
        return read_body(model, body)
    except BadBodyError as malformed:
        raise bad_body(model.__name__ if body else None, str(malformed)) from malformed


def _error_response(error: RestError) -> web.Response:
    headers = {} if error.problem is None else {PROBLEM_HEADER: error.problem.value}
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if error.status in (429, 503):
        headers["Retry-After"] = str(RETRY_SECONDS)
    return json_response(error.body.encode(), error.status, headers)
