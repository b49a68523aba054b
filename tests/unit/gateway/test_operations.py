"""The register: only legal transitions, terminal stays terminal, and no change is lost to a reader."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.gateway.operations.register import TRANSITIONS, IllegalTransitionError, OperationRegister
from sparksql.wire.control import ClientProtocol, OperationState, ResultSummary

NOW = datetime(2026, 1, 31, tzinfo=UTC)


def register() -> OperationRegister:
    return OperationRegister("boot", lambda: NOW)


def test_the_table_is_that_of_the_contract() -> None:
    ends = {OperationState.CANCELED, OperationState.CLOSED, OperationState.ERROR, OperationState.TIMED_OUT}
    assert TRANSITIONS[OperationState.PENDING] == ends | {OperationState.RUNNING}
    assert TRANSITIONS[OperationState.RUNNING] == ends | {OperationState.FINISHED}
    for state in OperationState:
        assert bool(TRANSITIONS[state]) is not state.is_terminal


@given(wishes=st.lists(st.sampled_from(OperationState), max_size=12))
def test_no_sequence_of_wishes_makes_an_illegal_transition(wishes: list[OperationState]) -> None:
    operations = register()
    state = operations.create("a").state
    for wish in wishes:
        before = operations.get("a")
        try:
            view = operations.start("a") if wish is OperationState.RUNNING else operations.end("a", wish)
        except IllegalTransitionError:
            assert wish not in TRANSITIONS[state]
            assert operations.get("a") == before
        else:
            assert wish in TRANSITIONS[state]
            assert view.completion_time == (NOW if wish.is_terminal else None)
            state = view.state


@given(
    changes=st.lists(st.tuples(st.sampled_from("abcde"), st.booleans()), max_size=40),
    reads=st.lists(st.integers(0, 40), max_size=10),
)
def test_a_reader_that_comes_and_goes_sees_the_last_view_of_all(
    changes: list[tuple[str, bool]], reads: list[int]
) -> None:
    operations = register()
    seen: dict[str, int] = {}
    last = 0

    def read() -> None:
        nonlocal last
        for view in operations.changed_after(last):
            assert view.seq > last
            last = view.seq
            seen[view.operation_id] = view.seq

    for index, (operation_id, end) in enumerate(changes):
        view = operations.get(operation_id)
        if view is None:
            operations.create(operation_id)
        elif not view.state.is_terminal:
            operations.end(operation_id, OperationState.CANCELED) if end else operations.update(
                operation_id, statement_type=f"T{index}"
            )
        if index in reads:
            read()
    read()
    assert seen == {view.operation_id: view.seq for view in operations.changed_after(0)}
    assert last == operations.last_seq


@given(
    steps=st.lists(
        st.tuples(st.sampled_from("abcde"), st.sampled_from([*OperationState, "update", "tombstone", "forget"]))
    )
)
def test_live_operations_are_those_that_have_not_ended_oldest_change_first(
    steps: list[tuple[str, OperationState | str]],
) -> None:
    operations = register()
    for name, step in steps:
        with contextlib.suppress(IllegalTransitionError, KeyError):
            match step:
                case OperationState.PENDING:
                    operations.create(name, protocol=ClientProtocol.REST)
                case OperationState.RUNNING:
                    operations.start(name)
                case "update":
                    operations.update(name, statement_type=f"type {operations.last_seq}")
                case "tombstone":
                    operations.tombstone(name, OperationState.CANCELED)
                case "forget":
                    operations.forget(name)
                case OperationState():
                    operations.end(name, step)
        assert operations.live() == [view for view in operations.changed_after(0) if not view.state.is_terminal]


def test_an_operation_update_that_changes_nothing_makes_no_event() -> None:
    notified: list[int] = []
    operations = OperationRegister("boot", lambda: NOW, lambda: notified.append(1))
    first = operations.create("a")
    assert operations.update("a", statement_type=None) == first
    assert notified == [1]


def test_a_tombstone_is_terminal_and_known() -> None:
    operations = register()
    tombstone = operations.tombstone("a", OperationState.CANCELED)
    assert tombstone.state is OperationState.CANCELED
    for attempt in (lambda: operations.create("a"), lambda: operations.tombstone("a", OperationState.CLOSED)):
        with pytest.raises(IllegalTransitionError):
            attempt()
    with pytest.raises(IllegalTransitionError):
        operations.tombstone("b", OperationState.RUNNING)


def test_an_operation_keeps_number_and_result_when_its_preview_is_forgotten() -> None:
    operations = register()
    operations.create("a")
    operations.start("a")
    result = ResultSummary(row_count=1, preview=(("x",),))
    view = operations.end("a", OperationState.FINISHED, result=result)
    operations.forget_preview("a")
    kept = operations.view("a")
    assert (kept.seq, kept.result) == (view.seq, ResultSummary(row_count=1))
