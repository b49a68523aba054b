"""Window table functions beside windows' own rows: what is refused and where, views, modes, state, and triggers."""

from __future__ import annotations

from dataclasses import dataclass

from sparksql.api.execution import OutputMode, StatementMode, Upsert
from sparksql.wire.control import ErrorReason, OperationState

from ..streams import Streams

MINUTE = "INTERVAL '1' MINUTE"
WATERMARKED = "TABLE(SELECT * FROM STREAM $.src WATERMARK ts DELAY OF INTERVAL 1 MINUTE)"
COUNTED = "SELECT window_start, window_end, count(*) AS n FROM"
BY_WINDOW = "GROUP BY window_start, window_end"
# Of so few rows, a state needs one partition.
FAST = {"spark.sql.shuffle.partitions": "1"}


@dataclass(frozen=True)
class Case:
    """A text whose refused part stands between two `¦`, and words that the message must have."""

    name: str
    sql: str
    says: str


CASES = [
    Case("no column", f"SELECT * FROM ¦TUMBLE(TABLE $.src, DESCRIPTOR(t), {MINUTE})¦", "it has id, name, ts"),
    Case("no time", f"SELECT 1,\n* FROM TABLE(¦TUMBLE(TABLE $.src, DESCRIPTOR(name), {MINUTE})¦)", "CAST(name AS TIMESTAMP)"),
    Case("no descriptor", f"SELECT * FROM TUMBLE(TABLE $.src, ¦ts¦, {MINUTE})", "DESCRIPTOR(ts)"),
    Case("no table", f"SELECT * FROM ¦TUMBLE($.src, DESCRIPTOR(ts), {MINUTE})¦", "TABLE t or TABLE(SELECT ...)"),
    Case("months", "SELECT * FROM TUMBLE(TABLE $.src, DESCRIPTOR(ts), ¦INTERVAL '1' MONTH¦)", "months and years differ"),
    Case("no interval", "SELECT * FROM TUMBLE(TABLE $.src, DESCRIPTOR(ts), ¦'soon'¦)", "SIZE is an interval"),
    Case("nothing", "SELECT * FROM ¦TUMBLE(TABLE $.src, DESCRIPTOR(ts), INTERVAL '0' MINUTE)¦", "longer than nothing"),
    Case("too few", "SELECT * FROM ¦HOP(TABLE $.src, DESCRIPTOR(ts), INTERVAL '1' MINUTE)¦", "lacks SIZE"),
    Case("too many", f"SELECT * FROM ¦TUMBLE(TABLE $.src, DESCRIPTOR(ts), {MINUTE}, {MINUTE}, {MINUTE})¦", "too many"),
    Case("another name", f"SELECT * FROM ¦TUMBLE(DATA => TABLE $.src, TIMECOL => DESCRIPTOR(ts), LENGTH => {MINUTE})¦", "no argument LENGTH"),
    Case("no multiple", f"SELECT * FROM ¦CUMULATE(TABLE $.src, DESCRIPTOR(ts), {MINUTE}, INTERVAL '90' SECOND)¦", "multiple of STEP"),
    Case("hop that leaves out", f"SELECT * FROM ¦HOP(TABLE $.src, DESCRIPTOR(ts), INTERVAL '2' MINUTE, {MINUTE})¦", "SLIDE is the first argument"),
    Case("too many windows", "SELECT * FROM ¦CUMULATE(TABLE $.src, DESCRIPTOR(ts), INTERVAL '0.001' SECOND, INTERVAL '1' DAY)¦", "more than 1,000,000"),
    Case("partition of a tumble", f"SELECT * FROM ¦TUMBLE(TABLE $.src PARTITION BY id, DESCRIPTOR(ts), {MINUTE})¦", "leave it out"),
    Case("columns of a session", f"SELECT ¦nosuch¦ FROM SESSION(TABLE $.src, DESCRIPTOR(ts), {MINUTE}) {BY_WINDOW}", "[`window_end`, `window_start`, `window_time`, `spark_catalog`"),
    Case("no time on earth", f"SELECT window_end FROM TUMBLE(TABLE(SELECT timestamp_micros(9223372036854775807) AS ts), DESCRIPTOR(ts), {MINUTE})", "overflow"),
    Case("rows of a session", f"SELECT * FROM ¦SESSION(TABLE $.src, DESCRIPTOR(ts), {MINUTE})¦", "GROUP BY window_start, window_end"),
    Case("sets of a session", f"{COUNTED} SESSION(TABLE $.src, DESCRIPTOR(ts), {MINUTE}) ¦{BY_WINDOW}, ROLLUP(name)¦", "does not support GROUPING SETS"),
    Case("other keys", f"{COUNTED} SESSION(TABLE $.src PARTITION BY id, DESCRIPTOR(ts), {MINUTE}) ¦{BY_WINDOW}, name¦", "and no others"),
    Case("in a subquery", f"SELECT * FROM $.src WHERE id IN (SELECT id FROM ¦TUMBLE(TABLE $.src, DESCRIPTOR(ts), {MINUTE})¦)", "WITH"),
    Case("in a view", f"CREATE VIEW $.v AS SELECT * FROM TUMBLE(TABLE $.src, DESCRIPTOR(ts), {MINUTE})", "CREATE TEMPORARY VIEW"),
    Case("in a block", f"BEGIN SELECT * FROM TUMBLE(TABLE $.src, DESCRIPTOR(ts), {MINUTE}); END", "a statement of its own"),
    Case("executed", f'EXECUTE IMMEDIATE "SELECT * FROM TUMBLE(TABLE($.src), DESCRIPTOR(ts), {MINUTE})"', "a statement of its own"),
    Case("in a function", f"CREATE TEMPORARY FUNCTION f() RETURNS TABLE(n BIGINT) RETURN SELECT count(*) FROM TUMBLE(TABLE $.src, DESCRIPTOR(ts), {MINUTE})", "a statement of its own"),
]  # fmt: skip

