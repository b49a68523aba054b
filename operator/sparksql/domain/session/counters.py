"""Who uses a session, its statements and clients of its driver, and the counters in its status that tell it. Pure.

SqlStatement objects are counted by the operator, clients' statements by the driver: none is counted twice.

Invariants of the counters: in every phase what is shown becomes true without another change; the end of the last
statement is shown at once, as is a change of phase; all else is written at most every 5 s (the contract's bound).
"""

from __future__ import annotations

from dataclasses import replace

from sparksql.api.reasons import Reason
from sparksql.api.session import ClientCounts, SqlSessionStatus, StatementCounts
from sparksql.api.session import SessionPhase as Phase
from sparksql.domain.event import Event
from sparksql.domain.public_text import Message, compose
from sparksql.domain.session.snapshot import Decision, Snapshot
from sparksql.wire.control import GatewayInfo, GatewayState

COUNTER_SECONDS = 5.0


def statement_counts(s: Snapshot) -> StatementCounts:
    """Counts what the session runs and has in its queue now."""
    word = _living(s)
    pending, running = (word.client_pending, word.client_running) if word is not None else (0, 0)
    return StatementCounts(running=s.running + running, queued=s.queued + pending)


def client_counts(s: Snapshot) -> ClientCounts:
    """Counts the sessions that clients have open now; those last known of a driver that has said nothing yet."""
    if s.pod is None or s.pod.ended is not None:
        return ClientCounts()
    if s.gateway is None:
        return s.session.status.clients or ClientCounts()
    return ClientCounts(sessions=s.gateway.client_sessions)


def bounded_statements(s: Snapshot) -> int:
    """Counts running statements that come to an end by themselves; a stream ends with its driver and goes on in the next one."""
    return s.running - s.streams


def client_statements(s: Snapshot) -> int:
    """Counts clients' statements that the driver has taken and that have not ended."""
    word = _living(s)
    return word.client_pending + word.client_running if word is not None else 0


def may_grow(s: Snapshot) -> bool:
    """Tells whether clients can still submit, so that no count of their statements is the last one."""
    word = _living(s)
    return word is not None and word.client_sessions > 0 and word.state is not GatewayState.DRAINING


def is_used(s: Snapshot) -> bool:
    """Tells whether anybody has a statement or a session in it now, or a savepoint is made there.

    A stream that is Stopped uses nothing.
    """
    return _any(statement_counts(s), client_counts(s)) or s.savepoints > 0


def was_used(status: SqlSessionStatus) -> bool:
    """Tells whether the status says that anybody had."""
    return _any(status.statements or StatementCounts(), status.clients or ClientCounts())


def closed_sessions(s: Snapshot) -> Message:
    """Says how many sessions of clients end with the driver, as `2 sessions of clients`; empty without any.

    A driver that was told to end closes them before it goes, so that the status may know more of them than the driver said last.
    """
    known = s.session.status.clients or ClientCounts()
    count = max(known.sessions, s.gateway.client_sessions if s.gateway is not None else 0)
    if not count:
        return compose("")
    return compose("1 session of clients") if count == 1 else compose("{count} sessions of clients", count=count)


def closed_sessions_events(s: Snapshot) -> tuple[Event, ...]:
    """Says so when sessions of clients end with the driver."""
    closed = closed_sessions(s)
    if not closed:
        return ()
    message = compose("{closed} end with the driver; open new ones once the session is Ready", closed=closed)
    return (Event.of("Warning", Reason.CLIENT_SESSIONS_CLOSED, message),)


def counted(s: Snapshot, decision: Decision) -> Decision:
    """Returns the decision with counters as they are now, or with a wake-up for when they may be written."""
    before, after = s.session.status, decision.status
    serves = after.phase in (Phase.READY, Phase.DRAINING)
    statements, clients = statement_counts(s), client_counts(s) if serves else ClientCounts()
    shown = (before.statements or StatementCounts(), before.clients or ClientCounts())
    if shown == (statements, clients):
        return decision
    since = (s.now - before.last_activity_time).total_seconds() if before.last_activity_time else COUNTER_SECONDS
    is_over = _ended(shown[0], statements)
    if is_over or since >= COUNTER_SECONDS or after.phase is not before.phase:
        written = {"statements": statements, "clients": clients if serves else None, "last_activity_time": s.now}
        return replace(decision, status=after.replace(**written))
    left = max(0.1, COUNTER_SECONDS - since)
    wake = left if decision.requeue_after is None else min(left, decision.requeue_after)
    return replace(decision, requeue_after=wake)


def _any(statements: StatementCounts, clients: ClientCounts) -> bool:
    return bool(statements.running or statements.queued or clients.sessions)


def _living(s: Snapshot) -> GatewayInfo | None:
    """The last word of a driver that is still there."""
    return s.gateway if s.pod is not None and s.pod.ended is None else None


def _ended(shown: StatementCounts, now: StatementCounts) -> bool:
    """Whether the last one that ran, or the last one of all, has ended since."""
    if not now.running and not now.queued:
        return shown != now
    return shown.running > 0 and not now.running
