"""Savepoints as their statements see them, as the operator makes them, and as drivers speak of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.api.names import ANNOTATION_TRIGGER, FINALIZER
from sparksql.api.reasons import Reason
from sparksql.api.savepoint import ReclaimPolicy, SavepointPhase, SavepointSource, SavepointTrigger, SqlSavepoint
from sparksql.cache.indexes import INDEXES
from sparksql.controllers.savepoint.gather import attempt_of, attempt_status, observation_of
from sparksql.controllers.savepoint.snapshot import named_in, savepoints_of, start_of, trigger_of
from sparksql.domain.savepoint.snapshot import Attempt, Completed, Failed, Running
from sparksql.domain.statement.snapshot import Driver, Inputs, SavepointFacts, Settings
from sparksql.domain.statement.submission import submit_request
from sparksql.engine.store import Store
from sparksql.kube.builders.statement_children import savepoint_of
from sparksql.wire.control import Parameter
from sparksql.wire.savepoints import SavepointPlace, SavepointState, SavepointView
from tests.unit.domain.builders.objects import NOW
from tests.unit.domain.builders.statements import statement, statement_snapshot

DONE = datetime(2026, 1, 31, 9, tzinfo=UTC)


def savepoint(
    name: str = "before", statement: str = "one", status: dict[str, Any] | None = None, **metadata: Any
) -> Any:
    return {
        "metadata": {
            "name": name, "namespace": "team-a", "uid": f"uid-{name}", "resourceVersion": "1",
            "creationTimestamp": "2026-01-31T08:00:00Z", **metadata,
        },
        "spec": {"statementRef": {"name": statement}},
        "status": status or {},
    }  # fmt: skip


def store(*savepoints: Any) -> Store:
    filled = Store(INDEXES)
    for each in savepoints:
        filled.apply("SqlSavepoint", each)
    return filled


# --- snapshots


def test_statement_sees_the_savepoints_that_name_it() -> None:
    filled = store(
        savepoint("a"),
        savepoint("b"),
        savepoint("c", statement="other"),
        savepoint("d", namespace="team-b"),
    )
    assert {each.name for each in savepoints_of(filled, statement(streaming={}))} == {"a", "b"}


@pytest.mark.parametrize(
    ("sql", "value", "names"),
    [
        ("SELECT * FROM savepoint_state('a'), Savepoint_State(`c.1`)", "", ("a", "c.1")),
        ("SELECT * FROM SAVEPOINT_STATE(:name)", "c.1", ("c.1",)),
        ("SELECT * FROM savepoint_state('d')", "", ()),
        ("SELECT * FROM savepoint_state('a/../b')", "", ("a", "b")),
        ("SELECT * FROM a", "", None),
    ],
)
def test_statement_sees_the_savepoints_of_its_namespace_that_its_text_may_read(
    sql: str, value: str, names: tuple[str, ...] | None
) -> None:
    filled = store(
        savepoint("a"), savepoint("b"), savepoint("c.1", statement="other"), savepoint("d", namespace="team-b")
    )
    found = named_in(filled, "team-a", Inputs(sql, (Parameter(name="name", value=value),)))
    assert (None if found is None else tuple(each.name for each in found)) == names


@pytest.mark.parametrize(
    ("facts", "phase", "location"),
    [
        ({"phase": SavepointPhase.COMPLETED}, "Completed", "s3a://b/s"),
        ({"phase": SavepointPhase.COMPLETED, "deleting": True}, "being deleted", None),
        ({"phase": SavepointPhase.IN_PROGRESS}, "InProgress", None),
        ({"phase": None}, "new", None),
    ],
)
def test_a_driver_is_told_the_place_of_a_complete_savepoint_alone(
    facts: dict[str, Any], phase: str, location: str | None
) -> None:
    told = SavepointFacts(name="a", created=NOW, location="s3a://b/s", **facts)
    request = submit_request(
        statement_snapshot(statement(), named=(told,)), "boot", Settings(), Inputs("SELECT 1"), None
    )
    assert request.savepoints == (SavepointPlace(name="a", phase=phase, location=location),)


@pytest.mark.parametrize("spec", [{}, {"streaming": {}, "mode": "Explain"}])
def test_statement_that_does_not_stream_has_no_savepoints(spec: dict[str, Any]) -> None:
    assert savepoints_of(store(savepoint()), statement(**spec)) == ()


def test_savepoint_snapshot_matches_the_metadata_spec_and_status_of_the_object() -> None:
    status = {
        "phase": "Completed", "trigger": "Periodic", "location": "s3a://b/before", "message": "complete",
        "completionTime": "2026-01-31T09:00:00Z",
    }  # fmt: skip
    going = savepoint(status=status, deletionTimestamp="2026-01-31T10:00:00Z")
    going["spec"]["pinned"] = True
    assert savepoints_of(store(going), statement(streaming={})) == (
        SavepointFacts(
            "before",
            SavepointPhase.COMPLETED,
            NOW,
            SavepointTrigger.PERIODIC,
            "s3a://b/before",
            DONE,
            deleting=True,
            pinned=True,
            message="complete",
            statement="one",
        ),
    )


def test_savepoint_facts_of_a_new_savepoint_have_no_phase() -> None:
    assert savepoints_of(store(savepoint()), statement(streaming={})) == (
        SavepointFacts("before", None, NOW, statement="one"),
    )


def test_start_from_finds_a_savepoint_of_any_statement_in_the_same_namespace() -> None:
    filled = store(savepoint(statement="other"), savepoint("far", namespace="team-b"))
    named = statement(streaming={"startFrom": {"savepointRef": {"name": "before"}}})
    found = start_of(filled, named)
    assert found is not None and found.name == "before"
    assert start_of(filled, statement(streaming={"startFrom": {"savepointRef": {"name": "far"}}})) is None
    assert start_of(filled, statement(streaming={})) is None
    assert start_of(filled, statement()) is None


# --- made by the operator


@pytest.mark.parametrize("trigger", SavepointTrigger)
def test_created_savepoint_is_read_back_with_its_trigger_and_statement(trigger: SavepointTrigger) -> None:
    body = savepoint_of(statement(), "one-stop", trigger)
    body["metadata"].update(uid="u", creationTimestamp="2026-01-31T08:00:00Z", resourceVersion="1")
    made = SqlSavepoint.parse(body)
    assert trigger_of(made) is trigger
    assert made.metadata.finalizers == (FINALIZER,)
    assert made.spec.statement_ref.name == "one"
    assert (made.spec.source, made.spec.reclaim_policy) == (SavepointSource.COPY, ReclaimPolicy.DELETE)
    (seen,) = savepoints_of(store(body), statement(streaming={}))
    assert (seen.trigger, seen.phase, seen.pinned) == (trigger, None, False)


@pytest.mark.parametrize(
    ("annotations", "status", "trigger"),
    [
        ({}, {}, "Manual"),
        ({ANNOTATION_TRIGGER: "Upgrade"}, {}, "Upgrade"),
        ({ANNOTATION_TRIGGER: "Sunday"}, {}, "Manual"),
        ({ANNOTATION_TRIGGER: ""}, {}, "Manual"),
        ({ANNOTATION_TRIGGER: "Upgrade"}, {"trigger": "Periodic"}, "Periodic"),  # once recorded, it stays
        ({}, {"trigger": "Upgrade"}, "Upgrade"),
    ],
)
def test_savepoint_trigger_comes_from_status_then_annotation_else_is_manual(
    annotations: dict[str, str], status: dict[str, Any], trigger: str
) -> None:
    assert trigger_of(SqlSavepoint.parse(savepoint(status=status, annotations=annotations))) == trigger


# --- attempts, and what drivers say of them


names = st.from_regex(r"[a-z]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)


@given(names, names, names, names, names, names)
def test_savepoint_attempt_is_read_back_as_attempt_status(
    pod: str, uid: str, boot: str, of: str, klass: str, account: str
) -> None:
    attempt = Attempt(Driver(pod, uid, boot), of, klass, account)
    status = SqlSavepoint.parse(savepoint()).status.replace(attempt=attempt_status(attempt))
    kept = SqlSavepoint.parse(savepoint(status=status.to_dict())).status.attempt
    assert kept is not None and attempt_of(kept) == attempt


def test_savepoint_attempt_is_recorded_under_the_field_names_of_the_api() -> None:
    status = SqlSavepoint.parse(savepoint()).status
    kept = status.replace(attempt=attempt_status(Attempt(Driver("p", "u", "b"), "s", "standard", "spark"))).to_dict()
    assert kept["attempt"] == {
        "podName": "p", "podUID": "u", "bootId": "b", "statementUID": "s", "className": "standard",
        "serviceAccountName": "spark",
    }  # fmt: skip


WHOLE = SavepointView(
    attempt_id="a",
    boot_id="b",
    state=SavepointState.COMPLETED,
    batch_id=41,
    query_id="q",
    spark_version="4.1.4",
    size_bytes=123,
    file_count=9,
    sql_hash="h",
)


def of_state(state: SavepointState, **fields: Any) -> SavepointView:
    return SavepointView(attempt_id="a", boot_id="b", state=state, **fields)


@pytest.mark.parametrize(
    ("view", "word"),
    [
        (of_state(SavepointState.RUNNING), Running()),
        (WHOLE, Completed(41, "q", "4.1.4", 123, 9, "h")),
        (WHOLE.model_copy(update={"batch_id": 0, "file_count": 0}), Completed(0, "q", "4.1.4", 123, 0, "h")),
        (WHOLE.model_copy(update={"spark_version": None, "sql_hash": None}), Completed(41, "q", None, 123, 9, None)),
        (of_state(SavepointState.FAILED, message="no space"), Failed("no space")),
        (
            of_state(SavepointState.FAILED, message="empty", location_invalid=True),
            Failed("empty", Reason.LOCATION_INVALID),
        ),
        (of_state(SavepointState.FAILED), Failed("the driver gave no reason")),
    ],
)
def test_driver_view_of_a_savepoint_is_read_as_running_completed_or_failed(view: SavepointView, word: Any) -> None:
    assert observation_of(view) == word
    assert observation_of(SavepointView.model_validate_json(view.model_dump_json(by_alias=True))) == word


def test_adopted_checkpoint_without_a_version_is_complete() -> None:
    word = observation_of(WHOLE.model_copy(update={"spark_version": None}))
    assert isinstance(word, Completed) and replace(word, spark_version="4.1.4") == observation_of(WHOLE)
