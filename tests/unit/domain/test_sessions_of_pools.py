"""What a session does with a driver of a warm pool that it has taken."""

from __future__ import annotations

from dataclasses import replace

from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase as Phase
from sparksql.domain.session.decide import decide
from sparksql.domain.session.snapshot import Command, Deadlines, WarmDriver
from tests.unit.domain.builders.conditions import reason_of
from tests.unit.domain.builders.objects import NOW, seconds, with_status
from tests.unit.domain.builders.sessions import pod, session, session_snapshot


def test_a_driver_of_a_pool_has_its_time_since_it_was_taken() -> None:
    new, created, started = session(), NOW - seconds(3600), NOW - seconds(3590)
    obj = with_status(
        new, decide(session_snapshot(new, now=NOW, warm=WarmDriver("warm-standard-1", "pod-uid", "member")))
    )
    taken = obj.status.driver
    assert taken is not None and (taken.pod_name, taken.pool_uid) == ("warm-standard-1", "member")
    waits = decide(session_snapshot(obj, now=NOW + seconds(1), pod=replace(pod(obj), created=created, started=started)))
    assert (waits.status.phase, reason_of(waits.status)) == (Phase.STARTING, Reason.DRIVER_STARTING)
    assert waits.commands == (Command.START_DRIVER,)  # bound until it answers
    over = decide(
        session_snapshot(
            obj,
            now=NOW + seconds(Deadlines().driver_start_seconds + 1),
            pod=replace(pod(obj), created=created, started=started),
        )
    )
    assert (over.status.phase, reason_of(over.status)) == (Phase.PENDING, Reason.DRIVER_NOT_READY)
