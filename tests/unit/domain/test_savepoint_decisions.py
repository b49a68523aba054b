"""The life of a savepoint, rule by rule: what it waits for, how an attempt goes, how it ends."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from sparksql.api.reasons import Reason
from sparksql.domain.savepoint.decide import decide
from sparksql.domain.savepoint.retention import RetentionDecision
from sparksql.domain.savepoint.retention import RetentionReason as Why
from sparksql.domain.savepoint.snapshot import (
    Attempt,
    CancelCopy,
    DeleteSelf,
    Failed,
    Observation,
    Running,
    SavepointStorage,
    StartCopy,
    VerifyExisting,
)
from sparksql.domain.savepoint.steps import FIRST_LOOK_SECONDS, POLL_SECONDS, QUICK_SECONDS, copy_id
from sparksql.domain.statement.snapshot import Driver, Unobserved
from tests.unit.domain.builders.conditions import SAVEPOINT_CONDITIONS, conditions, told
from tests.unit.domain.builders.objects import NOW, ago
from tests.unit.domain.builders.savepoints import (
    ATTEMPT,
    CHECKPOINT,
    ELSEWHERE,
    ROOT,
    SAVEPOINT_UID,
    TARGET,
    WHOLE,
    copying,
    decided,
    existing,
    id_of,
    saved,
    savepoint,
    savepoint_snapshot,
    settled,
    waiting,
)
from tests.unit.domain.builders.statements import DRIVER, STATEMENT_UID, statement
from tests.unit.domain.builders.streams import resting, stream

NO_STATE = stream(resting(streaming={}, observedRunNonce=""))
TWIN = saved().replace(metadata=saved().metadata.replace(uid="another"))
GOING = saved().replace(metadata=saved().metadata.replace(deletion_timestamp=NOW))
PLENTY = SavepointStorage("standard", "s3a://" + "x" * 1000)


def test_savepoint_copy_starts_with_its_intent_recorded_in_the_status() -> None:
    decision = decided(savepoint())
    assert told(decision) == ("InProgress", "InProgress")
    assert decision.status.location == TARGET
    assert decision.status.start_time == NOW
    assert decision.status.trigger == "Manual"
    assert decision.attempt == Attempt(DRIVER, STATEMENT_UID, "standard", "writer")
    text = saved().status.sql_hash
    assert text is not None
    assert decision.commands == (StartCopy(id_of(0), DRIVER, CHECKPOINT, TARGET, SAVEPOINT_UID, text),)
    assert (decision.status.query_id, decision.status.sql_hash) == ("q", saved().status.sql_hash)
    assert decision.events and decision.events[0].type == "Normal"
    assert decision.requeue_after == FIRST_LOOK_SECONDS < POLL_SECONDS


@pytest.mark.parametrize("root", [ROOT, f"{ROOT}/"])
def test_the_location_is_made_of_names_and_the_uid(root: str) -> None:
    assert decided(savepoint(), storage=SavepointStorage("standard", root)).status.location == TARGET


def test_a_trigger_once_recorded_stays() -> None:
    assert decided(savepoint(waiting("Pending", trigger="Periodic"))).status.trigger == "Periodic"


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"statement": None}, "StatementNotFound"),
        ({"storage": None}, "SessionNotReady"),
        ({"statement": stream()}, "Pending"),  # never handed over
        ({"statement": saved(committedBatchId=None)}, "Pending"),
        ({"statement": NO_STATE}, "Pending"),
        ({"driver": None}, "SessionNotReady"),
    ],
)
def test_savepoint_waits_while_statement_session_state_or_driver_is_missing(facts: dict[str, Any], reason: str) -> None:
    decision = decided(savepoint(), **facts)
    assert told(decision) == ("Pending", reason)
    assert conditions(decision) == SAVEPOINT_CONDITIONS["Pending"]
    assert decision.status.message
    assert not decision.commands
    assert decision.requeue_after is not None and 0 < decision.requeue_after <= 60.1


@pytest.mark.parametrize(
    ("facts", "phase", "reason", "names"),
    [
        ({"statement": statement()}, "Failed", "StatementNotStreaming", "spec.statementRef.name"),
        (
            {"storage": SavepointStorage("standard", None)},
            "Failed",
            "InvalidSpec",
            "class standard: spec.storage.savepointRoot",
        ),
        ({"storage": PLENTY}, "Failed", "InvalidSpec", "spec.storage.savepointRoot"),
        ({"statement": stream(resting("Error", streaming={}))}, "Failed", "SavepointFailed", "no state"),
        ({"statement": GOING}, "Abandoned", "Abandoned", "statement one"),
    ],
)
def test_savepoint_that_can_never_be_taken_ends_before_its_first_attempt(
    facts: dict[str, Any], phase: str, reason: str, names: str
) -> None:
    decision = decided(savepoint(), **facts)
    assert told(decision) == (phase, reason)
    assert conditions(decision) == SAVEPOINT_CONDITIONS[phase]
    assert names in (decision.status.message or "")
    assert decision.status.completion_time == NOW
    assert decision.status.location is None
    assert decision.events and decision.events[0].type == "Warning"
    assert not decision.commands


def test_an_ended_statement_that_has_a_state_is_copied() -> None:
    ended = stream(resting("Error", streaming={"queryId": "q", "committedBatchId": 7}))
    assert told(decided(savepoint(), statement=ended)) == ("InProgress", "InProgress")


def test_an_ended_statement_that_runs_again_is_waited_for() -> None:
    renewed = stream(resting("Error", streaming={}), runNonce="2")
    assert told(decided(savepoint(), statement=renewed)) == ("Pending", "Pending")


@pytest.mark.parametrize(("age", "phase"), [(0, "Pending"), (59, "Pending"), (60, "Failed"), (3600, "Failed")])
def test_a_statement_that_does_not_exist_is_waited_for_a_minute(age: float, phase: str) -> None:
    decision = decided(savepoint(created=ago(age)), statement=None)
    assert told(decision) == (phase, "StatementNotFound")
    if phase == "Pending":
        assert decision.requeue_after == pytest.approx(60 - age + 0.05, abs=0.1)


@pytest.mark.parametrize(
    "status", [waiting("SessionNotReady"), waiting("Retrying", failures=1, location=TARGET, nextAttemptTime=ago(-9))]
)
def test_pending_savepoint_is_abandoned_once_its_known_statement_is_gone(status: dict[str, Any]) -> None:
    assert told(decided(savepoint(status), statement=None)) == ("Abandoned", "Abandoned")


def test_savepoint_is_not_continued_with_a_recreated_statement_of_the_same_name() -> None:
    between = savepoint(waiting("Retrying", failures=1, location=TARGET))
    assert told(decided(between, statement=TWIN)) == ("Abandoned", "Abandoned")
    under_way = decided(savepoint(copying()), statement=TWIN, observation=Running())
    assert told(under_way) == ("InProgress", "Canceling")
    (command,) = under_way.commands
    assert isinstance(command, CancelCopy)
    assert (command.id, command.driver) == (id_of(0), DRIVER)


@pytest.mark.parametrize(
    ("word", "commands", "wake"),
    [(Running(), 0, POLL_SECONDS), (Unobserved.UNREACHABLE, 0, 2), (None, 0, 2), (Unobserved.UNKNOWN, 1, 2)],
)
def test_savepoint_attempt_under_way_is_asked_about_until_it_ends(
    word: Observation | None, commands: int, wake: float
) -> None:
    decision = decided(savepoint(copying()), observation=word, driver=None)
    assert told(decision) == ("InProgress", "InProgress")
    assert len(decision.commands) == commands
    assert decision.attempt == ATTEMPT
    assert decision.requeue_after == wake


@pytest.mark.parametrize(
    ("seconds", "wake"),
    [
        (0, FIRST_LOOK_SECONDS),
        (QUICK_SECONDS - 0.1, FIRST_LOOK_SECONDS),
        (QUICK_SECONDS, POLL_SECONDS),
        (60, POLL_SECONDS),
    ],
)
def test_savepoint_attempt_that_takes_long_is_asked_about_less_often(seconds: float, wake: float) -> None:
    assert decided(savepoint(copying(startTime=ago(seconds))), observation=Running()).requeue_after == wake


def test_savepoint_attempt_is_reconciled_again_when_its_timeout_expires() -> None:
    running = decided(savepoint(copying(startTime=ago(599.5))), observation=Running())
    assert running.requeue_after == pytest.approx(0.55)
    silent = decided(savepoint(copying(startTime=ago(599))), observation=Unobserved.UNREACHABLE)
    assert silent.requeue_after == pytest.approx(1.05)


def test_a_request_that_was_lost_is_repeated_to_the_same_driver() -> None:
    (again,) = decided(
        savepoint(copying()), observation=Unobserved.UNKNOWN, driver=Driver("s-2", "pod-2", "boot-2")
    ).commands
    assert isinstance(again, StartCopy)
    assert (again.id, again.driver, again.target) == (id_of(0), DRIVER, TARGET)


def test_a_lost_request_with_nothing_left_to_copy_is_refused_for_good() -> None:
    decision = decided(savepoint(copying()), observation=Unobserved.UNKNOWN, statement=stream())
    assert [type(command) for command in decision.commands] == [CancelCopy]


def test_savepoint_completes_with_the_batch_size_and_version_the_driver_reports() -> None:
    decision = decided(savepoint(copying()), observation=WHOLE)
    assert told(decision) == ("Completed", "Completed")
    assert conditions(decision) == SAVEPOINT_CONDITIONS["Completed"]
    status = decision.status
    assert (status.batch_id, status.query_id, status.spark_version) == (41, "q", "4.1.4")
    assert (status.size_bytes, status.file_count, status.sql_hash) == (123, 9, "h")
    assert (status.completion_time, status.observed_generation) == (NOW, 2)
    assert decision.requeue_after is None
    assert decision.events and decision.events[0].type == "Normal"


@pytest.mark.parametrize("statement", [None, GOING, TWIN])
def test_savepoint_copied_in_full_completes_even_without_its_statement(statement: Any) -> None:
    assert told(decided(savepoint(copying()), observation=WHOLE, statement=statement)) == ("Completed", "Completed")


@pytest.mark.parametrize("word", [Failed("disk full"), Unobserved.DRIVER_GONE])
@pytest.mark.parametrize(("before", "delay"), [(0, 10), (1, 20), (4, 160), (5, 300), (50, 300)])
def test_a_failed_attempt_is_repeated_later(word: Observation, before: int, delay: float) -> None:
    decision = decided(savepoint(copying(failures=before), backoffLimit=100), observation=word)
    assert told(decision) == ("Pending", "Retrying")
    assert decision.status.failures == before + 1
    assert decision.status.next_attempt_time == NOW + timedelta(seconds=delay)
    assert decision.requeue_after == delay
    assert decision.status.location == TARGET
    assert not decision.commands
    assert decision.events and decision.events[0].type == "Warning"


def test_the_back_off_is_waited_for() -> None:
    status = waiting("Retrying", failures=1, location=TARGET, nextAttemptTime=ago(-7), message="attempt 2 of 4 ...")
    early = decided(savepoint(status))
    assert told(early) == ("Pending", "Retrying")
    assert early.requeue_after == pytest.approx(7, abs=0.1)
    assert early.status.message == "attempt 2 of 4 ..."
    late = decided(savepoint(status), now=NOW + timedelta(seconds=7))
    assert told(late) == ("InProgress", "InProgress")
    (command,) = late.commands
    assert isinstance(command, StartCopy)
    assert (command.id, command.target) == (id_of(1), TARGET)
    assert late.status.next_attempt_time is None


def test_a_retry_uses_the_same_location_wherever_the_class_saves_now() -> None:
    status = waiting("Retrying", failures=1, location=TARGET)
    assert decided(savepoint(status), storage=SavepointStorage("standard", "s3a://new")).status.location == TARGET
    assert decided(savepoint(status), storage=SavepointStorage("standard", None)).status.location == TARGET


@pytest.mark.parametrize("limit", [0, 3])
def test_savepoint_fails_when_its_last_attempt_fails(limit: int) -> None:
    decision = decided(savepoint(copying(failures=limit), backoffLimit=limit), observation=Failed("disk full"))
    assert told(decision) == ("Failed", "SavepointFailed")
    assert conditions(decision) == SAVEPOINT_CONDITIONS["Failed"]
    assert decision.status.failures == limit + 1
    assert "disk full" in (decision.status.message or "")
    assert decision.status.completion_time == NOW
    assert decision.status.next_attempt_time is None


def test_a_limit_lowered_meanwhile_counts() -> None:
    status = waiting("Retrying", failures=2, location=TARGET, nextAttemptTime=ago(-7))
    decision = decided(savepoint(status, backoffLimit=1))
    assert told(decision) == ("Failed", "SavepointFailed")
    assert decision.status.next_attempt_time is None


@pytest.mark.parametrize("word", [Running(), Unobserved.UNKNOWN, Unobserved.UNREACHABLE])
def test_an_attempt_that_takes_too_long_is_cancelled_first(word: Observation) -> None:
    decision = decided(savepoint(copying(startTime=ago(600))), observation=word)
    assert told(decision) == ("InProgress", "SavepointTimeout")
    assert [type(command) for command in decision.commands] == [CancelCopy]
    assert decision.status.failures == 0


def test_savepoint_timeout_counts_as_a_failure_once_the_driver_confirms_it() -> None:
    late = copying("SavepointTimeout", startTime=ago(601))
    decision = decided(savepoint(late), observation=Failed("cancelled"))
    assert told(decision) == ("Pending", "SavepointTimeout")
    assert decision.status.failures == 1
    assert "timeoutSeconds (600)" in (decision.status.message or "")
    last = decided(savepoint(late, backoffLimit=0), observation=Failed("cancelled"))
    assert told(last) == ("Failed", "SavepointFailed")
    assert "timeoutSeconds (600)" in (last.status.message or "")
    assert told(decided(savepoint(late), observation=WHOLE)) == ("Completed", "Completed")


def test_a_longer_timeout_does_not_take_back_a_cancel() -> None:
    late = savepoint(copying("SavepointTimeout", startTime=ago(601)), timeoutSeconds=6000)
    assert [type(command) for command in decided(late, observation=Running()).commands] == [CancelCopy]


@pytest.mark.parametrize("gone", [None, GOING])
def test_savepoint_whose_statement_is_gone_ends_its_copy_before_it_is_abandoned(gone: Any) -> None:
    first = decided(savepoint(copying()), statement=gone, observation=Running())
    assert told(first) == ("InProgress", "Canceling")
    assert [type(command) for command in first.commands] == [CancelCopy]
    for over in (Failed("cancelled"), Unobserved.DRIVER_GONE):
        assert told(decided(savepoint(copying()), statement=gone, observation=over)) == ("Abandoned", "Abandoned")


def test_existing_savepoint_is_verified_in_place_and_keeps_its_location() -> None:
    begun = decided(existing(), storage=SavepointStorage("standard", None), statement=stream())
    assert begun.commands == (VerifyExisting(id_of(0), DRIVER, ELSEWHERE),)
    assert begun.status.location == ELSEWHERE
    assert begun.status.sql_hash is None
    read = decided(existing(copying(location=ELSEWHERE, sqlHash=None)), observation=WHOLE)
    assert told(read) == ("Completed", "Completed")
    assert (read.status.location, read.status.batch_id) == (ELSEWHERE, 41)


def test_an_existing_one_that_is_none_fails_at_once() -> None:
    decision = decided(
        existing(copying(location=ELSEWHERE)), observation=Failed("no manifest.json", Reason.LOCATION_INVALID)
    )
    assert told(decision) == ("Failed", "LocationInvalid")
    assert decision.status.failures == 1


def test_an_existing_one_that_cannot_be_read_now_is_tried_again() -> None:
    decision = decided(existing(copying(location=ELSEWHERE)), observation=Failed("storage is away"))
    assert told(decision) == ("Pending", "Retrying")


@pytest.mark.parametrize("phase", ["Completed", "Failed", "Abandoned"])
def test_ended_savepoint_keeps_its_status(phase: str) -> None:
    before = savepoint(settled(phase), created=ago(3600))
    for facts in (
        {"statement": None},
        {"observation": Running()},
        {"observation": Failed("no")},
        {"driver": None, "storage": None},
    ):
        decision = decided(before, **facts)
        assert told(decision) == (phase, phase)
        assert (decision.commands, decision.events, decision.requeue_after) == ((), (), None)
        assert decision.status.completion_time == ago(1)


def test_completed_savepoint_keeps_used_by_and_observed_generation_up_to_date() -> None:
    before = savepoint(settled(observedGeneration=1, usedBy=["gone"]))
    status = decided(before, used_by=("two", "one", "one")).status
    assert (status.used_by, status.observed_generation) == (("one", "two"), 2)
    assert {c.observed_generation for c in status.conditions} == {2}
    crowd = tuple(f"s{number:03}" for number in range(300))
    assert len(decided(before, used_by=crowd).status.used_by) == 256


@pytest.mark.parametrize(
    ("retention", "used_by", "goes"),
    [
        (None, (), False),
        (RetentionDecision("before", Why.NEWEST), (), False),
        (RetentionDecision("before", Why.NO_RULE_KEEPS_IT), (), True),
        (RetentionDecision("before", Why.NO_RULE_KEEPS_IT), ("one",), False),
    ],
)
def test_savepoint_is_deleted_only_if_unused_and_kept_by_no_retention_rule(
    retention: RetentionDecision | None, used_by: tuple[str, ...], goes: bool
) -> None:
    decision = decided(savepoint(settled()), retention=retention, used_by=used_by)
    assert decision.commands == ((DeleteSelf(),) if goes else ())
    assert (decision.requeue_after is not None) is goes


def test_each_savepoint_attempt_has_its_own_stable_id() -> None:
    assert id_of(0) == "24397bcb-217a-50d7-a97c-76fc4ae32b15"
    assert len({id_of(number) for number in range(5)} | {copy_id("another", 0)}) == 6


def test_the_same_snapshot_leads_to_the_same_decision() -> None:
    assert decide(savepoint_snapshot(savepoint())) == decide(savepoint_snapshot(savepoint()))
