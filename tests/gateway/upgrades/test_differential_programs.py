"""The programs of `tests/bench/differential`, each with a few fixed draws: they try thousands."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparksql.gateway.spark.driver import SparkDriver
from tests.bench.differential import changelogs, savepoint_state
from tests.bench.differential.changed.changes import pairs
from tests.bench.differential.changed.trial import Clock, Trial
from tests.bench.differential.totals import Outcome

from ..local_spark import local_spark

SEED = 3
BAD = (Outcome.WRONG, Outcome.FAILED, Outcome.NEEDLESS)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    with local_spark(tmp_path_factory.mktemp("programs")) as started:
        yield started


@pytest.fixture(scope="module")
def trial(driver: SparkDriver, tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """Made once: its tables are in the module's Spark."""
    return Trial(driver, tmp_path_factory.mktemp("trial"), "0", Clock())


def test_stream_with_changed_constants_equals_plain_python(trial: Trial) -> None:
    outcomes = []
    for pair in itertools.islice(pairs(SEED), 5):
        verdict = trial.verdict(pair)
        assert verdict.outcome not in BAD, (pair, verdict)
        outcomes.append(verdict.outcome)
    assert Outcome.RIGHT in outcomes, outcomes


def test_changelog_of_a_drawn_history_equals_plain_python(driver: SparkDriver, tmp_path: Path) -> None:
    query, encoding, verdict = changelogs.tried(driver, tmp_path, SEED, 0)
    assert verdict.outcome is Outcome.RIGHT, (query.text, encoding, verdict)


def test_state_made_of_a_state_table_equals_plain_python(driver: SparkDriver, trial: Trial) -> None:
    drawn = random.Random(f"{SEED}:0")
    made = savepoint_state.query(drawn)
    way = savepoint_state.way_of(drawn, made)
    verdict = savepoint_state.Detour(driver, trial).verdict(made, way)
    assert verdict.outcome is Outcome.RIGHT, (made, way, verdict)
