"""Follows statements until they end, and turns Ctrl-C into a cancel.

Invariants: every state shown came from the API server; a watch that ends or breaks is started again and begins with the
present state, so that no end is missed; the first interrupt only asks, the second leaves at once.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field

from sparksql.cli import render
from sparksql.cli.console import Console
from sparksql.cli.kubectl import Kubectl, KubectlError
from sparksql.cli.objects import SESSIONS, STATEMENTS, Session, Statement

WATCH_RETRIES = 8
FIRST_EVENT_SECONDS = 3.0
REDRAW_SECONDS = 0.2
LOOK_SECONDS = 3.0  # between two looks at the session that a statement waits for
NOTE_SECONDS = 5.0  # without a terminal: what is waited for longer is noted, once


async def states(kubectl: Kubectl, statement: Statement) -> AsyncGenerator[Statement, None]:
    """Yields the states of one statement from `statement` on; only a `deleted` one is the last.

    KubectlError if it may not be read, or if the API server stays away (about a minute).
    """
    last, failures = statement, 0
    yield last
    while True:
        try:
            async with aclosing(_watched(kubectl, last)) as watched:
                async for state in watched:
                    if state.metadata.uid != statement.metadata.uid:  # another of the same name
                        yield _deleted(last)
                        return
                    last, failures = state, 0
                    yield last
                    if last.deleted:
                        return
        except KubectlError as error:
            if error.is_not_found:
                yield _deleted(last)
                return
            if error.is_forbidden or failures >= WATCH_RETRIES:
                raise
            failures += 1
            await asyncio.sleep(min(0.25 * 2**failures, 15.0))


async def _watched(kubectl: Kubectl, statement: Statement) -> AsyncGenerator[Statement, None]:
    """One watch to its end, from the present state on."""
    async with aclosing(kubectl.watch(STATEMENTS, statement.name, statement.namespace)) as events:
        try:
            async with asyncio.timeout(FIRST_EVENT_SECONDS):
                event = await anext(events, None)
        except TimeoutError:  # most likely gone: a watch is silent about what was deleted before it began
            yield Statement.of(await kubectl.get(STATEMENTS, statement.name, statement.namespace))
            return
        while event is not None and event["type"] in ("ADDED", "MODIFIED", "DELETED"):
            state = Statement.of(event["object"])
            yield _deleted(state) if event["type"] == "DELETED" else state
            event = await anext(events, None)


def _deleted(statement: Statement) -> Statement:
    return statement.model_copy(update={"deleted": True})


Until = Callable[[Statement], bool]


@dataclass
class Board:
    """The latest state of each followed statement, for the live line; `session` is that of the one that is shown."""

    total: int
    started: float = field(default_factory=time.monotonic)
    latest: dict[str, Statement] = field(default_factory=dict)
    session: Session | None = None

    async def show(self, console: Console) -> None:
        """Redraws the live line until cancelled; where there is none, notes what a statement has waited for so long."""
        noted, since = "", self.started
        last = ""
        while True:
            now = time.monotonic()
            if console.live:
                columns = shutil.get_terminal_size().columns
                states = list(self.latest.values())
                console.progress(
                    render.progress_line(states, self.total, now - self.started, columns, self.session_of_first())
                )
            else:
                text = self._waits()
                if text != last:
                    last, since = text, now
                elif text and text != noted and now - since >= NOTE_SECONDS:
                    console.note(text)
                    noted = text
            await asyncio.sleep(REDRAW_SECONDS)

    async def look(self, kubectl: Kubectl) -> None:
        """Reads the session of the statement that is shown from time to time, until cancelled or forbidden."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            first = self._first()
            if first is None or not first.session_name:
                continue
            try:
                self.session = Session.of(await kubectl.get(SESSIONS, first.session_name, first.namespace))
            except KubectlError as error:
                if error.is_forbidden:  # the right to run statements does without
                    return
                self.session = None

    def session_of_first(self) -> Session | None:
        """Returns the session of the statement that is shown, None while it is not known."""
        first, session = self._first(), self.session
        if first is None or session is None:
            return None
        is_its = (session.name, session.namespace) == (first.session_name, first.namespace)
        return session if is_its else None

    def _first(self) -> Statement | None:
        return next((each for each in self.latest.values() if not each.has_ended), None)

    def _waits(self) -> str:
        first = self._first()
        message = "" if first is None else render.waits_for(first, self.session_of_first())
        return f"{first.name}: {render.phase(first)}: {message}" if first is not None and message else ""


async def follow(kubectl: Kubectl, statements: Sequence[Statement], until: Until, console: Console) -> list[Statement]:
    """Waits until `until` holds for each of the statements, or it is deleted; returns their states then, in the same order."""
    board = Board(len(statements))

    async def one(statement: Statement) -> Statement:
        async with aclosing(states(kubectl, statement)) as states_of_one:
            async for state in states_of_one:
                board.latest[state.metadata.uid] = state
                if state.deleted or until(state):
                    return state
        raise AssertionError("only a deleted statement is the last state")

    tasks = [asyncio.create_task(one(statement)) for statement in statements]
    others = [asyncio.create_task(board.show(console)), asyncio.create_task(board.look(kubectl))]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in (*tasks, *others):
            task.cancel()
        await asyncio.gather(*tasks, *others, return_exceptions=True)
        console.clear()


class Interrupts:
    """SIGINT and SIGTERM while `run` follows its statements: the first sets `requested`, the second ends the task."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Handles both signals within the `with` block. Must be entered in the task that a second signal is to end."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def on_signal() -> None:
            if self.requested.is_set():
                task.cancel()
            self.requested.set()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, on_signal)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
