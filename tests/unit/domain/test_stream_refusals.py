"""What a streaming statement is refused for, and whether that ends it or parks it: case by case."""

from __future__ import annotations

from typing import Any

import pytest

from sparksql.api.execution import Upsert
from sparksql.api.reasons import Reason
from sparksql.domain.admission import Turn
from sparksql.domain.statement.decide import decide
from sparksql.domain.statement.snapshot import Settings, Unobserved
from sparksql.domain.violation import Violation
from sparksql.wire.control import ErrorReason, OperationError, OperationState
from sparksql.wire.failure.kind import FailureKind
from tests.unit.domain.builders.conditions import PARKED, message, told
from tests.unit.domain.builders.objects import NOW, with_status
from tests.unit.domain.builders.statements import READY, view
from tests.unit.domain.builders.streams import (
    PLACE,
    resting,
    running,
    shown,
    stream,
    stream_snapshot,
    submitted,
    telling,
)

REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "cron": (
        {"savepoints": {"schedule": {"cron": "61 * * * *"}}},
        "InvalidSpec",
        "spec.streaming.savepoints.schedule.cron: '61 * * * *': ",
    ),
}


@pytest.mark.parametrize("session", [READY, None], ids=["session", "no session"])
@pytest.mark.parametrize(("wanted", "reason", "begins"), REFUSED.values(), ids=REFUSED.keys())
def test_new_stream_with_an_invalid_streaming_spec_ends_in_error_at_once(
    wanted: dict[str, Any], reason: str, begins: str, session: Any
) -> None:
    decision = decide(stream_snapshot(stream(streaming=wanted), session=session, settings=PLACE if session else None))
    assert told(decision) == ("Error", reason)
    assert message(decision).startswith(begins)
    assert "; " in message(decision)  # what to do instead


@pytest.mark.parametrize(
    "wanted",
    [{"upgradeMode": "Savepoint"}, {"savepoints": {"schedule": {"intervalSeconds": 60}}}, {"restoreNonce": "1"}],
)
def test_savepoints_to_come_hinder_no_start(wanted: dict[str, Any]) -> None:
    decision = decide(stream_snapshot(stream(streaming=wanted)))
    assert told(decision) == ("Pending", "Submitted")
    options = submitted(decision).request.streaming
    assert options is not None and options.restore is None


def test_limits_of_a_batch_and_upserts_are_handed_on() -> None:
    upsert = {"keys": ["id"], "orderBy": "at", "deleteWhen": "gone"}
    wanted = {"trigger": {"maxFilesPerTrigger": 7, "maxRowsPerTrigger": 8}, "upsert": upsert}
    options = submitted(decide(stream_snapshot(stream(streaming=wanted)))).request.streaming
    assert options is not None
    assert (options.max_files_per_trigger, options.max_rows_per_trigger) == (7, 8)
    assert options.upsert == Upsert(keys=("id",), order_by="at", delete_when="gone")


@pytest.mark.parametrize("root", [None, ""])
def test_stream_of_a_class_without_a_checkpoint_root_ends_in_error(root: str | None) -> None:
    decision = decide(stream_snapshot(stream(), settings=Settings(class_name="standard", checkpoint_root=root)))
    assert told(decision) == ("Error", "InvalidSpec")
    assert message(decision) == (
        "spec.streaming: class standard has no storage.checkpointRoot; checkpoints need a place: "
        "set spec.storage.checkpointRoot of SqlSessionClass standard, or take a session of another class"
    )


@pytest.mark.parametrize("mode", ["Preview", "Explain", "Validate"])
def test_streaming_statement_in_a_mode_other_than_execute_is_treated_as_batch(mode: str) -> None:
    of = stream(mode=mode, streaming={"upgradeMode": "Savepoint"})
    decision = decide(stream_snapshot(of, settings=Settings()))
    assert submitted(decision).request.streaming is None
    assert decision.status.streaming is None
    assert len(decision.status.conditions) == 5
    waits = decide(stream_snapshot(of, settings=Settings(), turn=Turn(False, 1)))
    assert told(waits) == ("Initialized", "QueuedBehindStatements")


