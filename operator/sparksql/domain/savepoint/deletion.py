"""The end of a SqlSavepoint: what runs ends first, then its data goes if that is wished, then the object. Pure.

Invariants (property tests): data is deleted only with reclaim policy Delete, of a copy that this object made, below the root,
while nobody refers to it; by the deadline the object is let go in any state, and a Warning says what is left.
"""

from __future__ import annotations

from typing import assert_never

from sparksql.api.reasons import Reason
from sparksql.api.savepoint import ReclaimPolicy
from sparksql.api.savepoint import SavepointPhase as Phase
from sparksql.domain.event import Event
from sparksql.domain.public_text import ClusterReason, Name, OwnLocation, compose
from sparksql.domain.savepoint.locations import deletion_blocker, recorded_root
from sparksql.domain.savepoint.snapshot import (
    CancelCopy,
    Command,
    Completed,
    Decision,
    DeletionFailed,
    DeletionJob,
    Failed,
    Snapshot,
    StartDeletionJob,
)
from sparksql.domain.savepoint.status import restated, used_by
from sparksql.domain.savepoint.steps import current_id
from sparksql.domain.statement.snapshot import Unobserved

FINALIZER_SECONDS = 60.0  # deadline of the contract for deleting a savepoint
POLL_SECONDS = 1.0


def deleting(s: Snapshot) -> Decision:
    """Returns the decision for a savepoint whose object is to go."""
    if s.namespace_terminating:
        return _let_go(s)
    if s.attempt is not None and s.savepoint.status.phase is Phase.IN_PROGRESS and not _is_over(s):
        message = compose("waits for the driver's word that the copy has ended")
        return _hold(s, message, CancelCopy(current_id(s.savepoint), s.attempt.driver, "it is deleted"))
    if s.used_by and s.deletion_job is DeletionJob.ABSENT:
        names, others = Name(used_by(s)[:5]), compose(" and others" if len(used_by(s)) > 5 else "")
        return _hold(s, compose("statements refer to it: {names}{others}", names=names, others=others), warn=True)
    if not _has_data_to_delete(s):
        return _let_go(s)
    return _delete_data(s)


def _is_over(s: Snapshot) -> bool:
    return isinstance(s.observation, Completed | Failed) or s.observation is Unobserved.DRIVER_GONE


def _has_data_to_delete(s: Snapshot) -> bool:
    """Whether the object stands for data that go with it; those of a failed attempt are data as well."""
    spec = s.savepoint.spec
    wished = spec.reclaim_policy is ReclaimPolicy.DELETE and spec.source.owns_data
    return wished and s.savepoint.status.location is not None


def _delete_data(s: Snapshot) -> Decision:
    """Data first; the object after they are confirmed gone."""
    location, root, forbidden = s.savepoint.status.location, recorded_root(s.savepoint), deletion_blocker(s)
    match s.deletion_job:
        case DeletionJob.SUCCEEDED:
            return _let_go(s)
        case DeletionFailed(reason, message):
            cause = compose("{reason}: {words}", reason=ClusterReason(reason), words=message)
            return _let_go(s, compose("the Job that deletes its data failed: {cause}", cause=cause))
        case DeletionJob.RUNNING:
            return _hold(s, compose("its data is being deleted"))
        case DeletionJob.ABSENT if forbidden is not None or location is None or root is None:
            return _let_go(s, compose("its data is not deleted: {why}", why=forbidden or ""))
        case DeletionJob.ABSENT:
            return _hold(
                s, compose("its data is being deleted"), StartDeletionJob(location, root, s.savepoint.metadata.uid)
            )
        case other:
            assert_never(other)


def _hold(s: Snapshot, message: str, *commands: Command, warn: bool = False) -> Decision:
    """Wait, but not beyond the deadline. People are told once of each thing that is waited for."""
    deleted = s.savepoint.metadata.deletion_timestamp or s.now
    left = FINALIZER_SECONDS - (s.now - deleted).total_seconds()
    if left <= 0:
        late = tuple(command for command in commands if isinstance(command, CancelCopy))
        return _let_go(s, compose("after {limit:g} s: {message}", limit=FINALIZER_SECONDS, message=message), *late)
    notice = compose("is being deleted: {message}", message=message)
    is_news = s.savepoint.status.message != notice
    events = (Event.of("Warning" if warn else "Normal", Reason.DELETING, notice),) if is_news else ()
    status = restated(s).replace(message=notice)
    return Decision(status, commands, s.attempt, events=events, requeue_after=min(POLL_SECONDS, left))


def _let_go(s: Snapshot, why: str | None = None, *commands: Command) -> Decision:
    """The object goes. `why` tells that something is left to a person; what the policy keeps is no matter for a warning."""
    events: tuple[Event, ...] = ()
    if why is not None:
        location = OwnLocation(s.savepoint.status.location or "")
        left = compose("; {location} may hold data", location=location) if _has_data_to_delete(s) else compose("")
        message = compose("let go: {why}{left}", why=why, left=left)
        events = (Event.of("Warning", Reason.FINALIZER_DEADLINE, message),)
    return Decision(s.savepoint.status, commands, s.attempt, finalizer=False, events=events)
