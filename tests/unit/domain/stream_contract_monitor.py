"""What must hold of every decision about a streaming statement, whatever has happened. For `stream_stateful`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sparksql.api.conditions import ConditionStatus
from sparksql.api.reasons import Reason
from sparksql.api.savepoint import SavepointPhase, SavepointTrigger
from sparksql.api.statement import SqlStatementStatus
from sparksql.api.statement import StatementDesiredState as DesiredState
from sparksql.api.statement import StatementPhase as Phase
from sparksql.api.streaming import OnIncompatible, StreamingStatus, UpgradeMode
from sparksql.domain.backoff import exponential
from sparksql.domain.statement.decision import Cancel, CreateSavepoint, Decision, Submit
from sparksql.domain.statement.identity import sql_hash
from sparksql.domain.statement.phases import ENDED, HANDED_OVER, is_legal
from sparksql.domain.statement.snapshot import Inputs, Snapshot, Unobserved
from sparksql.domain.statement.stream.savepoints import DRIVER_SECONDS
from sparksql.wire.control import OperationState, OperationView
from tests.unit.domain.builders.conditions import PARKED, RESTS, STREAMS, UNDER_WAY
from tests.unit.domain.stream_stateful_model import Checkpoints, Shelf, fits, rewritable

LIMIT, BACKOFF, RESET = 2, 10, 100
SHOWN = {
    Phase.INITIALIZED: {UNDER_WAY},
    Phase.PENDING: {UNDER_WAY},
    Phase.RUNNING: {UNDER_WAY, STREAMS, PARKED},  # the last one runs as it was before a change that is refused
    Phase.STOPPED: {RESTS, PARKED, UNDER_WAY},
}


@dataclass(frozen=True)
class Pass:
    """One decision, and what was known when it was made."""

    snapshot: Snapshot
    decision: Decision
    checkpoints: Checkpoints
    shelf: Shelf
    is_restoring: bool  # the checkpoint that comes next is to begin with a savepoint

    @property
    def before(self) -> SqlStatementStatus:
        return self.snapshot.statement.status

    @property
    def after(self) -> SqlStatementStatus:
        return self.decision.status

    @property
    def old(self) -> StreamingStatus:
        return self.before.streaming or StreamingStatus()

    @property
    def new(self) -> StreamingStatus:
        return self.after.streaming or StreamingStatus()

    @property
    def same_run(self) -> bool:
        return self.before.run == self.after.run

    @property
    def is_refused(self) -> bool:
        """Whether a driver has said that the state does not fit the text."""
        word = self.snapshot.operation
        told = isinstance(word, OperationView) and word.error is not None and word.state is OperationState.ERROR
        if told and isinstance(word, OperationView) and word.error is not None:
            return str(word.error.reason) == Reason.STATE_INCOMPATIBLE
        is_parked = self.before.phase is Phase.STOPPED and self.before.error is not None
        return is_parked and self.before.conditions[0].reason == Reason.STATE_INCOMPATIBLE

    @property
    def rewrites(self) -> bool:
        """Whether the statement goes on in another checkpoint, with its state rewritten as a driver has told."""
        word = self.snapshot.operation
        is_told = isinstance(word, OperationView) and word.error is not None and word.error.rewritable
        return self.drops and is_told and self.new.rewritten_from is not None

    @property
    def drops(self) -> bool:
        """Whether the statement lets go of its checkpoint within a run."""
        return self.same_run and self.old.checkpoint_location is not None and self.new.checkpoint_location is None


def check(one: Pass) -> None:
    _check_phase(one)
    _check_restarts(one)
    _check_checkpoint(one)
    _check_new_checkpoint(one)
    _check_saved(one)
    _check_savepoints_made(one)
    _check_stops(one)
    _check_compatibility(one)


def _check_phase(one: Pass) -> None:
    before, after = one.before, one.after
    assert after.phase is not None
    assert is_legal(before.phase, after.phase, same_run=one.same_run, same_attempt=before.attempt == after.attempt)
    if before.phase in HANDED_OVER and after.phase not in HANDED_OVER:
        word = one.snapshot.operation
        told = isinstance(word, OperationView) and word.state.is_terminal
        forgotten = word is Unobserved.UNKNOWN and before.phase is Phase.RUNNING
        assert told or forgotten or word is Unobserved.DRIVER_GONE
    if after.phase in SHOWN:
        assert tuple(str(c.status) for c in after.conditions[:5]) in SHOWN[after.phase]
        assert one.decision.requeue_after is not None
    if after.phase is Phase.STOPPED and after.conditions[2].status is ConditionStatus.TRUE:  # that is for a person
        assert after.conditions[0].reason not in (Reason.TAKING_SAVEPOINT, Reason.WAITING_FOR_SAVEPOINT)
    assert len(after.conditions) == (8 if _has_compatibility(one) else 7)
    assert (after.completion_time is not None) is (after.phase in ENDED)


def _has_compatibility(one: Pass) -> bool:
    """Whether it has the condition Compatible: it is stopped, stays so, and has a checkpoint."""
    if one.after.phase is not Phase.STOPPED or one.new.checkpoint_location is None:
        return False
    is_parked = one.after.conditions[2].status is ConditionStatus.TRUE
    return is_parked or one.snapshot.statement.spec.desired_state is DesiredState.STOPPED


def _check_compatibility(one: Pass) -> None:
    """What a stopped stream reports of its state is what a start would find."""
    held = one.checkpoints.held.get(one.new.checkpoint_location or "")
    spec, text = one.snapshot.statement.spec, one.snapshot.statement.spec.sql
    assert spec.streaming is not None and text is not None
    if not _has_compatibility(one) or held is None:
        return
    found = one.after.conditions[7]
    is_compatible = fits(held.text, text) or rewritable(held.text, text)
    starts_fresh = spec.streaming.upgrade_mode is UpgradeMode.STATELESS or spec.streaming.start_from is not None
    if found.status is ConditionStatus.TRUE:
        assert is_compatible or starts_fresh, "it is called compatible"
        assert found.reason != Reason.UNCHANGED or fits(held.text, text), "its spec has changed"
    if found.status is ConditionStatus.FALSE and found.reason == Reason.STATE_INCOMPATIBLE:
        assert not is_compatible or starts_fresh, "it is called incompatible"


def _check_restarts(one: Pass) -> None:
    before, after, now = one.before, one.after, one.snapshot.now
    count = one.new.restarts
    earlier = one.old.restarts if one.same_run else 0
    assert count <= LIMIT
    ends_by_failure = one.same_run and after.phase is Phase.ERROR is not before.phase
    assert not (ends_by_failure and one.old.restarts and one.old.query_id), "its restarts have ended it"
    assert count in (0, earlier, earlier + 1) or count == 1
    ready = after.conditions[0]
    if (
        before.attempt != after.attempt
        and ready.reason == Reason.RESTARTING
        and "in the next driver" not in ready.message
    ):
        assert after.next_attempt_time == now + timedelta(seconds=exponential(count, BACKOFF, 600))
    if after.phase is Phase.PENDING and before.phase is Phase.INITIALIZED and before.next_attempt_time is not None:
        assert now >= before.next_attempt_time


def _check_checkpoint(one: Pass) -> None:
    """It stays, unless the statement begins anew because somebody wants that: never silently without state."""
    old, new = one.old, one.new
    if not one.same_run or old.checkpoint_location is None:
        return
    if new.checkpoint_location == old.checkpoint_location:
        assert old.committed_batch_id is None or (new.committed_batch_id or 0) >= old.committed_batch_id
        return
    spec = one.snapshot.statement.spec.streaming
    assert spec is not None and one.drops
    assert new.upgrades == old.upgrades + 1
    assert (new.committed_batch_id, one.after.sql_hash) == (None, None)
    if one.rewrites:
        assert (new.query_id, new.rewritten_from, new.restored_from) == (old.query_id, old.checkpoint_location, None)
        return
    assert (new.query_id, new.rewritten_from) == (None, None)
    wanted = _wants_to_restore(one) or (one.is_refused and spec.on_incompatible is OnIncompatible.START_FRESH)
    stateless = spec.upgrade_mode is UpgradeMode.STATELESS and (one.is_refused or _has_other_text(one))
    assert wanted or stateless


def _wants_to_restore(one: Pass) -> bool:
    spec = one.snapshot.statement.spec.streaming
    assert spec is not None
    return spec.start_from is not None and spec.restore_nonce != one.old.observed_restore_nonce


def _has_other_text(one: Pass) -> bool:
    inputs = one.snapshot.inputs
    return isinstance(inputs, Inputs) and sql_hash(inputs.sql) != one.before.sql_hash


def begins_restoring(one: Pass) -> bool:
    """Whether, after this decision, the checkpoint that comes next is to begin with a savepoint."""
    if one.drops:
        return _wants_to_restore(one) and not one.rewrites
    return one.is_restoring and one.same_run and one.new.checkpoint_location is None


def _check_new_checkpoint(one: Pass) -> None:
    """A new one begins with the savepoint that is wanted, complete by then; with nothing only if nothing is wanted."""
    spec, place = one.snapshot.statement.spec.streaming, one.new.checkpoint_location
    assert spec is not None
    if place is None or (one.same_run and one.old.checkpoint_location is not None):
        return
    (submit,) = one.decision.commands
    assert isinstance(submit, Submit) and submit.request.streaming is not None
    restore = submit.request.streaming.restore
    assert place not in one.checkpoints.begun
    if restore is not None and restore.rewrite:
        assert (restore.location, one.new.restored_from) == (one.new.rewritten_from, None)
        assert restore.location in one.checkpoints.begun
        return
    assert one.new.restored_from == (restore.location if restore is not None else None)
    first = one.new.upgrades == 0 and spec.start_from is not None
    assert (restore is not None) is (first or one.is_restoring)
    assert restore is None or restore.location in one.shelf.held


def _check_saved(one: Pass) -> None:
    """With `upgradeMode: Savepoint` what is committed is saved before the query rests or takes in a change."""
    spec, after = one.snapshot.statement.spec, one.after
    known = one.old.committed_batch_id
    if spec.streaming is None or spec.streaming.upgrade_mode is not UpgradeMode.SAVEPOINT or known is None:
        return
    if one.is_refused or not one.same_run or after.phase in ENDED:  # one that was refused has written nothing
        return
    rests = after.phase is Phase.STOPPED is not one.before.phase and spec.desired_state is DesiredState.STOPPED
    taken_in = one.drops or one.before.sql_hash != after.sql_hash or one.old.settings_hash != one.new.settings_hash
    if rests and not _is_saved(one, known):
        assert _cannot_be_saved(one)
    if taken_in and one.old.checkpoint_location is not None:
        is_news = one.before.sql_hash is not None or one.drops or one.old.settings_hash != one.new.settings_hash
        assert not is_news or _is_saved(one, known)


def _is_saved(one: Pass, batch: int) -> bool:
    held = (one.shelf.held[each.location] for each in one.shelf.upgrades() if each.location is not None)
    return any(each.checkpoint == one.old.checkpoint_location and each.batch >= batch for each in held)


def _cannot_be_saved(one: Pass) -> bool:
    session, now = one.snapshot.session, one.snapshot.now
    no_driver = session is None or session.driver is None
    return any(
        each.phase in (SavepointPhase.FAILED, SavepointPhase.ABANDONED)
        or (no_driver and (now - each.created).total_seconds() > DRIVER_SECONDS)
        for each in one.shelf.upgrades()
    )


def _check_stops(one: Pass) -> None:
    """A query is stopped for a change only if its state fits that, unless it may begin anew or its driver cannot tell."""
    s, spec = one.snapshot, one.snapshot.statement.spec
    stops = [command for command in one.decision.commands if isinstance(command, Cancel)]
    driver = s.session.driver if s.session is not None else None
    is_change = [each for each in stops if each.request.reason == "the spec changed"]
    assert spec.streaming is not None and spec.sql is not None
    if not is_change or driver is None or not driver.compares_states:
        return
    if spec.streaming.on_incompatible is OnIncompatible.START_FRESH:
        return
    if _wants_to_restore(one):
        held = one.shelf.held.get((s.start_from.location if s.start_from is not None else None) or "")
    elif spec.streaming.upgrade_mode is UpgradeMode.STATELESS and _has_other_text(one):
        held = None
    else:
        held = one.checkpoints.held.get(one.old.checkpoint_location or "")
    assert held is None or fits(held.text, spec.sql) or rewritable(held.text, spec.sql)


def _check_savepoints_made(one: Pass) -> None:
    """At most one at a time; the last one only once the query is over."""
    made = [command for command in one.decision.commands if isinstance(command, CreateSavepoint)]
    assert len(made) <= 1
    word = one.snapshot.operation
    for command in made:
        if command.trigger is SavepointTrigger.PERIODIC:
            assert all(each.phase is not None and each.phase.is_terminal for each in one.snapshot.savepoints)
            assert isinstance(word, OperationView) and word.state is OperationState.RUNNING
        elif one.before.phase in HANDED_OVER:
            assert (isinstance(word, OperationView) and word.state.is_terminal) or isinstance(word, Unobserved)
    if one.after.phase is not Phase.RUNNING:
        assert one.new.next_savepoint_time is None
