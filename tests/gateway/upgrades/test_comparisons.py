"""A changed streaming text is compared with the state of a query that runs: it is told beforehand, and nothing is started or written."""

from __future__ import annotations

from typing import Any

import pytest

from sparksql.api.execution import OutputMode, StatementMode, TriggerMode, Upsert
from sparksql.wire.control import COMPARISON, ErrorReason, OperationState, OperationView, Parameter, RestoreOptions
from tests.support.thorough import thorough_but

from ..streams import Streams

WATERMARK = "WATERMARK timestamp DELAY OF INTERVAL 1 SECOND"
WINDOW = "window(timestamp, '1 second')"
COUNTING = (
    f"INSERT INTO $.dst (k, n, until) SELECT value % 3, count(*), window.end FROM STREAM $.ticks {WATERMARK} "
    f"GROUP BY value % 3, {WINDOW}"
)
SUMMING = COUNTING.replace("count(*)", "sum(value)")


async def compare(
    streams: Streams, sql: str, checkpoint: str = "c", conf: dict[str, str] | None = None, **fields: Any
) -> OperationView:
    """The answer to whether a text fits the state in a checkpoint."""
    parameters = fields.pop("parameters", ())
    against = streams.options(checkpoint, **fields)
    view = await streams.client.put(
        sql.replace("$", streams.database),
        mode=StatementMode.VALIDATE,
        validate_against=against,
        conf=conf or {},
        parameters=parameters,
    )
    return await streams.client.end(view)


def assert_fits(view: OperationView) -> None:
    assert view.state is OperationState.FINISHED, view
    assert view.result is not None, view
    assert tuple(column.name for column in view.result.columns) == COMPARISON
    assert (view.result.row_count, view.read_only, view.streaming) == (0, True, False)


def refused(view: OperationView) -> tuple[ErrorReason, str]:
    assert view.state is OperationState.ERROR and view.error is not None, view
    return view.error.reason, view.error.message


@pytest.fixture
async def counting(streams: Streams) -> OperationView:
    """A query with state that runs."""
    await streams.ok(
        "CREATE TABLE $.ticks USING rate OPTIONS (rowsPerSecond '50', numPartitions '1')",
        "CREATE TABLE $.dst (k BIGINT, n BIGINT, until TIMESTAMP) USING parquet",
        "CREATE TABLE $.other (k BIGINT, n BIGINT, until TIMESTAMP) USING parquet",
    )
    running = await streams.endless(COUNTING, conf={"spark.sql.shuffle.partitions": "1"}, interval_millis=500)
    return await streams.committed(running, 2)


async def goes_on(streams: Streams, running: OperationView) -> None:
    """Fails unless the query commits further batches as the same operation."""
    stream = running.progress.stream if running.progress else None
    assert stream is not None and stream.committed_batch_id is not None
    later = await streams.committed(running, stream.committed_batch_id + 2)
    assert later.state is OperationState.RUNNING, later
    assert later.progress is not None and later.progress.stream is not None
    assert later.progress.stream.run_id == stream.run_id


async def test_changed_sql_is_compared_with_a_running_stream_that_goes_on(
    streams: Streams, counting: OperationView
) -> None:
    checkpoint = streams.folder / "c"
    described = (checkpoint / "sparksql-query.json").read_bytes()
    assert_fits(await compare(streams, COUNTING))
    assert_fits(await compare(streams, f"{COUNTING} HAVING count(*) > 1"))
    view = await compare(streams, SUMMING)
    reason, message = refused(view)
    assert reason is ErrorReason.STATE_INCOMPATIBLE
    assert "aggregate: column n was count(1), is sum(value)" in message
    assert "spec.streaming.startFrom and restoreNonce" in message
    assert view.result is not None and view.result.row_count == 1, view
    (row,) = view.result.preview
    told = dict(zip((column.name for column in view.result.columns), row, strict=True))
    remedy = told.pop("remedy")
    assert remedy is not None and "onIncompatible StartFresh" in remedy
    assert told == {
        "change": "AggregateChanged",
        "operator": "aggregate",
        "column": told["column"],
        "was": "count(1)",
        "is": "sum(value)",
    }
    page = await streams.client.page(view.operation_id)
    assert page.row_count == 1
    assert (checkpoint / "sparksql-query.json").read_bytes() == described
    await goes_on(streams, counting)


