"""What the routes do, but for pages of results: sessions, statements, operations.

Submitting never waits. Waiting for a result is bounded (see `rest.results`); only configure-session waits for its statement's
end, as released.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiohttp import web

from sparksql.api.conf_policy import redacted
from sparksql.gateway.catalog.completion import complete
from sparksql.gateway.frontends.rest import models
from sparksql.gateway.frontends.rest.configuring import unsupported_text
from sparksql.gateway.frontends.rest.errors import Cause, RestError, chained, failed, server_side, sql_cause
from sparksql.gateway.frontends.rest.models import RestModel
from sparksql.gateway.frontends.rest.paging import Bookmarks
from sparksql.gateway.frontends.rest.routing import COMPAT_VERSIONS, Match
from sparksql.gateway.sessions.model import ClientError, OperationStatus, Problem
from sparksql.wire.control import ClientProtocol, ErrorReason

if TYPE_CHECKING:
    from sparksql.gateway.sessions.service import SessionService

PRODUCT_NAME = "Spark SQL"  # as Spark's Thrift server names itself to tools that choose a dialect by it
# Clients of version 1 take an operation that waits for its turn for one that is done, and its result for the last page.
PATIENCE_V1_SECONDS = 25.0
JARS_VERSION = 4
CANCEL_SECONDS = 2.0  # longer than a statement takes to stop, so that the next look shows it stopped
_POLL_SECONDS = 0.05
_WAITING = (OperationStatus.INITIALIZED, OperationStatus.PENDING)
# Flink's SQL Client shows every query as a changelog unless the session says that results are complete.
_EVERY_SESSION = {"execution.runtime-mode": "batch"}


@dataclass(frozen=True)
class Call:
    """A request that has found its route: `body` is the route's model, if it has one.

    `promised` is the handle that the client has already for what the request begins.
    """

    match: Match
    body: RestModel | None
    query: Mapping[str, str] = field(repr=False)
    promised: str | None = None

    @property
    def session(self) -> str:
        """Returns the session handle in the path."""
        return self.match.parameters["session_handle"].lower()

    @property
    def operation(self) -> str:
        """Returns the operation handle in the path."""
        return self.match.parameters["operation_handle"].lower()

    def failed(self, *causes: Cause) -> RestError:
        """Returns the failure of the call's route."""
        return failed(self.match.route.form, self.match.route.failure, *causes)


Handler = Callable[[Call], Awaitable[web.Response]]


