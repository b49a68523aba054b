"""A savepoint that is shown anything at any time: even facts that contradict each other break no promise of the contract.

Nothing here models what is outside (see `test_savepoint_stateful`); each snapshot is drawn by itself, and only what a decision writes is
carried over.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sparksql.api.reasons import Reason
from sparksql.api.savepoint import SavepointPhase as Phase
from sparksql.api.savepoint import SqlSavepoint
from sparksql.domain.savepoint.decide import decide
from sparksql.domain.savepoint.deletion import FINALIZER_SECONDS
from sparksql.domain.savepoint.retention import RetentionDecision
from sparksql.domain.savepoint.retention import RetentionReason as Why
from sparksql.domain.savepoint.snapshot import (
    Attempt,
    CancelCopy,
    Completed,
    Decision,
    DeleteSelf,
    DeletionFailed,
    DeletionJob,
    Failed,
    Running,
    SavepointStorage,
    Snapshot,
    StartCopy,
    StartDeletionJob,
    StartQuery,
    VerifyExisting,
)
from sparksql.domain.savepoint.status import FOLLOWING
from sparksql.domain.statement.snapshot import Driver, SavepointFacts, Unobserved
from tests.unit.domain.builders.conditions import SAVEPOINT_CONDITIONS
from tests.unit.domain.builders.objects import NOW
from tests.unit.domain.builders.savepoints import (
    CHECKPOINT,
    ELSEWHERE,
    PLACE,
    ROOT,
    TARGET,
    WHOLE,
    id_of,
    saved,
    savepoint,
)
from tests.unit.domain.builders.statements import DRIVER, statement
from tests.unit.domain.builders.streams import stream

MAKES = replace(DRIVER, makes_states=True)
TWIN = saved().replace(metadata=saved().metadata.replace(uid="another"))
GOING = saved().replace(metadata=saved().metadata.replace(deletion_timestamp=NOW))
ENDED = (Phase.COMPLETED, Phase.FAILED, Phase.ABANDONED)


def mostly(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    """`usual` nine times out of ten: a sequence in which nothing ever begins shows little."""
    return st.integers(0, 9).flatmap(lambda n: st.just(usual) if n else st.sampled_from(others))


WORDS = st.sampled_from(
    [
        Running(),
        Running(),
        WHOLE,
        Failed("disk full"),
        Failed("disk full"),
        Failed("not ours", Reason.LOCATION_INVALID),
        Unobserved.UNKNOWN,
        Unobserved.UNREACHABLE,
        Unobserved.DRIVER_GONE,
        None,
    ]
)
FACTS = st.fixed_dictionaries(
    {
        "statement": mostly(saved(), None, GOING, TWIN, stream(), statement(), saved(checkpointLocation=TARGET)),
        "storage": mostly(PLACE, None, SavepointStorage("standard", None), SavepointStorage("standard", "s3a://new")),
        "driver": mostly(MAKES, None, Driver("s-2", "pod-2", "boot-2")),
        "named": mostly((), (SavepointFacts("x", Phase.PENDING, NOW),), (SavepointFacts("x", Phase.COMPLETED, NOW),)),
        "observation": WORDS,
        "used_by": mostly((), ("one",)),
        "retention": mostly(
            None, RetentionDecision("before", Why.NEWEST), RetentionDecision("before", Why.NO_RULE_KEEPS_IT)
        ),
        "deletion_job": mostly(
            DeletionJob.ABSENT, DeletionJob.RUNNING, DeletionJob.SUCCEEDED, DeletionFailed("Failed", "x")
        ),
        "namespace_terminating": mostly(False, False, False, True),
    }
)


@dataclass(frozen=True)
class Step:
    after: float
    facts: dict[str, Any]
    spec: dict[str, Any]
    delete: bool


SECONDS = st.sampled_from([0.1, 1, 10, 61, 601])
CHANGES = mostly({}, {"timeout_seconds": 5}, {"backoff_limit": 0}, {"backoff_limit": 5}, {"pinned": True})
STEPS = st.lists(st.builds(Step, SECONDS, FACTS, CHANGES, mostly(False, False, True)), min_size=1, max_size=25)
SPECS = st.fixed_dictionaries(
    {
        "reclaimPolicy": st.sampled_from(["Retain", "Delete"]),
        "backoffLimit": st.sampled_from([0, 1, 3]),
        "timeoutSeconds": st.sampled_from([5, 600]),
    },
    optional={},
)
SOURCES = mostly(
    {},
    {"source": "Existing", "location": ELSEWHERE},
    {"source": "Existing", "location": TARGET},
    {"source": "Query", "sql": "SELECT 1"},
    {"source": "Query", "sql": "SELECT * FROM savepoint_state('x', 'aggregate')", "operator": "aggregate"},
)


def moved(obj: SqlSavepoint, step: Step, now: datetime) -> SqlSavepoint:
    metadata = obj.metadata.replace(generation=obj.metadata.generation + bool(step.spec))
    if step.delete and metadata.deletion_timestamp is None:
        metadata = metadata.replace(deletion_timestamp=now)
    return obj.replace(metadata=metadata, spec=obj.spec.replace(**step.spec))


def decisions(obj: SqlSavepoint, steps: list[Step]) -> list[tuple[Snapshot, Decision]]:
    """Each snapshot with what was decided on it; what a decision writes is in the next snapshot."""
    made: list[tuple[Snapshot, Decision]] = []
    now, attempt = NOW, None
    for step in steps:
        now += timedelta(seconds=step.after)
        obj = moved(obj, step, now)
        snapshot = Snapshot(now, obj, attempt=attempt, **step.facts)
        decision = decide(snapshot)
        made.append((snapshot, decision))
        if not decision.finalizer:
            break  # the object is gone
        obj, attempt = obj.replace(status=decision.status), decision.attempt
    return made


def is_over(snapshot: Snapshot) -> bool:
    return isinstance(snapshot.observation, Completed | Failed) or snapshot.observation is Unobserved.DRIVER_GONE


def check_transition(snapshot: Snapshot, decision: Decision) -> None:
    before, after = snapshot.savepoint.status, decision.status
    if snapshot.savepoint.metadata.is_deleting:
        assert after.phase is before.phase
        return
    assert after.phase is not None
    assert after.phase in FOLLOWING[before.phase]
    assert after.observed_generation == snapshot.savepoint.metadata.generation
    assert {c.observed_generation for c in after.conditions} == {after.observed_generation}
    assert tuple(c.status for c in after.conditions) == SAVEPOINT_CONDITIONS[after.phase]
    assert (after.completion_time is not None) is (after.phase in ENDED)
    assert after.used_by == snapshot.used_by
    assert after.trigger == "Manual"


def check_an_end_is_final(snapshot: Snapshot, decision: Decision) -> None:
    before, after = snapshot.savepoint.status, decision.status
    if before.phase in ENDED and not snapshot.savepoint.metadata.is_deleting:
        kept = {"observed_generation": 0, "used_by": (), "conditions": ()}
        assert after.replace(**kept) == before.replace(**kept)
        assert all(isinstance(command, DeleteSelf) for command in decision.commands)
        assert not decision.events


def check_the_location_stays(snapshot: Snapshot, decision: Decision) -> None:
    before, after = snapshot.savepoint.status.location, decision.status.location
    assert before is None or before == after
    assert after is None or snapshot.savepoint.status.phase is not None or decision.status.phase is Phase.IN_PROGRESS


def check_requests(snapshot: Snapshot, decision: Decision) -> None:
    """The intent is in the status before anybody is asked, and whoever was asked is asked again."""
    before, status = snapshot.savepoint.status, decision.status
    for command in decision.commands:
        if isinstance(command, StartCopy | StartQuery | VerifyExisting):
            assert not snapshot.savepoint.metadata.is_deleting
            assert status.phase is Phase.IN_PROGRESS
            assert decision.attempt is not None and snapshot.statement is not None
            assert command.driver == decision.attempt.driver
            assert decision.attempt.statement_uid == snapshot.statement.metadata.uid
            assert command.id == id_of(status.failures)
            kinds = {"Copy": StartCopy, "Existing": VerifyExisting, "Query": StartQuery}
            assert type(command) is kinds[snapshot.savepoint.spec.source]
            assert status.location == (command.location if isinstance(command, VerifyExisting) else command.target)
            assert before.phase is not Phase.IN_PROGRESS or snapshot.observation is Unobserved.UNKNOWN
        if isinstance(command, CancelCopy):
            assert before.phase is Phase.IN_PROGRESS
            assert command.id == id_of(before.failures)
            assert snapshot.attempt is not None and command.driver == snapshot.attempt.driver


def check_one_at_a_time(snapshot: Snapshot, decision: Decision) -> None:
    """What a driver was asked for stays its own until that is confirmed over."""
    before, after = snapshot.savepoint.status, decision.status
    if before.phase is not Phase.IN_PROGRESS or snapshot.savepoint.metadata.is_deleting:
        return
    if is_over(snapshot):
        assert after.phase is not Phase.IN_PROGRESS
    else:
        assert after.phase is Phase.IN_PROGRESS
        assert (after.failures, after.start_time, decision.attempt) == (
            before.failures,
            before.start_time,
            snapshot.attempt,
        )


def check_wake_up(snapshot: Snapshot, decision: Decision) -> None:
    if decision.finalizer and (decision.status.phase not in ENDED or snapshot.savepoint.metadata.is_deleting):
        assert decision.requeue_after is not None
    assert decision.requeue_after is None or 0 <= decision.requeue_after <= 300


def check_data(snapshot: Snapshot, decision: Decision) -> None:
    spec = snapshot.savepoint.spec
    for command in decision.commands:
        if isinstance(command, StartDeletionJob):
            assert snapshot.savepoint.metadata.is_deleting
            assert spec.reclaim_policy == "Delete" and spec.source in ("Copy", "Query")
            assert command.target == snapshot.savepoint.status.location
            assert command.target == command.root + TARGET.removeprefix(ROOT)
            assert snapshot.storage is None or command.root == snapshot.storage.savepoint_root
            assert not snapshot.used_by
            assert not snapshot.namespace_terminating
            assert snapshot.savepoint.status.phase is not Phase.IN_PROGRESS or is_over(snapshot)
            streaming = snapshot.statement.status.streaming if snapshot.statement is not None else None
            assert streaming is None or streaming.checkpoint_location in (None, CHECKPOINT)
            assert decision.finalizer
        if isinstance(command, DeleteSelf):
            assert decision.status.phase in ENDED
            assert snapshot.retention is not None and not snapshot.retention.keep
            assert not snapshot.used_by


def check_deletion(snapshot: Snapshot, decision: Decision) -> None:
    deleted = snapshot.savepoint.metadata.deletion_timestamp
    if deleted is None:
        assert decision.finalizer
        return
    left = FINALIZER_SECONDS - (snapshot.now - deleted).total_seconds()
    if snapshot.namespace_terminating or left <= 0:
        assert not decision.finalizer
    if decision.finalizer:
        assert decision.requeue_after is not None and decision.requeue_after <= left


CHECKS = (
    check_transition,
    check_an_end_is_final,
    check_the_location_stays,
    check_requests,
    check_one_at_a_time,
    check_wake_up,
    check_data,
    check_deletion,
)


@settings(max_examples=200, deadline=None)
@given(SPECS, SOURCES, STEPS)
def test_savepoint_breaks_no_promise_whatever_it_is_shown(
    spec: dict[str, Any], source: dict[str, Any], steps: list[Step]
) -> None:
    for snapshot, decision in decisions(savepoint(**spec, **source), steps):
        for check in CHECKS:
            check(snapshot, decision)


@settings(max_examples=100, deadline=None)
@given(SPECS, STEPS)
def test_savepoint_attempts_are_bounded_by_the_backoff_limit(spec: dict[str, Any], steps: list[Step]) -> None:
    made = decisions(savepoint(**spec), [replace(step, spec={}) for step in steps])
    ids = {c.id for _, decision in made for c in decision.commands if isinstance(c, StartCopy)}
    assert len(ids) <= spec["backoffLimit"] + 1
    assert all(decision.status.failures <= spec["backoffLimit"] + 1 for _, decision in made)


@settings(max_examples=100, deadline=None)
@given(SPECS, STEPS)
def test_savepoint_retry_never_starts_before_its_next_attempt_time(spec: dict[str, Any], steps: list[Step]) -> None:
    for snapshot, decision in decisions(savepoint(**spec), steps):
        before = snapshot.savepoint.status
        if before.phase is Phase.PENDING and decision.status.phase is Phase.IN_PROGRESS:
            assert before.next_attempt_time is None or snapshot.now >= before.next_attempt_time
            assert (before.failures > 0) is (before.next_attempt_time is not None)
            assert snapshot.driver is not None and snapshot.statement is not None
            assert snapshot.storage is not None
            storage, uid = snapshot.storage, snapshot.statement.metadata.uid
            assert decision.attempt == Attempt(snapshot.driver, uid, storage.class_name, storage.service_account)
