"""Drivers whose end nobody saw: their boots are handed on to the drivers after them, and with each streaming statement."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from sparksql.api.reasons import Reason
from sparksql.api.session import MAX_UNCONFIRMED_DRIVERS, SessionPhase, SqlSession
from sparksql.domain.session.decide import decide
from sparksql.domain.session.snapshot import Command, Deadlines, Decision, PodEnd, PodFacts
from sparksql.domain.statement.decide import decide as decide_statement
from sparksql.domain.statement.decision import Submit
from sparksql.domain.statement.snapshot import Driver, Inputs, SessionFacts, Settings
from tests.unit.domain.builders.conditions import reason_of
from tests.unit.domain.builders.objects import NOW, seconds, with_spec, with_status
from tests.unit.domain.builders.sessions import BOOT, draining, gateway, pod, ready, session_snapshot, starting
from tests.unit.domain.builders.statements import statement, statement_snapshot

TEXT = "INSERT INTO t SELECT * FROM STREAM s"


def lost(obj: SqlSession, end: PodEnd | None, pod_: PodFacts | None = None) -> SqlSession:
    """The session after its driver vanished, with the next one asked for."""
    gone = with_status(obj, decide(session_snapshot(obj, now=NOW + seconds(60), pod=pod_, pod_end=end)))
    return with_status(gone, decide(session_snapshot(gone, now=NOW + seconds(120), pod_end=end)))


def unconfirmed(obj: SqlSession) -> tuple[str, ...]:
    assert obj.status.driver is not None
    return obj.status.driver.unconfirmed


def test_a_driver_that_vanished_is_remembered() -> None:
    after = lost(ready(), None)
    assert unconfirmed(after) == (BOOT,)


def test_driver_that_was_seen_to_end_is_not_unconfirmed() -> None:
    assert unconfirmed(lost(ready(), PodEnd())) == ()


def test_message_of_a_lost_driver_tells_whether_its_end_was_seen() -> None:
    gone = decide(session_snapshot(ready(), now=NOW + seconds(60)))
    assert "without a termination status" in (gone.status.message or "")
    ended = decide(session_snapshot(ready(), now=NOW + seconds(60), pod_end=PodEnd()))
    assert ended.status.message == "the driver pod no longer exists"


def test_a_pod_whose_node_is_lost_has_a_phase_but_no_end() -> None:
    """The pod collector calls it Failed though nobody saw its container end."""
    obj = ready()
    assert unconfirmed(lost(obj, None, pod(obj, ended="NodeLost"))) == (BOOT,)


def test_drivers_before_the_last_one_stay_remembered_up_to_a_bound() -> None:
    obj = ready()
    assert obj.status.driver is not None
    many = tuple(f"boot-of-{n}" for n in range(MAX_UNCONFIRMED_DRIVERS))
    kept = obj.replace(status=obj.status.replace(driver=obj.status.driver.replace(unconfirmed=many)))
    assert unconfirmed(lost(kept, PodEnd())) == many
    assert unconfirmed(lost(kept, None)) == (*many[1:], BOOT)


def test_a_driver_that_never_served_has_written_nothing() -> None:
    obj = ready()
    assert obj.status.driver is not None
    never = obj.replace(status=obj.status.replace(driver=obj.status.driver.replace(boot_id=None)))
    assert unconfirmed(lost(never, None)) == ()


@pytest.mark.parametrize("before", [(), ("boot-0",)])
def test_stream_is_handed_over_with_the_boot_ids_of_drivers_not_seen_to_end(before: tuple[str, ...]) -> None:
    session = SessionFacts("analytics", ready().status.phase, driver=Driver("p", "u", BOOT, before))
    snapshot = statement_snapshot(
        statement(sql=TEXT, streaming={}),
        session=session,
        settings=Settings(checkpoint_root="s3a://b/c"),
        inputs=Inputs(TEXT),
    )
    (command,) = decide_statement(snapshot).commands
    assert isinstance(command, Submit) and command.request.streaming is not None
    assert command.request.streaming.unconfirmed == before


def test_a_driver_that_the_cluster_took_away_is_not_counted_as_a_failure() -> None:
    """Nodes that are drained one after the other must not bring a session to its end."""
    obj = ready()
    for _ in range(10):
        gone = decide(session_snapshot(obj, now=NOW + seconds(60), pod_end=PodEnd("EvictionByEvictionAPI")))
        assert gone.status.message == "the driver pod no longer exists: EvictionByEvictionAPI"
        assert (gone.status.phase, gone.status.restarts) == (SessionPhase.PENDING, 0)
        obj = ready(with_status(obj, gone), NOW + seconds(62))
    assert decide(session_snapshot(obj, now=NOW + seconds(63), pod_end=PodEnd())).status.restarts == 1


# --- pods that nobody ends

DUE = NOW + seconds(60)
LATE = DUE + seconds(Deadlines().termination_seconds + 1)


def later(obj: SqlSession, now: datetime, **facts: Any) -> Decision:
    return decide(session_snapshot(obj, now=now, pod=pod(obj, started=NOW, end_due=DUE), gateway=gateway(), **facts))


def told(decision: Decision) -> tuple[SessionPhase | None, str]:
    return decision.status.phase, reason_of(decision.status)


def test_a_pod_that_is_being_deleted_is_waited_for_until_its_deadline() -> None:
    obj = ready()
    assert told(later(obj, LATE - seconds(1))) == (SessionPhase.READY, Reason.DRIVER_TERMINATING)
    given_up = later(obj, LATE)
    assert told(given_up) == (SessionPhase.PENDING, Reason.DRIVER_LOST)
    assert "its node does not end it" in (given_up.status.message or "")


def test_the_next_driver_starts_beside_a_pod_that_was_given_up_and_knows_of_it() -> None:
    obj = with_status(ready(), later(ready(), LATE))
    following = later(obj, LATE + seconds(60))
    assert following.commands == (Command.START_DRIVER,)
    driver = following.status.driver
    assert driver is not None and obj.status.driver is not None
    assert driver.pod_name != obj.status.driver.pod_name
    assert (driver.incarnation, driver.unconfirmed) == (2, (BOOT,))


def test_a_pod_that_was_seen_to_end_but_stays_is_given_up_and_is_no_doubt() -> None:
    """As one that somebody's finalizer holds."""
    obj = with_status(ready(), later(ready(), LATE, pod_end=PodEnd()))
    assert unconfirmed(with_status(obj, later(obj, LATE + seconds(60), pod_end=PodEnd()))) == ()


@pytest.mark.parametrize(
    ("spec", "phase"),
    [({"desiredState": "Stopped"}, SessionPhase.STOPPED), ({"restartNonce": "again"}, SessionPhase.PENDING)],
)
def test_session_drain_ends_at_the_deadline_while_its_driver_pod_remains(
    spec: dict[str, Any], phase: SessionPhase
) -> None:
    obj = draining(with_spec(ready(), **spec))
    assert later(obj, LATE - seconds(1)).status.phase is SessionPhase.DRAINING
    over = with_status(obj, later(obj, LATE))
    assert over.status.phase is phase
    if phase is SessionPhase.STOPPED:
        assert later(over, LATE + seconds(1)).requeue_after is None  # nothing is left to be swept
        over = with_spec(over, desiredState="Running")
    assert unconfirmed(with_status(over, later(over, LATE + seconds(2)))) == (BOOT,)


def test_a_driver_that_is_deleted_while_it_starts_is_given_up_too() -> None:
    obj = starting()
    assert told(later(obj, LATE)) == (SessionPhase.PENDING, Reason.DRIVER_LOST)
