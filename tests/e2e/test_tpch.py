"""All TPC-H queries as SqlStatement manifests; their results are DuckDB's on the same data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from tests.e2e import tpch
from tests.support.harness import Space, phase

MAX_ROWS = 10_000


@dataclass(frozen=True)
class Workload:
    """All queries, applied at once, and what they must answer."""

    space: Space
    reference: duckdb.DuckDBPyConnection


@pytest.fixture(scope="module")
def workload(space: Space, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workload]:
    folder = tmp_path_factory.mktemp("tpch")
    tpch.generate(folder)
    tpch.upload(space.cluster, folder)
    space.session("main", init=[tpch.external_table(table) for table in tpch.tables(folder)])
    for query in tpch.QUERIES:
        space.statement(query.read_text(), name=query.stem, result={"maxRows": MAX_ROWS})
    with tpch.reference(folder) as reference:
        yield Workload(space, reference)


def test_there_are_22_queries() -> None:
    assert [query.stem for query in tpch.QUERIES] == [f"q{number:02}" for number in range(1, 23)]


@pytest.mark.parametrize("query", tpch.QUERIES, ids=lambda query: query.stem)
def test_a_query_answers_as_duckdb_does(workload: Workload, query: Path) -> None:
    space = workload.space
    ended = space.cluster.wait_finished(space.name, query.stem, seconds=300)
    status = ended["status"]
    assert phase(ended) == "Finished", status
    assert status["statementType"] == "SELECT"
    expected = workload.reference.execute(query.read_text()).fetchall()
    assert status["result"]["rowCount"] == len(expected)
    assert status["result"]["truncated"] is False
    printed = space.cluster.cli(space.name, "results", query.stem, "-o", "json")
    assert printed.returncode == 0, printed.stderr
    types = [column["type"] for column in status["result"]["columns"]]
    actual = [tpch.typed(row, types) for row in json.loads(printed.stdout)]
    # Every ORDER BY of these queries is total, so that the order of the rows is part of the answer.
    assert not tpch.difference(actual, expected, types)
