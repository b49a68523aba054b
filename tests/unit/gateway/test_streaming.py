"""The pure parts of streaming: intervals, progress, lag, and streams among other statements."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.api.execution import Upsert
from sparksql.gateway.operations.scheduler import Scheduler
from sparksql.gateway.operations.threads import Workers
from sparksql.gateway.streaming.lag import reported_lag, rows_left
from sparksql.gateway.streaming.progress import stream_progress
from sparksql.gateway.streaming.sources import read_limits
from sparksql.gateway.streaming.trigger import MAX_INTERVAL_MILLIS, MIN_INTERVAL_MILLIS, inferred_interval
from sparksql.gateway.streaming.upsert.merge import merge_statement
from sparksql.gateway.streaming.upsert.target import UpsertTarget
from sparksql.wire.control import StreamOptions

REPORT: dict[str, Any] = {
    "batchId": 7,
    "timestamp": "2026-01-31T10:00:00.250Z",
    "inputRowsPerSecond": 120.46,
    "processedRowsPerSecond": 1e12,
    "durationMs": {"addBatch": 12, "triggerExecution": 40},
    "eventTime": {"watermark": "2026-01-31T09:59:00.000Z"},
    "stateOperators": [{"numRowsTotal": 3, "memoryUsedBytes": 100}, {"numRowsTotal": 4, "memoryUsedBytes": 50}],
    "sources": [{"endOffset": {"logOffset": 3}}],
}


@pytest.mark.parametrize(
    ("windows", "millis"),
    [
        ([], MIN_INTERVAL_MILLIS),
        ([10_000], 10_000),
        ([600_000, 45_000], 15_000),
        ([3_600_000], MAX_INTERVAL_MILLIS),
        ([7, 5], MIN_INTERVAL_MILLIS),
    ],
)
def test_interval_of_a_stream_is_inferred_from_its_windows(windows: list[int], millis: int) -> None:
    assert inferred_interval(windows) == millis


@given(st.lists(st.integers(1, 10**9)))
def test_interval_is_bounded_and_divides_every_window_unless_bounded(windows: list[int]) -> None:
    millis = inferred_interval(windows)
    assert MIN_INTERVAL_MILLIS <= millis <= MAX_INTERVAL_MILLIS
    if MIN_INTERVAL_MILLIS <= math.gcd(*windows) <= MAX_INTERVAL_MILLIS:
        assert all(window % millis == 0 for window in windows)


def test_progress_is_read_from_the_report_of_a_batch() -> None:
    seen = stream_progress("q", "r", REPORT)
    assert (seen.batch_id, seen.committed_batch_id) == (8, 7)
    assert (seen.input_rows_per_second, seen.processed_rows_per_second) == ("120.5", "1000000000000.0")
    assert seen.watermark == "2026-01-31T09:59:00.000Z"
    assert (seen.state_rows, seen.state_bytes, seen.lag) == (7, 150, None)
    assert seen.last_progress_time is not None
    assert seen.last_progress_time.isoformat() == "2026-01-31T10:00:00.250000+00:00"


@pytest.mark.parametrize(("number", "committed"), [(0, None), (1, 0), (8, 7)])
def test_report_of_a_trigger_without_data_names_the_batch_that_comes_next(number: int, committed: int | None) -> None:
    idle = {"batchId": number, "timestamp": "2026-01-31T10:00:00Z", "durationMs": {"latestOffset": 1}}
    seen = stream_progress("q", "r", idle)
    assert (seen.batch_id, seen.committed_batch_id) == (number, committed)
    assert (seen.state_rows, seen.lag, seen.watermark) == (None, None, None)


def test_progress_without_a_report_has_only_ids() -> None:
    seen = stream_progress("q", "r", {})
    assert (seen.query_id, seen.run_id, seen.batch_id, seen.last_progress_time) == ("q", "r", None, None)


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ([], None),
        ([{"endOffset": {"logOffset": 1}, "latestOffset": None}], None),
        ([{"endOffset": 5, "latestOffset": 9}], None),
        ([{"endOffset": {"t": {"0": 5}}, "latestOffset": {"t": {"0": 9, "1": 2}}}], 6),
        ([{"endOffset": {"t": {"0": 5}}, "latestOffset": {"t": {"0": 3}}}], 0),
        (
            [
                {"metrics": {"numFilesOutstanding": "4"}},
                {"endOffset": {"t": {"0": 5}}, "latestOffset": {"t": {"0": 6}}},
            ],
            5,
        ),
    ],
)
def test_lag_is_what_the_sources_tell(sources: list[dict[str, Any]], expected: int | None) -> None:
    assert reported_lag(sources) == expected


def place(snapshot: int, position: int = 0, *, whole: bool = False) -> dict[str, Any]:
    return {"version": 1, "snapshot_id": snapshot, "position": position, "scan_all_files": whole}


SNAPSHOTS = (
    (
        3,
        {
            "operation": "append",
            "added-records": "30",
            "added-data-files": "3",
            "total-records": "60",
            "total-data-files": "6",
        },
    ),
    (2, {"operation": "replace", "total-records": "30", "total-data-files": "3"}),
    (
        1,
        {
            "operation": "append",
            "added-records": "30",
            "added-data-files": "3",
            "total-records": "30",
            "total-data-files": "3",
        },
    ),
)


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (place(3, 3), 0),
        (place(3, 1), 20),
        (place(3, 2, whole=True), 40),
        (place(2), 30),
        (place(1, 3), 30),
        (place(1, 1), 50),
        (place(-1), 60),
        (place(9), None),
    ],
)
def test_rows_left_of_iceberg_are_those_after_the_place(read: dict[str, Any], expected: int | None) -> None:
    assert rows_left(read, iter(SNAPSHOTS)) == expected


def test_rows_left_of_an_empty_table_are_none() -> None:
    assert rows_left(place(-1), iter(())) == 0


def test_limits_have_the_names_of_every_source() -> None:
    assert read_limits(StreamOptions(checkpoint="file:///c")) == {}
    limits = read_limits(StreamOptions(checkpoint="file:///c", max_files_per_trigger=2, max_rows_per_trigger=3))
    assert limits == {
        "maxFilesPerTrigger": "2",
        "streaming-max-files-per-micro-batch": "2",
        "maxOffsetsPerTrigger": "3",
        "streaming-max-rows-per-micro-batch": "3",
    }


def test_a_stream_is_admitted_at_once_and_holds_nobody_back() -> None:
    scheduler = Scheduler(slots=1)
    assert scheduler.submit("a", exclusive=True).admitted == ("a",)
    assert scheduler.submit_unbound("stream").admitted == ("stream",)
    assert scheduler.submit("b", exclusive=True).admitted == ()
    assert scheduler.leave("a").admitted == ("b",)
    assert scheduler.slots_used == 1
    assert scheduler.leave("stream").admitted == ()


def test_detached_work_has_a_thread_beyond_the_maximum() -> None:
    ended = threading.Semaphore(0)
    workers = Workers(0, 1, 0.0, ended.release)
    go, ran = threading.Event(), threading.Semaphore(0)

    def work() -> bool:
        ran.release()
        return go.wait(30)

    for _ in range(3):
        workers.detach(work)
    workers.submit(lambda: False)
    assert all(ran.acquire(timeout=30) for _ in range(3))
    assert ended.acquire(timeout=30)
    go.set()
    assert all(ended.acquire(timeout=30) for _ in range(3))
    assert workers.threads == 0


def test_merge_of_keys_with_an_order_and_deletes() -> None:
    target = UpsertTarget("`c`.`t`", ("Id", "a`b"), is_delta=False)
    options = Upsert(keys=("id",), order_by="ts + 1", delete_when="op = 'd'")
    newer = "coalesce(s.__sparksql_order >= (ts + 1), (ts + 1) IS NULL)"
    assert merge_statement(options, target) == (
        "MERGE INTO `c`.`t` t USING __sparksql_batch s ON t.`Id` <=> s.`__sparksql_Id` "
        f"WHEN MATCHED AND {newer} AND s.__sparksql_delete THEN DELETE "
        f"WHEN MATCHED AND {newer} THEN UPDATE SET t.`Id` = s.`__sparksql_Id`, t.`a``b` = s.`__sparksql_a``b` "
        "WHEN NOT MATCHED AND NOT s.__sparksql_delete "
        "THEN INSERT (`Id`, `a``b`) VALUES (s.`__sparksql_Id`, s.`__sparksql_a``b`)"
    )


def test_upsert_of_keys_alone_merges_by_every_column() -> None:
    target = UpsertTarget("t", ("k", "v"), is_delta=True)
    assert merge_statement(Upsert(keys=("k", "v")), target) == (
        "MERGE INTO t t USING __sparksql_batch s ON t.`k` <=> s.`__sparksql_k` AND t.`v` <=> s.`__sparksql_v` "
        "WHEN MATCHED THEN UPDATE SET t.`k` = s.`__sparksql_k`, t.`v` = s.`__sparksql_v` "
        "WHEN NOT MATCHED AND NOT s.__sparksql_delete THEN INSERT (`k`, `v`) VALUES (s.`__sparksql_k`, s.`__sparksql_v`)"
    )