REFUSED: list[tuple[str, dict[str, Any], ErrorReason, str]] = [
    ("INSERT INTO $.dst SELECT FROM STREAM", {}, ErrorReason.SQL_ERROR, "with name `FROM` cannot be resolved"),
    (COUNTING.replace("value % 3", "nothing"), {}, ErrorReason.SQL_ERROR, "nothing"),
    (COUNTING.replace("$.dst", "$.absent"), {}, ErrorReason.SQL_ERROR, "absent"),
    (COUNTING.replace("STREAM $.ticks", "STREAM $.absent"), {}, ErrorReason.SQL_ERROR, "absent"),
    ("SELECT value FROM STREAM $.ticks", {}, ErrorReason.INVALID_SPEC, "INSERT INTO"),
    (COUNTING, {"output_mode": OutputMode.COMPLETE}, ErrorReason.INVALID_SPEC, "takes Append, not Complete"),
    (COUNTING.replace(WATERMARK, ""), {}, ErrorReason.STATE_INCOMPATIBLE, "watermark was timestamp, is none"),
    (
        COUNTING,
        {"upsert": Upsert(keys=("k",)), "output_mode": OutputMode.UPDATE},
        ErrorReason.INVALID_SPEC,
        "spec.streaming.upsert",
    ),
    (COUNTING, {"trigger": TriggerMode.REAL_TIME}, ErrorReason.INVALID_SPEC, "mode: RealTime needs"),
    (COUNTING, {"output_mode": OutputMode.UPDATE}, ErrorReason.INVALID_SPEC, "takes Append, not Update"),
    (COUNTING.replace("$.dst", "$.other"), {}, ErrorReason.INVALID_SPEC, "another one"),
    (COUNTING, {"conf": {"spark.driver.memory": "1g"}}, ErrorReason.NOT_ALLOWED, "spark.driver.memory"),
]
# The last of each reason, and all others. They are compared with one query.
LAST = [*{each[2]: each for each in REFUSED}.values()]
TOGETHER = {"one of each reason": LAST, "further ones": [each for each in REFUSED if each not in LAST]}


@pytest.mark.parametrize("some", thorough_but(["one of each reason"], TOGETHER))
async def test_a_comparison_refuses_sql_that_the_stream_could_not_start_with(
    streams: Streams, counting: OperationView, some: str
) -> None:
    for sql, fields, reason, words in TOGETHER[some]:
        view = await compare(streams, sql, **fields)
        assert refused(view)[0] is reason, view
        assert words in refused(view)[1]
        if reason is ErrorReason.SQL_ERROR and "$.dst" in sql:  # Spark has no place for a target that is missing
            assert view.error is not None and view.error.line == 1, view
    await goes_on(streams, counting)


