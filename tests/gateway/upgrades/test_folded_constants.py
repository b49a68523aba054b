"""Constants that Spark folds: after a change of one, other columns may be in the state, or the same ones in another order."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from sparksql.api.execution import OutputMode
from sparksql.wire.control import ErrorReason, OperationState
from tests.support.thorough import thorough_but

from ..streams import Streams

FAST = {"spark.sql.shuffle.partitions": "1"}
COLUMNS = "k INT, v BIGINT, w BIGINT, ts TIMESTAMP"
PARTS = (
    "VALUES (1, 3, 50, TIMESTAMP'2026-01-01 00:00:01'), (1, 4, 60, TIMESTAMP'2026-01-01 00:00:02'), (2, 5, 70, TIMESTAMP'2026-01-01 00:00:03')",
    "VALUES (1, 7, 10, TIMESTAMP'2026-01-01 00:00:04'), (2, 9, 20, TIMESTAMP'2026-01-01 00:00:05')",
)


@dataclass(frozen=True)
class Folded:
    """A query with the constant `?`, first 1 and then 0. Refused with these words, or else it goes on with right results."""

    name: str
    query: str
    refused: str = ""
    mode: OutputMode = OutputMode.COMPLETE


def grouped(results: str, more: str = "") -> str:
    return f"SELECT k, {results} FROM STREAM $.one {more} GROUP BY k"


def windowed(results: str) -> str:
    return f"SELECT k, {results} FROM STREAM $.one GROUP BY k, window(ts, '1 hour')"


def joined(results: str) -> str:
    return f"SELECT l.k, {results} FROM STREAM $.one l JOIN STREAM $.other r ON l.k = r.k"


REFUSED = "in this order"
CASES = [
    Folded("a branch that changes places", grouped("IF(? = 1, sum(v), NULL), sum(w), sum(v)"), REFUSED),
    Folded("the same in windows", windowed("IF(? = 1, sum(v), NULL), sum(w), sum(v)"), REFUSED),
    Folded("CASE", grouped("CASE WHEN ? = 0 THEN sum(v) ELSE sum(w) END, sum(v), sum(w)"), REFUSED),
    Folded("COALESCE of NULL", grouped("coalesce(IF(? = 1, NULL, sum(v)), sum(w)), sum(v), sum(w)"), REFUSED),
    Folded("an IN list of one", grouped("IF(? IN (1), max(v), min(w)), min(w), max(v)"), REFUSED),
    Folded("an aggregate that is alone", grouped("IF(? = 1, sum(v), sum(w)), 0, 0"), "sum(w)"),
    Folded("a column of a join", joined("IF(? = 1, l.v, l.w), r.v, r.w"), "left", OutputMode.APPEND),
    Folded("a branch behind its aggregates", grouped("sum(w), sum(v), IF(? = 1, sum(v), NULL)")),
    Folded("a constant beside aggregates", grouped("sum(w) * ?, sum(v), count(*)")),
    Folded("a filter that keeps all", grouped("count(v), count(*), sum(w)", "WHERE ? < 2")),
]  # fmt: skip


DAILY = (
    "a branch that changes places",
    "a column of a join",
    "a branch behind its aggregates",
    "a filter that keeps all",
)


@pytest.mark.parametrize(
    "case", thorough_but([each for each in CASES if each.name in DAILY], CASES), ids=lambda case: case.name
)
async def test_folded_constant_that_changes_is_refused_or_equals_a_recomputation(
    streams: Streams, case: Folded
) -> None:
    await streams.ok(
        f"CREATE TABLE $.one ({COLUMNS}) USING parquet",
        f"CREATE TABLE $.other ({COLUMNS}) USING parquet",
        "CREATE TABLE $.dst (k INT, a BIGINT, b BIGINT, c BIGINT) USING iceberg",
        f"INSERT INTO $.one {PARTS[0]}",
        f"INSERT INTO $.other {PARTS[0]}",
    )
    before, after = (f"INSERT INTO $.dst {case.query.replace('?', value)}" for value in ("1", "0"))
    await streams.drained(before, conf=FAST, output_mode=case.mode)
    await streams.ok(f"INSERT INTO $.one {PARTS[1]}", f"INSERT INTO $.other {PARTS[1]}")
    view = await streams.run(after, conf=FAST, output_mode=case.mode)
    if case.refused:
        assert view.error is not None and view.error.reason is ErrorReason.STATE_INCOMPATIBLE, view
        assert case.refused in view.error.message, view.error.message
        await streams.drained(before, conf=FAST, output_mode=case.mode)
        sql = case.query.replace("?", "1")
    else:
        assert view.state is OperationState.FINISHED, view
        sql = case.query.replace("?", "0")
    expected = await streams.rows(sql.replace("STREAM ", ""))
    assert sorted(await streams.rows("SELECT * FROM $.dst")) == sorted(expected)


LEFT_OUT = {
    "a branch that was NULL": grouped("sum(w), 0, IF(? = 1, NULL, sum(v))"),
    "a count of a constant that was one of rows": grouped("count(*), sum(w), count(IF(? = 1, 1, v))"),
}


@pytest.mark.parametrize("query", thorough_but(["a count of a constant that was one of rows"], LEFT_OUT))
async def test_rewriting_of_a_state_without_a_folded_aggregate_is_refused(streams: Streams, query: str) -> None:
    """The query reports it for all rows, and its state has it for later rows only."""
    await streams.ok(
        f"CREATE TABLE $.one ({COLUMNS}) USING parquet",
        "CREATE TABLE $.dst (k INT, a BIGINT, b BIGINT, c BIGINT) USING iceberg",
        f"INSERT INTO $.one {PARTS[0]}",
    )
    before, after = (f"INSERT INTO $.dst {LEFT_OUT[query].replace('?', value)}" for value in ("1", "0"))
    await streams.drained(before, conf=FAST, output_mode=OutputMode.COMPLETE)
    view = await streams.run(after, conf=FAST, output_mode=OutputMode.COMPLETE, rewrites=True)
    assert view.error is not None and view.error.reason is ErrorReason.STATE_INCOMPATIBLE, view
    assert not view.error.rewritable, view
    assert "had left it out of the state" in view.error.message, view.error.message
