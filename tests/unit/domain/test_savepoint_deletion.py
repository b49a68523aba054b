"""Deleting a savepoint: what goes, what stays, in which order, and that it ends."""

from __future__ import annotations

from typing import Any

import pytest

from sparksql.api.savepoint import SqlSavepoint
from sparksql.domain.savepoint.locations import recorded_root
from sparksql.domain.savepoint.snapshot import (
    CancelCopy,
    Decision,
    DeletionFailed,
    DeletionJob,
    Failed,
    Running,
    SavepointStorage,
    StartDeletionJob,
)
from sparksql.domain.statement.snapshot import Unobserved
from tests.unit.domain.builders.objects import ago
from tests.unit.domain.builders.savepoints import (
    CHECKPOINT,
    ELSEWHERE,
    ROOT,
    SAVEPOINT_UID,
    TARGET,
    WHOLE,
    copying,
    decided,
    existing,
    saved,
    settled,
)
from tests.unit.domain.builders.savepoints import savepoint as sample


def going(status: dict[str, Any] | None = None, *, since: float = 1, **spec: Any) -> SqlSavepoint:
    """One with data that go with it, deleted `since` seconds ago."""
    return sample(settled() if status is None else status, deleted=ago(since), **{"reclaimPolicy": "Delete", **spec})


def is_let_go(decision: Decision, *, warned: bool = False) -> bool:
    is_warning = [(event.type, event.reason) for event in decision.events] == [("Warning", "FinalizerDeadline")]
    return not decision.finalizer and is_warning is warned


def test_deleted_savepoint_is_held_until_its_data_are_gone() -> None:
    first = decided(going())
    assert first.commands == (StartDeletionJob(TARGET, ROOT, SAVEPOINT_UID),)
    assert first.finalizer
    assert first.events and (first.events[0].type, first.events[0].reason) == ("Normal", "Deleting")
    assert first.requeue_after == 1
    second = decided(going(), deletion_job=DeletionJob.RUNNING)
    assert (second.finalizer, second.commands) == (True, ())
    assert is_let_go(decided(going(), deletion_job=DeletionJob.SUCCEEDED))


@pytest.mark.parametrize(
    "facts", [{"statement": None, "driver": None, "storage": None}, {"statement": None}, {"driver": None}]
)
def test_neither_statement_nor_driver_nor_class_is_needed(facts: dict[str, Any]) -> None:
    assert decided(going(), **facts).commands == (StartDeletionJob(TARGET, ROOT, SAVEPOINT_UID),)


@pytest.mark.parametrize("phase", ["Failed", "Abandoned", "Pending"])
def test_deleted_savepoint_that_is_not_complete_has_its_leftover_data_removed(phase: str) -> None:
    assert decided(going(settled(phase))).commands == (StartDeletionJob(TARGET, ROOT, SAVEPOINT_UID),)


@pytest.mark.parametrize(
    "of",
    [
        going(reclaimPolicy="Retain"),
        going({}),
        going({"phase": "Failed"}),
        existing(settled(location=ELSEWHERE), reclaimPolicy="Delete").replace(metadata=going().metadata),
        existing(settled(location=TARGET), location=TARGET, reclaimPolicy="Delete").replace(metadata=going().metadata),
    ],
)
def test_deleted_savepoint_without_data_to_remove_is_let_go_at_once(of: SqlSavepoint) -> None:
    decision = decided(of)
    assert is_let_go(decision)
    assert not decision.commands


@pytest.mark.parametrize(
    "location",
    [
        "s3a://bucket/elsewhere",
        f"s3a://bucket/savepoints/team-a/one/before-{SAVEPOINT_UID}/deeper",
        f"s3a://bucket/savepoints/../team-a/one/before-{SAVEPOINT_UID}",
        f"s3a://other/team-a/one/before-{SAVEPOINT_UID}",
        f"s3a://bucket/savepoints/team-b/one/before-{SAVEPOINT_UID}",
        f"relative/team-a/one/before-{SAVEPOINT_UID}",
        f"/team-a/one/before-{SAVEPOINT_UID}",
    ],
)
def test_savepoint_data_outside_its_own_folder_below_the_root_are_not_deleted(location: str) -> None:
    decision = decided(going(settled(location=location)))
    assert not decision.commands
    assert is_let_go(decision, warned=True)
    assert decision.events and location in decision.events[0].message.text


@pytest.mark.parametrize(
    "location",
    [
        f"s3a://bucket/savepoints/../team-a/one/before-{SAVEPOINT_UID}",
        f"s3a://bucket/./team-a/one/before-{SAVEPOINT_UID}",
        f"relative/team-a/one/before-{SAVEPOINT_UID}",
        f"/data/team-a/one/before-{SAVEPOINT_UID}",
        f"s3a://bucket/team-a/two/before-{SAVEPOINT_UID}",
    ],
)
def test_a_location_that_was_never_made_is_left_alone_without_a_class_as_well(location: str) -> None:
    decision = decided(going(settled(location=location)), storage=None)
    assert not decision.commands
    assert is_let_go(decision, warned=True)