STREAMS = [
    Case("no watermark", f"{COUNTED} TUMBLE(TABLE(FROM STREAM $.src), DESCRIPTOR(ts), {MINUTE}) ¦{BY_WINDOW}¦", "WATERMARK"),
    Case("not by the end", f"SELECT window_start, window_start, count(*) FROM TUMBLE({WATERMARKED}, DESCRIPTOR(ts), {MINUTE}) ¦GROUP BY window_start¦", "by window_end"),
    Case("rank of rows", f"SELECT window_start, window_end, ¦rank() OVER (PARTITION BY window_start, window_end ORDER BY id)¦ FROM TUMBLE({WATERMARKED}, DESCRIPTOR(ts), {MINUTE})", "window"),
    Case("a window over all", f"SELECT window_start, window_end, ¦row_number() OVER (ORDER BY n)¦ FROM ({COUNTED} TUMBLE({WATERMARKED}, DESCRIPTOR(ts), {MINUTE}) {BY_WINDOW})", "window"),
    Case("array the other way", f"SELECT window_start, window_end, 1 FROM (SELECT *, ¦row_number() OVER (PARTITION BY window_start, window_end ORDER BY id, array(name) DESC)¦ r FROM TUMBLE({WATERMARKED}, DESCRIPTOR(ts), {MINUTE})) WHERE r < 3", "direction of the first key"),
    Case("too many first rows", f"SELECT window_start, window_end, 1 FROM (SELECT *, row_number() OVER (PARTITION BY window_start, window_end ORDER BY id) r FROM TUMBLE({WATERMARKED}, DESCRIPTOR(ts), {MINUTE})) WHERE r < 30000", "1 to 10,000"),
]  # fmt: skip


def _place(marked: str) -> tuple[int | None, int | None, str | None]:
    """Line, position and text of what stands between two `¦`."""
    if "¦" not in marked:
        return None, None, None
    before, part, _ = marked.split("¦")
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1, part


async def test_a_call_that_cannot_be_done_is_refused_with_its_place_and_a_remedy(streams: Streams) -> None:
    wrong = []
    for case in CASES:
        marked = case.sql.replace("$", streams.database)
        view = await streams.client.run(marked.replace("¦", ""))
        error = view.error
        expected = _place(marked)
        seen = error and (error.line, error.position, error.fragment)
        if error is None or case.says not in error.message or (expected[0] is not None and seen != expected):
            wrong.append(f"{case.name}: {seen} instead of {expected}: {error and error.message}")
    assert not wrong, "\n".join(wrong)


