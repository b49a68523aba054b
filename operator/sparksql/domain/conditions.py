"""The contract's table of conditions: what each phase of each kind says to kstatus, Argo CD and people. Pure.

Ready means that the object is as its spec asks, not that it runs: what rests because its spec says so is Ready, and who waits for
Ready (Flux, Argo CD, `kubectl wait`) goes on. A wish that is not yet fulfilled is Reconciling; what needs a person is Stalled.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import assert_never

from sparksql.api.conditions import Condition, ConditionStatus, ConditionType, find_condition, merge_conditions
from sparksql.api.savepoint import SavepointPhase
from sparksql.api.session import SessionPhase
from sparksql.api.statement import StatementDesiredState, StatementPhase

_TRUE, _FALSE, _UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN


class Standing(Enum):
    """Names how an object stands to its spec: Ready, Reconciling and Stalled."""

    AS_ASKED = (_TRUE, _FALSE, _FALSE)
    UNDER_WAY = (_FALSE, _TRUE, _FALSE)
    HELD_UP = (_FALSE, _TRUE, _TRUE)  # needs a person, and heals by itself when the cause goes
    STALLED = (_FALSE, _FALSE, _TRUE)


class Work(Enum):
    """Names how far bounded work has come: Succeeded and Finished."""

    OPEN = (_UNKNOWN, _FALSE)
    DONE = (_TRUE, _TRUE)
    FAILED = (_FALSE, _TRUE)


_STANDING = (ConditionType.READY, ConditionType.RECONCILING, ConditionType.STALLED)
_WORK = (ConditionType.SUCCEEDED, ConditionType.FINISHED)


def stated(standing: Standing, reason: str, message: str = "", work: Work | None = None) -> tuple[Condition, ...]:
    """Returns the conditions of an object that stands like this; `work` only of a kind that comes to an end."""
    pairs = [*zip(_STANDING, standing.value, strict=True)]
    if work is not None:
        pairs += zip(_WORK, work.value, strict=True)
    return tuple(Condition(type=type_, status=status, reason=reason, message=message) for type_, status in pairs)


def of_generation(conditions: tuple[Condition, ...], generation: int, now: datetime) -> tuple[Condition, ...]:
    """Returns the conditions as they are, as of the object's present generation."""
    return merge_conditions(conditions, conditions, generation=generation, now=now)


def ready_reason(conditions: tuple[Condition, ...]) -> str:
    """Returns the reason of the current phase, as the Ready condition has it; empty without one."""
    ready = find_condition(conditions, ConditionType.READY)
    return ready.reason if ready is not None else ""


def statement_standing(
    phase: StatementPhase, wanted: StatementDesiredState, *, serves: bool = False, stalled: bool = False
) -> tuple[Standing, Work]:
    """Tells how a statement in `phase` stands whose spec wants it to be `wanted`.

    `serves`: a streaming one that runs and is well; `stalled`: one that is suspended until a person acts, or runs as it was
    before a change that is refused.
    """
    match phase:
        case StatementPhase.INITIALIZED | StatementPhase.PENDING:
            return Standing.UNDER_WAY, Work.OPEN
        case StatementPhase.RUNNING | StatementPhase.STOPPED if stalled:
            return Standing.STALLED, Work.OPEN
        case StatementPhase.RUNNING:
            return Standing.AS_ASKED if serves else Standing.UNDER_WAY, Work.OPEN
        case StatementPhase.STOPPED:
            stays = wanted is StatementDesiredState.STOPPED
            return Standing.AS_ASKED if stays else Standing.UNDER_WAY, Work.OPEN
        case StatementPhase.FINISHED:
            return Standing.AS_ASKED, Work.DONE
        case StatementPhase.CANCELED:
            by_wish = wanted is not StatementDesiredState.RUNNING
            return Standing.AS_ASKED if by_wish else Standing.STALLED, Work.FAILED
        case StatementPhase.CLOSED | StatementPhase.ERROR | StatementPhase.TIMED_OUT:
            return Standing.STALLED, Work.FAILED
        case other:
            assert_never(other)


def session_standing(phase: SessionPhase, *, stalled: bool = False) -> Standing:
    """Tells how a session in `phase` stands; `stalled` marks a wait that needs a person."""
    match phase:
        case SessionPhase.PENDING | SessionPhase.STARTING | SessionPhase.DRAINING:
            return Standing.HELD_UP if stalled else Standing.UNDER_WAY
        case SessionPhase.READY | SessionPhase.HIBERNATED:
            return Standing.AS_ASKED
        case SessionPhase.STOPPED | SessionPhase.CLOSED:  # by `desiredState`; by `idle` and `maxLifetimeSeconds`
            return Standing.AS_ASKED
        case SessionPhase.FAILED:
            return Standing.STALLED
        case other:
            assert_never(other)


def savepoint_standing(phase: SavepointPhase) -> tuple[Standing, Work]:
    """Tells how a savepoint in `phase` stands."""
    match phase:
        case SavepointPhase.PENDING | SavepointPhase.IN_PROGRESS:
            return Standing.UNDER_WAY, Work.OPEN
        case SavepointPhase.COMPLETED:
            return Standing.AS_ASKED, Work.DONE
        case SavepointPhase.FAILED | SavepointPhase.ABANDONED:
            return Standing.STALLED, Work.FAILED
        case other:
            assert_never(other)
