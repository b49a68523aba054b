"""Serves the control API over HTTPS, and the frontends that share its port.

The routes are in `wire/control.py`. Every error is an `ErrorBody`; those of the clients' REST API (`rest`) have their
own forms.

Invariants: every path but the two probes needs the session's token, compared in constant time, or those of clients that of the
front; the probes tell nothing but whether; a body has a bound; no handler runs a blocking call on the event loop.
"""

from __future__ import annotations

import contextlib
import io
import logging
from enum import Enum, auto
from typing import TYPE_CHECKING

import pyarrow as pa
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import ValidationError

from sparksql.gateway.frontends.control.metrics import exposition, registry_for
from sparksql.gateway.frontends.control.service import ControlError, ControlService
from sparksql.gateway.frontends.rest.routes import check_right, rest_errors
from sparksql.gateway.lifecycle import Spark
from sparksql.gateway.operations.events import stream
from sparksql.gateway.results.store import MAX_PAGE_ROWS, ExpiredResultError, StoredResult, UnknownResultError
from sparksql.gateway.sessions.callers import Caller, Callers, current
from sparksql.protocols.budget import Holder
from sparksql.protocols.hiveserver2.http import presented_token
from sparksql.protocols.http_limits import claim, mark_busy, read_body
from sparksql.wire.control import CancelRequest, ErrorBody, GatewayState, SubmitRequest
from sparksql.wire.front import HANDLE_HEADER, USER_HEADER, read_user
from sparksql.wire.model import WireModel
from sparksql.wire.savepoints import SavepointRequest
from sparksql.wire.target import is_for_clients, read_target

if TYPE_CHECKING:
    from sparksql.gateway.frontends.frontends import FrontendContext
    from sparksql.gateway.spark.driver import SparkDriver

log = logging.getLogger(__name__)

MAX_BODY_BYTES = 8 << 20  # a statement of a ConfigMap's 1 MiB, escaped as JSON, with its parameters
DEFAULT_PAGE_ROWS = 1_000
NEXT_TOKEN_HEADER = "X-Next-Token"  # noqa: S105  a page's number, no secret
_PREFIX = "/control/v1"
_OPEN_PATHS = frozenset({"/healthz", "/readyz"})
_ARROW_TYPE = "application/vnd.apache.arrow.stream"


def build_app(service: ControlService) -> web.Application:
    """Makes the HTTP application of a driver, whose paths its frontends add."""
    right, body = check_right(service.clients), read_body(service.budget, _holder)
    middlewares = [mark_busy, _errors, rest_errors, _authentication(service), right, body]
    return web.Application(client_max_size=MAX_BODY_BYTES, middlewares=middlewares)


class ControlFrontend:
    """What the operator speaks to, and the probes."""

    def __init__(self, context: FrontendContext) -> None:
        self._service = context.control

    def add_routes(self, app: web.Application) -> None:
        """Adds the paths of the control API, the probes and the metrics."""
        _add_routes(app, self._service)

    async def start(self, driver: SparkDriver) -> None:
        """Does nothing: the operator is answered from the process's start on."""

    async def close(self) -> None:
        """Does nothing: the port is the gateway's."""


def _add_routes(app: web.Application, service: ControlService) -> None:
    routes = _Routes(service)
    statement = f"{_PREFIX}/statements/{{operation_id}}"
    app.router.add_get("/healthz", routes.healthz)
    app.router.add_get("/readyz", routes.readyz)
    app.router.add_get("/metrics", routes.metrics)
    app.router.add_get(f"{_PREFIX}/info", routes.info)
    app.router.add_get(f"{_PREFIX}/events", routes.events)
    app.router.add_post(f"{_PREFIX}/drain", routes.drain)
    app.router.add_get(f"{_PREFIX}/session-state", routes.session_state)
    app.router.add_get(f"{_PREFIX}/clients", routes.clients)
    app.router.add_put(statement, routes.submit)
    app.router.add_get(statement, routes.view)
    app.router.add_post(f"{statement}/cancel", routes.cancel)
    app.router.add_get(f"{statement}/results", routes.results)
    savepoint = f"{_PREFIX}/savepoints/{{attempt_id}}"
    app.router.add_put(savepoint, routes.save)
    app.router.add_get(savepoint, routes.savepoint)
    app.router.add_delete(savepoint, routes.cancel_savepoint)


