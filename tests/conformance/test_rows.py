"""The same queries give the same rows through every client, and the same mistakes the same condition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.printing import expected
from tests.conformance.programs import Run
from tests.conformance.queries import FAILURES, QUERIES, Failure, Query
from tests.conformance.suite import SUITES, Suite, database


def _queries() -> Iterator[Any]:
    for name, suite in SUITES.items():
        for query in QUERIES:
            if not query.needs & suite.lacks.keys():
                yield pytest.param(name, suite, query, id=f"{name}-{query.name}", marks=pytest.mark.client(name))


def _failures() -> Iterator[Any]:
    for name, suite in SUITES.items():
        for failure in FAILURES if suite.has_failures else ():
            yield pytest.param(failure, id=f"{name}-{failure.name}", marks=pytest.mark.client(name))


@pytest.mark.parametrize(("client", "suite", "query"), list(_queries()))
def test_a_query_shows_the_expected_rows_through_every_client(
    client: str, suite: Suite, query: Query, run: Run
) -> None:
    if query.rows is None and not query.contains:
        assert "error" not in run.answers.get(query.name, {}), run[query.name]
        return
    answer = run[query.name]
    assert "error" not in answer, answer["error"]
    if query.contains:
        text = query.contains.replace("{db}", database(client))
        assert any(text in str(cell) for row in answer["rows"] for cell in row), answer
        return
    assert query.rows is not None
    if not query.rows and "columns" not in answer:
        return  # the SQL Client draws no table around nothing
    assert answer["columns"] == list(query.columns), answer
    wanted = expected(query.rows, suite.shows)
    assert len(answer["rows"]) == len(wanted), answer["rows"][:5]
    wrong = [(got, row) for got, row in zip(answer["rows"], wanted, strict=True) if got != row]
    assert not wrong, f"{len(wrong)} of {len(wanted)} rows differ; got, expected: {wrong[:2]}"


@pytest.mark.parametrize("failure", list(_failures()))
def test_a_failing_query_shows_its_error_condition_through_every_client(failure: Failure, run: Run) -> None:
    answer = run[failure.name]
    for text in failure.shows:
        assert text in answer.get("error", ""), answer
