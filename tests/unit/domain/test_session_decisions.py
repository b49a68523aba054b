"""What a session does in each phase: how long it waits for what, what brings it up again, and what ends it."""

from __future__ import annotations

from typing import Any

import pytest

from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase as Phase
from sparksql.api.session import SqlSession
from sparksql.domain.session.decide import FINALIZER_SECONDS, decide
from sparksql.domain.session.snapshot import Command, Deadlines, Decision
from sparksql.domain.session.status import with_phase
from sparksql.domain.session.steps import STABLE_SECONDS
from sparksql.domain.violation import Violation
from sparksql.wire.control import GatewayState, InitFailure, OperationError
from tests.support.mistakes import assert_answered
from tests.unit.domain.builders.conditions import conditions_of, reason_of
from tests.unit.domain.builders.objects import NOW, removed, seconds, with_spec, with_status
from tests.unit.domain.builders.sessions import draining, gateway, pod, ready, session, session_snapshot, starting

LIMITS = Deadlines()


def told(decision: Decision) -> tuple[Phase | None, str]:
    return decision.status.phase, reason_of(decision.status)


def later(obj: SqlSession, count: float, **facts: Any) -> Decision:
    return decide(session_snapshot(obj, now=NOW + seconds(count), **facts))


def served(obj: SqlSession, count: float, **facts: Any) -> Decision:
    """Decision on a session whose driver serves, `count` seconds after NOW."""
    return later(obj, count, **{"pod": pod(obj), "gateway": gateway(), **facts})


# --- start


def test_a_new_session_starts_its_first_driver() -> None:
    decision = decide(session_snapshot())
    assert told(decision) == (Phase.STARTING, Reason.DRIVER_STARTING)
    assert decision.commands == (Command.START_DRIVER,)
    driver = decision.status.driver
    assert driver is not None and driver.pod_name is not None
    assert (driver.incarnation, driver.pod_uid, driver.start_time) == (1, None, NOW)
    assert driver.pod_name.startswith("analytics-") and driver.pod_name.endswith("-1")
    assert "driver.memory" in {entry.name for entry in decision.status.configuration}


def test_a_start_whose_pod_was_not_made_is_asked_for_again() -> None:
    obj = starting()
    decision = later(obj, 1)
    assert (decision.commands, decision.status) == ((Command.START_DRIVER,), obj.status)


def test_a_driver_that_serves_makes_the_session_ready() -> None:
    status = ready().status
    assert (status.phase, reason_of(status)) == (Phase.READY, Reason.READY)
    assert status.driver is not None
    assert (status.driver.pod_uid, status.driver.boot_id) == ("pod-uid-1", "boot-1")


@pytest.mark.parametrize("facts", [{"gateway": None}, {"gateway": gateway(GatewayState.STARTING)}])
def test_a_running_pod_alone_is_not_enough(facts: dict[str, Any]) -> None:
    obj = starting()
    assert later(obj, 5, pod=pod(obj), **facts).status.phase is Phase.STARTING


@pytest.mark.parametrize(
    "reason", [Reason.CLASS_NOT_FOUND, Reason.NOT_ALLOWED, Reason.LIMIT_EXCEEDED, Reason.NOT_IMPLEMENTED]
)
def test_refused_session_is_stalled_and_starts_once_the_cause_is_gone(reason: Reason) -> None:
    decision = decide(session_snapshot(resolution=Violation(reason, "why")))
    assert told(decision) == (Phase.PENDING, reason)
    assert conditions_of(decision.status)["Stalled"] == ("True", reason)
    assert (decision.commands, decision.requeue_after) == ((), 30.0)
    assert [event.reason for event in decision.events] == [reason]
    obj = with_status(session(), decision)
    assert later(obj, 9000, resolution=Violation(reason, "why")).events == ()
    assert later(obj, 9000).status.phase is Phase.STARTING


def test_too_many_sessions_stall_the_next_one() -> None:
    decision = decide(
        session_snapshot(limit_violation=Violation(Reason.LIMIT_EXCEEDED, "2 sessions of class standard"))
    )
    assert told(decision) == (Phase.PENDING, Reason.LIMIT_EXCEEDED)
    assert decision.status.message == "2 sessions of class standard"
    assert conditions_of(decision.status)["Stalled"][0] == "True"


