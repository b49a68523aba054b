"""Fields that have no effect in local mode: the session names them in a condition, and nothing else changes."""

from __future__ import annotations

from sparksql.api.conditions import find_condition
from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase as Phase
from sparksql.api.session import SqlSession
from sparksql.domain.session.decide import decide
from sparksql.domain.session.local_mode import fields_not_applied
from sparksql.domain.session.snapshot import Decision
from tests.unit.domain.builders.classes import session_class
from tests.unit.domain.builders.conditions import conditions_of
from tests.unit.domain.builders.objects import NOW, seconds, with_status
from tests.unit.domain.builders.sessions import gateway, pod, ready, session, session_snapshot

FIELDS = ("spec.executors", "spec.image")


def _serving(obj: SqlSession, *fields: str, after: float = 5) -> Decision:
    snapshot = session_snapshot(obj, now=NOW + seconds(after), pod=pod(obj), gateway=gateway(), not_applied=fields)
    return decide(snapshot)


def test_session_on_a_cluster_has_no_condition_of_local_mode() -> None:
    assert "LocalMode" not in conditions_of(_serving(ready()).status)


def test_fields_without_effect_are_named_and_the_session_stays_ready() -> None:
    decision = _serving(ready(), *FIELDS)
    assert (decision.status.phase, decision.commands) == (Phase.READY, ())
    assert conditions_of(decision.status)["LocalMode"] == ("True", Reason.NOT_APPLIED)
    condition = find_condition(decision.status.conditions, "LocalMode")
    assert condition is not None and "spec.executors, spec.image" in condition.message


def test_local_mode_condition_keeps_the_time_and_is_removed_with_the_fields() -> None:
    first = _serving(ready(), *FIELDS)
    obj = with_status(ready(), first)
    again = _serving(obj, *FIELDS, after=60)
    times = [find_condition(each.status.conditions, "LocalMode") for each in (first, again)]
    assert times[0] is not None and times[1] is not None
    assert times[0].last_transition_time == times[1].last_transition_time
    assert "LocalMode" not in conditions_of(_serving(obj, after=60).status)


def test_fields_without_effect_are_those_of_pods() -> None:
    plain = session_class()
    assert fields_not_applied(session(), plain) == ()
    asked = session(executors={"instances": 2}, image="i", serviceAccountName="a")
    assert fields_not_applied(asked, None) == ("spec.executors", "spec.image", "spec.serviceAccountName")
    offered = session_class(
        podTemplate={"driver": {"spec": {"nodeSelector": {"a": "b"}}}},
        scheduling={"priorityClassName": "high"},
        warmPool={"size": 1},
    )
    fields = fields_not_applied(session(), offered)
    assert [field.split(" of class")[0] for field in fields] == ["spec.podTemplate", "spec.scheduling", "spec.warmPool"]
