"""Pages of results.

A request for a page of an operation that still runs is held for a moment and then answered NOT_READY, so that a client that
polls learns of the end at once and asks seldom. Under version 1 it is held longer, see `handlers`.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

import pyarrow as pa
from aiohttp import web

from sparksql.gateway.frontends.rest.content import Page, ResultContent, content_of, page_json
from sparksql.gateway.frontends.rest.errors import Cause, bad_parameter, ended_badly, unfetchable
from sparksql.gateway.frontends.rest.handlers import PATIENCE_V1_SECONDS, Call, json_response
from sparksql.gateway.frontends.rest.models import FetchResultsResponse, ResultType, RowFormat
from sparksql.gateway.frontends.rest.paging import Bookmark, Bookmarks, UnexpectedTokenError
from sparksql.gateway.frontends.rest.rows import write_arrow, write_rows
from sparksql.gateway.frontends.zones import UnknownZoneError
from sparksql.gateway.sessions.model import OperationInfo, OperationStatus

if TYPE_CHECKING:
    from sparksql.gateway.sessions.service import SessionService

MAX_PAGE_ROWS = 5_000  # as released
PATIENCE_SECONDS = 1.0
ARROW_TYPE = "application/vnd.apache.arrow.stream"
RESULT_TYPE_HEADER = "X-Result-Type"
NEXT_TOKEN_HEADER = "X-Next-Token"  # noqa: S105  a page's number, no secret
_TOKENS = range(-(2**63), 2**63)


class Results:
    """Fetches pages of results by token. `arrow_page_rows` bounds a page of rowFormat=ARROW."""

    def __init__(self, service: SessionService, bookmarks: Bookmarks, arrow_page_rows: int) -> None:
        self._service = service
        self._bookmarks = bookmarks
        self._arrow_page_rows = arrow_page_rows

    async def fetch(self, call: Call) -> web.Response:
        """Answers result/{token}."""
        token, row_format = _token(call.match.parameters["token"]), _row_format(call)
        view = self._service.operation(call.session, call.operation)
        if not view.status.is_terminal:
            patience = PATIENCE_V1_SECONDS if call.match.version == 1 else PATIENCE_SECONDS
            view = await self._service.wait(call.session, call.operation, patience)
        if not view.status.is_terminal:
            return _not_ready(call, row_format)
        if view.status is not OperationStatus.FINISHED:
            raise ended_badly(view)
        bookmark = self._bookmarks.of(call.session, call.operation, large_pages=row_format is RowFormat.ARROW)
        try:
            return await self._page(call, view, bookmark, token, row_format)
        except UnexpectedTokenError as unexpected:
            raise unfetchable(Cause("SqlExecutionException", str(unexpected))) from unexpected
        except UnknownZoneError as unknown:
            raise unfetchable(Cause("SqlExecutionException", str(unknown))) from unknown

    async def _page(
        self, call: Call, view: OperationInfo, bookmark: Bookmark, token: int, row_format: RowFormat
    ) -> web.Response:
        content, first = content_of(view), bookmark.start(token)
        most = self._arrow_page_rows if row_format is RowFormat.ARROW else MAX_PAGE_ROWS
        table = pa.table({})
        if first != bookmark.end:
            table, following = await self._read(view, content, first, bookmark.rows(token, most))
            bookmark.turned(token, table.num_rows, following)
        if row_format is RowFormat.ARROW:
            is_last = first + table.num_rows == bookmark.end  # no empty page behind it, as released clients know it
            body = await asyncio.to_thread(write_arrow, table, content.names, content.types)
            return _arrow_response(body, None if is_last else token + 1)
        at_end = table.num_rows == 0
        rows = await asyncio.to_thread(write_rows, table, content.types, row_format)
        page = Page(
            type=ResultType.EOS if at_end else ResultType.PAYLOAD,
            row_format=row_format,
            next_uri=None if at_end else _uri(call, token + 1, row_format),
        )
        return json_response(page_json(page, content, rows))

    async def _read(
        self, view: OperationInfo, content: ResultContent, first: int, most: int
    ) -> tuple[pa.Table, int | None]:
        own = content.page(first)
        return (own, None) if own is not None else await self._service.page(view.session, view.handle, first, most)


def _token(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,19}", text, re.ASCII) or int(text) not in _TOKENS:
        raise bad_parameter("path", "token", text)
    return int(text)


def _row_format(call: Call) -> RowFormat:
    text = call.query.get("rowFormat")
    if text is None or call.match.version == 1:
        return RowFormat.JSON
    try:
        return RowFormat(text.upper())
    except ValueError:
        raise bad_parameter("query", "rowFormat", text) from None


def _not_ready(call: Call, row_format: RowFormat) -> web.Response:
    answer = FetchResultsResponse(result_type=ResultType.NOT_READY, next_result_uri=_uri(call, 0, row_format))
    headers = {RESULT_TYPE_HEADER: ResultType.NOT_READY.value, NEXT_TOKEN_HEADER: "0"}
    return json_response(answer.to_json().encode(), headers=headers if row_format is RowFormat.ARROW else None)


def _arrow_response(body: bytes, following: int | None) -> web.Response:
    headers = {"Content-Type": ARROW_TYPE, RESULT_TYPE_HEADER: ResultType.EOS.value}
    if following is not None:
        headers |= {RESULT_TYPE_HEADER: ResultType.PAYLOAD.value, NEXT_TOKEN_HEADER: str(following)}
    return web.Response(body=body, headers=headers)


def _uri(call: Call, token: int, row_format: RowFormat) -> str:
    path = f"{call.match.prefix}/sessions/{call.session}/operations/{call.operation}/result/{token}"
    return path if call.match.version == 1 else f"{path}?rowFormat={row_format}"