@pytest.mark.parametrize("reason", [Reason.STORAGE_NOT_READY, Reason.CHILD_CONFLICT, Reason.INIT_SOURCE_NOT_FOUND])
def test_an_obstacle_for_a_person_stalls(reason: Reason) -> None:
    decision = later(starting(), 1, start_blocker=Violation(reason, "why"))
    assert told(decision) == (Phase.PENDING, reason)
    assert conditions_of(decision.status)["Stalled"][0] == "True"
    assert decision.requeue_after == 30.0


@pytest.mark.parametrize("reason", [Reason.QUOTA_EXCEEDED, Reason.FAILED_CREATE])
def test_driver_that_cannot_be_created_is_waited_for_up_to_a_deadline(reason: Reason) -> None:
    obstacle, obj = Violation(reason, "the server's words"), starting()
    waits = later(obj, LIMITS.scheduling_seconds, start_blocker=obstacle)
    assert told(waits) == (Phase.STARTING, reason)
    assert waits.status.message == obstacle.message
    assert later(with_status(obj, waits), LIMITS.scheduling_seconds).commands == (Command.START_DRIVER,)
    over = later(obj, LIMITS.scheduling_seconds + 1, start_blocker=obstacle)
    assert told(over) == (Phase.STARTING, reason)
    assert conditions_of(over.status)["Stalled"] == ("True", reason)
    assert (over.status.failed_starts, over.requeue_after) == (1, 30.0)
    assert over.status.message == ("the server's words; start 1 was given up, the next one is at 2026-01-31T08:05:31Z")


@pytest.mark.parametrize(
    "reason", [Reason.QUOTA_EXCEEDED, Reason.FAILED_CREATE, Reason.INVALID_SPEC, Reason.NOT_ALLOWED]
)
def test_refused_start_is_repeated_with_growing_pauses_and_costs_no_incarnation(reason: Reason) -> None:
    obstacle, obj, at, pauses = Violation(reason, "the server's words"), starting(), 400.0, []
    for _ in range(6):
        obj = with_status(obj, later(obj, at, start_blocker=obstacle))
        assert obj.status.next_start_time is not None
        pauses.append((obj.status.next_start_time - NOW).total_seconds() - at)
        assert later(obj, at + pauses[-1] - 1).commands == ()
        at += pauses[-1]
        assert later(obj, at).commands == (Command.START_DRIVER,)
    assert pauses == [30, 60, 120, 240, 300, 300]
    assert obj.status.driver is not None and obj.status.driver.incarnation == 1
    made = later(obj, at, pod=pod(obj), gateway=gateway())
    assert (made.status.phase, made.status.failed_starts) == (Phase.READY, 0)


@pytest.mark.parametrize("change", [{"driver": {"memory": "2Gi"}}, {"conf": {"spark.sql.shuffle.partitions": "3"}}])
def test_changed_spec_ends_the_pause_before_the_next_start(change: dict[str, Any]) -> None:
    obj = starting()
    failed = with_status(obj, later(obj, 301, pod=pod(obj, unschedulable="no node fits")))
    assert later(failed, 302).commands == ()
    assert later(with_spec(failed, **change), 302).commands == (Command.START_DRIVER,)


@pytest.mark.parametrize(
    "reason",
    [
        Reason.UNSCHEDULABLE,
        Reason.IMAGE_PULL_FAILED,
        Reason.CONTAINER_NOT_STARTED,
        Reason.QUOTA_EXCEEDED,
        Reason.FAILED_CREATE,
    ],
)
def test_session_that_an_earlier_version_gave_up_for_the_cluster_starts_again(reason: Reason) -> None:
    obj = starting()
    status = with_phase(obj, NOW, Phase.FAILED, reason, "no room")
    assert later(obj.replace(status=status), 9).status.phase is Phase.PENDING


def test_session_in_a_terminating_namespace_starts_no_driver_and_does_not_fail() -> None:
    for obj in (session(), starting()):
        decision = later(obj, 9000, namespace_terminating=True)
        assert reason_of(decision.status) == Reason.NAMESPACE_TERMINATING
        assert decision.status.phase is not Phase.FAILED
        assert (decision.commands, decision.requeue_after) == ((), 5.0)
    refused = later(starting(), 9000, start_blocker=Violation(Reason.NAMESPACE_TERMINATING, "403"))
    assert refused.status.phase is Phase.STARTING


# --- deadlines of a driver on its way

MISTAKES = {
    Reason.UNSCHEDULABLE: "driver that fits no node",
    Reason.IMAGE_PULL_FAILED: "image that does not exist",
}


