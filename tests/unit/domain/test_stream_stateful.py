"""A streaming statement under random events: whatever happens, in whatever order, it runs on the state that it is to have."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.unit.domain.stream_stateful import GIVEN, StreamMachine
from tests.unit.domain.stream_stateful_model import TEXTS

DAILY = settings(max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def test_stream_keeps_the_contract_under_random_events() -> None:
    run_state_machine_as_test(StreamMachine, settings=DAILY)


@pytest.mark.thorough
def test_stream_keeps_the_contract_under_many_random_events() -> None:
    run_state_machine_as_test(StreamMachine, settings=settings(DAILY, max_examples=600))


def test_stream_machine_runs_restarts_stops_and_is_parked_when_nothing_is_wrong() -> None:
    """A model in which nothing can ever run would prove nothing."""
    machine = StreamMachine()
    machine.begin()
    machine.it_runs_as_far_as_it_can()
    assert machine.status.phase == "Running"
    machine.driver_dies_or_starts()
    machine.driver_dies_or_starts()
    machine.operator_looks(passes=3, in_time=True)
    machine.it_runs_as_far_as_it_can()
    assert (machine.status.phase, machine.status.attempt) == ("Running", 2)
    machine.user_wishes("Stopped")
    machine.operator_looks(passes=3)
    assert machine.status.phase == "Stopped"
    machine.user_changes_the_text(TEXTS[1])
    machine.user_wishes("Running")
    machine.it_runs_as_far_as_it_can()
    machine.user_changes_the_text(TEXTS[2])
    machine.it_runs_as_far_as_it_can()
    machine.nothing_happens(4)
    assert machine.status.conditions[0].reason == "StateIncompatible"
    machine.user_changes("mode", 1)
    machine.it_runs_as_far_as_it_can()
    assert [sorted(texts) for texts in machine.checkpoints.texts.values()] == [[TEXTS[0], TEXTS[1]], [TEXTS[2]]]
    assert all(held.batch for held in machine.checkpoints.held.values())


def test_stream_machine_goes_on_in_another_checkpoint_for_a_text_with_other_aggregates() -> None:
    machine = StreamMachine()
    machine.begin(mode="LastState", start=None, schedule=False)
    machine.driver_dies_or_starts()
    machine.it_runs_as_far_as_it_can()
    machine.user_changes_the_text(TEXTS[3])
    machine.it_runs_as_far_as_it_can()
    first, second = machine.checkpoints.begun
    assert (machine.status.phase, machine.checkpoints.ids[first]) == ("Running", machine.checkpoints.ids[second])
    assert machine.status.streaming is not None and machine.status.streaming.rewritten_from == first
    assert [sorted(texts) for texts in machine.checkpoints.texts.values()] == [[TEXTS[0]], [TEXTS[3]]]


def test_stream_machine_restores_and_saves_by_savepoints_when_that_is_wished() -> None:
    machine = StreamMachine()
    machine.begin(mode="Savepoint", start=GIVEN[0], schedule=True)
    machine.user_brings_a_savepoint(GIVEN[0])
    machine.it_runs_as_far_as_it_can()
    (began,) = machine.checkpoints.begun.values()
    assert machine.status.phase == "Running" and began is not None
    assert machine.status.streaming is not None and machine.status.streaming.restored_from == began.location
    machine.time_passes(120)
    machine.it_runs_as_far_as_it_can()
    assert {each.trigger for each in machine.shelf.facts.values()} == {"Manual", "Periodic"}
    machine.user_wishes("Stopped")
    machine.it_runs_as_far_as_it_can()
    assert (machine.status.phase, len(machine.shelf.upgrades())) == ("Stopped", 1)
    machine.user_wishes("Running")
    machine.it_runs_as_far_as_it_can()
    machine.user_changes_the_text(TEXTS[1])
    machine.it_runs_as_far_as_it_can()
    assert (machine.status.phase, len(machine.shelf.upgrades())) == ("Running", 2)
    assert len(machine.checkpoints.begun) == 1
    machine.user_brings_a_savepoint(GIVEN[1])
    machine.user_restores(GIVEN[1], "1")
    machine.it_runs_as_far_as_it_can()
    assert (machine.status.phase, len(machine.checkpoints.begun)) == ("Running", 2)
