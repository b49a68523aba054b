"""What a session shows of its executors: counts, what missing ones wait for, and those that failed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparksql.api.conditions import find_condition
from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase as Phase
from sparksql.api.session import SqlSession
from sparksql.domain.session.decide import decide
from sparksql.domain.session.executors import MISSING_SECONDS, lacks_pods
from sparksql.domain.session.snapshot import Decision, ExecutorFailure, PodFacts
from sparksql.domain.violation import Violation
from tests.unit.domain.builders.conditions import conditions_of
from tests.unit.domain.builders.objects import NOW, seconds, with_status
from tests.unit.domain.builders.sessions import gateway, pod, ready, session, session_snapshot

NO_ROOM = "0/3 nodes are available: 3 Insufficient memory."
QUOTA = Violation(Reason.QUOTA_EXCEEDED, "exceeded quota: compute, used: pods=4, limited: pods=4")


def executor(number: int, **facts: Any) -> PodFacts:
    return PodFacts(f"d-exec-{number}", f"e{number}", NOW, **facts)


RUNS = executor(1, started=NOW)


def looked_at(obj: SqlSession, count: float = 10, *executors: PodFacts, **facts: Any) -> Decision:
    known = {"pod": pod(obj), "gateway": gateway(), **facts}
    return decide(session_snapshot(obj, now=NOW + seconds(count), executors=executors, **known))


def two() -> SqlSession:
    return ready(session(executors={"instances": 2}))


def message(decision: Decision, type_: str = "ExecutorsReady") -> str:
    found = find_condition(decision.status.conditions, type_)
    return found.message if found is not None else ""


@pytest.mark.parametrize(
    ("waiting", "reason", "words"),
    [
        ({"unschedulable": NO_ROOM, "has_node": False}, Reason.UNSCHEDULABLE, NO_ROOM),
        ({"image_problem": "ErrImagePull: no such image"}, Reason.IMAGE_PULL_FAILED, "no such image"),
        ({"container_problem": "FailedMount: no Secret keys"}, Reason.CONTAINER_NOT_STARTED, "no Secret keys"),
        ({"gates": ("kueue.x-k8s.io/admission",)}, Reason.WAITING_IN_QUEUE, "kueue.x-k8s.io/admission"),
    ],
)
def test_session_with_an_executor_that_waits_shows_counts_and_cause(
    waiting: dict[str, Any], reason: Reason, words: str
) -> None:
    decision = looked_at(two(), 10, RUNS, executor(2, **waiting))
    assert decision.status.phase is Phase.READY
    shown = decision.status.executors
    assert shown is not None
    assert (shown.wanted, shown.ready, shown.pending, shown.summary) == (2, 1, 1, "1/2")
    assert words in (shown.message or "")
    assert conditions_of(decision.status)["ExecutorsReady"] == ("False", reason)
    assert message(decision).startswith("1 of 2 executors are ready: pod d-exec-2") or reason is Reason.WAITING_IN_QUEUE
    assert [event.reason for event in decision.events] == [reason]
    assert looked_at(with_status(two(), decision), 20, RUNS, executor(2, **waiting)).events == ()


def test_session_with_all_executors_is_ready_and_shows_no_cause() -> None:
    decision = looked_at(two(), 10, RUNS, executor(2, started=NOW), executor(3, ended="Error, exit code 1"))
    assert conditions_of(decision.status)["ExecutorsReady"] == ("True", "ExecutorsReady")
    assert decision.status.executors is not None
    assert (decision.status.executors.summary, decision.status.executors.message) == ("2/2", None)


def test_executors_that_start_as_they_should_are_no_problem() -> None:
    decision = looked_at(two(), 10, RUNS, executor(2))
    assert conditions_of(decision.status)["ExecutorsReady"] == ("False", "ExecutorsStarting")
    assert (decision.events, decision.requeue_after) == ((), MISSING_SECONDS)


def test_executor_that_the_quota_refuses_is_asked_for_after_a_while_and_shown() -> None:
    obj = with_status(two(), looked_at(two(), 10, RUNS))
    facts = {"executors": (RUNS,), "pod": pod(obj), "gateway": gateway()}
    early = session_snapshot(obj, now=NOW + seconds(MISSING_SECONDS - 1), **facts)
    late = session_snapshot(obj, now=NOW + seconds(MISSING_SECONDS + 1), **facts)
    assert (lacks_pods(early), lacks_pods(late)) == (False, True)
    assert not lacks_pods(replace(late, executors=(RUNS, executor(2))))
    decision = decide(replace(late, executor_refusal=QUOTA))
    assert conditions_of(decision.status)["ExecutorsReady"] == ("False", Reason.QUOTA_EXCEEDED)
    assert QUOTA.message in message(decision)


def test_wanted_executors_are_the_drivers_own_count_where_it_has_one() -> None:
    obj = ready(session(executors={"min": 0, "max": 10}))
    assert looked_at(obj, 10).status.executors.summary == "0/0"  # type: ignore[union-attr]
    said = looked_at(obj, 10, gateway=gateway(executors_wanted=4))
    assert said.status.executors is not None and said.status.executors.summary == "0/4"


@pytest.mark.parametrize(
    ("failure", "remedy"),
    [
        (ExecutorFailure("d-exec-3", NOW, "OOMKilled, exit code 137", out_of_memory=True), "spec.executors.memory"),
        (ExecutorFailure("d-exec-3", NOW, "Error, exit code 1"), "see the log of pod d-exec-3"),
    ],
)
def test_failed_executors_are_counted_with_their_last_end_and_the_remedy(failure: ExecutorFailure, remedy: str) -> None:
    earlier = ExecutorFailure("d-exec-1", NOW - seconds(60), "Error, exit code 9")
    decision = looked_at(two(), 10, RUNS, executor(4, started=NOW), executor_failures=(failure, earlier))
    assert conditions_of(decision.status)["ExecutorsFailing"] == ("True", "ExecutorsFailing")
    assert f"within the last hour 2 executors failed, the last one with {failure.end}: " in message(
        decision, "ExecutorsFailing"
    )
    assert remedy in message(decision, "ExecutorsFailing")
    assert [event.reason for event in decision.events] == ["ExecutorsFailing"]
    assert "ExecutorsFailing" not in conditions_of(looked_at(with_status(two(), decision), 3700, RUNS).status)


def test_executors_of_a_driver_that_is_gone_are_not_shown() -> None:
    obj = with_status(two(), looked_at(two(), 10, RUNS))
    assert obj.status.executors is not None
    assert decide(session_snapshot(obj, now=NOW + seconds(20))).status.executors is None
