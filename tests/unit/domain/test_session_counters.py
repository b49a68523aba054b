"""Counters of a session: the last end is shown at once, all else every 5 s, in every phase; and what does not count as use."""

from __future__ import annotations

from typing import Any

import pytest

from sparksql.api.session import SessionPhase as Phase
from sparksql.api.session import SqlSession, StatementCounts
from sparksql.domain.session.decide import decide
from sparksql.domain.session.snapshot import Decision
from tests.unit.domain.builders.conditions import reason_of
from tests.unit.domain.builders.objects import NOW, removed, seconds, with_spec, with_status
from tests.unit.domain.builders.sessions import gateway, pod, ready, session, session_snapshot

CLOSE_AFTER_A_MINUTE = {"timeoutSeconds": 60, "action": "Close"}
AT_WORK = StatementCounts(running=3, queued=1)


def at(obj: SqlSession, count: float, **facts: Any) -> Decision:
    """Decision on a session whose driver serves, `count` seconds after NOW."""
    return decide(session_snapshot(obj, now=NOW + seconds(count), **{"pod": pod(obj), "gateway": gateway(), **facts}))


def busy(obj: SqlSession | None = None) -> SqlSession:
    """A ready session that shows, since 10 s, three statements that run and one that waits."""
    obj = obj or ready()
    return with_status(obj, at(obj, 10, running=3, queued=1))


def test_end_of_the_last_statement_is_shown_at_once() -> None:
    obj = busy()
    assert obj.status.statements == AT_WORK
    assert at(obj, 10.5).status.statements == StatementCounts()
    assert at(obj, 10.5, queued=1).status.statements == StatementCounts(queued=1)  # of the last one that ran


def test_statement_counts_of_a_busy_session_are_updated_within_five_seconds() -> None:
    obj = busy()
    early = at(obj, 12, running=1, queued=1)
    assert (early.status.statements, early.requeue_after) == (AT_WORK, 3.0)
    assert at(obj, 15, running=1, queued=1).status.statements == StatementCounts(running=1, queued=1)


@pytest.mark.parametrize("phase", [Phase.STOPPED, Phase.CLOSED, Phase.FAILED, Phase.PENDING, Phase.STARTING])
def test_counters_become_true_in_every_phase(phase: Phase) -> None:
    """Statements end after their session as well: with the driver that was lost, or because it closed."""
    obj = busy()
    obj = obj.replace(status=obj.status.replace(phase=phase))
    obj = with_spec(obj, desiredState="Stopped") if phase is Phase.STOPPED else obj
    assert decide(session_snapshot(obj, now=NOW + seconds(11), pod=None)).status.statements == StatementCounts()


def test_a_change_that_has_to_wait_is_looked_at_again() -> None:
    obj = busy()
    closed = obj.replace(status=obj.status.replace(phase=Phase.CLOSED))
    decision = decide(session_snapshot(closed, now=NOW + seconds(12), running=1))
    assert (decision.status.statements, decision.requeue_after) == (AT_WORK, 3.0)


def test_a_session_that_is_let_go_is_not_counted_any_more() -> None:
    obj = busy()
    decision = decide(session_snapshot(removed(obj, NOW), now=NOW + seconds(11), pod=None))
    assert (decision.finalizer, decision.status) == (False, obj.status)


@pytest.mark.parametrize(
    ("facts", "closed"),
    [({"resting": 2}, True), ({"resting": 2, "savepoints": 1}, False), ({"streams": 1, "running": 1}, False)],
)
def test_a_stopped_stream_does_not_keep_its_session_awake(facts: dict[str, int], closed: bool) -> None:
    decision = at(ready(session(idle=CLOSE_AFTER_A_MINUTE)), 61, **facts)
    assert (reason_of(decision.status) == "IdleTimeout") is closed


def test_a_stopped_stream_is_not_queued() -> None:
    assert at(ready(), 10, resting=2).status.statements == StatementCounts()


def test_a_deleted_session_waits_for_streams_that_rest_to_end() -> None:
    obj = removed(ready(), NOW)
    assert decide(session_snapshot(obj, resting=1)).finalizer is True
    assert decide(session_snapshot(obj)).finalizer is False