async def test_a_compared_script_may_only_set_up_its_session_before_the_insert(
    streams: Streams, counting: OperationView
) -> None:
    view = "CREATE TEMPORARY VIEW odd AS SELECT * FROM STREAM $.ticks WHERE value % 2 = 1"
    insert = COUNTING.replace(f"STREAM $.ticks {WATERMARK}", "odd").replace("count(*)", "sum(value)")
    there = "CREATE TABLE IF NOT EXISTS $.dst (k BIGINT) USING parquet"
    assert_fits(await compare(streams, f"SET my.key = 1; SHOW TABLES; {there}; {COUNTING}"))
    marked = view.replace("$.ticks", f"$.ticks {WATERMARK}")
    assert refused(await compare(streams, f"{marked}; {insert}"))[0] is ErrorReason.STATE_INCOMPATIBLE
    for outside in (
        "CREATE TABLE $.made (k BIGINT) USING parquet",
        "CREATE TABLE IF NOT EXISTS $.made (k BIGINT) USING parquet",
        "INSERT INTO $.other VALUES (1, 1, NULL)",
        "CREATE GLOBAL TEMPORARY VIEW everywhere AS SELECT 1",
        "DROP TABLE $.dst",
    ):
        reason, message = refused(await compare(streams, f"{outside}; {COUNTING}"))
        assert reason is ErrorReason.NOT_IMPLEMENTED, (outside, message)
    assert await streams.rows("SELECT * FROM $.other") == []
    assert await streams.rows("SHOW TABLES IN $ LIKE 'made'") == []
    assert await streams.client.rows("SHOW VIEWS IN global_temp LIKE 'everywhere'") == []
    await goes_on(streams, counting)


async def test_a_savepoint_and_a_stopped_query_are_compared_with_as_well(
    streams: Streams, counting: OperationView
) -> None:
    target = await streams.saved("saved")
    await streams.stop(counting)
    restore = RestoreOptions(location=target, query_id="1d5a8bd8-3f0c-4f5c-8f4b-1c2f0e7d9a11")
    into_other, summing = (text.replace("$.dst", "$.other") for text in (COUNTING, SUMMING))
    assert_fits(await compare(streams, summing, "new"))
    assert_fits(await compare(streams, into_other, "new", restore=restore))
    assert refused(await compare(streams, summing, "new", restore=restore))[0] is ErrorReason.STATE_INCOMPATIBLE
    absent = RestoreOptions(location=f"{target}-absent", query_id=restore.query_id)
    reason, message = refused(await compare(streams, summing, "new", restore=absent))
    assert (reason, "spec.streaming.startFrom" in message) == (ErrorReason.INVALID_SPEC, True)
    assert not (streams.folder / "new").exists()
    assert_fits(await compare(streams, COUNTING))
    assert refused(await compare(streams, SUMMING))[0] is ErrorReason.STATE_INCOMPATIBLE


async def test_secret_values_are_not_in_the_answer(streams: Streams, counting: OperationView) -> None:
    salt = Parameter(name="salt", value="much-salt", secret=True)
    view = await compare(streams, COUNTING.replace("value % 3", "concat(value, :salt)"), parameters=(salt,))
    assert refused(view)[0] in (ErrorReason.STATE_INCOMPATIBLE, ErrorReason.SQL_ERROR), view
    assert "much-salt" not in view.to_json()


INCOMPATIBLE = {
    "another key": COUNTING.replace("value % 3", "value % 2"),
    "another aggregate": SUMMING,
    "another window": COUNTING.replace("'1 second'", "'2 seconds'"),
    "removed aggregate": COUNTING.replace("count(*)", "CAST(NULL AS BIGINT)"),
    "changed source": COUNTING.replace("$.ticks", "$.tocks"),
    "changed sink": COUNTING.replace("$.dst", "$.other"),
}


async def test_start_of_a_stopped_stream_is_refused_with_the_error_of_the_validation(
    streams: Streams, counting: OperationView
) -> None:
    await streams.ok("CREATE TABLE $.tocks USING rate OPTIONS (rowsPerSecond '50', numPartitions '2')")
    await streams.stop(counting)
    described = (streams.folder / "c" / "sparksql-query.json").read_bytes()
    validated, started = {}, {}
    for change, sql in INCOMPATIBLE.items():
        validated[change] = refused(await compare(streams, sql, rewrites=True))
        started[change] = refused(await streams.run(sql, rewrites=True))
    assert validated == started
    assert {reason for reason, _ in validated.values()} == {ErrorReason.STATE_INCOMPATIBLE, ErrorReason.INVALID_SPEC}
    assert len({message for _, message in validated.values()}) == len(INCOMPATIBLE)
    assert (streams.folder / "c" / "sparksql-query.json").read_bytes() == described