async def test_windows_that_a_stream_cannot_have_are_refused_before_it_starts(streams: Streams) -> None:
    await streams.ok("CREATE TABLE $.dst (window_start TIMESTAMP, window_end TIMESTAMP, n BIGINT) USING parquet")
    wrong = []
    for case in STREAMS:
        marked = f"INSERT INTO $.dst {case.sql}".replace("$", streams.database)
        view = await streams.run(marked.replace("¦", ""), case.name.replace(" ", "-"))
        error = view.error
        expected = _place(marked)
        seen = error and (error.line, error.position, error.fragment)
        if error is None or case.says not in error.message or (expected[0] is not None and seen != expected):
            wrong.append(f"{case.name}: {seen} instead of {expected}: {error and error.message}")
        assert view.start_time is None, case.name
    assert not wrong, "\n".join(wrong)


async def test_windows_are_explained_validated_previewed_described_and_kept_in_tables_and_views(
    streams: Streams,
) -> None:
    client, query = streams.client, f"{COUNTED} TABLE(TUMBLE(TABLE $.src, DESCRIPTOR(ts), {MINUTE})) {BY_WINDOW}"
    sql = query.replace("$", streams.database)
    rows = await streams.rows(query)
    assert [row[2] for row in rows] == [2]
    for mode, text in (
        (StatementMode.EXPLAIN, sql),
        (StatementMode.VALIDATE, sql),
        (StatementMode.PREVIEW, f"INSERT INTO {streams.database}.src {sql}"),
    ):
        view = await client.run(text, mode=mode)
        assert view.state is OperationState.FINISHED, view
    assert await streams.rows(f"DESCRIBE QUERY {query}") != []
    await streams.ok(f"CREATE TABLE $.kept USING parquet AS {query}", f"INSERT INTO $.kept {query}")
    assert await streams.rows("SELECT DISTINCT * FROM $.kept") == rows
    await streams.ok(f"CREATE TABLE IDENTIFIER('$.named') USING parquet AS {query}")
    assert await streams.rows("SELECT * FROM $.named") == rows
    assert "sparksql" not in str(await streams.rows("SHOW CREATE TABLE $.kept")), (
        "marks of windows went into the catalog"
    )
    view_name = f"v_{streams.database}"
    await streams.ok(
        f"CREATE TEMPORARY VIEW {view_name} AS SELECT * FROM CUMULATE(TABLE $.src, DESCRIPTOR(ts), {MINUTE}, INTERVAL 5 MINUTES)"
    )
    assert [row[2] for row in await streams.rows(f"{COUNTED} {view_name} {BY_WINDOW}")] == [2] * 5
    assert await streams.rows(f"SELECT count(*) FROM TUMBLE(TABLE IDENTIFIER('$.src'), DESCRIPTOR(ts), {MINUTE})") == [
        (2,)
    ]
    assert await streams.rows(f"WITH w AS ({query}) SELECT n FROM w WHERE n IN (SELECT n FROM w)") == [(2,)]
    await streams.ok(f"DROP VIEW {view_name}")


EXPLAINED = {
    "TUMBLE(ts, 60s)": f"{COUNTED} TUMBLE(TABLE $.src, DESCRIPTOR(ts), {MINUTE}) {BY_WINDOW}",
    "a step of HOP": f"{COUNTED} HOP(TABLE $.src, DESCRIPTOR(ts), {MINUTE}, INTERVAL 3 MINUTES) {BY_WINDOW}, name || 'x'",
    "CUMULATE(ts, 60s, 180s, 30s)": f"{COUNTED} CUMULATE({WATERMARKED}, DESCRIPTOR(ts), {MINUTE}, INTERVAL 3 MINUTES, INTERVAL 30 SECONDS) {BY_WINDOW}",
    "descriptor": f"{COUNTED} SESSION(TABLE $.src, DESCRIPTOR(ts), {MINUTE}) {BY_WINDOW}",
    "window_start of CUMULATE with GAP": f"{COUNTED} CUMULATE(DATA => TABLE $.src PARTITION BY id, TIMECOL => DESCRIPTOR(ts), STEP => {MINUTE}, GAP => {MINUTE}) {BY_WINDOW}, id",
    "a step of CUMULATE": f"{COUNTED} CUMULATE(DATA => {WATERMARKED} PARTITION BY id, TIMECOL => DESCRIPTOR(ts), STEP => {MINUTE}, GAP => {MINUTE}) {BY_WINDOW}, id",
}  # fmt: skip


