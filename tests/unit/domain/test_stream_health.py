"""Healthy and CheckpointFresh: what a streaming statement's reports, or their lack, tell."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.domain.statement.decide import decide
from sparksql.domain.statement.stream.health import progress_timeout
from tests.unit.domain.builders.conditions import STREAMS, UNDER_WAY
from tests.unit.domain.builders.objects import NOW, ago
from tests.unit.domain.builders.streams import health, resting, running, shown, stream, stream_snapshot, telling

WELL = ("True", "Healthy")
SILENT = ("False", "NoProgress")
FRESH = ("True", "CheckpointFresh")
STALE = ("False", "CheckpointStale")
NO_BATCH = ("Unknown", "Pending")

# Seconds since start and since the last report, batch, committed batch, restarts -> Healthy, CheckpointFresh
CASES: dict[str, tuple[int, int | None, int | None, int | None, int, Any]] = {
    "just started": (5, None, 0, None, 0, (WELL, NO_BATCH)),
    "never said anything": (181, None, 0, None, 0, (SILENT, NO_BATCH)),
    "reports": (500, 5, 4, 3, 0, (WELL, FRESH)),
    "has nothing to do": (500, 5, 3, 3, 0, (WELL, FRESH)),
    "silent in a batch": (500, 181, 4, 3, 0, (SILENT, STALE)),
    "silent between batches": (500, 181, 3, 3, 0, (SILENT, FRESH)),
    "was silent before it was restarted": (5, 400, 4, 3, 1, (WELL, FRESH)),
    "restarted twice": (5, 5, 4, 3, 2, (WELL, FRESH)),
    "restarted often": (5, 5, 4, 3, 3, (("False", "Restarting"), FRESH)),
}


@pytest.mark.parametrize(("started", "reported", "batch", "committed", "restarts", "wanted"), CASES.values(), ids=CASES)
def test_healthy_and_checkpoint_fresh_follow_the_reports_and_restarts_of_a_stream(
    started: int, reported: int | None, batch: int, committed: int, restarts: int, wanted: Any
) -> None:
    told = {
        "batch_id": batch,
        "committed_batch_id": committed,
        "last_progress_time": None if reported is None else ago(reported),
    }
    of = stream(running(streaming={"restarts": restarts}, startTime=ago(started)))
    decision = decide(stream_snapshot(of, operation=telling(told=told, start_time=ago(started))))
    assert health(decision) == wanted
    assert shown(decision) == (STREAMS if wanted[0] == WELL else UNDER_WAY)


@pytest.mark.parametrize("phase", ["Initialized", "Stopped"])
def test_health_of_a_query_that_does_not_run_is_unknown(phase: str) -> None:
    of = stream(resting(phase), desiredState="Stopped")
    assert health(decide(stream_snapshot(of))) == (("Unknown", "Pending"), ("Unknown", "Pending"))


@pytest.mark.parametrize(("millis", "wanted"), [(None, 180), (100, 60), (6_000, 60), (30_000, 300)])
def test_progress_timeout_follows_the_interval(millis: int | None, wanted: float) -> None:
    trigger = {} if millis is None else {"intervalMillis": millis}
    assert progress_timeout(stream(streaming={"trigger": trigger}).spec) == wanted


@pytest.mark.parametrize(("mode", "wanted"), [("AvailableNow", 60), ("RealTime", 180)])
def test_progress_timeout_with_a_mode_that_needs_no_interval(mode: str, wanted: float) -> None:
    assert progress_timeout(stream(streaming={"trigger": {"mode": mode}}).spec) == wanted


@given(st.integers(0, 179))
def test_lack_of_a_report_is_noticed_in_time(silent: int) -> None:
    of = stream(running(startTime=ago(silent)))
    decision = decide(stream_snapshot(of, operation=telling(start_time=ago(silent), told={"last_progress_time": None})))
    assert decision.requeue_after is not None
    assert decision.requeue_after <= 180 - silent + 0.1


def test_message_does_not_change_while_nothing_happens() -> None:
    """A status that changed with the clock would be written again and again."""
    first = decide(stream_snapshot(stream(running(startTime=ago(190))), operation=telling(start_time=ago(190))))
    later = stream(first.status.to_dict())
    again = decide(stream_snapshot(later, operation=telling(start_time=ago(190)), now=NOW.replace(second=40)))
    assert again.status == first.status
