"""What holds for statements that clients submit: the same settings and limits as for SqlStatement objects. Pure."""

from __future__ import annotations

from sparksql.api.fields import INT32_MAX
from sparksql.api.session_class import Limits
from sparksql.api.settings import SessionSettings, StatementTimeouts
from sparksql.wire.driver import ClientLimits


def client_limits(settings: SessionSettings, limits: Limits) -> ClientLimits:
    """Limits of clients' statements in a session with these merged settings, of a class with these limits."""
    timeouts = settings.statement_timeouts or StatementTimeouts()
    execution, most = timeouts.execution_seconds or 0, limits.execution_seconds
    queues = (settings.max_queued_statements, limits.queued_statements_per_session)
    return ClientLimits(
        queue_seconds=timeouts.queue_seconds or 0,
        execution_seconds=min(execution or most, most) if most else execution,
        max_execution_seconds=most,
        # The driver cannot tell one that goes at once from one that waits: it needs a place for it, and 0 is no limit there.
        max_queued=max(1, min(limit for limit in (*queues, INT32_MAX) if limit is not None)),
    )
