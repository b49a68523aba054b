"""Tokens of results: which row each page begins with, remembered for as long as the result is kept.

The released server keeps the last page only and accepts its token and the next. Here every page may be asked again, and
always has the same rows: where a page ends is found out once, when it is first read. A token beyond the next is refused.
Pages of rowFormat=ARROW are larger and therefore counted apart.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from sparksql.gateway.results.unbounded import UnexpectedTokenError

MAX_BOOKMARKS = 10_000  # of one session whose kept operations have no limit


@dataclass
class Bookmark:
    """First rows of the pages known so far; the last one is that of the next page. `end` is the number of rows, once known.

    `asked` is the token that was asked for last.
    """

    starts: list[int] = field(default_factory=lambda: [0])
    end: int | None = None
    asked: int | None = None

    def start(self, token: int) -> int:
        """Returns the number of the first row of a token's page. Raises UnexpectedTokenError."""
        expected = len(self.starts) - 1
        if 0 <= token <= expected:
            return self.starts[token]
        known = "0" if expected == 0 else f"{expected} or {expected - 1}"
        raise UnexpectedTokenError(f"Expecting token to be {known}, but found {token}.")

    def rows(self, token: int, most: int) -> int:
        """Returns how many rows to ask for: those that the page had when it was first read, or `most`."""
        known = token + 1 < len(self.starts)
        return self.starts[token + 1] - self.starts[token] if known else most

    def is_next(self, token: int) -> bool:
        """Notes that a token is asked for, and returns whether the one before it was asked for last."""
        before, self.asked = self.asked, token
        return before is not None and token == before + 1

    def turned(self, token: int, count: int, following: int | None) -> None:
        """Notes that a page has been read: `count` rows, the next row's number."""
        stop = self.starts[token] + count
        if following is None:
            self.end = stop
        if count > 0 and token + 1 == len(self.starts):
            self.starts.append(stop)


class Bookmarks:
    """Keeps bookmarks by session, operation and kind of page.

    They go when their session or their operation is closed. Those of operations that expired are pushed out by new
    ones.
    """

    def __init__(self, operations_per_session: int) -> None:
        self._most = 2 * (operations_per_session or MAX_BOOKMARKS)
        self._sessions: dict[str, OrderedDict[tuple[str, bool], Bookmark]] = {}

    def of(self, session: str, operation: str, *, large_pages: bool) -> Bookmark:
        """Returns the bookmark of an operation for one kind of page, a new one if there is none."""
        kept = self._sessions.setdefault(session, OrderedDict())
        key = (operation, large_pages)
        found = kept.setdefault(key, Bookmark())
        kept.move_to_end(key)
        if len(kept) > self._most:
            kept.popitem(last=False)
        return found

    def drop(self, session: str, operation: str) -> None:
        """Forgets an operation's bookmarks."""
        kept = self._sessions.get(session, OrderedDict())
        for large_pages in (False, True):
            kept.pop((operation, large_pages), None)

    def drop_session(self, session: str) -> None:
        """Forgets a session's bookmarks."""
        self._sessions.pop(session, None)

    def __len__(self) -> int:
        return sum(map(len, self._sessions.values()))