@pytest.mark.parametrize(
    ("facts", "limit", "reason"),
    [
        ({"unschedulable": "no node fits"}, LIMITS.scheduling_seconds, Reason.UNSCHEDULABLE),
        ({"image_problem": "ImagePullBackOff"}, LIMITS.image_pull_seconds, Reason.IMAGE_PULL_FAILED),
        (
            {"container_problem": 'CreateContainerConfigError: secret "keys" not found'},
            LIMITS.image_pull_seconds + LIMITS.driver_start_seconds,
            Reason.CONTAINER_NOT_STARTED,
        ),
    ],
)
def test_a_pod_that_cannot_run_is_given_up_at_its_deadline_and_started_again(
    facts: dict[str, Any], limit: float, reason: Reason
) -> None:
    obj = starting()
    waits = later(obj, limit, pod=pod(obj, **facts))
    assert told(waits) == (Phase.STARTING, reason)
    assert waits.requeue_after == 5.0
    over = later(obj, limit + 1, pod=pod(obj, **facts))
    assert told(over) == (Phase.PENDING, reason)
    assert over.commands == (Command.DELETE_DRIVER,)
    assert next(iter(facts.values())) in (over.status.message or "")
    assert conditions_of(over.status)["Stalled"] == ("True", reason)
    if (mistake := MISTAKES.get(reason)) is not None:
        assert_answered(mistake, over.status.message or "")
    obj = with_status(with_status(obj, waits), over)
    still = later(obj, limit + 2, pod=pod(obj, **facts))
    assert (still.status, still.commands) == (obj.status, (Command.DELETE_DRIVER,))
    again = later(obj, limit + 31)
    assert (told(again), again.commands) == ((Phase.STARTING, Reason.DRIVER_STARTING), (Command.START_DRIVER,))
    obj = with_status(obj, again)
    assert conditions_of(later(obj, limit + 40, pod=pod(obj, **facts)).status)["Stalled"] == ("True", reason)


@pytest.mark.parametrize(
    ("facts", "limit"),
    [({"started": NOW}, LIMITS.driver_start_seconds), ({}, LIMITS.driver_start_seconds + LIMITS.image_pull_seconds)],
    ids=["container runs", "container not started"],
)
def test_a_driver_that_does_not_get_ready_is_replaced(facts: dict[str, Any], limit: float) -> None:
    obj = starting()
    assert told(later(obj, limit, pod=pod(obj, **facts))) == (Phase.STARTING, Reason.DRIVER_STARTING)
    over = later(obj, limit + 1, pod=pod(obj, **facts))
    assert told(over) == (Phase.PENDING, Reason.DRIVER_NOT_READY)
    assert over.commands == (Command.DELETE_DRIVER,)
    assert over.status.restarts == 1


def test_a_failing_init_statement_fails_the_session_at_once() -> None:
    obj = starting()
    failure = InitFailure(position=2, statement="CREATE X", error=OperationError(message="no such thing"))
    word = gateway(GatewayState.INIT_FAILED, init_failure=failure)
    decision = later(obj, 5, pod=pod(obj, ended="exit code 1"), gateway=word)
    assert told(decision) == (Phase.FAILED, Reason.INIT_FAILED)
    assert decision.status.restarts == 0
    for part in ("statement 2", "CREATE X", "no such thing"):
        assert part in (decision.status.message or "")


def test_a_database_that_cannot_be_used_fails_the_session_and_names_the_field() -> None:
    obj = starting()
    failure = InitFailure(
        position=0, statement="CREATE DATABASE IF NOT EXISTS `team_a`", error=OperationError(message="no metastore")
    )
    word = gateway(GatewayState.INIT_FAILED, init_failure=failure)
    decision = later(obj, 5, pod=pod(obj, ended="exit code 1"), gateway=word)
    assert told(decision) == (Phase.FAILED, Reason.INIT_FAILED)
    for part in ("spec.database", "`team_a`", "no metastore", "restartNonce"):
        assert part in (decision.status.message or "")


def test_a_frontend_that_cannot_serve_fails_the_session_and_names_it() -> None:
    obj = starting()
    failure = InitFailure(
        position=0, statement="", frontend="lines", error=OperationError(message="LookupError: no lines")
    )
    word = gateway(GatewayState.INIT_FAILED, init_failure=failure)
    decision = later(obj, 5, pod=pod(obj), gateway=word)
    assert told(decision) == (Phase.FAILED, Reason.INIT_FAILED)
    for part in ("spec.frontends of the class: lines", "no lines", "session image", "restartNonce"):
        assert part in (decision.status.message or "")


