"""Pages of results made ahead: while a client takes in one page, the gateway makes the next.

Only a client that asks for page after page has one made, so that who looks at the first page alone costs nothing more.
Invariants: of a result there is at most one page ahead, of few results at a time, and none for longer than KEPT_SECONDS.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Hashable
from typing import Any, Generic, TypeVar

MOST_RESULTS = 4
MOST_BYTES = 4 << 20  # of a page; where one is larger, its result's next pages are not made ahead
KEPT_SECONDS = 10.0  # for a client that has stopped, or reads too slowly to gain anything

Place = TypeVar("Place", bound=Hashable)
Page = TypeVar("Page")


class PagesAhead(Generic[Place, Page]):
    """Pages that are made or being made, by their result and their place in it. Belongs to the event loop."""

    def __init__(self) -> None:
        self._pages: dict[str, tuple[Place, asyncio.Task[Page], asyncio.TimerHandle]] = {}

    def begin(self, result: str, place: Place, making: Coroutine[Any, Any, Page]) -> None:
        """Begins to make a page, in place of another one of the same result; does not when MOST_RESULTS others have one."""
        self._drop(result)
        if len(self._pages) >= MOST_RESULTS:
            making.close()
            return
        task = asyncio.create_task(making)
        task.add_done_callback(_note_failure)
        timer = asyncio.get_running_loop().call_later(KEPT_SECONDS, self._drop, result)
        self._pages[result] = (place, task, timer)

    async def take(self, result: str, place: Place) -> Page | None:
        """Returns a page that was begun, and forgets it; None if there is none, or if it failed: made again, it tells why."""
        if result not in self._pages or self._pages[result][0] != place:
            return None
        _, task, timer = self._pages.pop(result)
        timer.cancel()
        await asyncio.wait({task})
        return None if task.cancelled() or task.exception() is not None else task.result()

    def _drop(self, result: str) -> None:
        found = self._pages.pop(result, None)
        if found is not None:
            _, task, timer = found
            task.cancel()
            timer.cancel()


def _note_failure(task: asyncio.Task[Any]) -> None:
    """Takes the error of a page that nobody asks for, which the loop would report otherwise."""
    if not task.cancelled():
        task.exception()
