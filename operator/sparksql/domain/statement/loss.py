"""A driver that is lost with a statement in its hands, and what the statement remembers of it. Pure.

Which of the statements that a driver ran has ended it is unknown, so each of them counts the loss, and the session does not:
one statement takes a bounded number of drivers, and never the session from its other users. A driver with another cause of its
end is not counted: one that the cluster took away, or whose pod was deleted.
"""

from __future__ import annotations

from dataclasses import replace

from sparksql.api.statement import MAX_LOST_DRIVERS
from sparksql.api.statement import StatementPhase as Phase
from sparksql.domain.public_text import Message, compose
from sparksql.domain.statement.snapshot import Snapshot, Unobserved
from sparksql.domain.statement.stream.spec import is_stream
from sparksql.wire.control import OperationState, OperationView


def with_loss(s: Snapshot) -> Snapshot:
    """Returns the snapshot with what its statement remembers of a driver that is gone, the same one if none is."""
    status, last = s.statement.status, s.last_view
    if last is not None:
        kind, is_read = last.statement_type or status.statement_type, status.read_only or last.read_only
        status = status.replace(statement_type=kind, read_only=is_read)
    pod = _lost_pod(s)
    if pod is not None:
        most = 1 if is_stream(s.statement.spec) else MAX_LOST_DRIVERS
        status = status.replace(lost_drivers=(*status.lost_drivers, pod)[-most:])
    return s if status is s.statement.status else replace(s, statement=s.statement.replace(status=status))


def told_count(s: Snapshot) -> Message:
    """Returns how many drivers the statement has lost, of those that it may lose."""
    if s.is_disrupted:
        return compose("the cluster removed the driver, which does not count")
    if s.is_deleted:
        return compose("the driver's pod was deleted, which is not counted")
    return compose(
        "{count} of {most} drivers lost, the last one ends it",
        count=len(s.statement.status.lost_drivers),
        most=MAX_LOST_DRIVERS,
    )


def may_end_drivers(s: Snapshot) -> bool:
    """Tells whether so many drivers were lost with the statement in their hands that it is not handed to another one."""
    return len(s.statement.status.lost_drivers) >= MAX_LOST_DRIVERS


def _lost_pod(s: Snapshot) -> str | None:
    """The driver that was lost with the statement in its hands; None also if that has another cause."""
    session = s.statement.status.session
    if session is None or s.is_disrupted or s.is_deleted:
        return None
    match s.operation:
        case Unobserved.DRIVER_GONE:
            return session.pod_name
        case Unobserved.UNKNOWN if s.statement.status.phase is Phase.RUNNING:
            return session.pod_name
        case OperationView(state=OperationState.CLOSED, start_time=started) if started is not None:
            return session.pod_name
        case _:
            return None
