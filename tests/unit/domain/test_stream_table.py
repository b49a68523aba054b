"""The state table of a streaming statement, as it stands in the docstring of `stream.run`: every combination goes where its row says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import pytest

from sparksql.api.savepoint import SavepointPhase, SavepointTrigger
from sparksql.api.statement import SqlStatement, StatementDesiredState
from sparksql.domain.statement.decide import decide
from sparksql.domain.statement.decision import Decision
from sparksql.domain.statement.identity import sql_hash
from sparksql.domain.statement.snapshot import Inputs, Snapshot, Unobserved
from sparksql.domain.statement.stream import run
from sparksql.domain.statement.stream.facts import Change, Waiting, stream_facts
from sparksql.domain.statement.stream.savepoints import Take, final_savepoint
from sparksql.wire.control import ErrorReason, OperationError, OperationState, OperationView
from tests.unit.domain.builders.conditions import told
from tests.unit.domain.builders.objects import ago
from tests.unit.domain.builders.statements import DRIVER, READY, SQL
from tests.unit.domain.builders.streams import OTHER, UNFIT, fact, known, stream, stream_snapshot, telling

NO_TABLE = OperationError(reason=ErrorReason.SQL_ERROR, message="no such table")
REWRITABLE = UNFIT.model_copy(update={"rewritable": True})
OLD_DRIVER = replace(READY, driver=replace(DRIVER, compares_states=False))
DRIVER_THAT_COMPARES = replace(READY, driver=replace(DRIVER, compares_states=True))
FITS = OperationView(operation_id="look", boot_id=DRIVER.boot_id, seq=1, state=OperationState.FINISHED)
REASONS = {"Initialized": "Retrying", "Pending": "Submitted", "Running": "Running", "Stopped": "StoppedByUser"}

DESIRED = tuple(state.value for state in StatementDesiredState)
CHANGES = ("None", "RestoreLater", *("".join(map(str.capitalize, change.name.split("_"))) for change in Change))
WORDS: dict[str, Any] = {
    **{state.value: telling(state) for state in OperationState},
    "Misfit": telling(OperationState.ERROR, error=UNFIT, start_time=None, progress=None),
    "Rewritable": telling(OperationState.ERROR, error=REWRITABLE, start_time=None, progress=None),
    "NeverRan": telling(OperationState.ERROR, error=NO_TABLE, start_time=None, progress=None),
    "NewNeverRan": telling(OperationState.ERROR, error=NO_TABLE, start_time=None, progress=None),
    "Gone": Unobserved.DRIVER_GONE,
    "Forgotten": Unobserved.UNKNOWN,
    "NotArrived": Unobserved.UNKNOWN,
    "Silent": Unobserved.UNREACHABLE,
}
PLACES = ("Initialized", "Stopped", *WORDS)
SAVEPOINTS = ("-", "Missing", "None", *(phase.value for phase in SavepointPhase))
COMBINATIONS = [*product(DESIRED, CHANGES, PLACES, SAVEPOINTS)]


@dataclass(frozen=True)
class Row:
    line: str
    facts: tuple[str, ...]
    outcome: tuple[str, ...]

    def fits(self, combination: tuple[str, ...]) -> bool:
        pairs = zip(self.facts, combination, strict=True)
        return all(pattern == "*" or value in pattern.split("|") for pattern, value in pairs)


def table() -> Iterator[Row]:
    _, _, text = (run.__doc__ or "").partition("desiredState ")
    for line in text.partition("\n\n")[0].splitlines()[2:]:
        cells = tuple(line.split())
        assert len(cells) == 7, line
        yield Row(line, cells[:4], cells[4:])


ROWS = [*table()]


def row_of(combination: tuple[str, ...]) -> Row:
    return next(row for row in ROWS if row.fits(combination))


def phase_at(place: str) -> str:
    if place in ("Initialized", "Stopped"):
        return place
    return "Pending" if place in ("Pending", "NotArrived") else "Running"


def snapshot_of(desired: str, change: str, place: str, savepoint: str) -> Snapshot:
    """A statement that has committed a batch, to which nothing has happened but what the combination says."""
    of = statement_of(desired, change, place, savepoint)
    word = WORDS.get(place)
    start = fact("before", "InProgress" if change == "RestoreLater" else "Completed")
    snapshot = stream_snapshot(
        of, inputs=Inputs(of.spec.sql or ""), operation=word, session=OLD_DRIVER, start_from=start
    )
    if savepoint in ("-", "Missing"):
        return snapshot
    step = final_savepoint(snapshot, stream_facts(snapshot))
    name = step.name if isinstance(step, Take) else "not-to-be-made"
    phase = None if savepoint == "None" else savepoint
    return replace(snapshot, savepoints=(fact(name, phase, trigger=SavepointTrigger.UPGRADE),))


def statement_of(desired: str, change: str, place: str, savepoint: str) -> SqlStatement:
    mode = "Stateless" if change == "StartFresh" else "LastState" if savepoint == "-" else "Savepoint"
    streaming: dict[str, Any] = {"upgradeMode": mode}
    if change.startswith("Restore"):
        streaming |= {"startFrom": {"savepointRef": {"name": "before"}}, "restoreNonce": "1"}
    spec: dict[str, Any] = {"desiredState": desired, "streaming": streaming}
    if change in ("Text", "StartFresh"):
        spec["sql"] = OTHER
    if change == "Settings":
        spec["conf"] = {"a": "b"}
    return stream(status_at(place), **spec)


def status_at(place: str) -> dict[str, Any]:
    phase = phase_at(place)
    state = known(committedBatchId=2, **({} if place.endswith("NeverRan") else {"queryId": "q"}))
    if place == "NewNeverRan":
        state["upgrades"] = 1
    has_driver = {
        "operationId": "5f0c2a9e-0000-4000-8000-00000000000a",
        "session": {"name": "s", "podName": "s-1", "podUID": "pod-1", "bootId": DRIVER.boot_id},
    }
    return {
        "observedGeneration": 3, "phase": phase, "run": 1, "attempt": 2, "sqlHash": sql_hash(SQL), "streaming": state,
        "conditions": [{"type": "Ready", "status": "False", "reason": REASONS[phase]}],
        **(has_driver if phase != "Initialized" else {}),
        **({"startTime": ago(5)} if phase == "Running" else {}),
    }  # fmt: skip


def outcome(decision: Decision) -> tuple[str, ...]:
    commands = "|".join(type(command).__name__ for command in decision.commands)
    return (*told(decision), commands or "-")


def expected(row: Row, place: str) -> tuple[str, ...]:
    phase, reason, commands = row.outcome
    before = phase_at(place)
    return before if phase == "=" else phase, REASONS[before] if reason == "=" else reason, commands


def check(combination: tuple[str, ...]) -> None:
    s, row = snapshot_of(*combination), row_of(combination)
    for facts in ({"session": OLD_DRIVER}, {"session": DRIVER_THAT_COMPARES, "answer": FITS}):
        decision = decide(replace(s, **facts))
        assert isinstance(decision, Decision), combination
        assert outcome(decision) == expected(row, combination[2]), (combination, row.line)


def test_table_has_a_row_for_every_combination() -> None:
    missing = [combination for combination in COMBINATIONS if not any(row.fits(combination) for row in ROWS)]
    assert missing == []


def test_table_has_no_row_that_never_counts() -> None:
    used = {row_of(combination).line for combination in COMBINATIONS}
    assert [row.line for row in ROWS if row.line not in used] == []


def test_table_names_nothing_that_does_not_exist() -> None:
    columns = (DESIRED, CHANGES, PLACES, SAVEPOINTS)
    for row in ROWS:
        for pattern, values in zip(row.facts, columns, strict=True):
            assert pattern == "*" or set(pattern.split("|")) <= set(values), row.line


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("desired", DESIRED)
def test_every_combination_goes_where_its_row_says(desired: str, place: str) -> None:
    for change, savepoint in product(CHANGES, SAVEPOINTS):
        check((desired, change, place, savepoint))


@pytest.mark.parametrize("change", CHANGES)
def test_combinations_have_the_change_that_they_name(change: str) -> None:
    """A table that is held against other facts than it names would prove nothing."""
    for place in PLACES:
        facts = stream_facts(snapshot_of("Running", change, place, "-"))
        name = "".join(map(str.capitalize, facts.change.name.split("_"))) if facts.change is not None else "None"
        assert name == change.removesuffix("Later")
        assert isinstance(facts.restore_source, Waiting) is (change == "RestoreLater")
