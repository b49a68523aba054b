"""Savepoints whose state a query gives: what they wait for, what a driver is asked, and which ends are final."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparksql.api.reasons import Reason
from sparksql.api.savepoint import SavepointPhase, SqlSavepoint
from sparksql.domain.savepoint.snapshot import CancelCopy, Decision, Failed, StartQuery
from sparksql.domain.statement.snapshot import SavepointFacts, Unobserved
from sparksql.wire.savepoints import SavepointPlace, StateQuery
from tests.unit.domain.builders.conditions import told
from tests.unit.domain.builders.objects import NOW, ago
from tests.unit.domain.builders.savepoints import (
    CHECKPOINT,
    SAVEPOINT_UID,
    TARGET,
    WHOLE,
    copying,
    decided,
    id_of,
    saved,
    savepoint,
)
from tests.unit.domain.builders.statements import DRIVER
from tests.unit.domain.builders.streams import stream

SQL = "SELECT * FROM savepoint_state('taken', 'aggregate', 'kept')"
MAKES = replace(DRIVER, makes_states=True)
OWN = SavepointFacts("taken", SavepointPhase.COMPLETED, NOW, location="s3a://b/taken", statement="one")


def query(status: dict[str, Any] | None = None, **spec: Any) -> SqlSavepoint:
    return savepoint(status, source="Query", **{"sql": SQL, **spec})


def made(of: SqlSavepoint, **facts: Any) -> Decision:
    return decided(of, **{"driver": MAKES, "named": (OWN,), **facts})


def test_a_query_is_asked_for_with_the_savepoints_that_it_may_read() -> None:
    decision = made(query(operator="aggregate"))
    assert told(decision) == ("InProgress", "InProgress")
    place = SavepointPlace(name="taken", phase="Completed", location="s3a://b/taken", statement="one")
    asked = StateQuery(sql=SQL, statement="one", operator="aggregate", savepoints=(place,))
    text = saved().status.sql_hash
    assert decision.commands == (StartQuery(id_of(0), MAKES, CHECKPOINT, TARGET, SAVEPOINT_UID, asked, text),)
    assert (decision.status.location, decision.status.query_id, decision.status.sql_hash) == (TARGET, None, None)


def test_a_query_of_a_savepoint_needs_no_checkpoint_of_its_statement() -> None:
    (command,) = made(query(), statement=stream()).commands
    assert isinstance(command, StartQuery) and command.checkpoint is None


@pytest.mark.parametrize("named", [(), (replace(OWN, statement="another"),)])
def test_a_query_without_a_savepoint_of_the_statement_waits_for_its_first_batch(named: Any) -> None:
    decision = made(query(), statement=saved(committedBatchId=None), named=named)
    assert told(decision) == ("Pending", "Pending") and not decision.commands
    assert "waits for its first batch" in (decision.status.message or "")


@pytest.mark.parametrize("phase", [None, SavepointPhase.PENDING, SavepointPhase.IN_PROGRESS])
def test_a_query_waits_for_a_savepoint_that_it_names(phase: SavepointPhase | None) -> None:
    decision = made(query(), named=(replace(OWN, phase=phase),))
    assert told(decision) == ("Pending", "Pending") and not decision.commands
    assert decision.status.message == "waits for SqlSavepoint taken, whose name is in spec.sql"


def test_a_driver_of_an_earlier_version_is_asked_for_no_query() -> None:
    decision = made(query(), driver=DRIVER)
    assert told(decision) == ("Failed", "NotImplemented") and not decision.commands
    assert "restart the session" in (decision.status.message or "")


@pytest.mark.parametrize("reason", [Reason.SQL_ERROR, Reason.INVALID_SPEC, Reason.NOT_ALLOWED])
def test_a_query_that_gives_no_state_is_not_tried_again(reason: Reason) -> None:
    decision = made(query(copying()), observation=Failed("column n is NULL", reason))
    assert told(decision) == ("Failed", reason)
    assert (decision.status.failures, decision.status.message) == (1, "column n is NULL")


@pytest.mark.parametrize("over", [Failed("too many batches"), Unobserved.DRIVER_GONE])
def test_a_query_whose_copy_failed_is_tried_again(over: Any) -> None:
    assert told(made(query(copying()), observation=over)) == ("Pending", "Retrying")


def test_a_query_is_asked_for_again_until_its_driver_knows_it_or_its_time_is_over() -> None:
    (again,) = made(query(copying()), observation=Unobserved.UNKNOWN).commands
    assert isinstance(again, StartQuery) and again.id == id_of(0)
    late = made(query(copying(startTime=ago(601))), observation=Unobserved.UNKNOWN)
    assert [type(command) for command in late.commands] == [CancelCopy]


def test_a_query_that_is_complete_has_the_hash_of_the_text_that_its_base_had() -> None:
    decision = made(query(copying(sqlHash=None)), observation=replace(WHOLE, sql_hash="of-base"))
    assert told(decision) == ("Completed", "Completed")
    assert decision.status.sql_hash == "of-base"
