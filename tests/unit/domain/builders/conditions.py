"""The contract's table of conditions, and what a status or a decision says by them.

A row is the status of Ready, Reconciling, Stalled, Succeeded, Finished; sessions do no work that could succeed or finish.
"""

from __future__ import annotations

from typing import Any

from sparksql.api.conditions import find_condition
from sparksql.api.session import SessionPhase
from sparksql.api.statement import SqlStatementSpec, StatementDesiredState

UNDER_WAY = ("False", "True", "False", "Unknown", "False")
SUCCEEDED = ("True", "False", "False", "True", "True")
CANCELED = ("True", "False", "False", "False", "True")  # by wish
FAILED = ("False", "False", "True", "False", "True")
STREAMS = ("True", "False", "False", "Unknown", "False")
RESTS = STREAMS  # by wish: it is as its spec asks
PARKED = ("False", "False", "True", "Unknown", "False")

STATEMENT_CONDITIONS = {
    "Initialized": UNDER_WAY,
    "Pending": UNDER_WAY,
    "Running": UNDER_WAY,
    "Finished": SUCCEEDED,
    "Canceled": CANCELED,
    "Closed": FAILED,
    "Error": FAILED,
    "TimedOut": FAILED,
}
SAVEPOINT_CONDITIONS = {
    "Pending": UNDER_WAY,
    "InProgress": UNDER_WAY,
    "Completed": SUCCEEDED,
    "Failed": FAILED,
    "Abandoned": FAILED,
}
SESSION_CONDITIONS = {  # None where the reason decides
    SessionPhase.PENDING: ("False", "True", None),
    SessionPhase.STARTING: ("False", "True", None),
    SessionPhase.READY: ("True", "False", "False"),
    SessionPhase.DRAINING: ("False", "True", "False"),
    SessionPhase.HIBERNATED: ("True", "False", "False"),
    SessionPhase.STOPPED: ("True", "False", "False"),
    SessionPhase.CLOSED: ("True", "False", "False"),
    SessionPhase.FAILED: ("False", "False", "True"),
}


def statement_row(phase: str, spec: SqlStatementSpec) -> tuple[str, ...]:
    """The contract's row for a batch statement in `phase`: one that was canceled against its spec has failed."""
    is_wished = phase != "Canceled" or spec.desired_state is not StatementDesiredState.RUNNING
    return STATEMENT_CONDITIONS[phase] if is_wished else FAILED


def conditions(decision: Any) -> tuple[str, ...]:
    return tuple(str(c.status) for c in decision.status.conditions)


def conditions_of(status: Any) -> dict[str, tuple[str, str]]:
    """Condition type -> (status, reason)."""
    return {c.type: (str(c.status), c.reason) for c in status.conditions}


def reason_of(status: Any) -> str:
    ready = find_condition(status.conditions, "Ready")
    return ready.reason if ready else ""


def message(decision: Any) -> str:
    ready = find_condition(decision.status.conditions, "Ready")
    return ready.message if ready else ""


def told(decision: Any) -> tuple[str, str]:
    """Phase and reason."""
    return str(decision.status.phase), reason_of(decision.status)