class Handlers:
    """Does what the routes ask for. A handler is found by its route's name."""

    def __init__(self, service: SessionService, bookmarks: Bookmarks, product_version: str) -> None:
        self._service = service
        self._bookmarks = bookmarks
        self._product_version = product_version

    async def info(self, call: Call) -> web.Response:
        """Answers GET /info with the names of product and version."""
        return answer(models.InfoResponse(product_name=PRODUCT_NAME, version=self._product_version))

    async def api_versions(self, call: Call) -> web.Response:
        """Answers GET /api_versions with the versions that are advertised here."""
        versions = COMPAT_VERSIONS if call.match.compat else self._service.settings.rest_versions
        return answer(models.ApiVersionsResponse(versions=list(versions)))

    async def open_session(self, call: Call) -> web.Response:
        """Answers POST /sessions with the handle of a new session.

        Raises RestError for a jar that cannot be added; the session is closed then.
        """
        body = _body(call, models.OpenSessionRequest)
        name, properties = body.session_name or "", _given(body.properties)
        view = await self._service.open(ClientProtocol.REST, name, properties, call.promised)
        self._service.on_close(view.handle, self._bookmarks.drop_session)
        try:
            for jar in (body.jars or ()) if call.match.version >= JARS_VERSION else ():
                await self._add_jar(call, view.handle, jar)
        except BaseException as failed:
            await self._service.close(view.handle)
            if call.promised is not None and isinstance(failed, RestError):
                self._service.break_promise(view.handle, ClientError(Problem.INVALID, str(failed)))
            raise
        return answer(models.OpenSessionResponse(session_handle=view.handle))

    async def _add_jar(self, call: Call, session: str, uri: str) -> None:
        if {"'", "\\"} & {*uri}:
            raise call.failed(
                Cause("IllegalArgumentException", f"jars: {uri!r} must be a URI without quotes and backslashes")
            )
        view = await self._service.run(session, f"ADD JAR '{uri}'")
        self._service.close_operation(session, view.handle)
        if view.status is not OperationStatus.FINISHED:
            reason = Cause("SqlExecutionException", f"it ended in {view.status} status")
            cause = reason if view.error is None else sql_cause(view.error)
            is_refused = view.error is not None and view.error.reason is ErrorReason.NOT_ALLOWED
            what = Cause("SqlExecutionException", f"jars: {uri} was not added")
            raise failed(
                call.match.route.form, call.match.route.failure, what, cause, status=403 if is_refused else 500
            )

    async def get_session(self, call: Call) -> web.Response:
        """Answers GET /sessions/SESSION with its properties, secrets redacted."""
        properties = {**_EVERY_SESSION, **self._service.session(call.session).properties}
        return answer(models.SessionResponse(properties=redacted(properties)))

    async def close_session(self, call: Call) -> web.Response:
        """Answers DELETE /sessions/SESSION: closes the session."""
        await self._service.close(call.session)
        return answer(models.StatusResponse(status=OperationStatus.CLOSED))

    async def heartbeat(self, call: Call) -> web.Response:
        """Answers POST /sessions/SESSION/heartbeat: counts as use of the session."""
        self._service.session(call.session)
        return answer(models.EmptyResponse())

    async def configure_session(self, call: Call) -> web.Response:
        """Answers POST /sessions/SESSION/configure-session; waits for the statement's end.

        Raises RestError for a statement that reads or writes data, and for one that fails.
        """
        body = _body(call, models.ConfigureSessionRequest)
        sql = body.statement or ""
        unfit = await self._service.with_session(
            call.session, lambda driver, session: unsupported_text(driver, session, sql)
        )
        if unfit is not None:
            message = f"Unsupported statement for configuring session: {unfit}. Send it as a statement."
            raise call.failed(Cause("UnsupportedOperationException", message))
        view = await self._service.run(call.session, sql, execution_seconds=_seconds(body.execution_timeout))
        self._service.close_operation(call.session, view.handle)
        if view.status is not OperationStatus.FINISHED:
            head = Cause("SqlExecutionException", f"Failed to execute the operation {view.handle}.")
            reason = Cause("SqlExecutionException", f"the operation ended in {view.status} status")
            raise call.failed(head, reason if view.error is None else sql_cause(view.error))
        return answer(models.EmptyResponse())

    async def complete_statement(self, call: Call) -> web.Response:
        """Answers complete-statement of a session with the names and words that may stand at a position."""
        body = _body(call, models.CompleteStatementRequest)
        statement, position = body.statement or "", body.position
        found = await self._service.with_session(
            call.session, lambda driver, session: complete(driver, session, statement, position)
        )
        return answer(models.CompleteStatementResponse(candidates=found))

    async def execute_statement(self, call: Call) -> web.Response:
        """Answers POST /sessions/SESSION/statements with the handle of the operation, without waiting for it."""
        body = _body(call, models.ExecuteStatementRequest)
        handle = self._service.submit(
            call.session,
            body.statement or "",
            conf=_given(body.execution_config),
            execution_seconds=_seconds(body.execution_timeout),
            promised=call.promised,
        )
        return answer(models.ExecuteStatementResponse(operation_handle=handle))

    async def operation_status(self, call: Call) -> web.Response:
        """Answers GET of an operation's status.

        Version 1 holds the answer for up to PATIENCE_V1_SECONDS while the operation has not begun to run.
        """
        view = self._service.operation(call.session, call.operation)
        if call.match.version == 1:
            deadline = asyncio.get_running_loop().time() + PATIENCE_V1_SECONDS
            while view.status in _WAITING and asyncio.get_running_loop().time() < deadline:
                view = await self._service.wait(call.session, call.operation, _POLL_SECONDS)
        return answer(models.StatusResponse(status=view.status))

    async def cancel_operation(self, call: Call) -> web.Response:
        """Answers POST of an operation's cancel; waits up to CANCEL_SECONDS for its end.

        Raises RestError for an operation that has ended.
        """
        try:
            self._service.cancel(call.session, call.operation)
        except ClientError as refused:
            if refused.problem is not Problem.ILLEGAL_TRANSITION:
                raise
            view = self._service.operation(call.session, call.operation)
            message = f"Failed to convert the Operation Status from {view.status} to CANCELED for {call.operation}."
            raise call.failed(Cause("SqlGatewayException", message)) from refused
        view = await self._service.wait(call.session, call.operation, CANCEL_SECONDS)
        status = view.status if view.status.is_terminal else OperationStatus.CANCELED
        return answer(models.StatusResponse(status=status))

    async def close_operation(self, call: Call) -> web.Response:
        """Answers DELETE of an operation's close: forgets the operation and its result."""
        self._service.close_operation(call.session, call.operation)
        self._bookmarks.drop(call.session, call.operation)
        return answer(models.StatusResponse(status=OperationStatus.CLOSED))

    async def deploy_script(self, call: Call) -> web.Response:
        """Answers POST /sessions/SESSION/scripts: the script runs here, and its cluster id is the operation's handle.

        Raises RestError for a `scriptUri`, which is not read here, and for no script at all.
        """
        body = _body(call, models.DeployScriptRequest)
        if body.script_uri:
            raise call.failed(
                Cause("UnsupportedOperationException", "scriptUri is not read here: send the text as script.")
            )
        if not body.script:
            raise server_side(Cause("IllegalArgumentException", "Please specify script content or uri."))
        handle = self._service.submit(call.session, body.script, conf=_given(body.execution_config))
        return answer(models.DeployScriptResponse(cluster_id=handle))

    async def refresh_materialized_table(self, call: Call) -> web.Response:
        """Refuses to refresh a materialized table. Raises RestError."""
        self._service.session(call.session)
        raise call.failed(Cause("UnsupportedOperationException", "Spark has no materialized tables to refresh."))

    async def workflow(self, call: Call) -> web.Response:
        """Refuses all routes of workflows. Raises RestError."""
        message = "There is no embedded scheduler: workflows belong to the cluster's own scheduler."
        raise chained(500, Cause("RestHandlerException", message), Cause("UnsupportedOperationException", message))


def answer(model: RestModel) -> web.Response:
    """Makes an HTTP response of a model."""
    return json_response(model.to_json().encode())


def json_response(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Makes an HTTP response of JSON that is written already."""
    return web.Response(
        body=body, status=status, headers={"Content-Type": "application/json; charset=UTF-8", **(headers or {})}
    )


def _body(call: Call, model: type[models.Request]) -> models.Request:
    assert isinstance(call.body, model)
    return call.body


def _given(values: Mapping[str, str | None] | None) -> dict[str, str]:
    return {key: value for key, value in (values or {}).items() if value is not None}


def _seconds(timeout_ms: int | None) -> float:
    return max(0, timeout_ms or 0) / 1000
