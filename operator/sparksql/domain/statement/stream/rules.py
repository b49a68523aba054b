"""Rules of a streaming statement that hold wherever it is. Pure.

They hold before a driver has it, when its attempt is over, and when it is suspended. Each answers for what its name
says, or leaves it to the rules behind it.
"""

from __future__ import annotations

from typing import assert_never

from sparksql.api.reasons import Reason
from sparksql.api.savepoint import SavepointTrigger
from sparksql.api.statement import StatementDesiredState as DesiredState
from sparksql.domain.public_text import compose
from sparksql.domain.statement.decision import CreateSavepoint, Decision
from sparksql.domain.statement.snapshot import Snapshot
from sparksql.domain.statement.stream.facts import Change, StreamFacts, Waiting
from sparksql.domain.statement.stream.savepoints import Done, Failed, Take, final_savepoint
from sparksql.domain.statement.stream.steps import change_message, hold, refuse, resume, suspend, suspend_for_user
from sparksql.domain.violation import Violation


def stop_with_savepoint(s: Snapshot, facts: StreamFacts) -> Decision | None:
    """Suspends a stream of desiredState Stopped once its final savepoint is over, taken or not."""
    if not facts.is_stream or s.statement.spec.desired_state is not DesiredState.STOPPED:
        return None
    savepoint = final_savepoint(s, facts)
    match savepoint:
        case Take() | Waiting():
            return _hold_for_savepoint(s, savepoint)
        case Done() | Failed():
            return suspend_for_user(s, facts, savepoint)
        case other:
            assert_never(other)


def save_before_change(s: Snapshot, facts: StreamFacts) -> Decision | None:
    """Holds a change back until the final savepoint is complete; without one it waits for a person."""
    if facts.change is None:
        return None
    savepoint = final_savepoint(s, facts)
    match savepoint:
        case Done():
            return None
        case Take() | Waiting():
            return _hold_for_savepoint(s, savepoint)
        case Failed(reason, message):
            remedy = compose("delete that SqlSavepoint for another try, or set upgradeMode: LastState")
            return suspend(
                s, facts, Violation(reason, compose("{cause}; {remedy}", cause=message, remedy=remedy)), stalled=True
            )
        case other:
            assert_never(other)


def restore_before_change(s: Snapshot, facts: StreamFacts) -> Decision | None:
    """Holds a restore back until its savepoint is complete: only for that is the checkpoint given up."""
    if facts.change is not Change.RESTORE:
        return None
    match facts.restore_source:
        case Violation() as violation:
            return refuse(s, facts, violation)
        case Waiting(message):
            return hold(s, Reason.WAITING_FOR_SAVEPOINT, message)
        case _:
            return None


def refuse_blocked_start(s: Snapshot, facts: StreamFacts) -> Decision | None:
    """Refuses another attempt that spec, class, text or savepoint do not allow."""
    return refuse(s, facts, facts.start_blocker) if facts.start_blocker is not None else None


def start_with_change(s: Snapshot, facts: StreamFacts) -> Decision | None:
    """Begins another attempt at once, which takes in what has changed."""
    if facts.change is None:
        return None
    return resume(s, facts, Reason.UPGRADING, change_message(facts.change))


def _hold_for_savepoint(s: Snapshot, savepoint: Take | Waiting) -> Decision:
    match savepoint:
        case Take(name):
            command = CreateSavepoint(name, SavepointTrigger.UPGRADE)
            return hold(s, Reason.TAKING_SAVEPOINT, f"savepoint {name} is requested", command)
        case Waiting(message):
            return hold(s, Reason.TAKING_SAVEPOINT, message)
