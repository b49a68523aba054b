"""Pages of a result, made when they are asked for or one before: the rows are the same, whatever the order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import cast

import pyarrow as pa
import pytest
from aiohttp import web

from sparksql.gateway.frontends.rest import results
from sparksql.gateway.frontends.rest.handlers import PATIENCE_V1_SECONDS, Call
from sparksql.gateway.frontends.rest.paging import Bookmarks
from sparksql.gateway.frontends.rest.results import NEXT_TOKEN_HEADER, PATIENCE_SECONDS, Results
from sparksql.gateway.frontends.rest.routing import match_route
from sparksql.gateway.sessions.model import ClientError, OperationInfo, OperationStatus, Problem
from sparksql.gateway.sessions.service import SessionService
from sparksql.wire.control import Column

HANDLE = "6cbb1a23-1c1c-4b0a-8f7f-0e8f0e8f0e8f"
ROWS, PAGE = 45, 10


class FakeService:
    """One operation of ROWS rows, which has finished unless it goes on for so many `waits`.

    `read` are the first rows of the pages that were read, `waited` the seconds of each wait.
    """

    def __init__(self) -> None:
        self.read: list[int] = []
        self.is_gone = False
        self.waits = 0
        self.waited: list[float] = []

    def operation(self, session: str, operation: str) -> OperationInfo:
        columns = (Column(name="id", type="bigint"),)
        status = OperationStatus.RUNNING if len(self.waited) < self.waits else OperationStatus.FINISHED
        return OperationInfo(operation, session, status, columns=columns, row_count=ROWS)

    async def wait_for_rows(self, session: str, operation: str, seconds: float) -> OperationInfo:
        self.waited.append(seconds)
        return self.operation(session, operation)

    async def page(self, session: str, operation: str, first_row: int, max_rows: int) -> tuple[pa.Table, int | None]:
        self.read.append(first_row)
        if self.is_gone:
            raise ClientError(Problem.NO_RESULT, "the result has expired")
        count = min(max_rows, ROWS - first_row)
        following = first_row + count
        table = pa.table({"c0": pa.array(range(first_row, following), pa.int64())})
        return table, following if following < ROWS else None


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
def pages(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> Results:
    monkeypatch.setattr(results, "MAX_PAGE_ROWS", PAGE)
    return Results(cast(SessionService, service), Bookmarks(10), arrow_page_rows=PAGE)


async def answered(pages: Results, token: int, row_format: str = "JSON", version: str = "v2") -> web.Response:
    segments = (version, "sessions", HANDLE, "operations", HANDLE, "result", str(token))
    match = match_route("GET", segments, ("V1", "V2"))
    assert match is not None
    return await pages.fetch(Call(match, None, {"rowFormat": row_format}))


async def fetched(pages: Results, token: int, row_format: str = "JSON") -> Sequence[int]:
    """The rows of a page, once all that its fetching has begun is over."""
    answer = await answered(pages, token, row_format)
    await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}), return_exceptions=True)
    assert isinstance(answer.body, bytes)
    if row_format == "ARROW":
        assert answer.headers.get(NEXT_TOKEN_HEADER) == (None if (token + 1) * PAGE >= ROWS else str(token + 1))
        return list(pa.ipc.open_stream(answer.body).read_all().column(0).to_pylist())
    return [int(row["fields"][0]) for row in json.loads(answer.body)["results"]["data"]]


def rows_of(token: int) -> list[int]:
    return list(range(ROWS))[token * PAGE : (token + 1) * PAGE]


@pytest.mark.parametrize(("version", "seconds"), [("v1", PATIENCE_V1_SECONDS), ("v2", PATIENCE_SECONDS)])
@pytest.mark.parametrize(("waits", "told"), [(1, "PAYLOAD"), (2, "NOT_READY")])
async def test_a_page_that_is_not_ready_is_waited_for_once(
    service: FakeService, pages: Results, version: str, seconds: float, waits: int, told: str
) -> None:
    service.waits = waits
    answer = await answered(pages, 0, version=version)
    assert isinstance(answer.body, bytes)
    assert json.loads(answer.body)["resultType"] == told
    assert service.waited == [seconds] and seconds > 0


@pytest.mark.parametrize("row_format", ["JSON", "PLAIN_TEXT", "ARROW"])
async def test_a_client_that_asks_in_sequence_gets_every_row_and_each_page_is_made_once(
    service: FakeService, pages: Results, row_format: str
) -> None:
    read = []
    for token in range(5):
        assert await fetched(pages, token, row_format) == rows_of(token)
        read.append(len(service.read))
    assert read == [1, 3, 4, 5, 5]
    assert service.read == [0, 10, 20, 30, 40]


async def test_a_client_of_the_first_page_alone_has_no_other_made(service: FakeService, pages: Results) -> None:
    for _ in range(3):
        assert await fetched(pages, 0) == rows_of(0)
    assert service.read == [0, 0, 0]


async def test_pages_asked_in_another_order_or_format_have_the_same_rows(pages: Results) -> None:
    for token in range(5):
        await fetched(pages, token)
    for token, row_format in ((1, "JSON"), (2, "JSON"), (3, "PLAIN_TEXT"), (0, "JSON"), (4, "JSON"), (4, "JSON")):
        assert await fetched(pages, token, row_format) == rows_of(token), (token, row_format)


async def test_a_result_that_is_gone_is_told_to_who_asks_for_the_page_that_could_not_be_made(
    service: FakeService, pages: Results
) -> None:
    await fetched(pages, 0)
    await fetched(pages, 1)
    service.is_gone = True
    assert await fetched(pages, 2) == rows_of(2), "made before the result was gone"
    with pytest.raises(ClientError, match="expired"):
        await fetched(pages, 3)