def test_refused_stream_that_has_a_state_is_parked() -> None:
    """An end would give up the checkpoint of this run."""
    of = stream(resting("Initialized"))
    decision = decide(stream_snapshot(of, settings=Violation(Reason.NOT_ALLOWED, "spec.conf: key")))
    assert told(decision) == ("Stopped", "NotAllowed")
    assert shown(decision) == PARKED
    again = decide(stream_snapshot(with_status(of, decision)))
    assert told(again) == ("Initialized", "Pending")


def test_invalid_schedule_is_reported_and_parks_a_stream_only_on_a_spec_change() -> None:
    wrong = {"savepoints": {"schedule": {"cron": "61 * * * *"}}}
    with_schedule = stream(running(), streaming=wrong)
    assert told(decide(stream_snapshot(with_schedule, operation=Unobserved.DRIVER_GONE))) == (
        "Initialized",
        "Restarting",
    )
    decision = decide(stream_snapshot(with_schedule, operation=telling()))
    assert (told(decision), decision.commands) == (("Running", "Running"), ())
    assert "periodic savepoints are suspended: spec.streaming.savepoints.schedule.cron" in (
        decision.status.streaming.message or ""
    )  # type: ignore[union-attr]
    changed = stream(running(), streaming={**wrong, "outputMode": "Update"})
    assert told(decide(stream_snapshot(changed, operation=view(OperationState.CANCELED)))) == ("Stopped", "InvalidSpec")


FROZEN = OperationError(reason=ErrorReason.ENVIRONMENT_FAILED, message="for 20 s this driver was frozen")


@pytest.mark.parametrize("upgrades", [0, 1], ids=["first state", "later state"])
@pytest.mark.parametrize("start_time", [None, NOW], ids=["not begun", "begun"])
def test_stream_whose_environment_fails_before_its_first_batch_starts_again_after_a_while(
    start_time: Any, upgrades: int
) -> None:
    of = stream(running(streaming={"upgrades": upgrades}, startTime=None))
    failed = view(OperationState.ERROR, error=FROZEN, start_time=start_time)
    decision = decide(stream_snapshot(of, operation=failed))
    assert told(decision) == ("Initialized", "Restarting")
    assert message(decision) == "restart 1 of 10 in 10 s: for 20 s this driver was frozen"
    assert decision.requeue_after == 10


def test_stream_whose_environment_goes_on_failing_is_parked_before_its_first_batch() -> None:
    of = stream(running(streaming={"restarts": 10}, startTime=None))
    decision = decide(stream_snapshot(of, operation=view(OperationState.ERROR, error=FROZEN, start_time=None)))
    assert (told(decision), shown(decision)) == (("Stopped", "EnvironmentFailed"), PARKED)


