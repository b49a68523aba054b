"""What a statement has to do with the executors of its session: it waits for them, or has failed as they did. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from sparksql.domain.public_text import compose
from sparksql.domain.session.executors import failed_executors
from sparksql.domain.statement.outcome import End, end_of
from sparksql.domain.statement.snapshot import Snapshot
from sparksql.wire.control import OperationState, OperationView
from sparksql.wire.failure.classify import classify
from sparksql.wire.failure.kind import FailureKind

_ROUNDED = timedelta(seconds=1)  # the kubelet gives the end of a container in whole seconds


def awaited_executors(s: Snapshot) -> str:
    """Returns what the session's executors wait for while there is not a single one, empty otherwise."""
    if s.session is None or s.session.executors is None:
        return ""
    return f"waits for executors of session {s.session.name}: {s.session.executors}"


def end_beside_executors(s: Snapshot, view: OperationView) -> End:
    """Returns the end that a terminal view means, with the executors that failed while the statement ran.

    Spark repeats the tasks of a lost executor a few times. Its message then has the last loss alone, or an error that follows
    from it, and no remedy. The kubelet's word on the pods has the cause.
    """
    outcome = end_of(view, s.settings)
    if s.session is None or view.state is not OperationState.ERROR or view.start_time is None:
        return outcome
    if classify(view.error).kind is FailureKind.STATEMENT:
        return outcome
    begun, ended = view.start_time - _ROUNDED, view.completion_time or s.now
    failures = tuple(each for each in s.session.executor_failures if begun <= each.time <= ended)
    if not failures:
        return outcome
    return replace(
        outcome,
        message=compose("{message}; while it ran {failed}", message=outcome.message, failed=failed_executors(failures)),
    )
