"""The counters in a session's status: what it runs, what waits for it, and who has it open. Pure.

Invariants: in every phase what is shown becomes true without another change; the end of the last statement is shown at once, as is
a change of phase; all else is written at most every 5 s (the contract's bound).
"""

from __future__ import annotations

from dataclasses import replace

from sparksql.api.session import ClientCounts, StatementCounts
from sparksql.api.session import SessionPhase as Phase
from sparksql.domain.session.snapshot import Decision, Snapshot
from sparksql.domain.session.usage import client_counts, statement_counts

COUNTER_SECONDS = 5.0


def counted(s: Snapshot, decision: Decision) -> Decision:
    """The decision with counters as they are now, or with a wake-up for when they may be written."""
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


def _ended(shown: StatementCounts, now: StatementCounts) -> bool:
    """Whether the last one that ran, or the last one of all, has ended since."""
    if not now.running and not now.queued:
        return shown != now
    return shown.running > 0 and not now.running