@pytest.mark.parametrize(
    ("error", "is_of_the_text"),
    [
        (OperationError(condition="PARSE_SYNTAX_ERROR", sql_state="42601", message="m"), True),
        (OperationError(reason=ErrorReason.INVALID_SPEC, message="m"), True),
        (OperationError(condition="INSERT_COLUMN_ARITY_MISMATCH", sql_state="21S01", message="m"), True),
        (OperationError(condition="INCOMPATIBLE_DATA_FOR_TABLE", sql_state="KD000", message="m"), True),
        (OperationError(condition="TABLE_OR_VIEW_NOT_FOUND", sql_state="42P01", message="m"), False),
        (OperationError(condition="X", sql_state="08000", message="m"), False),
        (OperationError(message="m"), False),
    ],
)
def test_an_error_of_the_text_parks_what_has_a_state_after_a_few_tries(
    error: OperationError, is_of_the_text: bool
) -> None:
    """An upgrade with a wrong word: the state waits for the right one, instead of an end that gives it up."""
    failed = view(OperationState.ERROR, error=error, start_time=None)
    few = stream(running(streaming={"queryId": "q", "restarts": 1}, startTime=None))
    assert told(decide(stream_snapshot(few, operation=failed))) == ("Initialized", "Restarting")
    many = stream(running(streaming={"queryId": "q", "restarts": 2}, startTime=None))
    decision = decide(stream_snapshot(many, operation=failed))
    if not is_of_the_text:
        assert told(decision) == ("Initialized", "Restarting")
        return
    assert (decision.status.phase, shown(decision)) == ("Stopped", PARKED)
    again = decide(stream_snapshot(with_status(many, decision)))
    assert (again.status.phase, shown(again)) == ("Stopped", PARKED)
    begun = decide(stream_snapshot(many, operation=view(OperationState.ERROR, error=error, start_time=NOW)))
    assert (begun.status.phase, shown(begun)) == ("Stopped", PARKED)
    assert message(begun).startswith("m; set desiredState to Stopped")


def test_lost_kafka_records_park_a_stream_with_the_way_to_go_on_from_its_checkpoint() -> None:
    lost = OperationError(condition="KAFKA_DATA_LOSS.PARTITIONS_DELETED", message="Some data may have been lost")
    of = stream(running(streaming={"queryId": "q", "restarts": 2}, startTime=None))
    decision = decide(stream_snapshot(of, operation=view(OperationState.ERROR, error=lost, start_time=NOW)))
    assert (told(decision), shown(decision)) == (("Stopped", "SqlError"), PARKED)
    assert "failOnDataLoss of the Kafka source to 'false'" in message(decision)
    assert "to go on from the checkpoint" in message(decision)
    again = decide(stream_snapshot(with_status(of, decision)))
    assert (told(again), shown(again)) == (("Stopped", "SqlError"), PARKED)


@pytest.mark.parametrize(
    ("error", "granted"),
    [
        (OperationError(condition="STREAM_FAILED", sql_state="XXKST", cause=FailureKind.ENVIRONMENT, message="m"), 50),
        (OperationError(condition="STREAM_FAILED", sql_state="XXKST", message="m"), 10),
        (OperationError(condition="DIVIDE_BY_ZERO", sql_state="22012", message="m"), 10),
        (OperationError(condition="PARSE_SYNTAX_ERROR", sql_state="42601", message="m"), 2),
    ],
)
def test_restarts_in_a_row_are_granted_by_the_class_of_the_failure(error: OperationError, granted: int) -> None:
    failed = view(OperationState.ERROR, error=error, start_time=None)
    wanted = {"restart": {"limit": 50}}
    last = stream(running(streaming={"queryId": "q", "restarts": granted - 1}, startTime=None), streaming=wanted)
    decision = decide(stream_snapshot(last, operation=failed))
    assert told(decision) == ("Initialized", "Restarting")
    assert message(decision).startswith(f"restart {granted} of {granted} in ")
    assert decision.status.next_attempt_time is not None
    over = stream(running(streaming={"queryId": "q", "restarts": granted}, startTime=None), streaming=wanted)
    assert told(decide(stream_snapshot(over, operation=failed))) == ("Stopped", "SqlError")


@pytest.mark.parametrize(("cause", "phase"), [(FailureKind.ENVIRONMENT, "Initialized"), (None, "Error")])
def test_query_that_never_ran_starts_again_when_a_cause_in_the_environment_failed(
    cause: FailureKind | None, phase: str
) -> None:
    error = OperationError(condition="STREAM_FAILED", sql_state="XXKST", cause=cause, message="no broker answers")
    of = stream(running(startTime=None))
    decision = decide(stream_snapshot(of, operation=view(OperationState.ERROR, error=error, start_time=None)))
    assert decision.status.phase == phase
