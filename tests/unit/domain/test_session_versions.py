"""A driver of another version: the session says so, and nothing else happens to it."""

from __future__ import annotations

from typing import Any

import pytest

from sparksql.api.reasons import Reason
from sparksql.api.session import SessionPhase as Phase
from sparksql.api.session import SqlSession, SqlSessionSpec
from sparksql.domain.session.decide import decide
from sparksql.domain.session.desired import driver_spec_hash
from sparksql.domain.session.snapshot import Decision
from sparksql.domain.session.versions import incompatibility
from sparksql.domain.statement import decide as statement_decide
from sparksql.domain.statement.snapshot import SessionFacts
from sparksql.wire import versions
from tests.unit.domain.builders.conditions import conditions_of, reason_of
from tests.unit.domain.builders.objects import NOW, seconds, with_status
from tests.unit.domain.builders.sessions import gateway, pod, ready, session, session_snapshot, starting
from tests.unit.domain.builders.statements import statement, statement_snapshot

OWN = 5
CASES = {
    "older": ({"protocol_version": 4}, Reason.OLDER_DRIVER, "Normal", "restartNonce"),
    "newer": ({"protocol_version": 9, "oldest_operator_version": 5}, Reason.NEWER_DRIVER, "Normal", "of the operator"),
    "too old": ({"protocol_version": 2}, Reason.INCOMPATIBLE_DRIVER, "Warning", "restartNonce"),
    "too new": (
        {"protocol_version": 9, "oldest_operator_version": 6},
        Reason.INCOMPATIBLE_DRIVER,
        "Warning",
        "upgrade the operator",
    ),
}


@pytest.fixture(autouse=True)
def _versions(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (versions, "sparksql.domain.session.versions"):
        prefix = module if isinstance(module, str) else module.__name__
        monkeypatch.setattr(f"{prefix}.PROTOCOL_VERSION", OWN)
        monkeypatch.setattr(f"{prefix}.OLDEST_GATEWAY", 3)


def serving(obj: SqlSession, count: float = 5, **word: Any) -> Decision:
    known = {"protocol_version": OWN, **word}
    return decide(session_snapshot(obj, now=NOW + seconds(count), pod=pod(obj), gateway=gateway(**known)))


@pytest.mark.parametrize(("word", "reason", "type_", "remedy"), CASES.values(), ids=CASES)
def test_driver_version_skew_is_reported_once_and_the_session_stays_ready(
    word: dict[str, int], reason: Reason, type_: str, remedy: str
) -> None:
    obj = ready()
    decision = serving(obj, **word)
    assert (decision.status.phase, decision.commands) == (Phase.READY, ())
    assert decision.status.driver == obj.status.driver
    assert conditions_of(decision.status)["VersionSkew"] == ("True", reason)
    assert conditions_of(decision.status)["Ready"] == ("True", Reason.READY)
    [event] = decision.events
    assert (event.type, event.reason) == (type_, reason)
    assert f"version {word['protocol_version']}" in event.message.text and remedy in event.message.text
    again = serving(with_status(obj, decision), 10, **word)
    assert (again.events, "VersionSkew" in conditions_of(again.status)) == ((), True)


def test_a_driver_that_starts_is_told_of_as_well() -> None:
    obj = starting()
    decision = serving(obj, protocol_version=4)
    assert (decision.status.phase, reason_of(decision.status)) == (Phase.READY, Reason.READY)
    assert conditions_of(decision.status)["VersionSkew"] == ("True", Reason.OLDER_DRIVER)
    assert [event.reason for event in decision.events] == [Reason.READY, Reason.OLDER_DRIVER]


def test_version_skew_is_kept_until_the_driver_answers_and_goes_with_the_difference() -> None:
    """An operator that has just started has not heard of its drivers yet."""
    obj = ready()
    obj = with_status(obj, serving(obj, protocol_version=4))
    silent = decide(session_snapshot(obj, now=NOW + seconds(10), pod=pod(obj)))
    assert (conditions_of(silent.status)["VersionSkew"], silent.events) == (("True", Reason.OLDER_DRIVER), ())
    spoken = serving(with_status(obj, silent), 15)
    assert ("VersionSkew" in conditions_of(spoken.status), spoken.events) == (False, ())


def test_statements_wait_for_a_driver_that_is_not_understood_and_say_why() -> None:
    told = incompatibility(gateway(protocol_version=2))
    assert told is not None and incompatibility(gateway(protocol_version=4)) is None
    facts = SessionFacts("analytics", Phase.READY, incompatibility=told)
    decision = statement_decide.decide(statement_snapshot(statement(), session=facts))
    assert (str(decision.status.phase), reason_of(decision.status)) == ("Initialized", Reason.SESSION_NOT_READY)
    assert told in conditions_text(decision)
    assert decision.commands == ()


def conditions_text(decision: Any) -> str:
    return " ".join(condition.message for condition in decision.status.conditions)


def test_an_upgrade_of_the_operator_asks_for_no_other_driver() -> None:
    """A new field of a session's spec must not be in the hash of a spec that does not set it: leave it None by default."""
    spec = SqlSessionSpec.parse({"className": "standard"})
    full = session(conf={"spark.sql.ansi.enabled": "true"}, driver={"cpu": "1", "memory": "1Gi"}).spec
    assert (driver_spec_hash(spec), driver_spec_hash(full)) == ("5ef185f756383d31", "10bfa3cf218cc0df")
