"""Rows of a query without end, which its client takes page by page as they come.

The query's thread adds pieces, and waits while the client has not taken what came before: a slow client slows the query down, and
memory and files stay bounded. Pages are numbered from 0. The last one and the next may be asked for, as FLIP-91 has it for
`fetchResults`; what came before is gone.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from sparksql.gateway.results.changes import RowKind
from sparksql.gateway.results.store import ResultReader, StoredResult
from sparksql.wire.control import Column

MOST_WAITING = 2  # pieces that the client has not begun to take


class UnexpectedTokenError(Exception):
    """A token that no page has or will have next; the message names those that may be asked."""


class RowsClosedError(Exception):
    """Nobody takes these rows any more."""


@dataclass(frozen=True)
class Piece:
    """Rows that came together. `kinds` is None where all of them are insertions."""

    rows: StoredResult
    kinds: tuple[RowKind, ...] | None = None


@dataclass(frozen=True)
class UnboundedPage:
    """Rows of one page, none if none have come. `kinds` is None where all of them are insertions."""

    table: pa.Table
    kinds: tuple[RowKind, ...] | None = None


class UnboundedResult:
    """Rows between the thread of a query and its client: a changelog, or insertions alone. Made in that thread.

    `discard` removes a piece's files. Safe to use from several threads.
    """

    def __init__(
        self,
        columns: tuple[Column, ...],
        loop: asyncio.AbstractEventLoop,
        discard: Callable[[StoredResult], None],
        *,
        is_changelog: bool,
    ) -> None:
        self.columns = columns
        self.is_changelog = is_changelog
        self._nothing = UnboundedPage(pa.table({}), () if is_changelog else None)
        self._loop = loop
        self._discard = discard
        self._changed = threading.Condition()
        self._arrived = asyncio.Event()  # of the loop; set while there are rows that no page has
        self._pieces: deque[Piece] = deque()
        self._taken = 0  # rows of the first piece that pages have
        self._page: UnboundedPage | None = None
        self._token = -1  # of that page
        self._closed = False

    def put(self, piece: Piece) -> None:
        """Adds rows, once there is room for them. Raises RowsClosedError."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._pieces) < MOST_WAITING)
            if not self._closed:
                self._pieces.append(piece)
                self._tell()
                return
        self._discard(piece.rows)
        raise RowsClosedError

    def close(self) -> None:
        """Lets go of what nobody has taken; from here on `put` raises."""
        with self._changed:
            self._closed = True
            left, self._pieces = [*self._pieces], deque()
            self._changed.notify_all()
        for piece in left:
            self._discard(piece.rows)

    async def wait(self, token: int, seconds: float) -> None:
        """Returns once a page has rows, or after so many seconds. Called on the loop."""
        if token == self._token:
            return
        try:
            await asyncio.wait_for(self._arrived.wait(), seconds)
        except TimeoutError:
            return

    def page(self, reader: ResultReader, token: int, most: int) -> UnboundedPage:
        """Returns the page of a token, with at most `most` rows, without waiting for any. Blocks while it reads.

        Raises UnexpectedTokenError.
        """
        with self._changed:
            if self._page is not None and token == self._token:
                return self._page
            if token != self._token + 1:
                known = "0" if self._page is None else f"{self._token + 1} or {self._token}"
                raise UnexpectedTokenError(f"Expecting token to be {known}, but found {token}.")
            self._page, self._token = self._next(reader, most), token
            return self._page

    def _next(self, reader: ResultReader, most: int) -> UnboundedPage:
        if not self._pieces:
            return self._nothing
        piece, first = self._pieces[0], self._taken
        table, following = reader.read(piece.rows, first, most)
        kinds = None if piece.kinds is None else piece.kinds[first : first + table.num_rows]
        self._taken = following or 0
        if following is None:
            self._pieces.popleft()
            self._discard(piece.rows)
            self._changed.notify_all()
            self._tell()
        return UnboundedPage(table, kinds)

    def _tell(self) -> None:
        """Tells the loop whether there are rows. Called with the lock, so that the last that it hears is true."""
        tell = self._arrived.set if self._pieces else self._arrived.clear
        self._loop.call_soon_threadsafe(tell)