# --- restarts


def lost(obj: SqlSession, count: float) -> Decision:
    return later(obj, count, pod=pod(obj, ended="exit code 137"), gateway=None)


def test_a_lost_driver_is_replaced_with_backoff_a_bounded_number_of_times() -> None:
    obj, now, pauses = starting(), 0.0, []
    for restart in (1, 2, 3):
        decision = lost(obj, now)
        assert told(decision) == (Phase.PENDING, Reason.DRIVER_LOST)
        assert decision.status.restarts == restart
        assert decision.requeue_after is not None
        pauses.append(decision.requeue_after)
        obj = with_status(obj, decision)
        assert later(obj, now + pauses[-1] - 0.5).commands == ()
        now += pauses[-1]
        obj = with_status(obj, later(obj, now))
        assert obj.status.driver is not None and obj.status.driver.incarnation == restart + 1
    assert pauses == [1, 2, 4]
    over = lost(obj, now)
    assert told(over) == (Phase.FAILED, Reason.MAX_RESTARTS_EXCEEDED)
    assert [(event.type, event.reason) for event in over.events] == [("Warning", Reason.MAX_RESTARTS_EXCEEDED)]
    last_loss = "DriverLost: the driver ended while starting: exit code 137"
    for part in ("gave up after 3 restarts", last_loss, "restartNonce"):
        assert part in (over.status.message or "")


def test_session_whose_init_ends_each_driver_is_given_up_and_names_the_init() -> None:
    obj = starting(session(init=[{"sql": "SELECT 1"}]))
    obj = obj.replace(status=obj.status.replace(restarts=3))
    over = later(obj, 9, pod=pod(obj, ended="exit code 137"))
    assert told(over) == (Phase.FAILED, Reason.MAX_RESTARTS_EXCEEDED)
    wanted = "the driver ended while starting, when the statements of spec.init run: exit code 137"
    assert wanted in (over.status.message or "")


def test_losses_of_drivers_that_ran_statements_do_not_count_towards_giving_the_session_up() -> None:
    obj = ready()
    obj = obj.replace(status=obj.status.replace(restarts=3))
    decision = later(obj, 9, pod=pod(obj, ended="exit code 139"), in_hand=1)
    assert told(decision) == (Phase.PENDING, Reason.DRIVER_LOST)
    assert (decision.status.restarts, decision.requeue_after) == (3, 4)
    assert "counted by the statements that it ran; restart in 4 s" in decision.events[0].message.text
    assert told(later(obj, 9, pod=pod(obj, ended="exit code 139"))) == (Phase.FAILED, Reason.MAX_RESTARTS_EXCEEDED)


def test_a_driver_that_never_gets_ready_is_given_up_and_its_last_loss_is_told() -> None:
    obj = starting()
    obj = obj.replace(status=obj.status.replace(restarts=3))
    over = later(obj, LIMITS.driver_start_seconds + 1, pod=pod(obj, started=NOW))
    assert told(over) == (Phase.FAILED, Reason.MAX_RESTARTS_EXCEEDED)
    assert over.commands == (Command.DELETE_DRIVER,)
    assert "the last loss was DriverNotReady: the driver was not ready" in (over.status.message or "")


@pytest.mark.parametrize(("gone", "what"), [(True, "disappeared"), (False, "exit code 137")])
def test_a_driver_lost_while_ready_is_replaced(gone: bool, what: str) -> None:
    obj = ready()
    decision = later(obj, 9, pod=None if gone else pod(obj, ended="exit code 137"))
    assert told(decision) == (Phase.PENDING, Reason.DRIVER_LOST)
    assert what in (decision.status.message or "")


def test_the_old_pod_must_be_gone_before_a_new_one_starts() -> None:
    obj = with_status(ready(), lost(ready(), 9))
    decision = later(obj, 60, pod=pod(obj, ended="exit code 137"))
    assert told(decision) == (Phase.PENDING, Reason.DRIVER_TERMINATING)
    assert decision.commands == (Command.DELETE_DRIVER,)
    assert later(obj, 60).commands == (Command.START_DRIVER,)


