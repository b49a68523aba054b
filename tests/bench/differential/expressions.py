"""Pairs of queries of every expression and aggregate, see `tests/gateway/upgrades/differential.py`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

from sparksql.gateway.spark.driver import SparkDriver
from tests.gateway.upgrades.changes import Kind, Pair, pairs
from tests.gateway.upgrades.differential import Trial
from tests.gateway.upgrades.grammar import view_of

from .totals import Outcome, Verdict


def tried(
    driver: SparkDriver, folder: Path, seed: int, skip: int, count: int
) -> Iterator[tuple[str, str, bool, str, Verdict]]:
    """Yields the name and the kind of each pair, whether it is harmless, its texts, and its outcome."""
    trial = Trial(driver, folder)
    for number, pair in enumerate(itertools.islice(pairs(seed), skip, skip + count), skip):
        found = trial.verdict(pair)
        verdict = Verdict(Outcome[found.outcome.name], found.words, found.written, found.expected)
        kind = f"{pair.kind} of {pair.old.shape}"
        yield f"expressions {seed}:{number}", kind, pair.kind is not Kind.OTHER, _queries(pair), verdict


def _queries(pair: Pair) -> str:
    old, new = (f"{each.text(streams=True)} {view_of(each) or ''} {dict(each.conf)}" for each in (pair.old, pair.new))
    return f"{old}\n   ->  {new}"