async def test_plans_speak_of_windows_as_they_were_called(streams: Streams) -> None:
    for said, query in EXPLAINED.items():
        sql = query.replace("$", streams.database)
        shown = await streams.client.rows(sql, mode=StatementMode.EXPLAIN) + await streams.rows(
            f"EXPLAIN EXTENDED {sql}"
        )
        for (plan,) in shown:
            assert said in plan and "__" not in plan.replace("__spark", ""), plan
    made = "CREATE TEMPORARY VIEW seen AS SELECT * FROM TUMBLE(TABLE $.src, DESCRIPTOR(ts), INTERVAL 1 MINUTE)"
    [(plan,)] = await streams.rows(f"{made}; EXPLAIN SELECT window_end, count(*) FROM seen GROUP BY 1")
    assert "window_end of TUMBLE(ts, 60s) AS window_end" in plan and "- pmod(" not in plan, plan


async def test_a_stream_over_windows_goes_on_after_a_stop_and_refuses_another_size(streams: Streams) -> None:
    await streams.ok("CREATE TABLE $.dst (window_start TIMESTAMP, window_end TIMESTAMP, n BIGINT) USING parquet")
    query = f"INSERT INTO $.dst {COUNTED} CUMULATE({WATERMARKED}, DESCRIPTOR(ts), {MINUTE}, INTERVAL '5' MINUTE) {BY_WINDOW}"
    await streams.drained(query, conf=FAST)
    await streams.ok(
        "INSERT INTO $.src VALUES (3, 'c', TIMESTAMP '2026-01-01 00:01:30'), (4, 'd', TIMESTAMP '2026-01-01 00:09:00')"
    )
    await streams.drained(query)
    rows = await streams.rows("SELECT minute(window_end), n FROM $.dst ORDER BY 1")
    assert rows == [(1, 2), (2, 3), (3, 3), (4, 3), (5, 3)]
    for change in (
        ("'5' MINUTE", "'10' MINUTE"),
        ("count(*)", "count(id)"),
        ("CUMULATE", "HOP"),
        ("BY window_start,", "BY id, window_start,"),
    ):
        view = await streams.run(query.replace(*change))
        assert view.error is not None and view.error.reason is ErrorReason.STATE_INCOMPATIBLE, (change, view)
        if change[0] in ("CUMULATE", "'5' MINUTE"):
            assert "window_end of CUMULATE(ts, 60s, 300s, 0s)" in view.error.message


async def test_daily_visitors_are_counted_in_update_mode_as_the_query_divides_them(streams: Streams) -> None:
    """A count of distinct users by a part of their number, summed: written so to spread a hot day."""
    await streams.ok(
        "CREATE TABLE $.visits (user_id INT, `day` STRING) USING parquet",
        "CREATE TABLE $.total (day STRING, total BIGINT) USING iceberg",
    )
    query = (
        "SELECT `day`, SUM(cnt) AS total FROM (SELECT `day`, MOD(user_id, 10), COUNT(DISTINCT user_id) AS cnt "
        "FROM STREAM $.visits GROUP BY `day`, MOD(user_id, 10)) GROUP BY `day`"
    )
    await streams.ok(
        "INSERT INTO $.visits VALUES (1, '2023-12-19'), (2, '2023-12-19'), (11, '2023-12-19'), (1, '2023-12-19')"
    )
    shown = await streams.client.ok(query.replace("$", streams.database), mode=StatementMode.PREVIEW)
    assert [row async for row in streams.client.pages(shown.operation_id)] == [("2023-12-19", 3)]
    by_day = {"output_mode": OutputMode.UPDATE, "upsert": Upsert(keys=("day",)), "conf": FAST}
    totals = "SELECT * FROM $.total ORDER BY day"
    await streams.drained(f"INSERT INTO $.total {query}", **by_day)
    assert await streams.rows(totals) == [("2023-12-19", 3)]
    await streams.ok("INSERT INTO $.visits VALUES (2, '2023-12-19'), (21, '2023-12-19'), (1, '2023-12-20')")
    await streams.drained(f"INSERT INTO $.total {query}", **by_day)
    assert await streams.rows(totals) == [("2023-12-19", 4), ("2023-12-20", 1)]
