"""A session that nobody uses sleeps: when, with what, what wakes it, and what it says beforehand."""

from __future__ import annotations

from typing import Any

import pytest

from sparksql.api.names import ANNOTATION_WAKE
from sparksql.api.reasons import Reason
from sparksql.api.session import KeptState, SqlSession
from sparksql.domain.session.decide import decide
from sparksql.domain.session.snapshot import Command, Decision, PodEnd
from sparksql.domain.violation import Violation
from sparksql.wire.control import GatewayState
from tests.unit.domain.builders.conditions import conditions_of, message, told
from tests.unit.domain.builders.objects import NOW, annotated, seconds, with_spec, with_status
from tests.unit.domain.builders.sessions import BOOT, gateway, pod, ready, session, session_snapshot

SLEEPS = {"timeoutSeconds": 60, "action": "Hibernate"}
RESTORES = {**SLEEPS, "restoreState": True}
HOLDS: dict[str, Any] = {"has_session_state": True, "restorable_statements": 2, "incarnation": 1}
OVER = (Command.DELETE_DRIVER,)


def at(obj: SqlSession, count: float, **facts: Any) -> Decision:
    """Decision on a session whose driver serves, `count` seconds after NOW."""
    return decide(session_snapshot(obj, now=NOW + seconds(count), **{"pod": pod(obj), "gateway": gateway(), **facts}))


def without_driver(obj: SqlSession, count: float, **facts: Any) -> Decision:
    return decide(session_snapshot(obj, now=NOW + seconds(count), **{"pod_end": PodEnd(), **facts}))


def hibernated(idle: dict[str, Any] = SLEEPS, word: dict[str, Any] | None = None, **spec: Any) -> SqlSession:
    """A session that has gone to sleep, 70 s after NOW."""
    obj = ready(session(idle=idle, **spec))
    obj = with_status(obj, at(obj, 61, gateway=gateway(**word or {})))
    drained = gateway(GatewayState.DRAINING, **word or {})
    obj = with_status(obj, at(obj, 64, gateway=drained))
    return with_status(obj, without_driver(obj, 70, gateway=drained))  # type: ignore[no-any-return]


# --- to sleep


def test_an_unused_session_drains_and_hibernates() -> None:
    obj = ready(session(idle=SLEEPS))
    assert told(at(obj, 59)) == ("Ready", "Ready")
    decision = at(obj, 61)
    assert told(decision) == ("Draining", Reason.HIBERNATING)
    obj = with_status(obj, decision)
    assert at(obj, 62).commands == (Command.DRAIN_DRIVER,), "nobody's statement dies with it"
    assert at(obj, 62, gateway=gateway(GatewayState.DRAINING)).commands == (), "one may be on its way"
    assert at(obj, 64, gateway=gateway(GatewayState.DRAINING, running=1)).commands == (), "one has arrived"
    assert at(obj, 64, gateway=gateway(GatewayState.DRAINING, running=1, streams=1)).commands == OVER
    assert at(obj, 64, gateway=gateway(GatewayState.DRAINING)).commands == OVER
    asleep = without_driver(obj, 70)
    assert told(asleep) == ("Hibernated", Reason.HIBERNATED)
    assert conditions_of(asleep.status)["Ready"][0] == "True"
    assert conditions_of(asleep.status)["Hibernation"] == ("True", Reason.HIBERNATED)
    assert asleep.status.endpoints is None


@pytest.mark.parametrize(
    "use",
    [
        {"running": 1},
        {"queued": 1},
        {"running": 1, "streams": 1},
        {"savepoints": 1},
        {"gateway": gateway(client_sessions=1)},
        {"gateway": gateway(last_activity_time=NOW + seconds(30))},
        {"gateway": None},  # nobody knows what it holds
    ],
    ids=["statement", "waiting statement", "stream", "savepoint", "client", "client's request", "no word yet"],
)
def test_a_session_that_is_used_stays_awake(use: dict[str, Any]) -> None:
    assert told(at(ready(session(idle=SLEEPS)), 61, **use)) == ("Ready", "Ready")


def test_a_streams_rest_keeps_nobody_awake() -> None:
    assert told(at(ready(session(idle=SLEEPS)), 61, resting=1)) == ("Draining", Reason.HIBERNATING)


def test_hibernation_is_what_happens_unless_somebody_says_otherwise() -> None:
    obj = ready(session())
    assert told(at(obj, 301)) == ("Draining", Reason.HIBERNATING)
    assert told(at(ready(session(idle={"timeoutSeconds": 0})), 10**6)) == ("Ready", "Ready")


# --- what it holds


