"""A statement's own settings: over the session's layers, within the limits of the class. And its identity."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.api.reasons import Reason
from sparksql.api.session import SessionTemplate
from sparksql.api.settings import SessionSettings
from sparksql.domain.statement.identity import operation_id, sql_hash
from sparksql.domain.statement.settings import resolve
from sparksql.domain.statement.snapshot import Settings
from sparksql.domain.violation import Violation
from tests.unit.domain.builders.classes import session_class
from tests.unit.domain.builders.statements import statement


def resolved(
    *,
    template: dict[str, Any] | None = None,
    klass: dict[str, Any] | None = None,
    operator: dict[str, Any] | None = None,
    **spec: Any,
) -> Settings | Violation:
    return resolve(
        statement(**spec).spec,
        SessionTemplate.parse(template or {}),
        session_class(**(klass or {})),
        SessionSettings.parse(operator or {}),
    )


def allowed(**asked: Any) -> Settings:
    made = resolved(**asked)
    assert isinstance(made, Settings), made
    return made


def refused(**asked: Any) -> Violation:
    made = resolved(**asked)
    assert isinstance(made, Violation), made
    return made


def timeouts(**seconds: int) -> dict[str, Any]:
    return {"statementTimeouts": seconds}


def test_without_any_wish_there_is_no_limit() -> None:
    wanted = Settings(conf={}, queue_seconds=0, execution_seconds=0, preview_rows=20, class_name="standard")
    assert allowed() == wanted


def test_streaming_statement_has_only_the_execution_limit_that_it_asks_for() -> None:
    layers: dict[str, Any] = {"klass": {"limits": {"executionSeconds": 5}}, "template": timeouts(executionSeconds=3)}
    assert allowed(**layers).execution_seconds == 3
    assert allowed(**layers, streaming={}).execution_seconds == 0
    assert allowed(**layers, streaming={}, timeouts={"executionSeconds": 60}).execution_seconds == 60
    assert allowed(**layers, streaming={}, mode="Preview").execution_seconds == 3


def test_place_of_checkpoints_is_the_classs() -> None:
    assert allowed().checkpoint_root is None
    assert allowed(klass={"storage": {"checkpointRoot": "s3a://b/c"}}).checkpoint_root == "s3a://b/c"


def test_timeouts_of_each_layer_lie_over_those_below() -> None:
    layers: dict[str, Any] = {"operator": timeouts(queueSeconds=1, executionSeconds=1)}
    assert allowed(**layers).queue_seconds == 1
    layers["klass"] = {"defaults": timeouts(queueSeconds=2)}
    layers["template"] = timeouts(executionSeconds=3)
    merged = allowed(**layers)
    assert (merged.queue_seconds, merged.execution_seconds) == (2, 3)
    merged = allowed(**layers, timeouts={"queueSeconds": 4})
    assert (merged.queue_seconds, merged.execution_seconds) == (4, 3)


def test_zero_of_a_statement_lifts_the_timeouts_below() -> None:
    merged = allowed(
        template=timeouts(queueSeconds=9, executionSeconds=9), timeouts={"queueSeconds": 0, "executionSeconds": 0}
    )
    assert (merged.queue_seconds, merged.execution_seconds) == (0, 0)


@pytest.mark.parametrize("asked", [0, 101])
def test_more_time_than_the_class_allows_is_refused(asked: int) -> None:
    violation = refused(klass={"limits": {"executionSeconds": 100}}, timeouts={"executionSeconds": asked})
    assert violation.reason is Reason.LIMIT_EXCEEDED
    assert "spec.timeouts.executionSeconds" in violation.message
    assert "100 s" in violation.message


@pytest.mark.parametrize(("asked", "given_"), [(100, 100), (7, 7)])
def test_time_within_the_limit_is_given(asked: int, given_: int) -> None:
    limits = {"limits": {"executionSeconds": 100}}
    assert allowed(klass=limits, timeouts={"executionSeconds": asked}).execution_seconds == given_


@pytest.mark.parametrize("below", [{}, timeouts(executionSeconds=0), timeouts(executionSeconds=500)])
def test_the_class_limit_holds_for_who_asked_for_nothing(below: dict[str, Any]) -> None:
    limits = {"limits": {"executionSeconds": 100}}
    assert allowed(klass=limits, template=below).execution_seconds == 100
    assert allowed(klass=limits, template=below, timeouts={"queueSeconds": 1}).execution_seconds == 100


@given(st.integers(0, 300), st.integers(0, 300), st.none() | st.integers(0, 300))
def test_no_statement_runs_longer_than_the_class_allows(most: int, below: int, own: int | None) -> None:
    asked = {} if own is None else {"executionSeconds": own}
    made = resolved(
        klass={"limits": {"executionSeconds": most}}, template=timeouts(executionSeconds=below), timeouts=asked
    )
    if isinstance(made, Settings) and most:
        assert 0 < made.execution_seconds <= most
    if own is not None and (own if most == 0 else 0 < own <= most):
        assert isinstance(made, Settings)
        assert made.execution_seconds == own


@pytest.mark.parametrize(("asked", "most", "shown"), [(5, 100, 5), (500, 100, 100), (20, 0, 0)])
def test_preview_rows_are_cut_to_the_class(asked: int, most: int, shown: int) -> None:
    made = allowed(klass={"limits": {"previewRows": most}}, result={"previewRows": asked})
    assert made.preview_rows == shown


def test_conf_is_the_statements_own() -> None:
    """The session's conf is the driver's already; a statement sends only what it adds."""
    made = allowed(template={"conf": {"spark.sql.ansi.enabled": "1"}}, conf={"spark.sql.shuffle.partitions": "2"})
    assert made.conf == {"spark.sql.shuffle.partitions": "2"}


@pytest.mark.parametrize(
    "key", ["spark.kubernetes.namespace", "SPARK.Jars", " spark.master", "spark.executor.memory", "fs.s3a.secret.key"]
)
def test_a_key_that_is_not_allowed_is_named_as_it_was_written(key: str) -> None:
    violation = refused(conf={key: "x"})
    assert violation.reason is Reason.NOT_ALLOWED
    assert repr(key) in violation.message
    assert "spec.conf" in violation.message


@pytest.mark.parametrize("key", ["spark.sql.gateway.session.max-num", "Spark.SQL.Gateway.x"])
def test_a_setting_of_the_gateway_comes_too_late(key: str) -> None:
    violation = refused(conf={key: "1"})
    assert violation.reason is Reason.NOT_ALLOWED
    assert (
        violation.message == f"spec.conf: key {key!r} is read when a driver starts; set it in the session or its class"
    )


@given(st.uuids().map(str), st.integers(1, 99), st.integers(1, 99))
def test_an_attempt_has_one_operation_id(uid: str, run: int, attempt: int) -> None:
    name = operation_id(uid, run, attempt)
    assert name == operation_id(uid, run, attempt)
    assert UUID(name).version == 5
    others = [
        operation_id(uid, run + 1, attempt),
        operation_id(uid, run, attempt + 1),
        operation_id(f"{uid}x", run, attempt),
    ]
    assert name not in others


def test_operation_ids_and_sql_hashes_never_change_between_releases() -> None:
    """A release that made other ids would run statements again that are handed over while it is installed."""
    assert operation_id("6f0c2a9e-0000-4000-8000-000000000001", 1, 1) == "979923d7-a1bf-5440-8867-b2178943ce08"
    assert sql_hash("SELECT 1") == "e004ebd5b5532a4b85984a62f8ad48a8"
    assert operation_id("u", 1, 11) != operation_id("u", 11, 1)


@given(st.text(max_size=50), st.text(max_size=50))
def test_texts_have_the_same_fingerprint_only_if_they_are_the_same(one: str, other: str) -> None:
    assert (sql_hash(one) == sql_hash(other)) == (one == other)
