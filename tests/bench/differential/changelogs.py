"""Tries queries over changelogs with random histories; after each batch the target is compared with plain Python.

Usage: python -m tests.bench.differential.changelogs --histories N --seed S [--skip N] [--minutes M]. Prints a line for each history
that is wrong or fails, and a line of JSON with the totals. Ends with 1 if anything was wrong or failed.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors.exceptions.captured import CapturedException

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.sql.errors import PlacedError, StatementError
from tests.gateway.local_spark import local_spark

from .changelog.histories import COLUMNS, history
from .changelog.queries import ChangelogQuery, latest, query
from .changelog.runs import ChangelogRun, Rows, place
from .totals import Outcome, Totals, Verdict

_EVERY = 100
_FAST = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def main(arguments: argparse.Namespace) -> int:
    """Runs the program."""
    logging.getLogger("SQLQueryContextLogger").disabled = True  # PySpark's: errors that are outcomes here
    totals, shapes, begun = Totals(), Counter[str](), time.monotonic()
    with tempfile.TemporaryDirectory() as folder, local_spark(Path(folder), **_FAST) as driver:
        for number in range(arguments.skip, arguments.skip + arguments.histories):
            if arguments.minutes and time.monotonic() > begun + 60 * arguments.minutes:
                break
            made, encoding, verdict = tried(driver, Path(folder), arguments.seed, number)
            totals.add(f"{arguments.seed}:{number}", verdict.outcome, is_harmless=made.is_exact)
            shapes[f"{made.shape}, {encoding}: {verdict.outcome}"] += 1
            if verdict.outcome in (Outcome.WRONG, Outcome.FAILED, Outcome.NEEDLESS):
                print(
                    f"{verdict.outcome} (number {number}, {encoding}): {made.output_mode} {made.text}\n   {verdict.words}",
                    flush=True,
                )
                print(f"   found    {verdict.found}\n   expected {verdict.expected}", flush=True)
            if totals.outcomes.total() % _EVERY == 0:
                print(f"{time.monotonic() - begun:.0f} s: {json.dumps(totals.counts())}", flush=True)
    about = {"program": "changelogs", "seed": arguments.seed, "histories": totals.outcomes.total()}
    about["seconds"] = round(time.monotonic() - begun)
    print(json.dumps({**about, **totals.counts(), "shapes": dict(sorted(shapes.items()))}))
    return 1 if totals.wrong or totals.failed else 0


def tried(driver: SparkDriver, folder: Path, seed: int, number: int) -> tuple[ChangelogQuery, str, Verdict]:
    """Tries one history. Returns the query, the encoding and its outcome."""
    drawn = random.Random(f"{seed}:{number}")
    encoding = drawn.choice(("debezium", "debezium", "debezium", "maxwell"))
    made = latest(drawn) if encoding == "maxwell" or drawn.random() < 0.15 else query(drawn)
    return made, encoding, _verdict(driver, place(folder), drawn, encoding, made)


def _verdict(driver: SparkDriver, folder: Path, drawn: random.Random, encoding: str, made: ChangelogQuery) -> Verdict:
    batches = drawn.choice((2, 3, 4))
    told = history(drawn, encoding, batches=batches)
    cut = drawn.randrange(1, batches)
    session: Any = driver.clone()
    try:
        run = ChangelogRun(driver, session, folder, encoding, made)
        run.planned()
    except (PlacedError, StatementError) as refused:
        return Verdict(Outcome.NEEDLESS if made.is_exact else Outcome.PARKED, str(refused))
    try:
        for part in (range(cut), range(cut, batches)):  # the second time from the checkpoint
            for batch in part:
                for table in COLUMNS:
                    run.write(table, told.batches[table][batch])
            run.run()
    except (Py4JError, CapturedException, PlacedError, StatementError) as failed:
        return Verdict(Outcome.FAILED, str(failed)[:2000])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        driver.close_session(session)
    wanted = [made.answer({table: told.seen[table][batch] for table in COLUMNS}) for batch in range(batches)]
    if len(run.after) != batches:
        return Verdict(Outcome.WRONG, f"{len(run.after)} batches of {batches}")
    for batch, (found, expected) in enumerate(zip(run.after, wanted, strict=True)):
        if rounded(found) != rounded(expected):
            texts = (tuple(sorted(map(str, rows))) for rows in (rounded(found), rounded(expected)))
            return Verdict(Outcome.WRONG, f"after batch {batch} of {batches}, restarted after {cut}", *texts)
    return Verdict(Outcome.RIGHT)


def rounded(rows: Rows | Sequence[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """Returns rows that are equal if their values are."""

    def value(each: Any) -> Any:
        if isinstance(each, bool) or not isinstance(each, int | float | Decimal):
            return each
        return float(f"{float(each):.10g}") + 0.0  # no -0.0

    return Counter(tuple(map(value, row)) for row in rows)


def parsed() -> argparse.Namespace:
    """Returns the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.differential.changelogs")
    parser.add_argument("--histories", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main(parsed()))
