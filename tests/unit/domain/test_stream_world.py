"""A streaming statement in a world of random events: whatever happens, in whatever order, it runs on the state that it is to have."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.unit.domain.stream_model import TEXTS
from tests.unit.domain.stream_world import GIVEN, StreamWorld

StreamWorld.TestCase.settings = settings(
    max_examples=250, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
test_random_world = StreamWorld.TestCase


def test_world_goes_the_straight_way_when_nothing_is_wrong() -> None:
    """A model in which nothing can ever run would prove nothing."""
    world = StreamWorld()
    world.begin()
    world.it_runs_as_far_as_it_can()
    assert world.status.phase == "Running"
    world.driver_dies_or_starts()
    world.driver_dies_or_starts()
    world.operator_looks(passes=3, in_time=True)
    world.it_runs_as_far_as_it_can()
    assert (world.status.phase, world.status.attempt) == ("Running", 2)
    world.user_wishes("Stopped")
    world.operator_looks(passes=3)
    assert world.status.phase == "Stopped"
    world.user_changes_the_text(TEXTS[1])
    world.user_wishes("Running")
    world.it_runs_as_far_as_it_can()
    world.user_changes_the_text(TEXTS[2])
    world.it_runs_as_far_as_it_can()
    world.nothing_happens(4)
    assert world.status.conditions[0].reason == "StateIncompatible"
    world.user_changes("mode", 1)
    world.it_runs_as_far_as_it_can()
    assert [sorted(texts) for texts in world.checkpoints.texts.values()] == [[TEXTS[0], TEXTS[1]], [TEXTS[2]]]
    assert all(held.batch for held in world.checkpoints.held.values())


def test_world_goes_by_savepoints_when_that_is_wished() -> None:
    world = StreamWorld()
    world.begin(mode="Savepoint", start=GIVEN[0], schedule=True)
    world.user_brings_a_savepoint(GIVEN[0])
    world.it_runs_as_far_as_it_can()
    (began,) = world.checkpoints.begun.values()
    assert world.status.phase == "Running" and began is not None
    assert world.status.streaming is not None and world.status.streaming.restored_from == began.location
    world.time_passes(120)
    world.it_runs_as_far_as_it_can()
    assert {each.trigger for each in world.shelf.facts.values()} == {"Manual", "Periodic"}
    world.user_wishes("Stopped")
    world.it_runs_as_far_as_it_can()
    assert (world.status.phase, len(world.shelf.upgrades())) == ("Stopped", 1)
    world.user_wishes("Running")
    world.it_runs_as_far_as_it_can()
    world.user_changes_the_text(TEXTS[1])
    world.it_runs_as_far_as_it_can()
    assert (world.status.phase, len(world.shelf.upgrades())) == ("Running", 2)
    assert len(world.checkpoints.begun) == 1
    world.user_brings_a_savepoint(GIVEN[1])
    world.user_restores(GIVEN[1], "1")
    world.it_runs_as_far_as_it_can()
    assert (world.status.phase, len(world.checkpoints.begun)) == ("Running", 2)
