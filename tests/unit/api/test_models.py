"""Models read what the API server sends and write what it takes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sparksql.api.base import ApiObject, format_time
from sparksql.api.crd import KINDS
from sparksql.api.execution import Upsert
from sparksql.api.reasons import Reason
from sparksql.api.savepoint import SavepointPhase
from sparksql.api.session import SqlSession
from sparksql.api.statement import (
    RetryReason,
    SqlStatement,
    SqlStatementStatus,
    StatementPhase,
    StatementResult,
    StatementSession,
)

METADATA = {
    "name": "thing",
    "namespace": "team-a",
    "uid": "u-1",
    "generation": 3,
    "resourceVersion": "42",
    "creationTimestamp": "2026-01-31T08:00:00Z",
    "deletionTimestamp": "2026-01-31T09:00:00Z",
    "finalizers": ["sparksql.dev/cleanup"],
    "annotations": {"a": "b"},
    "labels": {"c": "d"},
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u-2", "controller": True}],
    "managedFields": [{"manager": "kubectl"}],
}
STATEMENT = {"metadata": METADATA, "spec": {"sql": "SELECT 1", "sessionRef": {"name": "analytics"}}}


def test_metadata_of_an_object_is_read() -> None:
    metadata = SqlStatement.parse(STATEMENT).metadata
    assert (metadata.name, metadata.namespace, metadata.uid) == ("thing", "team-a", "u-1")
    assert (metadata.generation, metadata.resource_version) == (3, "42")
    assert metadata.creation_timestamp == datetime(2026, 1, 31, 8, tzinfo=UTC)
    assert metadata.is_deleting
    assert metadata.finalizers == ("sparksql.dev/cleanup",)
    assert metadata.owner_references[0].controller


def test_absent_status_is_that_of_a_new_object() -> None:
    status = SqlStatement.parse(STATEMENT).status
    assert status.observed_generation == -1
    assert status.phase is None


def test_uid_of_a_pod_is_spelled_as_in_the_contract() -> None:
    session = StatementSession(name="analytics", pod_uid="u", boot_id="b")
    assert session.to_dict() == {"name": "analytics", "podUID": "u", "bootId": "b"}
    assert StatementSession.parse(session.to_dict()) == session


def test_null_cells_survive_and_unset_fields_are_left_out() -> None:
    status = SqlStatementStatus(result=StatementResult(preview=(("1", None),)))
    written = status.to_dict()
    assert written["result"]["preview"] == [["1", None]]
    assert "phase" not in written
    assert SqlStatementStatus.parse(written) == status


def test_unknown_fields_are_ignored_but_not_by_replace() -> None:
    status = SqlStatementStatus.parse({"observedGeneration": 1, "inventedLater": True})
    assert status == SqlStatementStatus(observed_generation=1)
    with pytest.raises(TypeError, match="has no field inventedLater"):
        status.replace(inventedLater=True)


def test_replace_of_a_field_validates_the_value() -> None:
    status = SqlStatementStatus().replace(phase="Running")
    assert status.phase is StatementPhase.RUNNING
    with pytest.raises(ValidationError):
        status.replace(phase="Walking")


def test_replace_in_an_upsert_keeps_its_other_fields() -> None:
    assert Upsert(order_by="ts").replace(keys=("id",)) == Upsert(keys=("id",), order_by="ts")
    assert Upsert.parse({"keys": []}) == Upsert() == Upsert.parse({})


def test_models_refuse_assignment_to_their_fields() -> None:
    with pytest.raises(ValidationError):
        SqlStatement.parse(STATEMENT).spec.sql = "SELECT 2"  # type: ignore[misc]


def test_errors_do_not_show_the_input() -> None:
    with pytest.raises(ValidationError) as caught:
        SqlStatement.parse({"metadata": METADATA, "spec": {"sql": ["SELECT 'secret'"], "mode": "secret"}})
    assert "secret" not in str(caught.value)


def test_quantities_may_be_numbers_and_are_checked() -> None:
    def session(**driver: object) -> SqlSession:
        return SqlSession.parse({"metadata": METADATA, "spec": {"driver": driver}})

    driver = session(cpu=2, memory=1073741824).spec.driver
    assert driver is not None
    assert (driver.cpu, driver.memory) == ("2", "1073741824")
    for wrong in ({"cpu": "1k"}, {"cpu": True}, {"cpu": "2000"}, {"memory": "1"}, {"memory": "many"}):
        with pytest.raises(ValidationError):
            session(**wrong)


def test_session_setting_left_out_of_the_spec_stays_unset_for_the_layer_below() -> None:
    spec = SqlSession.parse({"metadata": METADATA, "spec": {}}).spec
    assert spec.to_dict() == {"conf": {}, "init": [], "desiredState": "Running", "restartNonce": ""}


@pytest.mark.parametrize(
    "retry", [{"on": ["SqlError"]}, {"true": ["SqlError"]}, {"on": ["SessionLost"], "true": ["SqlError"]}]
)
def test_retry_on_is_understood_when_yaml_made_it_true(retry: dict[str, list[str]]) -> None:
    """YAML 1.1 readers such as kubectl's turn the key `on` into `true`; the schema's default then stands beside it."""
    spec = SqlStatement.parse({"metadata": METADATA, "spec": {"retry": retry}}).spec
    assert spec.retry.on == (RetryReason.SQL_ERROR,)


@given(st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)), st.integers(-12, 12))
def test_times_are_read_back_as_written(moment: datetime, offset: int) -> None:
    status = SqlStatementStatus(start_time=moment.astimezone(timezone(timedelta(hours=offset))))
    written = status.to_dict()["startTime"]
    assert written.endswith("Z")
    assert SqlStatementStatus.parse({"startTime": written}) == status
    assert written == format_time(moment)


def test_times_without_zone_are_refused() -> None:
    with pytest.raises(ValidationError):
        SqlStatementStatus(start_time=datetime(2026, 1, 31))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.KIND)
def test_written_object_has_its_api_version_and_kind_and_is_read_back_the_same(kind: type[ApiObject]) -> None:
    spec = {"image": "i", "statementRef": {"name": "a"}}
    written = kind.parse({"metadata": METADATA, "spec": spec}).to_dict()
    assert (written["apiVersion"], written["kind"]) == ("sparksql.dev/v1alpha1", kind.KIND)
    assert kind.parse(written).to_dict() == written


def test_terminal_phases_of_a_statement_are_those_that_end_a_run() -> None:
    assert {phase for phase in StatementPhase if phase.is_terminal} == {
        "Finished",
        "Canceled",
        "Closed",
        "Error",
        "TimedOut",
    }
    assert {phase for phase in SavepointPhase if phase.is_terminal} == {"Completed", "Failed", "Abandoned"}


def test_every_reason_fits_the_pattern_of_a_condition() -> None:
    for reason in Reason:
        assert reason.isalpha()
        assert reason[0].isupper()
    assert {reason.value for reason in RetryReason} <= set(Reason)


@pytest.mark.parametrize("field", ["cpu", "memory"])
def test_decimal_quantity_without_quotes_is_refused_with_the_quotes_it_needs(field: str) -> None:
    with pytest.raises(ValidationError, match=r'0\.5 is a number with a decimal point: write it in quotes, "0\.5"'):
        SqlSession.parse({"metadata": METADATA, "spec": {"executors": {field: 0.5}}})


def test_integer_quantities_without_quotes_are_accepted() -> None:
    spec = SqlSession.parse({"metadata": METADATA, "spec": {"driver": {"cpu": 1, "memory": 2147483648}}}).spec
    assert spec.driver is not None
    assert (spec.driver.cpu, spec.driver.memory) == ("1", "2147483648")
