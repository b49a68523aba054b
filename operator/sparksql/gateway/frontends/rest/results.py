"""Pages of results.

A request for a page of an operation that still runs is held for a moment and then answered NOT_READY, so that a client that
polls learns of the end at once and asks seldom. Under version 1 it is held longer, see `handlers`. While a client that reads
page after page takes one in, the next is made.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from aiohttp import web

from sparksql.gateway.frontends.ahead import MOST_BYTES, PagesAhead
from sparksql.gateway.frontends.rest.content import Page, ResultContent, content_of, page_json
from sparksql.gateway.frontends.rest.errors import Cause, bad_parameter, ended_badly, unfetchable
from sparksql.gateway.frontends.rest.handlers import PATIENCE_V1_SECONDS, Call, json_response
from sparksql.gateway.frontends.rest.models import FetchResultsResponse, ResultType, RowFormat
from sparksql.gateway.frontends.rest.paging import Bookmark, Bookmarks
from sparksql.gateway.frontends.rest.rows import write_arrow, write_changes, write_rows
from sparksql.gateway.results.unbounded import UnexpectedTokenError
from sparksql.gateway.results.zones import UnknownZoneError
from sparksql.gateway.sessions.model import OperationInfo, OperationStatus

if TYPE_CHECKING:
    from sparksql.gateway.sessions.service import SessionService

MAX_PAGE_ROWS = 5_000  # as released
PATIENCE_SECONDS = 1.0
ARROW_TYPE = "application/vnd.apache.arrow.stream"
RESULT_TYPE_HEADER = "X-Result-Type"
NEXT_TOKEN_HEADER = "X-Next-Token"  # noqa: S105  a page's number, no secret
_TOKENS = range(-(2**63), 2**63)


@dataclass(frozen=True)
class _Rows:
    """Rows of a page in their format, how many they are, and the number of the row behind them, None at the end."""

    body: bytes
    count: int
    following: int | None


class Results:
    """Fetches pages of results by token. `arrow_page_rows` bounds a page of rowFormat=ARROW."""

    def __init__(self, service: SessionService, bookmarks: Bookmarks, arrow_page_rows: int) -> None:
        self._service = service
        self._bookmarks = bookmarks
        self._arrow_page_rows = arrow_page_rows
        self._ahead: PagesAhead[tuple[int, RowFormat], _Rows] = PagesAhead()  # by first row and format

    async def fetch(self, call: Call) -> web.Response:
        """Answers result/{token}."""
        token, row_format = _token(call.match.parameters["token"]), _row_format(call)
        view = self._service.operation(call.session, call.operation)
        if not view.status.is_terminal and not view.unbounded:
            patience = PATIENCE_V1_SECONDS if call.match.version == 1 else PATIENCE_SECONDS
            view = await self._service.wait_for_rows(call.session, call.operation, patience)
        try:
            if view.unbounded and (answer := await self._arrived(call, view, token, row_format)) is not None:
                return answer
        except UnexpectedTokenError as unexpected:
            raise unfetchable(Cause("SqlExecutionException", str(unexpected))) from unexpected
        view = self._service.operation(call.session, call.operation)
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

    async def _arrived(self, call: Call, view: OperationInfo, token: int, row_format: RowFormat) -> web.Response | None:
        """A page of a query without end, empty if no rows have come meanwhile; None if it has ended."""
        most = self._arrow_page_rows if row_format is RowFormat.ARROW else MAX_PAGE_ROWS
        page = await self._service.unbounded_page(view.session, view.handle, token, most, PATIENCE_SECONDS)
        if page is None:
            return None
        content = content_of(view)
        if row_format is RowFormat.ARROW:
            return _arrow_response(
                await asyncio.to_thread(write_changes, page, content.names, content.types), token + 1
            )
        body = await asyncio.to_thread(write_rows, page.table, content.types, row_format, page.kinds)
        described = Page(type=ResultType.PAYLOAD, row_format=row_format, next_uri=_uri(call, token + 1, row_format))
        return json_response(page_json(described, content, body))

    async def _page(
        self, call: Call, view: OperationInfo, bookmark: Bookmark, token: int, row_format: RowFormat
    ) -> web.Response:
        content, first = content_of(view), bookmark.start(token)
        most = self._arrow_page_rows if row_format is RowFormat.ARROW else MAX_PAGE_ROWS
        is_next = bookmark.is_next(token)
        if first == bookmark.end:
            rows = await self._written(content, pa.table({}), None, row_format)
        else:
            rows = await self._ahead.take(view.handle, (first, row_format)) or await self._rows(
                view, content, first, bookmark.rows(token, most), row_format
            )
            bookmark.turned(token, rows.count, rows.following)
        if is_next and rows.following is not None and len(rows.body) <= MOST_BYTES:
            making = self._rows(view, content, rows.following, bookmark.rows(token + 1, most), row_format)
            self._ahead.begin(view.handle, (rows.following, row_format), making)
        if row_format is RowFormat.ARROW:
            is_last = first + rows.count == bookmark.end  # no empty page behind it, as released clients know it
            return _arrow_response(rows.body, None if is_last else token + 1)
        at_end = rows.count == 0
        page = Page(
            type=ResultType.EOS if at_end else ResultType.PAYLOAD,
            row_format=row_format,
            next_uri=None if at_end else _uri(call, token + 1, row_format),
        )
        return json_response(page_json(page, content, rows.body))

    async def _rows(
        self, view: OperationInfo, content: ResultContent, first: int, most: int, row_format: RowFormat
    ) -> _Rows:
        own = content.page(first)
        table, following = (
            (own, None) if own is not None else await self._service.page(view.session, view.handle, first, most)
        )
        return await self._written(content, table, following, row_format)

    async def _written(
        self, content: ResultContent, table: pa.Table, following: int | None, row_format: RowFormat
    ) -> _Rows:
        if row_format is RowFormat.ARROW:
            body = await asyncio.to_thread(write_arrow, table, content.names, content.types)
        else:
            body = await asyncio.to_thread(write_rows, table, content.types, row_format)
        return _Rows(body, table.num_rows, following)


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
