"""Texts that take too long to be read are given up, and others go on meanwhile."""

from __future__ import annotations

import asyncio
import threading

import pytest

from sparksql.gateway.sql.errors import StatementError
from sparksql.gateway.sql.readers import AT_ONCE, MOST_GIVEN_UP, ReadAbandonedError, Readers, check_wanted
from sparksql.wire.control import ErrorReason

DEADLINE = 60.0


class Endless:
    """A text whose reading goes on until it is let go; `wanted` tells what it heard then."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.may_end = threading.Event()
        self.wanted: bool | None = None

    def read(self) -> str:
        self.begun.set()
        assert self.may_end.wait(2 * DEADLINE)
        try:
            check_wanted()
        except ReadAbandonedError:
            self.wanted = False
            raise
        self.wanted = True
        return "read"


@pytest.fixture
def endless() -> list[Endless]:
    return [Endless() for _ in range(MOST_GIVEN_UP)]


async def read_at_last(readers: Readers) -> int:
    """What a text gives that takes no time, whose reader may be late on a busy machine."""
    async with asyncio.timeout(DEADLINE):
        while True:
            try:
                return await readers.read("quick", lambda: 7)
            except StatementError:
                await asyncio.sleep(0.01)


async def test_a_statement_text_read_too_long_fails_and_others_are_still_read(endless: list[Endless]) -> None:
    readers = Readers(seconds=0.2)
    for text in endless[:-1]:
        with pytest.raises(StatementError, match="not read within") as refused:
            await readers.read("slow", text.read)
        assert refused.value.error.reason is ErrorReason.LIMIT_EXCEEDED
        assert await read_at_last(readers) == 7
    for text in endless:
        text.may_end.set()


async def test_reading_a_given_up_statement_text_ends_at_the_next_step(endless: list[Endless]) -> None:
    readers, text = Readers(seconds=0.1), endless[0]
    with pytest.raises(StatementError):
        await readers.read("slow", text.read)
    text.may_end.set()
    async with asyncio.timeout(DEADLINE):
        while text.wanted is None:
            await asyncio.sleep(0.01)
    assert text.wanted is False


async def test_canceling_a_statement_being_read_frees_its_reader_at_once(endless: list[Endless]) -> None:
    readers = Readers(seconds=2 * DEADLINE)
    reading = [asyncio.create_task(readers.read(f"slow{n}", endless[n].read)) for n in range(AT_ONCE)]
    quick = asyncio.create_task(readers.read("quick", lambda: 7))
    async with asyncio.timeout(DEADLINE):
        while not all(text.begun.is_set() for text in endless[:AT_ONCE]):
            await asyncio.sleep(0.01)
    assert not quick.done()
    readers.give_up("slow0")
    with pytest.raises(ReadAbandonedError):
        await reading[0]
    assert await asyncio.wait_for(quick, DEADLINE) == 7
    for text in endless:
        text.may_end.set()
    assert await reading[1] == "read"


async def test_while_too_many_go_on_no_text_is_read(endless: list[Endless]) -> None:
    readers = Readers(seconds=0.1)
    for text in endless:
        with pytest.raises(StatementError, match="not read within"):
            await readers.read("slow", text.read)
    with pytest.raises(StatementError, match="try again later"):
        await readers.read("quick", lambda: 7)
    for text in endless:
        text.may_end.set()
    assert await read_at_last(readers) == 7
