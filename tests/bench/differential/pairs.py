"""Tries pairs of streaming queries: the old one runs on a first part of rows, the new one begins with its checkpoint.

Usage: python -m tests.bench.differential.pairs --pairs N --seed S [--of constants|expressions|both] [--skip N] [--minutes M]
[--threads N]. `constants` are queries with literals, parameters, variables and settings, beside plain Python; `expressions` those of
`tests/gateway/upgrades/changes.py`, with every aggregate, beside Spark's batches and unbroken runs. Files go below TMPDIR, which had
better be in memory. Prints each pair that is wrong, fails or is refused without need, and a line of JSON with the totals. Ends with 1
if anything was wrong or failed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import queue
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sparksql.gateway.spark.driver import SparkDriver
from tests.gateway.local_spark import local_spark

from . import expressions
from .changed.changes import Pair, pairs
from .changed.trial import Clock, Trial
from .totals import Outcome, Totals, Verdict

_SHOWN = (Outcome.WRONG, Outcome.FAILED, Outcome.NEEDLESS, Outcome.REFUSED)
_EVERY = 100
_NAMES = {"one": "one", "other": "other"}


@dataclass(frozen=True)
class Tried:
    """One pair, as queries, and its outcome."""

    name: str
    kind: str
    is_harmless: bool
    text: str
    verdict: Verdict


Tries = Iterator[Callable[[], Tried]]
_Done = queue.Queue[Tried | BaseException | None]


def main(arguments: argparse.Namespace) -> int:
    """Runs the program."""
    logging.getLogger("SQLQueryContextLogger").disabled = True  # PySpark's: errors that are outcomes here
    totals, kinds, begun, clock = Totals(), Counter[str](), time.monotonic(), Clock()
    done: _Done = queue.Queue()
    with tempfile.TemporaryDirectory() as folder, local_spark(Path(folder)) as driver:
        works = list(_works(arguments, driver, Path(folder), clock))
        until = begun + 60 * arguments.minutes if arguments.minutes else float("inf")
        for work in works:
            threading.Thread(target=_run, args=(work, until, done), daemon=True).start()
        left = len(works)
        while left:
            match done.get():
                case None:
                    left -= 1
                case BaseException() as broken:
                    raise broken
                case tried:
                    totals.add(tried.name, tried.verdict.outcome, is_harmless=tried.is_harmless)
                    kinds[f"{tried.kind}: {tried.verdict.outcome}"] += 1
                    if tried.verdict.outcome in _SHOWN:
                        print(_report(tried), flush=True)
                    if totals.outcomes.total() % _EVERY == 0:
                        print(_line(arguments, totals, begun, clock), flush=True)
    print(_line(arguments, totals, begun, clock, kinds))
    return 1 if totals.wrong or totals.failed else 0


def _line(
    arguments: argparse.Namespace, totals: Totals, begun: float, clock: Clock, kinds: Counter[str] | None = None
) -> str:
    count = totals.outcomes.total()
    about = {
        "program": "pairs",
        "seed": arguments.seed,
        "pairs": count,
        "a minute": round(60 * count / (time.monotonic() - begun), 1),
        "seconds of all threads": {what: round(each, 1) for what, each in sorted(clock.spent.items())},
    }
    return json.dumps({**about, **totals.counts(), **({"kinds": dict(sorted(kinds.items()))} if kinds else {})})


def _works(arguments: argparse.Namespace, driver: SparkDriver, folder: Path, clock: Clock) -> Iterator[Tries]:
    """What each thread tries."""
    count = arguments.pairs
    if arguments.of in ("expressions", "both"):
        count = count // 2 if arguments.of == "both" else count
        yield _of_expressions(driver, folder, arguments.seed, arguments.skip, count)
    if arguments.of in ("constants", "both"):
        shared = _Shared(_by_old(arguments.seed, arguments.skip, count))
        for number in range(arguments.threads):
            yield _of_constants(driver, folder / f"worker{number}", number, shared, clock, arguments.seed)


def _of_expressions(driver: SparkDriver, folder: Path, seed: int, skip: int, count: int) -> Tries:
    for name, kind, is_harmless, text, verdict in expressions.tried(driver, folder / "expressions", seed, skip, count):
        found = Tried(name, kind, is_harmless, text, verdict)
        yield lambda found=found: found  # type: ignore[misc]


class _Shared:
    """Hands the pairs of one old query together to the next thread that is free."""

    def __init__(self, batches: Iterator[list[tuple[int, Pair]]]) -> None:
        self._batches = batches
        self._lock = threading.Lock()

    def next(self) -> list[tuple[int, Pair]]:
        with self._lock:
            return next(self._batches, [])


def _by_old(seed: int, skip: int, count: int) -> Iterator[list[tuple[int, Pair]]]:
    numbered = itertools.islice(enumerate(pairs(seed)), skip, skip + count)
    for _, some in itertools.groupby(numbered, key=lambda each: id(each[1].old)):
        yield list(some)


def _of_constants(driver: SparkDriver, place: Path, worker: int, shared: _Shared, clock: Clock, seed: int) -> Tries:
    trial = Trial(driver, place, str(worker), clock)
    while batch := shared.next():
        for number, pair in batch:
            yield lambda number=number, pair=pair: Tried(  # type: ignore[misc]
                f"{seed}:{number}", pair.kind, pair.is_harmless, _queries(pair), trial.verdict(pair)
            )


def _run(work: Tries, until: float, done: _Done) -> None:
    try:
        for each in work:
            if time.monotonic() > until:
                break
            done.put(each())
        done.put(None)
    except BaseException as broken:  # raised again in the main thread
        done.put(broken)


def _queries(pair: Pair) -> str:
    old, new = (
        f"{each.text(_NAMES)} {[(c.name, c.value) for c in each.constants]} {each.mode} {dict(each.conf)}"
        for each in (pair.old, pair.new)
    )
    return f"{old}\n   ->  {new}"


def _report(tried: Tried) -> str:
    verdict = tried.verdict
    more = f"\n   found    {verdict.found}\n   expected {verdict.expected}" if verdict.found or verdict.expected else ""
    return f"{verdict.outcome} ({tried.name}, {tried.kind}): {tried.text}\n   {verdict.words}{more}"


def parsed() -> argparse.Namespace:
    """Returns the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.differential.pairs")
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--of", choices=("constants", "expressions", "both"), default="both")
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main(parsed()))
