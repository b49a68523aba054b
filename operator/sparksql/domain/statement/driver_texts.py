"""Texts in a snapshot that come from drivers, which may quote SQL and its values, with what Events hold instead. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from sparksql.api.conditions import ConditionType, find_condition
from sparksql.api.reasons import Reason
from sparksql.api.savepoint import SavepointPhase
from sparksql.domain.event import error_summary
from sparksql.domain.statement.comparison import fit_message
from sparksql.domain.statement.outcome import error_text
from sparksql.domain.statement.snapshot import Snapshot
from sparksql.wire.control import OperationView


def summaries(s: Snapshot) -> dict[str, str]:
    """Returns a summary for each text of a driver that a decision on the snapshot may repeat."""
    return dict((*_of_status(s), *_of_others(s), *_of_operations(s)))


def _of_operations(s: Snapshot) -> Iterator[tuple[str, str]]:
    if s.refusal is not None:
        yield s.refusal.message, "see status"
    for view in (s.operation, s.last_view, s.answer):
        if isinstance(view, OperationView) and view.error is not None:
            summary = error_summary(view.error)
            yield from ((view.error.message, summary), (error_text(view), summary))
    if isinstance(s.operation, OperationView) and s.operation.result is not None and s.operation.result.preview:
        yield fit_message(s, s.operation), "see status"  # names columns and operators of the query


def _of_status(s: Snapshot) -> Iterator[tuple[str, str]]:
    """Yields what an earlier decision wrote: the last error, and the conditions that repeat it."""
    status = s.statement.status
    conditions = [find_condition(status.conditions, type_) for type_ in (ConditionType.READY, ConditionType.STALLED)]
    summary = "see status" if status.error is None else error_summary(status.error)
    for condition in conditions:
        if condition is not None and (status.error is not None or condition.reason == Reason.RESTARTING):
            yield condition.message, summary
    if status.error is not None:
        yield status.error.message, summary


def _of_others(s: Snapshot) -> Iterator[tuple[str, str]]:
    if s.session is not None and s.session.problem is not None and s.session.problem[0] is Reason.INIT_FAILED:
        yield s.session.problem[1], "see the session's status"
    for savepoint in s.savepoints:
        if savepoint.phase is SavepointPhase.FAILED:
            yield savepoint.message, "see its status"
