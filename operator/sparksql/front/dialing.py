"""Opens connections to drivers. A driver that is not there any more makes the front look again where its session is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from sparksql.front.model import FrontError, Refusal, SessionKey, Target

AGAIN_SECONDS = 0.5

T = TypeVar("T")


async def dialled(
    find: Callable[[float], Awaitable[Target]], dial: Callable[[Target], Awaitable[T]], seconds: float
) -> tuple[Target, T]:
    """Returns a driver and what `dial` makes of it, within `seconds`.

    `find` waits so long at most for a driver that serves. It is asked again where the driver does not answer: its end may be
    known here only in a moment, and nothing was asked of it yet. Raises FrontError.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        target = await find(max(0.0, deadline - loop.time()))
        try:
            return target, await dial(target)
        except (OSError, TimeoutError, EOFError) as failed:
            if loop.time() + AGAIN_SECONDS >= deadline:
                raise unreachable(target.key, failed) from failed
        await asyncio.sleep(AGAIN_SECONDS)


def unreachable(key: SessionKey, failed: BaseException) -> FrontError:
    """Returns the error for a driver that does not answer."""
    what = f"the driver of session {key} does not answer ({type(failed).__name__}); try again"
    return FrontError(Refusal.UNAVAILABLE, what)
