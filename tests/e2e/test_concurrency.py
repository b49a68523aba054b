"""Many statements at once: all end, none is lost, none runs twice, in one session and across sessions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import pytest

from tests.support.harness import Object, Space, phase

SLOTS = 4
INSERTS = 12
QUERIES = 76  # with the INSERTs into both tables: 100 statements
SECONDS = 600.0
ICEBERG = "TBLPROPERTIES ('commit.retry.num-retries' = '20', 'commit.retry.min-wait-ms' = '50')"


@dataclass(frozen=True)
class Flood:
    """Statements that were all there before the first one could run, and how they ended."""

    space: Space
    ended: dict[str, Object]


@pytest.fixture(scope="module")
def tables(space: Space) -> Space:
    space.session("main", maxConcurrentStatements=SLOTS, driver={"memory": "1Gi"})
    for table, using in (
        ("log_parquet", "parquet"),
        ("log_iceberg", f"iceberg {ICEBERG}"),
        ("shared", f"iceberg {ICEBERG}"),
    ):
        made = space.run(f"CREATE TABLE {table} (n INT) USING {using}")
        assert phase(made) == "Finished", made["status"]
    return space


@pytest.fixture(scope="module")
def flood(tables: Space) -> Flood:
    names: list[str] = []
    for i in range(QUERIES):
        names.append(tables.statement(f"SELECT {i} AS i, sum(id) AS s FROM range({i + 1})", name=f"query-{i}"))
        if i < INSERTS:
            for table in ("log_parquet", "log_iceberg"):
                sql = f"INSERT INTO {table} VALUES ({i})"
                names.append(tables.statement(sql, name=f"{table.replace('_', '-')}-{i}"))
    assert len(names) == 100
    return Flood(tables, {name: tables.cluster.wait_finished(tables.name, name, SECONDS) for name in names})


def test_all_finish_and_none_runs_twice(flood: Flood) -> None:
    unfinished = {name: obj["status"] for name, obj in flood.ended.items() if phase(obj) != "Finished"}
    assert not unfinished
    assert {(obj["status"]["run"], obj["status"]["attempt"]) for obj in flood.ended.values()} == {(1, 1)}
    assert len({obj["status"]["operationId"] for obj in flood.ended.values()}) == len(flood.ended)


def test_each_of_many_concurrent_queries_gets_its_own_result(flood: Flood) -> None:
    for i in range(QUERIES):
        assert flood.ended[f"query-{i}"]["status"]["result"]["preview"] == [[str(i), str(i * (i + 1) // 2)]]


@pytest.mark.parametrize("table", ["log_parquet", "log_iceberg"])
def test_inserts_into_one_table_lose_and_double_nothing(flood: Flood, table: str) -> None:
    sql = f"SELECT count(*), count(DISTINCT n), min(n), max(n) FROM {table}"
    assert flood.space.rows(sql) == [[str(INSERTS), str(INSERTS), "0", str(INSERTS - 1)]]


def test_no_more_run_at_once_than_the_session_allows(flood: Flood) -> None:
    moments: list[tuple[datetime, int]] = []
    for obj in flood.ended.values():
        moments.append((datetime.fromisoformat(obj["status"]["startTime"]), 1))
        moments.append((datetime.fromisoformat(obj["status"]["completionTime"]), -1))
    most = running = 0
    for _, change in sorted(moments):  # of equal times the ends come first
        running += change
        most = max(most, running)
    assert 2 <= most <= SLOTS


def test_two_sessions_commit_to_one_iceberg_table(tables: Space) -> None:
    tables.session("second")
    names: dict[str, list[str]] = {"main": [], "second": []}
    for i in range(8):  # by turns, so that neither session is done before the other one has begun
        for session, start in (("main", 0), ("second", 100)):
            names[session].append(tables.statement(f"INSERT INTO shared VALUES ({i + start})", session=session))
    ended = {
        session: [tables.cluster.wait_finished(tables.name, name, SECONDS) for name in made]
        for session, made in names.items()
    }
    assert {phase(obj) for made in ended.values() for obj in made} == {"Finished"}, ended
    begun = {session: min(o["status"]["startTime"] for o in made) for session, made in ended.items()}
    over = {session: max(o["status"]["completionTime"] for o in made) for session, made in ended.items()}
    assert begun["main"] < over["second"] and begun["second"] < over["main"], (
        "the sessions did not write at the same time"
    )
    for session in names:
        assert tables.rows("SELECT count(*), count(DISTINCT n) FROM shared", session=session) == [["16", "16"]]
