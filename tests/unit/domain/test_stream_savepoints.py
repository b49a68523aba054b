"""Savepoints that a streaming statement takes before it rests; the last one, and what goes along with it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.api.names import MAX_NAME_LENGTH
from sparksql.api.savepoint import SavepointPhase, SavepointTrigger
from sparksql.api.session import SessionPhase
from sparksql.api.statement import SqlStatement
from sparksql.domain.statement.decide import decide
from sparksql.domain.statement.decision import CreateSavepoint, DeleteSavepoint
from sparksql.domain.statement.snapshot import Inputs, SavepointFacts, SessionFacts, Snapshot, Unobserved
from sparksql.domain.statement.stream.facts import Waiting, stream_facts
from sparksql.domain.statement.stream.savepoints import (
    DRIVER_SECONDS,
    Done,
    SavepointStep,
    Take,
    final_savepoint,
    last_savepoint,
)
from sparksql.wire.control import OperationState
from tests.unit.domain.builders.conditions import PARKED, RESTS, UNDER_WAY, message, told
from tests.unit.domain.builders.objects import NOW, ago, with_status
from tests.unit.domain.builders.statements import READY, ended, initialized
from tests.unit.domain.builders.streams import (
    LOCATION,
    OTHER,
    START,
    canceled,
    created,
    fact,
    parked,
    resting,
    running,
    shown,
    stream,
    stream_snapshot,
    streaming_of,
    telling,
)

SAVES: dict[str, Any] = {"streaming": {"upgradeMode": "Savepoint"}}
AGAIN = {**START, "restoreNonce": "1"}
WITH_STATE = {"queryId": "q", "committedBatchId": 2}
NO_DRIVER = SessionFacts("s", SessionPhase.STARTING)
OVER = telling(OperationState.CANCELED)


# --- before it rests


def final_step(s: Snapshot) -> SavepointStep:
    return final_savepoint(s, stream_facts(s))


def final(of: SqlStatement) -> str:
    """Name of the savepoint that is taken at the end of the attempt."""
    step = final_step(stream_snapshot(of))
    assert isinstance(step, Take)
    return step.name


def upgrade(of: SqlStatement, phase: str | None, **fields: Any) -> SavepointFacts:
    return fact(final(of), phase, trigger=SavepointTrigger.UPGRADE, **fields)


@pytest.mark.parametrize(
    "of",
    [
        stream(running(streaming=WITH_STATE)),
        stream(running(streaming=WITH_STATE), streaming={"upgradeMode": "Stateless"}),
        stream(running(), **SAVES),  # no batch is committed
        stream(initialized(), **SAVES),
        stream(parked(), **SAVES),  # the attempt that was refused wrote nothing
    ],
    ids=["LastState", "Stateless", "no batch", "no start", "refused"],
)
def test_no_savepoint_is_taken_without_upgrade_mode_savepoint_or_unsaved_state(of: SqlStatement) -> None:
    assert final_step(stream_snapshot(of)) == Done()


def test_stop_takes_a_savepoint_once_the_query_is_over() -> None:
    of = stream(running(streaming=WITH_STATE), desiredState="Stopped", **SAVES)
    going = decide(stream_snapshot(of, operation=telling()))
    assert told(going) == ("Running", "Canceling")
    canceled(going)
    over = decide(stream_snapshot(of, operation=OVER))
    assert told(over) == ("Running", "TakingSavepoint")
    command = created(over)
    assert command == CreateSavepoint(final(of), SavepointTrigger.UPGRADE)
    assert over.requeue_after is not None


@pytest.mark.parametrize("phase", [None, "Pending", "InProgress"])
def test_stopping_stream_waits_for_its_savepoint(phase: str | None) -> None:
    of = stream(running(streaming=WITH_STATE), desiredState="Stopped", **SAVES)
    decision = decide(stream_snapshot(of, operation=OVER, savepoints=(upgrade(of, phase),)))
    assert (told(decision), shown(decision)) == (("Running", "TakingSavepoint"), UNDER_WAY)
    assert decision.commands == ()
    assert final(of) in message(decision)


def test_stopping_stream_is_stopped_once_its_savepoint_is_complete() -> None:
    of = stream(running(streaming=WITH_STATE), desiredState="Stopped", **SAVES)
    decision = decide(stream_snapshot(of, operation=OVER, savepoints=(upgrade(of, "Completed"),)))
    assert (told(decision), shown(decision)) == (("Stopped", "StoppedByUser"), RESTS)
    assert message(decision) == "stopped by the user; desiredState Running resumes it"
    assert decision.commands == ()
    again = decide(stream_snapshot(with_status(of, decision)))  # even when that savepoint has gone
    assert (again.status.phase, again.commands) == ("Stopped", ())


@pytest.mark.parametrize("phase", ["Failed", "Abandoned"])
def test_stop_is_not_held_up_by_a_savepoint_that_fails(phase: str) -> None:
    of = stream(running(streaming=WITH_STATE), desiredState="Stopped", **SAVES)
    decision = decide(stream_snapshot(of, operation=OVER, savepoints=(upgrade(of, phase, message="no space"),)))
    assert (told(decision), shown(decision)) == (("Stopped", "StoppedByUser"), RESTS)
    assert f"without a savepoint: SqlSavepoint {final(of)} is {phase}: no space" in message(decision)


@pytest.mark.parametrize(
    ("age", "session", "phase"),
    [
        (DRIVER_SECONDS, NO_DRIVER, "Running"),
        (DRIVER_SECONDS + 1, NO_DRIVER, "Stopped"),
        (DRIVER_SECONDS + 1, READY, "Running"),
    ],
)
def test_driver_for_the_savepoint_is_waited_for_as_long_as_a_restart_takes(
    age: float, session: SessionFacts, phase: str
) -> None:
    of = stream(running(streaming=WITH_STATE), desiredState="Stopped", **SAVES)
    facts = {"session": session, "savepoints": (upgrade(of, "Pending", age=age),)}
    decision = decide(stream_snapshot(of, operation=Unobserved.DRIVER_GONE, **facts))
    assert decision.status.phase == phase
    assert ("without a savepoint: there is no driver" in message(decision)) is (phase == "Stopped")


@pytest.mark.parametrize(
    "spec", [{"sql": OTHER}, {"conf": {"a": "b"}}, {"streaming": AGAIN}], ids=["text", "settings", "restore"]
)
@pytest.mark.parametrize(
    "word", [OVER, telling(OperationState.ERROR), Unobserved.DRIVER_GONE], ids=["over", "error", "gone"]
)
def test_change_is_taken_in_after_the_savepoint(spec: dict[str, Any], word: Any) -> None:
    spec = {**spec, "streaming": {**spec.get("streaming", {}), "upgradeMode": "Savepoint"}}
    of = stream(running(streaming=WITH_STATE), **spec)
    facts: dict[str, Any] = {"operation": word, "start_from": fact(), "inputs": Inputs(str(of.spec.sql))}
    first = decide(stream_snapshot(of, **facts))
    assert told(first) == ("Running", "TakingSavepoint")
    name = created(first).name
    assert first.status.sql_hash == of.status.sql_hash
    assert of.status.streaming is not None and streaming_of(first).settings_hash == of.status.streaming.settings_hash
    assert streaming_of(first).checkpoint_location == LOCATION
    done = fact(name, "Completed", trigger=SavepointTrigger.UPGRADE)
    goes = decide(stream_snapshot(with_status(of, first), **facts, savepoints=(done,)))
    assert told(goes) == ("Initialized", "Upgrading")


def test_changed_stream_is_parked_when_the_savepoint_before_the_change_fails() -> None:
    of = stream(running(streaming=WITH_STATE), sql=OTHER, **SAVES)
    facts: dict[str, Any] = {"inputs": Inputs(OTHER)}
    failed = upgrade(of, "Failed", message="no space")
    decision = decide(stream_snapshot(of, operation=OVER, savepoints=(failed,), **facts))
    assert (told(decision), shown(decision)) == (("Stopped", "SavepointFailed"), PARKED)
    assert "delete that SqlSavepoint for another try, or set upgradeMode: LastState" in message(decision)
    at_rest = with_status(of, decision)
    again = decide(stream_snapshot(at_rest, savepoints=(failed,), **facts))
    assert (again.status, again.commands, again.events) == (decision.status, (), ())
    another = decide(stream_snapshot(at_rest, **facts))
    assert (told(another), created(another).name) == (("Stopped", "TakingSavepoint"), failed.name)
    last_state = with_status(stream(sql=OTHER), decision)
    assert told(decide(stream_snapshot(last_state, savepoints=(failed,), **facts))) == ("Initialized", "Upgrading")


def test_stream_saved_when_it_stopped_is_not_saved_again_to_take_in_a_change() -> None:
    of = stream(running(streaming=WITH_STATE), desiredState="Stopped", **SAVES)
    done = upgrade(of, "Completed")
    at_rest = decide(stream_snapshot(of, operation=OVER, savepoints=(done,)))
    goes = decide(
        stream_snapshot(with_status(stream(sql=OTHER, **SAVES), at_rest), inputs=Inputs(OTHER), savepoints=(done,))
    )
    assert told(goes) == ("Initialized", "Upgrading")


def test_failure_without_a_change_takes_no_savepoint() -> None:
    decision = decide(
        stream_snapshot(stream(running(streaming=WITH_STATE), **SAVES), operation=telling(OperationState.ERROR))
    )
    assert (told(decision), decision.commands) == (("Initialized", "Restarting"), ())


def test_back_off_that_is_ended_by_a_change_saves_what_the_last_attempt_wrote() -> None:
    """And the next attempt, which writes more, is saved for itself."""
    of = stream(running(streaming=WITH_STATE), **SAVES)
    at_the_end = final(of)
    waits = decide(stream_snapshot(of, operation=telling(OperationState.ERROR)))
    changed = with_status(stream(conf={"a": "b"}, **SAVES), waits)
    first = decide(stream_snapshot(changed))
    assert (told(first), created(first).name) == (("Initialized", "TakingSavepoint"), at_the_end)
    done = fact(at_the_end, "Completed", trigger=SavepointTrigger.UPGRADE)
    renewed = with_status(changed, decide(stream_snapshot(with_status(changed, first), savepoints=(done,))))
    goes = with_status(changed, decide(stream_snapshot(renewed, savepoints=(done,))))
    assert goes.status.attempt == 2
    assert final(goes) != at_the_end


def test_start_fresh_leaves_the_park_without_another_savepoint() -> None:
    of = stream(parked(), streaming={"upgradeMode": "Savepoint", "onIncompatible": "StartFresh"})
    decision = decide(stream_snapshot(of))
    assert (told(decision), decision.commands) == (("Initialized", "Upgrading"), ())
    assert streaming_of(decision).checkpoint_location is None


@given(st.integers(1, MAX_NAME_LENGTH), st.integers(1, 9), st.integers(1, 9))
def test_names_of_final_savepoints_differ_and_are_names(length: int, run: int, attempt: int) -> None:
    def named(run: int, attempt: int) -> str:
        of = stream(running(streaming=WITH_STATE, run=run, attempt=attempt), **SAVES)
        return final(of.replace(metadata=of.metadata.replace(name="a" * length)))

    assert len(named(run, attempt)) <= MAX_NAME_LENGTH
    assert named(run, attempt) == named(run, attempt)
    assert len({named(run, attempt), named(run + 1, attempt), named(run, attempt + 1)}) == 3


PHASES = st.sampled_from([None, *SavepointPhase])


@given(PHASES, st.sampled_from(["LastState", "Savepoint", "Stateless"]), st.booleans(), st.booleans())
def test_query_rests_only_when_its_savepoint_is_over(
    phase: SavepointPhase | None, mode: str, has_batch: bool, has_driver: bool
) -> None:
    state = WITH_STATE if has_batch else {}
    of = stream(running(streaming=state), desiredState="Stopped", streaming={"upgradeMode": mode})
    savepoints = (fact("x"),)
    if mode == "Savepoint" and has_batch:
        savepoints = (upgrade(of, phase), *savepoints)
    word = telling(OperationState.CANCELED, progress=None)
    session = READY if has_driver else NO_DRIVER
    decision = decide(stream_snapshot(of, operation=word, session=session, savepoints=savepoints))
    needs_none = mode != "Savepoint" or not has_batch
    is_over = phase is not None and phase.is_terminal
    assert (decision.status.phase == "Stopped") is (needs_none or is_over)
    assert isinstance(final_step(stream_snapshot(of, savepoints=savepoints, session=session)), Waiting) is not (
        needs_none or is_over
    )


# --- the last one, and the end of the statement


def test_last_savepoint_is_the_newest_complete_one_that_stays() -> None:
    savepoints = (
        fact("old", ended=ago(9)),
        fact("new", ended=ago(5)),
        fact("going", ended=ago(4), deleting=True),
        fact("adopted", ended=ago(4), adopted=True),
        fact("failed", "Failed", ended=ago(3)),
        fact("open", "InProgress"),
    )
    for status, word in ((running(), telling()), (resting(), None), (ended(), None)):
        of = stream({**status, "streaming": {"checkpointLocation": LOCATION}}, desiredState="Stopped")
        found = streaming_of(decide(stream_snapshot(of, operation=word, savepoints=savepoints))).last_savepoint
        assert found is not None and (found.name, found.time) == ("new", ago(5))
    assert last_savepoint(stream_snapshot(stream(), savepoints=savepoints[2:])) is None


def test_last_savepoint_that_goes_is_forgotten() -> None:
    of = stream(running(streaming={"lastSavepoint": {"name": "gone", "time": ago(5)}}))
    assert streaming_of(decide(stream_snapshot(of, operation=telling()))).last_savepoint is None


MADE = (
    fact("one-50", trigger=SavepointTrigger.PERIODIC),
    fact("one-stop", "Completed", trigger=SavepointTrigger.UPGRADE),
    fact("at-work", "InProgress", trigger=SavepointTrigger.UPGRADE),
    fact("pinned", trigger=SavepointTrigger.PERIODIC, pinned=True),
    fact("going", trigger=SavepointTrigger.PERIODIC, deleting=True),
    fact("asked-for"),
)


@pytest.mark.parametrize(("wish", "goes"), [("Delete", ["one-50", "one-stop", "at-work"]), ("Retain", [])])
@pytest.mark.parametrize("late", [False, True])
def test_savepoints_made_for_a_stream_are_deleted_with_it_if_on_delete_says_so(
    wish: str, goes: list[str], late: bool
) -> None:
    spec = {"streaming": {"savepoints": {"onDelete": wish}}}
    of = stream(running() if late else resting(), deleted=ago(60) if late else NOW, **spec)
    decision = decide(stream_snapshot(of, savepoints=MADE, operation=Unobserved.UNREACHABLE if late else None))
    assert decision.finalizer is False
    assert [c.name for c in decision.commands if isinstance(c, DeleteSavepoint)] == goes


def test_savepoints_stay_while_the_query_still_runs() -> None:
    of = stream(running(), deleted=NOW, streaming={"savepoints": {"onDelete": "Delete"}})
    decision = decide(stream_snapshot(of, savepoints=MADE, operation=telling()))
    assert decision.finalizer is True
    assert not any(isinstance(c, DeleteSavepoint) for c in decision.commands)


def test_statement_of_another_mode_has_no_savepoints_to_delete() -> None:
    of = stream(initialized(), deleted=NOW, mode="Explain", streaming={"savepoints": {"onDelete": "Delete"}})
    assert decide(stream_snapshot(of, savepoints=MADE)).commands == ()