def test_a_stable_driver_makes_earlier_restarts_forgotten() -> None:
    obj = ready(session(idle={"timeoutSeconds": 0}))
    obj = obj.replace(status=obj.status.replace(restarts=3))
    assert served(obj, STABLE_SECONDS).status.restarts == 3
    assert served(obj, STABLE_SECONDS + 1).status.restarts == 0
    assert lost(obj, STABLE_SECONDS).status.phase is Phase.FAILED
    assert lost(obj, STABLE_SECONDS + 1).status.restarts == 1


def test_lost_session_state_is_told() -> None:
    obj = ready()
    decision = later(obj, 9, gateway=gateway(has_session_state=True))
    assert conditions_of(decision.status)["SessionStateLost"] == ("True", Reason.SESSION_STATE_LOST)
    assert Reason.SESSION_STATE_LOST in [event.reason for event in decision.events]
    assert "SessionStateLost" not in conditions_of(later(obj, 9, gateway=gateway()).status)


@pytest.mark.parametrize("change", [{"restartNonce": "again"}, {"driver": {"memory": "2Gi"}}])
def test_a_failed_session_starts_again_when_a_person_acts(change: dict[str, Any]) -> None:
    obj = starting()
    failed = with_status(obj, later(obj, 5, pod=pod(obj), gateway=gateway(GatewayState.INIT_FAILED)))
    assert later(failed, 99999).status.phase is Phase.FAILED
    renewed = with_status(failed, later(with_spec(failed, **change), 10))
    assert (renewed.status.phase, renewed.status.restarts) == (Phase.PENDING, 0)
    again = later(with_spec(renewed, **change), 11)
    assert again.status.driver is not None and again.status.driver.incarnation == 2


# --- wishes

WISHES = [
    ({"desiredState": "Stopped"}, Reason.STOPPED, Phase.STOPPED),
    ({"restartNonce": "again"}, Reason.RESTART_REQUESTED, Phase.PENDING),
    ({"conf": {"spark.sql.shuffle.partitions": "3"}}, Reason.SPEC_CHANGED, Phase.PENDING),
]


@pytest.mark.parametrize(("change", "reason", "then"), WISHES)
def test_stop_restart_or_spec_change_drains_the_driver_before_it_takes_effect(
    change: dict[str, Any], reason: Reason, then: Phase
) -> None:
    obj = draining(with_spec(ready(), **change))
    assert (obj.status.phase, reason_of(obj.status)) == (Phase.DRAINING, reason)
    waits = served(obj, LIMITS.drain_seconds - 1, running=2)
    assert (told(waits), waits.commands) == ((Phase.DRAINING, reason), ())
    assert waits.requeue_after is not None and waits.requeue_after <= 1.1
    assert served(obj, LIMITS.drain_seconds, running=2).commands == (Command.DELETE_DRIVER,)
    assert served(obj, 1).commands == (Command.DELETE_DRIVER,)
    ended = later(obj, 2)
    assert ended.status.phase is then
    if then is Phase.PENDING:
        assert later(with_status(obj, ended), 2).commands == (Command.START_DRIVER,)


@pytest.mark.parametrize(
    "change", [{"idle": {"timeoutSeconds": 9}}, {"maxQueuedStatements": 1}, {"statementTimeouts": {"queueSeconds": 1}}]
)
def test_changed_setting_the_driver_does_not_use_leaves_the_session_ready(change: dict[str, Any]) -> None:
    assert served(with_spec(ready(), **change), 1).status.phase is Phase.READY


def test_a_stopped_session_starts_again_when_it_is_wanted() -> None:
    asleep = with_status(session(), decide(session_snapshot(session(desiredState="Stopped"))))
    assert asleep.status.phase is Phase.STOPPED
    still = later(with_spec(asleep, desiredState="Stopped"), 99999)
    assert (still.status.phase, still.commands, still.requeue_after) == (Phase.STOPPED, (), None)
    assert later(with_spec(asleep, desiredState="Running"), 10).commands == (Command.START_DRIVER,)


def test_a_stopped_session_that_is_wanted_again_waits_for_quota_from_then_on() -> None:
    asleep = with_status(session(), decide(session_snapshot(session(desiredState="Stopped"))))
    wanted, obstacle = with_spec(asleep, desiredState="Running"), Violation(Reason.QUOTA_EXCEEDED, "exceeded quota")
    waits = later(wanted, 99999, start_blocker=obstacle)
    assert told(waits) == (Phase.PENDING, Reason.QUOTA_EXCEEDED)
    end = later(with_status(wanted, waits), 99999 + LIMITS.scheduling_seconds + 1, start_blocker=obstacle)
    assert told(end) == (Phase.PENDING, Reason.QUOTA_EXCEEDED)
    assert conditions_of(end.status)["Stalled"] == ("True", Reason.QUOTA_EXCEEDED)


