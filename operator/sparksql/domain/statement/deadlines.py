"""When a handed-over statement must end early, and how long it may still go on. Pure.

It ends for the user, for the session or by the clock.
"""

from __future__ import annotations

from sparksql.api.statement import StatementDesiredState as DesiredState
from sparksql.api.statement import StatementPhase as Phase
from sparksql.domain.statement.snapshot import Settings, Snapshot
from sparksql.domain.statement.stream.spec import is_stream, streaming_of
from sparksql.wire.control import CancelRequest, OperationState, OperationView

EXECUTION_GRACE_SECONDS = 30.0  # the gateway ends a statement at its limit; after this the operator asks for it
BRIEF_SECONDS = 0.2  # a statement that ends sooner is not shown as Running: one write of the status and one Event less
HANDED_OVER_SECONDS = 20.0  # wake-up of a statement that the driver has; its events usually come first


def is_closing(s: Snapshot) -> bool:
    """Tells whether the session is gone or going, so that its statements end in Closed."""
    return s.session is None or s.session.is_closing


def is_unwanted(s: Snapshot) -> bool:
    """Tells whether nobody wants the statement to go on, so that it is not tried again."""
    deleting = s.statement.metadata.deletion_timestamp is not None
    return deleting or s.statement.spec.desired_state is not DesiredState.RUNNING or is_closing(s)


def boot_id(s: Snapshot) -> str:
    """Returns the boot that the current attempt was handed to."""
    session = s.statement.status.session
    return (session.boot_id or "") if session else ""


def cancellation_due(s: Snapshot, *, takes_in_change: bool = False) -> CancelRequest | None:
    """Returns the request to end a handed-over operation now, and None while it may go on.

    `takes_in_change` tells that a query must stop for a change of its spec; every other cause comes before that.
    """
    status, spec = s.statement.status, s.statement.spec
    boot = boot_id(s)
    if spec.desired_state is not DesiredState.RUNNING or s.statement.metadata.deletion_timestamp is not None:
        stops = is_stream(spec) and spec.desired_state is DesiredState.STOPPED
        reason = "stopped by the user" if stops else "canceled by the user"
        return CancelRequest(boot_id=boot, outcome=OperationState.CANCELED, reason=reason)
    if is_closing(s):
        return CancelRequest(boot_id=boot, outcome=OperationState.CLOSED, reason="the session is closed")
    if status.phase is Phase.PENDING and queue_left(s) == 0:
        return CancelRequest(boot_id=boot, outcome=OperationState.TIMED_OUT, reason="queue timeout")
    if _execution_overdue(s):
        return CancelRequest(boot_id=boot, outcome=OperationState.TIMED_OUT, reason="execution timeout")
    if takes_in_change:
        return CancelRequest(boot_id=boot, outcome=OperationState.CANCELED, reason="the spec changed")
    return None


def queue_left(s: Snapshot) -> float | None:
    """Returns the seconds until the queue timeout, at least 0; None without one.

    A query that has started once waits in no queue.
    """
    if streaming_of(s.statement).query_id is not None:
        return None
    own = s.statement.spec.timeouts
    limit = s.settings.queue_seconds if isinstance(s.settings, Settings) else own.queue_seconds if own else None
    since = s.statement.status.submitted_time
    if not limit or since is None:
        return None
    return max(0.0, limit - (s.now - since).total_seconds())


def _execution_overdue(s: Snapshot) -> bool:
    start = s.statement.status.start_time
    if start is None or not isinstance(s.settings, Settings) or not s.settings.execution_seconds:
        return False
    return (s.now - start).total_seconds() > s.settings.execution_seconds + EXECUTION_GRACE_SECONDS


def brief_left(s: Snapshot, view: OperationView) -> float:
    """Returns the seconds for which a statement that has just begun is not yet shown as Running; 0 when it is to be shown.

    A driver whose clock is ahead is not waited for.
    """
    if s.statement.status.phase is not Phase.PENDING or view.start_time is None:
        return 0.0
    age = (s.now - view.start_time).total_seconds()
    return BRIEF_SECONDS - age if 0.0 <= age < BRIEF_SECONDS else 0.0


def next_deadline(s: Snapshot) -> float:
    """Returns the seconds until a handed-over statement must be looked at again."""
    left = queue_left(s) if s.statement.status.phase is Phase.PENDING else None
    return min(HANDED_OVER_SECONDS, left + 0.05) if left is not None else HANDED_OVER_SECONDS