class _Routes:
    def __init__(self, service: ControlService) -> None:
        self._service = service
        self._registry = registry_for(service)

    async def healthz(self, request: web.Request) -> web.Response:
        return web.Response()

    async def readyz(self, request: web.Request) -> web.Response:
        return web.Response(status=200 if self._service.lifecycle.state is GatewayState.READY else 503)

    async def metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=exposition(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def info(self, request: web.Request) -> web.Response:
        return _json(self._service.info())

    async def drain(self, request: web.Request) -> web.Response:
        self._service.lifecycle.drain()
        return _json(self._service.info())

    async def session_state(self, request: web.Request) -> web.Response:
        return _json(await self._service.session_state())

    async def clients(self, request: web.Request) -> web.Response:
        return _json(self._service.clients.overview())

    async def submit(self, request: web.Request) -> web.Response:
        body = SubmitRequest.model_validate_json(await request.read())
        return _json(await self._service.submit(request.match_info["operation_id"], body))

    async def view(self, request: web.Request) -> web.Response:
        view = self._service.lifecycle.register.get(request.match_info["operation_id"])
        if view is None:
            raise ControlError(404, "UnknownOperation", "no operation has this id")
        return _json(view)

    async def cancel(self, request: web.Request) -> web.Response:
        body = CancelRequest.model_validate_json(await request.read())
        return _json(self._service.cancel(request.match_info["operation_id"], body))

    async def save(self, request: web.Request) -> web.Response:
        body = SavepointRequest.model_validate_json(await request.read())
        return _json(self._service.save(request.match_info["attempt_id"], body))

    async def savepoint(self, request: web.Request) -> web.Response:
        spark = self._service.lifecycle.spark
        view = None if spark is None else spark.savepoints.get(request.match_info["attempt_id"])
        if view is None:
            raise ControlError(404, "UnknownSavepoint", "no attempt of a savepoint has this id")
        return _json(view)

    async def cancel_savepoint(self, request: web.Request) -> web.Response:
        return _json(self._service.cancel_save(request.match_info["attempt_id"]))

    async def results(self, request: web.Request) -> web.Response:
        operation_id = request.match_info["operation_id"]
        spark, view = self._service.lifecycle.spark, self._service.lifecycle.register.get(operation_id)
        if spark is None or view is None:
            raise ControlError(404, "UnknownOperation", "no operation has this id")
        if not view.state.is_terminal:
            raise ControlError(404, "NotReady", "the operation has not ended")
        spark.operations.record_activity()
        token = _number(request, "token", 0)
        max_rows = _number(request, "maxRows", DEFAULT_PAGE_ROWS)
        try:
            result = _chosen(spark.store.get(operation_id), request)
            match request.query.get("format", "json"):
                case "json":
                    page = await spark.threads.read_page(spark.reader.page, result, token, max_rows)
                    return web.Response(text=page, content_type="application/json")
                case "arrow":
                    return await _arrow_page(spark, result, token, max_rows)
                case other:
                    raise ControlError(400, "Malformed", f"no format {other!r}: json or arrow")
        except UnknownResultError as unknown:
            raise ControlError(404, "UnknownResult", str(unknown)) from unknown
        except ExpiredResultError as expired:
            raise ControlError(410, "Expired", str(expired)) from expired

    async def events(self, request: web.Request) -> web.StreamResponse:
        service, lifecycle = self._service, self._service.lifecycle
        after = _number(request, "after", 0)
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson", "Cache-Control": "no-store"})
        await response.prepare(request)
        # The reader's going away is how a stream ends.
        with contextlib.suppress(ConnectionResetError):
            async for event in stream(lifecycle.register, lifecycle.changes, service.info, lifecycle.boot_id, after):
                await response.write(event.to_json().encode() + b"\n")
        return response


def _chosen(result: StoredResult, request: web.Request) -> StoredResult:
    """Returns the result that `earlier` names, one of a script's statement before the last; without it the last one."""
    if "earlier" not in request.query:
        return result
    number = _number(request, "earlier", 0)
    if number >= len(result.earlier):
        raise UnknownResultError(f"the script has no earlier result {number}: it has {len(result.earlier)}")
    return result.earlier[number]


async def _arrow_page(spark: Spark, result: StoredResult, token: int, max_rows: int) -> web.Response:
    table, following = await spark.threads.read_page(spark.reader.read, result, token, min(max_rows, MAX_PAGE_ROWS))
    named = table.rename_columns([column.name for column in result.columns]) if result.columns else table
    buffer = io.BytesIO()
    with pa.ipc.new_stream(buffer, named.schema) as writer:
        writer.write_table(named)
    headers = {"Content-Type": _ARROW_TYPE}
    if following is not None:
        headers[NEXT_TOKEN_HEADER] = str(following)
    return web.Response(body=buffer.getvalue(), headers=headers)


def _json(model: WireModel, status: int = 200) -> web.Response:
    return web.Response(text=model.to_json(), status=status, content_type="application/json")


def _number(request: web.Request, name: str, default: int) -> int:
    value = request.query.get(name, str(default))
    if not (value.isascii() and value.isdigit() and len(value) <= 18):
        raise ControlError(400, "Malformed", f"{name} must be a number from 0 on")
    return int(value)


def _authentication(service: ControlService) -> Middleware:
    settings = service.lifecycle.settings
    callers = Callers(settings.token, settings.front_token)

    @web.middleware
    async def authenticate(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in _OPEN_PATHS:
            return await handler(request)
        token = presented_token(request.headers.get("Authorization", ""))
        user = request.headers.get(USER_HEADER)
        caller = callers.identify(
            token.encode(errors="surrogateescape"),
            None if user is None else read_user(user),
            request.headers.get(HANDLE_HEADER),
        )
        if caller is None:
            raise ControlError(401, "Unauthorized", "the request has not this session's token")
        segments = read_target(request.raw_path).segments  # raises BadTargetError, told in the form of clients' paths
        if caller.user is not None and not is_for_clients(segments):
            raise ControlError(403, "Forbidden", "the front's token is accepted for clients' requests only")
        current.set(caller)
        claim(request, _holder(request))
        return await handler(request)

    return authenticate


class _Shared(Enum):
    """Names a holder of the budget that is no caller of the clients' protocols."""

    OPERATOR = auto()


def _holder(request: web.Request) -> Holder:
    """Returns whose share of the budget a request takes from: clients leave the operator room."""
    if request.path in _OPEN_PATHS:
        return None
    if not is_for_clients(read_target(request.raw_path).segments):
        return _Shared.OPERATOR
    return Caller(current.get().user)


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except ControlError as refused:
        return _json(ErrorBody(error=refused.code, message=str(refused)), refused.status)
    except ValidationError as invalid:
        fields = ", ".join(".".join(map(str, error["loc"])) or "body" for error in invalid.errors())
        return _json(ErrorBody(error="Malformed", message=f"the body is invalid: {fields}"), 400)
    except web.HTTPException as http_error:
        return _json(ErrorBody(error=http_error.reason, message=http_error.reason), http_error.status)
    except ConnectionResetError:
        raise  # the reader went away
    except Exception as exception:
        log.exception("a request failed")
        return _json(ErrorBody(error="Internal", message=type(exception).__name__), 500)