@pytest.mark.parametrize("root", [None, "s3a://new", ROOT[:-1], f"{ROOT}/team-a"])
def test_savepoint_data_outside_the_savepoint_root_of_the_class_are_not_deleted(root: str | None) -> None:
    decision = decided(going(), storage=SavepointStorage("standard", root))
    assert not decision.commands
    assert is_let_go(decision, warned=True)
    assert "savepointRoot" in (decision.events[0].message.text if decision.events else "")


@pytest.mark.parametrize("checkpoint", [TARGET, f"{TARGET}/", f"{TARGET}/1", ROOT])
def test_a_live_checkpoint_is_never_deleted(checkpoint: str) -> None:
    assert is_let_go(decided(going(), statement=saved(checkpointLocation=checkpoint)), warned=True)
    assert decided(going(), statement=saved(checkpointLocation=CHECKPOINT)).commands


def test_a_cleaner_that_fails_is_not_waited_for() -> None:
    decision = decided(going(), deletion_job=DeletionFailed("DeadlineExceeded", "it took too long"))
    assert is_let_go(decision, warned=True)
    assert TARGET in decision.events[0].message.text
    assert "DeadlineExceeded: see status" in decision.events[0].message.text


@pytest.mark.parametrize("reclaim", ["Delete", "Retain"])
def test_deleted_savepoint_in_use_waits_until_the_deadline_and_keeps_its_data(reclaim: str) -> None:
    first = decided(going(reclaimPolicy=reclaim), used_by=("one", "two"))
    assert (first.finalizer, first.commands) == (True, ())
    assert first.events and first.events[0].type == "Warning"
    assert "one, two" in first.events[0].message.text
    assert first.status.used_by == ("one", "two")
    assert str(first.status.phase) == "Completed"
    again = decided(going(first.status.to_dict(), reclaimPolicy=reclaim), used_by=("one", "two"))
    assert not again.events
    late = decided(going(since=60, reclaimPolicy=reclaim), used_by=("one",))
    assert is_let_go(late, warned=True)
    assert not late.commands


def test_a_reference_that_comes_when_the_data_are_gone_holds_nothing() -> None:
    assert is_let_go(decided(going(), used_by=("one",), deletion_job=DeletionJob.SUCCEEDED))


def test_deleted_savepoint_no_longer_in_use_has_its_data_removed() -> None:
    assert decided(going(since=30), used_by=()).commands == (StartDeletionJob(TARGET, ROOT, SAVEPOINT_UID),)


@pytest.mark.parametrize("word", [Running(), Unobserved.UNKNOWN, Unobserved.UNREACHABLE, None])
@pytest.mark.parametrize("reclaim", ["Delete", "Retain"])
def test_a_copy_under_way_ends_first(word: Any, reclaim: str) -> None:
    decision = decided(going(copying(), reclaimPolicy=reclaim), observation=word)
    assert decision.finalizer
    assert [type(command) for command in decision.commands] == [CancelCopy]
    assert str(decision.status.phase) == "InProgress"
    late = decided(going(copying(), since=60, reclaimPolicy=reclaim), observation=word)
    assert is_let_go(late, warned=True)
    assert [type(command) for command in late.commands] == [CancelCopy]


@pytest.mark.parametrize("word", [Failed("cancelled"), WHOLE, Unobserved.DRIVER_GONE])
def test_savepoint_deleted_while_copying_has_its_data_removed_after_the_copy(word: Any) -> None:
    assert decided(going(copying()), observation=word).commands == (StartDeletionJob(TARGET, ROOT, SAVEPOINT_UID),)
    assert is_let_go(decided(going(copying(), reclaimPolicy="Retain"), observation=word))


@pytest.mark.parametrize("deletion_job", [DeletionJob.ABSENT, DeletionJob.RUNNING])
def test_savepoint_deletion_ends_at_its_deadline_with_a_warning(deletion_job: DeletionJob) -> None:
    assert decided(going(since=59.5), deletion_job=deletion_job).requeue_after == pytest.approx(0.5)
    late = decided(going(since=60), deletion_job=deletion_job)
    assert is_let_go(late, warned=True)
    assert not late.commands


@pytest.mark.parametrize("facts", [{"used_by": ("one",)}, {"observation": Running()}, {}])
def test_deleted_savepoint_in_a_terminating_namespace_is_let_go_at_once(facts: dict[str, Any]) -> None:
    decision = decided(going(copying()), namespace_terminating=True, **facts)
    assert is_let_go(decision)
    assert not decision.commands


def test_the_recorded_root_is_read_from_the_location() -> None:
    assert recorded_root(sample(settled())) == ROOT
    assert recorded_root(sample()) is None
    assert recorded_root(existing(settled(location=TARGET), location=TARGET)) is None
