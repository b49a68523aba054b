"""Pages made ahead: one of a result, of few results at a time, and for a short time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from sparksql.gateway.frontends import ahead
from sparksql.gateway.frontends.ahead import MOST_RESULTS, PagesAhead

Making = Callable[[str], Coroutine[Any, Any, str]]


@pytest.fixture
def made() -> list[str]:
    """Pages that have been made so far."""
    return []


@pytest.fixture
def making(made: list[str]) -> Making:
    async def make(page: str) -> str:
        await asyncio.sleep(0)
        made.append(page)
        return page

    return make


async def test_a_page_is_made_before_it_is_asked_for_and_given_once(made: list[str], making: Making) -> None:
    pages: PagesAhead[int, str] = PagesAhead()
    pages.begin("r", 7, making("seventh"))
    async with asyncio.timeout(60):
        while made != ["seventh"]:
            await asyncio.sleep(0)
    assert [await pages.take("r", 7), await pages.take("r", 7)] == ["seventh", None]


async def test_a_page_that_is_still_being_made_is_waited_for(making: Making) -> None:
    pages: PagesAhead[int, str] = PagesAhead()
    pages.begin("r", 7, making("seventh"))
    assert await pages.take("r", 7) == "seventh"


async def test_another_place_or_result_has_no_page_and_leaves_the_one_that_is_there(making: Making) -> None:
    pages: PagesAhead[int, str] = PagesAhead()
    pages.begin("r", 7, making("seventh"))
    assert [await pages.take("r", 6), await pages.take("other", 7)] == [None, None]
    assert await pages.take("r", 7) == "seventh"


async def test_a_result_has_one_page_ahead(made: list[str], making: Making) -> None:
    pages: PagesAhead[int, str] = PagesAhead()
    pages.begin("r", 7, making("seventh"))
    pages.begin("r", 8, making("eighth"))
    assert [await pages.take("r", 7), await pages.take("r", 8)] == [None, "eighth"]
    assert made == ["eighth"]


async def test_more_results_than_the_bound_wait_for_no_page_and_push_none_out(made: list[str], making: Making) -> None:
    pages: PagesAhead[int, str] = PagesAhead()
    for number in range(MOST_RESULTS + 2):
        pages.begin(str(number), 0, making(str(number)))
    given = [await pages.take(str(number), 0) for number in range(MOST_RESULTS + 2)]
    assert given == [*made, None, None]
    pages.begin("again", 0, making("again"))
    assert await pages.take("again", 0) == "again"


async def test_a_page_that_fails_is_as_if_it_were_not_there() -> None:
    async def fail() -> str:
        raise ValueError("the result is gone")

    pages: PagesAhead[int, str] = PagesAhead()
    pages.begin("r", 7, fail())
    assert await pages.take("r", 7) is None


async def test_a_page_that_nobody_asks_for_is_forgotten(making: Making, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "KEPT_SECONDS", 0.01)
    pages: PagesAhead[int, str] = PagesAhead()
    pages.begin("r", 7, making("seventh"))
    later = asyncio.Event()
    asyncio.get_running_loop().call_later(ahead.KEPT_SECONDS, later.set)  # timers of a loop go off in their order
    await later.wait()
    assert await pages.take("r", 7) is None
