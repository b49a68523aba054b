"""Queries over a STREAM whose rows a client takes as they come, over the REST API."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from .rest_client import RestClient, RestSession

Row = tuple[str, Any]


@pytest.fixture
async def session(rest: RestClient) -> AsyncIterator[RestSession]:
    async with rest.session() as opened:
        await opened.run("CREATE TABLE unbounded_events (k STRING, v INT) USING parquet")
        yield opened
        await opened.run("DROP TABLE unbounded_events")


class Followed:
    """A query that is followed by token: the rows so far, each with its kind."""

    def __init__(self, session: RestSession, operation: str, row_format: str = "JSON") -> None:
        self.session = session
        self.operation = operation
        self.row_format = row_format
        self.token = 0
        self.rows: list[tuple[str, ...]] = []

    async def until(self, enough: Callable[[], bool], seconds: float = 60) -> None:
        """Takes pages until the rows so far are enough."""
        deadline = asyncio.get_running_loop().time() + seconds
        while not enough():
            assert asyncio.get_running_loop().time() < deadline, self.rows
            answer = await self.session.page(self.operation, self.token, self.row_format)
            assert answer.status == 200, answer.told
            assert answer.body["resultType"] == "PAYLOAD", answer.body
            self.rows += [(row["kind"], *row["fields"]) for row in answer.body["results"]["data"]]
            assert f"/result/{self.token + 1}?" in answer.body["nextResultUri"]
            self.token += 1

    @property
    def result(self) -> Counter[tuple[str, ...]]:
        """The result that the changes make."""
        found: Counter[tuple[str, ...]] = Counter()
        for kind, *row in self.rows:
            found[tuple(row)] += 1 if kind in ("INSERT", "UPDATE_AFTER") else -1
        return +found


async def follow(session: RestSession, sql: str, row_format: str = "JSON") -> Followed:
    return Followed(session, await session.submit(sql), row_format)


async def add(session: RestSession, values: str) -> None:
    await session.run(f"INSERT INTO unbounded_events VALUES {values}")


async def test_rows_come_as_they_are_written_until_the_query_is_cancelled(session: RestSession) -> None:
    query = await follow(session, "SELECT k, v + 1 AS w FROM STREAM unbounded_events")
    await add(session, "('a', 1)")  # in the same session, whose next statement does not wait for the query
    await query.until(lambda: len(query.rows) == 1)
    await add(session, "('b', 2), ('c', 3)")
    await query.until(lambda: len(query.rows) == 3)

    assert query.rows[0] == ("INSERT", "a", 2)
    assert sorted(query.rows[1:]) == [("INSERT", "b", 3), ("INSERT", "c", 4)]
    assert await session.status(query.operation) == "RUNNING"
    cancelled = await session.client.call("POST", f"{session.path}/operations/{query.operation}/cancel")
    assert cancelled.body == {"status": "CANCELED"}
    late = await session.page(query.operation, query.token)
    assert late.status == 500 and "in CANCELED status" in late.told


async def test_a_page_may_be_asked_for_again_until_the_next_one_is(session: RestSession) -> None:
    query = await follow(session, "SELECT v FROM STREAM unbounded_events")
    await add(session, "('a', 1)")
    await query.until(lambda: len(query.rows) == 1)
    again = await session.page(query.operation, query.token - 1)
    plain = await session.page(query.operation, query.token - 1, "PLAIN_TEXT")

    assert again.body["results"]["data"] == [{"kind": "INSERT", "fields": [1]}]
    assert plain.body["results"]["data"] == [{"kind": "INSERT", "fields": ["1"]}]
    for token in (query.token + 1, query.token - 2):
        refused = await session.page(query.operation, token)
        expected = f"Expecting token to be {query.token} or {query.token - 1}, but found {token}."
        assert refused.status == 500 and refused.told.endswith(expected), refused


async def test_an_aggregation_is_a_changelog_by_its_keys(session: RestSession) -> None:
    query = await follow(session, "SELECT count(*) AS n, k FROM STREAM unbounded_events GROUP BY k")
    await add(session, "('a', 1)")
    await query.until(lambda: query.result == Counter({(1, "a"): 1}))
    await add(session, "('a', 2), ('b', 3)")
    await query.until(lambda: query.result == Counter({(2, "a"): 1, (1, "b"): 1}))

    assert query.rows[0] == ("INSERT", 1, "a")
    update = query.rows.index(("UPDATE_BEFORE", 1, "a"))
    assert query.rows[update + 1] == ("UPDATE_AFTER", 2, "a")
    assert ("INSERT", 1, "b") in query.rows[1:] and len(query.rows) == 4


async def test_a_group_that_a_having_leaves_out_later_is_deleted(session: RestSession) -> None:
    query = await follow(session, "SELECT k FROM STREAM unbounded_events GROUP BY k HAVING count(*) < 2")
    await add(session, "('a', 1), ('b', 2)")
    await query.until(lambda: query.result == Counter({("a",): 1, ("b",): 1}))
    await add(session, "('a', 3)")
    await query.until(lambda: query.result == Counter({("b",): 1}))

    assert query.rows[-1] == ("DELETE", "a")


async def test_the_first_rows_of_an_order_are_kept_current(session: RestSession) -> None:
    sql = "SELECT k, sum(v) AS s FROM STREAM unbounded_events GROUP BY k ORDER BY s DESC LIMIT 2"
    query = await follow(session, sql)
    await add(session, "('a', 1), ('b', 2), ('c', 3)")
    await query.until(lambda: query.result == Counter({("c", 3): 1, ("b", 2): 1}))
    await add(session, "('a', 9)")
    await query.until(lambda: query.result == Counter({("a", 10): 1, ("c", 3): 1}))


async def test_a_changelog_in_arrow_begins_with_the_kind_of_each_row(session: RestSession) -> None:
    operation = await session.submit("SELECT k, count(*) AS n FROM STREAM unbounded_events GROUP BY k")
    await add(session, "('a', 1)")
    rows: list[dict[str, Any]] = []
    token = 0
    async with asyncio.timeout(60):
        while not rows:
            answer = await session.page(operation, token, "ARROW")
            table = pa.ipc.open_stream(answer.raw).read_all()
            assert table.column_names == ["op", "k", "n"]
            rows += table.to_pylist()
            token = int(answer.headers["X-Next-Token"])

    assert rows == [{"op": "+I", "k": "a", "n": 1}]


async def test_many_rows_at_once_come_in_pages_from_files(session: RestSession) -> None:
    query = await follow(session, "SELECT v FROM STREAM unbounded_events")
    await session.run("INSERT INTO unbounded_events SELECT 'x', CAST(id AS INT) FROM range(0, 25000, 1, 3)")
    await query.until(lambda: len(query.rows) >= 25_000)

    assert sorted(row[1] for row in query.rows) == list(range(25_000))
    assert query.token >= 5


async def test_a_query_that_fails_says_why(session: RestSession) -> None:
    query = await follow(session, "SELECT raise_error(k) FROM STREAM unbounded_events")
    await add(session, "('no good', 1)")
    assert await session.until(query.operation, "ERROR") == "ERROR"

    assert "no good" in (await session.page(query.operation, 0)).told


async def test_a_query_that_spark_cannot_stream_is_refused_with_its_place(session: RestSession) -> None:
    told = await session.failure("SELECT k, rank() OVER (ORDER BY v) FROM STREAM unbounded_events")

    assert "OVER" in told and "line 1, position 11" in told, told


async def test_a_closed_query_leaves_nothing_behind(session: RestSession) -> None:
    query = await follow(session, "SELECT k, count(*) FROM STREAM unbounded_events GROUP BY k")
    await add(session, "('a', 1)")
    await query.until(lambda: len(query.rows) == 1)
    closed = await session.client.call("DELETE", f"{session.path}/operations/{query.operation}/close")
    assert closed.body == {"status": "CLOSED"}

    await _nothing_left(session.client.gateway.folder, query.operation)


async def test_a_session_that_is_closed_ends_the_query(rest: RestClient, session: RestSession) -> None:
    async with rest.session() as other:
        query = await follow(other, "SELECT v FROM STREAM unbounded_events")
        await add(session, "('a', 1)")
        await query.until(lambda: len(query.rows) == 1)
    await _nothing_left(rest.gateway.folder, query.operation)

    gone = await session.client.call("GET", f"{other.path}/operations/{query.operation}/result/{query.token}")
    assert gone.status != 200 and "does not exist" in gone.told


async def test_a_column_that_is_not_there_is_told_with_its_place(session: RestSession) -> None:
    told = await session.failure("SELECT nosuch FROM STREAM unbounded_events")

    assert "[UNRESOLVED_COLUMN" in told and "nosuch" in told and "42703" in told, told


async def _nothing_left(root: Path, operation: str) -> None:
    async with asyncio.timeout(30):
        while _files(root, operation):
            await asyncio.sleep(0.1)


def _files(root: Path, operation: str) -> list[str]:
    """Files and folders of the operation; unlike Path.rglob, os.walk bears that they go away meanwhile."""
    found = (os.path.join(at, name) for at, folders, files in os.walk(root) for name in (*folders, *files))
    return [path for path in found if operation in os.path.basename(path)]