@pytest.mark.parametrize(
    ("idle", "word", "status", "text"),
    [
        (SLEEPS, {}, "True", "hibernates after 60 s without use"),
        (SLEEPS, HOLDS, "False", "set idle.restoreState"),
        (RESTORES, HOLDS, "True", "2 statements run again at the wake"),
        (RESTORES, {**HOLDS, "restorable_statements": 1}, "True", "1 statement run again"),
        (
            RESTORES,
            {**HOLDS, "state_obstacle": "statement x has a value from a Secret"},
            "False",
            "a value from a Secret",
        ),
        (RESTORES, {"has_session_state": True}, "False", "an earlier version"),
    ],
    ids=["nothing", "not allowed", "kept", "one", "obstacle", "older driver"],
)
def test_the_condition_says_beforehand_whether_it_would_sleep(
    idle: dict[str, Any], word: dict[str, Any], status: str, text: str
) -> None:
    obj = ready(session(idle=idle))
    decision = at(obj, 30, gateway=gateway(**word))
    condition = next(c for c in decision.status.conditions if c.type == "Hibernation")
    assert (str(condition.status), text in condition.message) == (status, True), condition
    later = told(at(obj, 61, gateway=gateway(**word)))
    assert later == (("Draining", Reason.HIBERNATING) if status == "True" else ("Ready", "Ready"))


def test_a_session_that_closes_says_nothing_of_hibernation() -> None:
    obj = ready(session(idle={"timeoutSeconds": 60, "action": "Close"}))
    assert "Hibernation" not in conditions_of(at(obj, 30, gateway=gateway(**HOLDS)).status)


def test_session_state_is_kept_once_the_driver_takes_nothing_new() -> None:
    obj = ready(session(idle=RESTORES))
    obj = with_status(obj, at(obj, 61, gateway=gateway(**HOLDS)))
    silent = at(obj, 62, gateway=None)
    assert silent.commands == (Command.DRAIN_DRIVER,), "an operator that has just started knows nothing of it yet"
    assert at(obj, 62, gateway=gateway(**HOLDS)).commands == (Command.DRAIN_DRIVER,)
    kept = at(obj, 64, gateway=gateway(GatewayState.DRAINING, **HOLDS))
    assert kept.commands == (Command.KEEP_STATE, Command.DELETE_DRIVER)
    assert kept.status.kept_state == KeptState(statements=2, incarnation=1)
    asleep = without_driver(with_status(obj, kept), 70, gateway=gateway(GatewayState.DRAINING, **HOLDS))
    assert told(asleep) == ("Hibernated", Reason.HIBERNATED)
    assert "SessionStateLost" not in conditions_of(asleep.status)
    assert asleep.status.kept_state == KeptState(statements=2, incarnation=1)


def test_a_driver_that_dies_before_its_state_is_kept_has_lost_it() -> None:
    obj = ready(session(idle=RESTORES))
    obj = with_status(obj, at(obj, 61, gateway=gateway(**HOLDS)))
    asleep = without_driver(obj, 70, gateway=gateway(**HOLDS))
    assert told(asleep) == ("Hibernated", Reason.HIBERNATED)
    assert conditions_of(asleep.status)["SessionStateLost"][0] == "True"
    assert [event.reason for event in asleep.events] == [Reason.SESSION_STATE_LOST]


def test_a_driver_that_never_answers_is_ended_after_the_deadline() -> None:
    obj = ready(session(idle=RESTORES))
    obj = with_status(obj, at(obj, 61, gateway=gateway(**HOLDS)))
    assert at(obj, 360, gateway=None).commands == (Command.DRAIN_DRIVER,)
    assert at(obj, 362, gateway=None).commands == OVER


# --- awake


@pytest.mark.parametrize(
    ("facts", "what"),
    [({"queued": 1}, "a statement"), ({"running": 1}, "a statement"), ({"savepoints": 1}, "a savepoint")],
    ids=["waiting", "handed over", "savepoint"],
)
def test_work_wakes_a_session(facts: dict[str, Any], what: str) -> None:
    woken = without_driver(hibernated(), 500, **facts)
    assert told(woken) == ("Pending", Reason.WAKING)
    assert what in message(woken)
    started = without_driver(with_status(hibernated(), woken), 500, **facts)
    assert told(started) == ("Starting", Reason.WAKING)
    assert started.commands == (Command.START_DRIVER,)


def test_a_session_sleeps_on_while_nobody_wants_it() -> None:
    decision = without_driver(hibernated(), 10**6)
    assert (told(decision), decision.commands, decision.requeue_after) == (("Hibernated", "Hibernated"), (), None)


