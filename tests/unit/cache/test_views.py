"""Views of raw objects say what the models of the same objects say, defaults of the API included."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.api.conditions import find_condition
from sparksql.api.execution import StatementMode
from sparksql.api.savepoint import SavepointPhase, SavepointSource, SqlSavepoint
from sparksql.api.session import SessionDesiredState, SessionPhase, SqlSession
from sparksql.api.statement import SqlStatement, StatementDesiredState, StatementPhase
from sparksql.cache.views import ObjectView, SavepointView, SessionView, StatementView
from sparksql.domain.admission import order
from sparksql.domain.statement.phases import HANDED_OVER, is_ended
from sparksql.domain.statement.stream.spec import is_stream

NAMES = st.sampled_from(["one", "orders", "s-1"])
TIMES = st.sampled_from(["2026-01-31T08:00:00Z", "2026-01-31T08:00:00.250Z"])
CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["Ready", "Stalled"]),
            "status": st.sampled_from(["True", "False"]),
            "reason": st.sampled_from(["Pending", "LimitExceeded", "WaitingForSource"]),
            "message": st.just(""),
            "lastTransitionTime": TIMES,
        }
    ),
    max_size=2,
    unique_by=lambda condition: condition["type"],
)


def _metadata(**more: Any) -> st.SearchStrategy[Any]:
    required = {"name": NAMES, "namespace": NAMES, "uid": NAMES, "creationTimestamp": TIMES}
    return st.fixed_dictionaries(required, optional={"deletionTimestamp": TIMES, "labels": st.just({"a": "b"}), **more})


def _refs(names: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({"name": names})


STATEMENTS = st.fixed_dictionaries(
    {
        "metadata": _metadata(),
        "spec": st.one_of(
            st.fixed_dictionaries({"sessionRef": _refs(NAMES)}), st.fixed_dictionaries({"session": st.just({})})
        ).flatmap(
            lambda session: st.fixed_dictionaries(
                {"sql": st.just("SELECT 1"), **{key: st.just(value) for key, value in session.items()}},
                optional={
                    "mode": st.sampled_from([mode.value for mode in StatementMode]),
                    "desiredState": st.sampled_from([state.value for state in StatementDesiredState]),
                    "priority": st.integers(-3, 3),
                    "dependsOn": st.lists(_refs(NAMES), max_size=2, unique_by=lambda ref: ref["name"]),
                    "streaming": st.fixed_dictionaries(
                        {},
                        optional={
                            "startFrom": st.fixed_dictionaries({"savepointRef": _refs(NAMES)}),
                            "savepoints": st.sampled_from(
                                [
                                    {},
                                    {"schedule": {"intervalSeconds": 600}},
                                    {"schedule": {"intervalSeconds": 600, "paused": True}},
                                ]
                            ),
                        },
                    ),
                },
            )
        ),
    },
    optional={
        "status": st.fixed_dictionaries(
            {},
            optional={
                "phase": st.sampled_from([phase.value for phase in StatementPhase]),
                "operationId": NAMES,
                "session": st.fixed_dictionaries({"name": NAMES}, optional={"podUID": NAMES}),
                "nextAttemptTime": TIMES,
                "metDependencies": st.lists(NAMES, max_size=2, unique=True),
                "lostDrivers": st.lists(NAMES, max_size=2),
                "conditions": CONDITIONS,
                "streaming": st.fixed_dictionaries(
                    {},
                    optional={
                        "committedBatchId": st.integers(0, 9),
                        "checkpointLocation": st.just("s3a://b/c"),
                        "lastSavepoint": st.fixed_dictionaries({"name": NAMES, "location": NAMES, "time": TIMES}),
                    },
                ),
            },
        )
    },
)


@given(STATEMENTS)
def test_statement_view_agrees_with_the_model(obj: dict[str, Any]) -> None:
    view, model = StatementView(obj), SqlStatement.parse(obj)
    spec, status = model.spec, model.status
    _agree_on_metadata(view, model)
    streaming = status.streaming
    savepoints = spec.streaming.savepoints if spec.streaming is not None else None
    schedule = savepoints.schedule if savepoints is not None else None
    start = spec.streaming.start_from if spec.streaming is not None else None
    assert view.owns_session is (spec.session is not None)
    assert spec.session_ref is None or view.session_name == spec.session_ref.name
    assert view.is_stream is is_stream(spec)
    assert view.is_wanted is (spec.desired_state is StatementDesiredState.RUNNING and not model.metadata.is_deleting)
    assert view.queue_order == order(spec.priority, view.created, model.metadata.name)
    assert view.depends_on == tuple(ref.name for ref in spec.depends_on)
    assert view.start_from == (start.savepoint_ref.name if start is not None else None)
    assert view.is_saved_by_schedule is (schedule is not None and not schedule.paused)
    assert view.phase == status.phase
    assert view.has_ended is is_ended(status.phase)
    assert view.is_handed_over is (status.phase in HANDED_OVER)
    assert view.operation_id == (status.operation_id or "")
    assert view.pod_uid == ((status.session.pod_uid if status.session else None) or "")
    assert view.next_attempt_time == status.next_attempt_time
    assert view.met_dependencies == status.met_dependencies
    assert view.lost_drivers == status.lost_drivers
    assert view.has_committed is (streaming is not None and streaming.committed_batch_id is not None)
    assert view.checkpoint_location == (streaming.checkpoint_location if streaming is not None else None)
    assert (view.last_savepoint is None) is (streaming is None or streaming.last_savepoint is None)
    _agree_on_conditions(view, status.conditions)


SESSIONS = st.fixed_dictionaries(
    {
        "metadata": _metadata(),
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "className": NAMES,
                "desiredState": st.sampled_from([state.value for state in SessionDesiredState]),
            },
        ),
    },
    optional={
        "status": st.fixed_dictionaries(
            {},
            optional={
                "phase": st.sampled_from([phase.value for phase in SessionPhase]),
                "driver": st.fixed_dictionaries(
                    {"incarnation": st.just(1)},
                    optional={"bootId": NAMES, "poolUID": NAMES, "startTime": st.just("2026-01-01T00:00:00.000Z")},
                ),
                "conditions": CONDITIONS,
            },
        )
    },
)


@given(SESSIONS)
def test_session_view_agrees_with_the_model(obj: dict[str, Any]) -> None:
    view, model = SessionView(obj), SqlSession.parse(obj)
    spec, status = model.spec, model.status
    _agree_on_metadata(view, model)
    ready = find_condition(status.conditions, "Ready")
    is_limited = ready is not None and ready.reason == "LimitExceeded"
    assert view.class_name == spec.class_name
    assert view.is_wanted is (spec.desired_state is SessionDesiredState.RUNNING and not model.metadata.is_deleting)
    assert view.phase == status.phase
    assert view.is_over_limit is (status.phase is SessionPhase.PENDING and is_limited)
    driver = status.driver
    assert view.boot_id == (driver.boot_id if driver is not None else None)
    is_of_pool = driver is not None and driver.pool_uid is not None
    assert view.pool_driver_since == (driver.start_time if is_of_pool and driver is not None else None)
    _agree_on_conditions(view, status.conditions)


@pytest.mark.parametrize("phase", [None, *SavepointPhase])
@pytest.mark.parametrize("source", [None, *SavepointSource])
def test_savepoint_view_agrees_with_the_model(phase: SavepointPhase | None, source: SavepointSource | None) -> None:
    spec = {"statementRef": {"name": "orders"}, **({"source": source.value} if source is not None else {})}
    obj = {"metadata": {"name": "sp", "namespace": "team-a", "uid": "u"}, "spec": spec}
    view = SavepointView(obj | {"status": {"phase": phase.value, "sizeBytes": 5}} if phase is not None else obj)
    assert view.statement_name == "orders"
    assert view.owns_data is SqlSavepoint.parse(obj).spec.source.owns_data
    assert view.is_over is (phase is not None and phase.is_terminal)
    assert view.size_bytes == (5 if phase is not None else 0)


def _agree_on_metadata(view: ObjectView, model: SqlStatement | SqlSession) -> None:
    metadata = model.metadata
    assert (view.name, view.namespace) == (metadata.name, metadata.namespace)
    assert (view.is_deleting, view.labels) == (metadata.is_deleting, metadata.labels)


def _agree_on_conditions(view: ObjectView, conditions: tuple[Any, ...]) -> None:
    ready, stalled = find_condition(conditions, "Ready"), find_condition(conditions, "Stalled")
    assert view.ready_reason == (ready.reason if ready is not None else "")
    assert view.is_stalled is (stalled is not None and stalled.status == "True")
