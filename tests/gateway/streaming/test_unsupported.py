"""What Spark cannot run as a stream is refused before anything is written, and the error names the clause."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from sparksql.api.execution import OutputMode, StatementMode
from sparksql.gateway.sql.conditions import Condition
from sparksql.gateway.streaming.unsupported import OUTPUT_MODE
from sparksql.wire.control import ErrorReason, OperationState, Parameter

from ..streams import Streams

OWN = Condition.UNSUPPORTED_STREAMING_OPERATION
INSERT = "INSERT INTO $.dst\n"
WATERMARKED = "STREAM $.src WATERMARK ts DELAY OF INTERVAL 1 MINUTE"
SESSION = "session_window(ts, '1 minute')"
BY_MODE = (OUTPUT_MODE, "42KDE")
NO_SUBQUERY = ("INVALID_SUBQUERY_EXPRESSION.STREAMING_QUERY", "42823")
UPDATE, COMPLETE = OutputMode.UPDATE, OutputMode.COMPLETE


@dataclass(frozen=True)
class Case:
    """A query whose refused clause stands between two `¦`, the words that the message must have, Spark's own condition and SQLSTATE
    if it has named them."""

    name: str
    query: str
    says: str
    output_mode: OutputMode = OutputMode.APPEND
    condition: tuple[str, str] = (OWN.label, OWN.sql_state)


# Of Spark's checker (UnsupportedOperationChecker of 4.1.4), in its order, each refusal that SQL can reach; then those of the planner.
# SQL cannot reach: commands and InsertIntoDir as queries, [flat]mapGroupsWithState, applyInPandasWithState, CoGroup,
# dropDuplicatesWithinWatermark, GroupingSets (analysis has replaced it), ReturnAnswer, continuous processing.
CASES = [
    Case("aggregate without watermark", "SELECT 1, name, count(*) FROM STREAM $.src ¦GROUP BY name¦", "WATERMARK", condition=BY_MODE),
    Case("distinct without watermark", "¦SELECT DISTINCT id, name, id FROM STREAM $.src¦", "WATERMARK", condition=BY_MODE),
    Case("session window in update", f"SELECT count(*), name, 1 FROM {WATERMARKED} ¦GROUP BY {SESSION}, name¦", "Append or Complete", UPDATE, BY_MODE),
    Case("complete without aggregate", "¦SELECT id, name, id FROM STREAM $.src¦", "Append, or aggregate", COMPLETE, BY_MODE),
    Case("count distinct", "SELECT ¦count(DISTINCT id)¦, name, sum(id) FROM STREAM $.src GROUP BY name", "outputMode: Append", UPDATE),
    Case("another distinct", f"SELECT 1, ¦listagg(DISTINCT name)¦, 1 FROM {WATERMARKED} GROUP BY window(ts, '1 minute')", "approx_count_distinct", UPDATE),
    Case("joined streams in update", "SELECT s.id, s.name, t.id FROM STREAM $.src s ¦JOIN STREAM $.src t ON s.id = t.id¦", "Append", UPDATE),
    Case("full join, stream on the left", "SELECT s.id, s.name, d.id FROM STREAM $.src s ¦FULL JOIN $.dim d ON s.id = d.id¦", "LEFT JOIN"),
    Case("full join, stream on the right", "SELECT s.id, s.name, d.id FROM $.dim d ¦FULL JOIN STREAM $.src s ON s.id = d.id¦", "LEFT JOIN"),
    Case("full join of streams", "SELECT s.id, s.name, t.id FROM STREAM $.src s ¦FULL JOIN STREAM $.src t ON s.id = t.id¦", "both with a WATERMARK"),
    Case("anti join, stream on the right", "SELECT d.id, d.name, 1 FROM $.dim d ¦LEFT ANTI JOIN STREAM $.src s ON s.id = d.id¦", "LEFT JOIN"),
    Case("left join, stream on the right", "SELECT d.id, d.name, 1 FROM $.dim d ¦LEFT JOIN STREAM $.src s ON s.id = d.id¦", "LEFT JOIN"),
    Case("semi join, stream on the right", "SELECT d.id, d.name, 1 FROM $.dim d ¦LEFT SEMI JOIN STREAM $.src s ON s.id = d.id¦", "LEFT JOIN"),
    Case("left join of streams", "SELECT s.id, s.name, t.id FROM STREAM $.src s ¦LEFT JOIN STREAM $.src t ON s.id = t.id¦", "both with a WATERMARK"),
    Case("semi join of streams", "SELECT s.id, s.name, 1 FROM STREAM $.src s ¦LEFT SEMI JOIN STREAM $.src t ON s.id = t.id¦", "both with a WATERMARK"),
    Case("right join, stream on the left", "SELECT s.id, s.name, d.id FROM STREAM $.src s ¦RIGHT JOIN $.dim d ON s.id = d.id¦", "LEFT JOIN"),
    Case("right join of streams", "SELECT s.id, s.name, t.id FROM STREAM $.src s ¦RIGHT JOIN STREAM $.src t ON s.id = t.id¦", "both with a WATERMARK"),
    Case("union with a table", "¦SELECT id, name, id FROM STREAM $.src UNION ALL SELECT id, name, id FROM $.dim¦", "Read both as a STREAM"),
    Case("except a stream", "¦SELECT id, name, id FROM $.dim EXCEPT SELECT id, name, id FROM STREAM $.src¦", "LEFT ANTI JOIN"),
    Case("intersect", "¦SELECT id, name, id FROM STREAM $.src INTERSECT SELECT id, name, id FROM $.dim¦", "LEFT SEMI JOIN"),
    Case("limit in update", "SELECT id, name, id FROM STREAM $.src ¦LIMIT 3¦", "Leave LIMIT out", UPDATE),
    Case("offset", "SELECT id, name, id FROM STREAM $.src ¦OFFSET 1¦", "Leave OFFSET out"),
    Case("order", "SELECT id, name, id FROM STREAM $.src\n¦ORDER BY id¦", "sort when the table is read"),
    Case("sort", "SELECT id, name, id FROM STREAM $.src ¦SORT BY id¦", "sort when the table is read"),
    Case("order of a pipe", "FROM STREAM $.src |> ¦ORDER BY id¦ |> SELECT id, name, id", "sort when the table is read"),
    Case("sample", "SELECT id, name, id FROM (SELECT * FROM STREAM $.src) ¦TABLESAMPLE (10 PERCENT)¦", "rand()"),
    Case("window function", "SELECT id, name, ¦row_number() OVER (PARTITION BY name ORDER BY id)¦ FROM STREAM $.src", "window(ts", condition=("NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING", "42KDE")),
    Case("monotonically increasing id", "SELECT id, name, ¦monotonically_increasing_id()¦ FROM STREAM $.src", "column of the source"),
    Case("aggregates above each other in update", f"SELECT sum(n), 'x', 1 FROM (SELECT window, count(*) AS n FROM {WATERMARKED} GROUP BY window(ts, '1 minute')) ¦GROUP BY window(window, '5 minutes')¦", "outputMode: Append", UPDATE),
    Case("two-stage distinct in complete", "SELECT count(*), name, 1 FROM (SELECT DISTINCT id, name FROM STREAM $.src) ¦GROUP BY name¦", "outputMode: Append", COMPLETE),
    Case("join without equality", "SELECT s.id, s.name, t.id FROM STREAM $.src s ¦JOIN STREAM $.src t ON s.id < t.id¦", "Add an equality"),
    Case("cross join", "SELECT s.id, s.name, t.id FROM STREAM $.src s ¦CROSS JOIN STREAM $.src t¦", "Add an equality"),
    Case("session window alone", f"SELECT count(*), 'x', 1 FROM {WATERMARKED} ¦GROUP BY {SESSION}¦", "besides session_window"),
    Case("in a subquery", "¦SELECT id, name, id FROM STREAM $.src WHERE id IN (SELECT id FROM STREAM $.src)¦", "subquery", condition=NO_SUBQUERY),
    Case("in a view of the catalog", "SELECT id, name, id FROM ¦$.sorted¦", "sort when the table is read"),
]  # fmt: skip


@pytest.fixture
async def tables(streams: Streams) -> Streams:
    await streams.ok(
        "CREATE TABLE $.dim (id INT, name STRING) USING parquet",
        "CREATE TABLE $.dst (id BIGINT, name STRING, n BIGINT) USING parquet",
        "CREATE VIEW $.sorted AS SELECT * FROM STREAM $.src ORDER BY id",
    )
    return streams


async def test_sql_unsupported_in_a_stream_is_refused_naming_its_clause_before_any_write(tables: Streams) -> None:
    wrong = []
    for case in CASES:
        before, clause, _ = (INSERT + case.query.replace("$", tables.database)).split("¦")
        sql = INSERT + case.query.replace("¦", "")
        view = await tables.run(sql, case.name.replace(" ", "-"), output_mode=case.output_mode)
        error = view.error
        if error is None:
            wrong.append((case.name, str(view)))
            continue
        start = before.replace("$", tables.database)
        line, position = start.count("\n") + 1, len(start) - (start.rfind("\n") + 1) + 1
        seen = (error.reason, error.condition, error.sql_state, error.line, error.position, error.fragment)
        expected = (ErrorReason.SQL_ERROR, *case.condition, line, position, clause)
        if seen != expected or case.says not in error.message or view.start_time is not None:
            wrong.append((case.name, f"{seen} instead of {expected}: {error.message}"))
    assert not wrong, "\n".join(f"{name}: {what}" for name, what in wrong)
    assert sorted(each.name for each in tables.folder.iterdir()) == []
    # No log of a sink either: the table is as if no stream had been tried.
    await tables.ok("INSERT INTO $.dst VALUES (1, 'batch', 1)")
    assert await tables.rows("SELECT id FROM $.dst") == [(1,)]


async def test_a_place_is_found_in_scripts_and_behind_parameters(tables: Streams) -> None:
    script = (
        "SET my.key = 1;\n-- the stream\nINSERT INTO $.dst SELECT sum(DISTINCT id), name, 1 FROM STREAM $.src\n"
        "WHERE name <> :name GROUP BY name"
    )
    view = await tables.client.end(
        await tables.client.put(
            script.replace("$", tables.database),
            streaming=tables.options(output_mode=UPDATE),
            parameters=(Parameter(name="name", value="a longer text than the marker"),),
        )
    )
    assert view.error is not None
    assert (view.error.condition, view.error.line, view.error.fragment) == (OWN.label, 3, "sum(DISTINCT id)"), view


async def test_only_a_statement_without_a_stream_is_told_that_it_needs_one(tables: Streams) -> None:
    """The same condition of Spark's stands for a STREAM in a batch and for each plan that cannot be streamed."""
    query = f"SELECT sum(DISTINCT id) FROM STREAM {tables.database}.src"
    batch = await tables.client.run(query)
    assert batch.error is not None
    assert (batch.error.reason, "needs spec.streaming" in batch.error.message) == (ErrorReason.INVALID_SPEC, True)
    preview = await tables.client.run(query, mode=StatementMode.PREVIEW)
    assert preview.error is not None and preview.state is OperationState.ERROR
    assert (preview.error.condition, preview.error.fragment) == (OWN.label, "sum(DISTINCT id)"), preview
    first = await tables.run("SELECT * FROM STREAM $.src; INSERT INTO $.dst SELECT id, name, id FROM STREAM $.src")
    assert first.error is not None and "only the last statement" in first.error.message, first