def test_a_new_value_of_the_annotation_wakes_it_once() -> None:
    obj = annotated(hibernated(), **{ANNOTATION_WAKE: "2026-01-31T09:00:00Z"})
    woken = without_driver(obj, 500)
    assert told(woken) == ("Pending", Reason.WAKING)
    obj = with_status(obj, woken)
    obj = with_status(obj, without_driver(obj, 500))
    assert obj.status.observed_wake == "2026-01-31T09:00:00Z"
    obj = with_status(obj, at(obj, 510))
    assert told(at(obj, 569)) == ("Ready", "Ready")
    assert told(at(obj, 571)) == ("Draining", Reason.HIBERNATING)


def test_the_annotation_is_use_of_a_session_that_is_awake() -> None:
    obj = annotated(ready(session(idle=SLEEPS)), **{ANNOTATION_WAKE: "a" * 300})
    used = at(obj, 61)
    assert told(used) == ("Ready", "Ready")
    assert used.status.last_activity_time == NOW + seconds(61)
    obj = with_status(obj, used)
    assert told(at(obj, 120)) == ("Ready", "Ready")
    assert told(at(obj, 122)) == ("Draining", Reason.HIBERNATING)


@pytest.mark.parametrize(
    ("change", "phase", "reason"),
    [
        ({"restartNonce": "2"}, "Pending", Reason.WAKING),
        ({"idle": {"timeoutSeconds": 0}}, "Pending", Reason.WAKING),
        ({"idle": {"timeoutSeconds": 60, "action": "Close"}}, "Closed", Reason.IDLE_TIMEOUT),
        ({"desiredState": "Stopped"}, "Stopped", Reason.STOPPED),
        ({"maxLifetimeSeconds": 400}, "Closed", Reason.MAX_LIFETIME_REACHED),
        ({"driver": {"memory": "2Gi"}}, "Hibernated", Reason.HIBERNATED),  # the next driver has it
    ],
    ids=["restart", "never idle", "close", "stop", "lifetime", "size"],
)
def test_a_changed_spec_means_what_it_says_to_one_that_sleeps(
    change: dict[str, Any], phase: str, reason: Reason
) -> None:
    assert told(without_driver(with_spec(hibernated(), **change), 500)) == (phase, reason)


def test_a_class_that_is_gone_wakes_nobody() -> None:
    gone = Violation(Reason.CLASS_NOT_FOUND, "no class")
    assert told(without_driver(hibernated(), 500, resolution=gone)) == ("Hibernated", Reason.HIBERNATED)


def test_a_limit_holds_for_one_that_wakes() -> None:
    obj = hibernated()
    obj = with_status(obj, without_driver(obj, 500, queued=1))
    full = Violation(Reason.LIMIT_EXCEEDED, "no place")
    assert told(without_driver(obj, 501, queued=1, limit_violation=full)) == ("Pending", Reason.LIMIT_EXCEEDED)


def test_a_driver_that_was_seen_to_end_is_not_waited_for_at_the_wake() -> None:
    obj = hibernated()
    assert obj.status.driver is not None and obj.status.driver.boot_id is None
    obj = with_status(obj, without_driver(obj, 9000, queued=1, pod_end=None))
    driver = without_driver(obj, 9000, queued=1, pod_end=None).status.driver
    assert driver is not None and driver.unconfirmed == ()


def test_driver_whose_end_nobody_saw_is_waited_for_at_the_wake() -> None:
    obj = ready(session(idle=SLEEPS))
    obj = with_status(obj, at(obj, 61))
    obj = with_status(obj, without_driver(obj, 70, pod_end=None))
    obj = with_status(obj, without_driver(obj, 90, queued=1, pod_end=None))
    driver = without_driver(obj, 90, queued=1, pod_end=None).status.driver
    assert driver is not None and driver.unconfirmed == (BOOT,)


@pytest.mark.parametrize("missing", [None, "statement 2 of 2, of SqlStatement views, could not run again: no table"])
def test_a_wake_says_what_came_back_and_what_did_not(missing: str | None) -> None:
    obj = hibernated(RESTORES, HOLDS)
    assert obj.status.kept_state is not None
    obj = with_status(obj, without_driver(obj, 500, queued=1))
    obj = with_status(obj, without_driver(obj, 500, queued=1))
    assert obj.status.kept_state is not None
    awake = at(obj, 505, queued=1, gateway=gateway(state_lost=missing, **HOLDS))
    assert (told(awake), awake.status.kept_state) == (("Ready", "Ready"), None)
    lost = conditions_of(awake.status).get("SessionStateLost")
    assert lost == (None if missing is None else ("True", Reason.SESSION_STATE_LOST))
    events = [event.message.text for event in awake.events]
    assert "2 statements that had changed the session ran again" in events[0]
    assert events[1:] == ([] if missing is None else ["what statements have set in the session is lost; see status"])