def test_a_stop_taken_back_while_draining_starts_again() -> None:
    obj = draining(with_spec(ready(), desiredState="Stopped"))
    assert later(with_spec(obj, desiredState="Running"), 9).status.phase is Phase.PENDING


# --- idle and lifetime


def test_an_idle_session_with_close_is_closed_for_good() -> None:
    obj = ready(session(idle={"timeoutSeconds": 60, "action": "Close"}))
    almost = served(obj, 59)
    assert almost.status.phase is Phase.READY
    assert almost.requeue_after is not None and almost.requeue_after <= 1
    for busy in ({"running": 1}, {"queued": 1}, {"gateway": gateway(last_activity_time=NOW + seconds(30))}):
        assert served(obj, 60, **busy).status.phase is Phase.READY
    over = with_status(obj, served(obj, 60))
    assert (over.status.phase, reason_of(over.status)) == (Phase.DRAINING, Reason.IDLE_TIMEOUT)
    closed = with_status(over, later(over, 70))
    assert (closed.status.phase, reason_of(closed.status)) == (Phase.CLOSED, Reason.IDLE_TIMEOUT)
    revived = later(with_spec(closed, restartNonce="again", driver={"memory": "2Gi"}), 99)
    assert (revived.status.phase, revived.commands) == (Phase.CLOSED, ())


def test_a_session_past_its_lifetime_drains_and_closes() -> None:
    obj = ready(session(maxLifetimeSeconds=100))
    assert served(obj, 99, running=1).status.phase is Phase.READY
    over = with_status(obj, served(obj, 100, running=1))
    assert (over.status.phase, reason_of(over.status)) == (Phase.DRAINING, Reason.MAX_LIFETIME_REACHED)
    assert told(later(over, 110)) == (Phase.CLOSED, Reason.MAX_LIFETIME_REACHED)


def test_counters_are_written_at_most_every_five_seconds() -> None:
    obj = ready()
    early = served(obj, 3, running=1)
    assert (early.status.statements, early.requeue_after) == (obj.status.statements, 2.0)
    counts = served(obj, 5, running=1, queued=2).status.statements
    assert counts is not None and (counts.running, counts.queued) == (1, 2)


# --- deletion


def test_deletion_lets_statements_end_first_and_then_the_driver() -> None:
    obj = removed(ready(), NOW)
    first = served(obj, 1, running=1)
    assert (told(first), first.commands, first.finalizer) == ((Phase.DRAINING, Reason.DELETING), (), True)
    assert served(obj, 15, running=1).commands == (Command.DELETE_DRIVER,)
    assert served(obj, 1).commands == (Command.DELETE_DRIVER,)
    assert later(obj, 2, queued=1).finalizer
    done = later(obj, 2)
    assert (done.finalizer, done.events) == (False, ())


def test_session_deletion_ends_at_its_deadline_with_a_warning() -> None:
    obj = removed(ready(), NOW)
    almost = served(obj, FINALIZER_SECONDS - 0.2)
    assert almost.finalizer
    assert almost.requeue_after is not None and almost.requeue_after <= 0.2 + 1e-6
    over = served(obj, FINALIZER_SECONDS, running=1)
    assert not over.finalizer
    assert [(event.type, event.reason) for event in over.events] == [("Warning", Reason.FINALIZER_DEADLINE)]


def test_deletion_in_a_terminating_namespace_lets_go_at_once() -> None:
    decision = served(removed(ready(), NOW), 0, running=1, namespace_terminating=True)
    assert (decision.finalizer, decision.events) == (False, ())


# --- what the status tells of the session's surroundings


@pytest.mark.parametrize("obj", [session(), ready(), session(className=None)])
def test_decision_of_any_phase_writes_the_class_taken_and_the_front(obj: SqlSession) -> None:
    front = "spark-sql-front.spark-sql-system.svc"
    decision = decide(session_snapshot(obj, front=front))
    assert (decision.status.class_name, decision.status.front) == ("standard", front)
    assert decide(session_snapshot(with_status(obj, decision))).status.front is None


def test_session_whose_class_does_not_exist_writes_the_class_of_its_spec() -> None:
    missing = Violation(Reason.CLASS_NOT_FOUND, "there is none")
    assert decide(session_snapshot(session(className="standart"), resolution=missing)).status.class_name == "standart"
