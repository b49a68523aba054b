"""A streaming query is watched: what is asked of it, and when."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sparksql.gateway.operations.operation import OperationCancelledError
from sparksql.gateway.streaming.progress import CHECKS_A_REPORT, Watched, watch


class Query:
    """A query that has ended after so many waits, and has its sources after others.

    `reports` are the waits after which it was asked for a report.
    """

    def __init__(self, ends_after: int, sources_after: int = 0) -> None:
        self._ends_after, self._sources_after = ends_after, sources_after
        self.waits = 0
        self.reports: list[int] = []

    def awaitTermination(self, _millis: int) -> bool:
        self.waits += 1
        return self.waits > self._ends_after

    def streamingQuery(self) -> Any:
        sources = SimpleNamespace(isEmpty=lambda: self.waits < self._sources_after)
        return SimpleNamespace(uniqueSources=lambda: sources)

    def lastProgress(self) -> None:
        self.reports.append(self.waits)

    def id(self) -> str:
        return "q"

    def runId(self) -> str:
        return "r"


class Operation:
    """An operation that is cancelled at a check, if at all."""

    def __init__(self, cancelled_at: int | None = None) -> None:
        self.stream: Any = None
        self.checks = 0
        self._cancelled_at = cancelled_at

    def check(self) -> None:
        self.checks += 1
        if self.checks == self._cancelled_at:
            raise OperationCancelledError

    def started(self) -> None:
        pass


class NoLag:
    """Nothing waits."""

    def of(self, _report: Any, *, look: bool) -> None:
        return None


class NoCount:
    """Nothing is counted."""

    def of(self, _query: Any) -> None:
        return None


def watched(query: Any) -> Watched:
    return Watched(query, cast(Any, NoLag()), cast(Any, NoCount()))


def nothing() -> None:
    pass


def test_a_query_that_runs_is_reported_of_at_once_then_now_and_then_and_at_its_end() -> None:
    query, operation = Query(ends_after=3 * CHECKS_A_REPORT + 1), Operation()
    watch(operation, watched(query), nothing)  # type: ignore[arg-type]
    assert query.reports == [1, *(times * CHECKS_A_REPORT for times in (1, 2, 3)), 3 * CHECKS_A_REPORT + 2]
    assert operation.checks == 3 * CHECKS_A_REPORT + 1


def test_a_query_that_starts_is_reported_of_once_it_looks_for_data() -> None:
    query = Query(ends_after=4, sources_after=3)
    watch(Operation(), watched(query), nothing)  # type: ignore[arg-type]
    assert query.reports == [3, 5]


def test_a_stop_is_seen_at_the_next_check_whatever_is_reported() -> None:
    for at in range(1, 2 * CHECKS_A_REPORT):
        query, operation = Query(ends_after=100), Operation(cancelled_at=at)
        with pytest.raises(OperationCancelledError):
            watch(operation, watched(query), nothing)  # type: ignore[arg-type]
        assert query.waits == at


def test_a_checkpoint_that_was_taken_over_ends_the_watch_of_its_query() -> None:
    lost: Iterator[Exception | None] = iter((None, None, ValueError("taken over")))

    def check() -> None:
        if (error := next(lost)) is not None:
            raise error

    query = Query(ends_after=100)
    with pytest.raises(ValueError, match="taken over"):
        watch(Operation(), watched(query), check)  # type: ignore[arg-type]
    assert query.waits == 3
