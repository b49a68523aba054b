"""Changed queries that nobody has thought of, drawn from a fixed seed: what is let go on equals a recomputation, and what is
harmless is let go on. `tests/bench/differential/pairs.py` tries thousands."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.scala import elements
from tests.support.thorough import thorough_but

from ..local_spark import local_spark
from .changes import Kind, Pair, pairs
from .differential import Outcome, Tally, Trial
from .expressions import AGGREGATES, FORMS, UNTRIED, changed, expression, reworded

SEED = 13
# Seeds, pairs, and how many of these are run.
DRAWS = [(SEED, 8, 2), (SEED, 25, 2), (SEED, 200, 16)]
MOST_NEEDLESS = 0.05


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    with local_spark(tmp_path_factory.mktemp("differential")) as started:
        yield started


@pytest.fixture(scope="module")
def trial(driver: SparkDriver, tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """Made once: its tables are in the module's Spark."""
    return Trial(driver, tmp_path_factory.mktemp("trial"))


@pytest.mark.parametrize(("seed", "count", "most_run"), thorough_but(DRAWS[:1], DRAWS))
def test_a_random_change_accepted_for_a_stream_equals_a_recomputation(
    trial: Trial, seed: int, count: int, most_run: int
) -> None:
    tally = Tally()
    for pair in itertools.islice(pairs(seed), count):
        verdict = trial.verdict(pair, may_run=tally.run < most_run)
        tally.add(pair, verdict)
        assert verdict.outcome not in (Outcome.WRONG, Outcome.FAILED), (pair, verdict)
    assert tally.run == most_run, tally
    assert tally.outcomes[Outcome.PARKED] >= count / 5, tally
    assert tally.needless < MOST_NEEDLESS, tally


def test_every_aggregate_of_spark_is_tried(driver: SparkDriver) -> None:
    """So that a new one of a later version is noticed."""
    registry = driver.base.sessionState().functionRegistry()
    found = set()
    for each in elements(registry.listFunction()):
        info = registry.lookupFunction(each)
        if info.isDefined() and info.get().getGroup() == "agg_funcs":
            found.add(str(each.funcName()))
    told = " ".join(form for groups in AGGREGATES.values() for group in groups for form in group)
    assert {name for name in found - UNTRIED if f"{name}(" not in told} == set()
    assert found >= UNTRIED


def test_pairs_are_the_same_each_time() -> None:
    def drawn() -> list[Pair]:
        return list(itertools.islice(pairs(SEED), 50))

    assert drawn() == drawn()
    assert {pair.kind for pair in drawn()} == set(Kind)


def test_a_generated_expression_keeps_its_type_when_reworded_or_changed() -> None:
    one = random.Random(SEED)
    for type_ in FORMS:
        for _ in range(50):
            part = expression(one, type_, 2)
            other = reworded(one, part)
            assert other is None or (other.type == type_ and other != part)
            assert changed(one, part).type == type_
