"""Tries thousands of changed queries with a real Spark, see `tests/gateway/upgrades/differential.py`, and counts what came of them.

Usage: python -m tests.bench.state_differential PAIRS SEED [SKIP]. Files go below TMPDIR, which had better be in memory. Ends with 1 if
anything that was let go on gave wrong numbers, or ended in an error.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.gateway.local_spark import local_spark
from tests.gateway.upgrades.changes import Pair, pairs
from tests.gateway.upgrades.differential import Outcome, Tally, Trial, Verdict
from tests.gateway.upgrades.grammar import view_of

_TOLD = (Outcome.WRONG, Outcome.FAILED, Outcome.REFUSED, Outcome.NEEDLESS)
_EVERY = 100


def main(count: int, seed: int, skip: int) -> int:
    tally, shapes = Tally(), Counter[str]()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, local_spark(Path(folder)) as driver:
        trial = Trial(driver, Path(folder, "tables"))
        for number, pair in enumerate(itertools.islice(pairs(seed), skip, skip + count), skip):
            verdict = trial.verdict(pair)
            tally.add(pair, verdict)
            shapes[f"{pair.old.shape}: {verdict.outcome}"] += 1
            if verdict.outcome in _TOLD:
                print(_told(number, pair, verdict), flush=True)
            if (number + 1 - skip) % _EVERY == 0:
                print(f"{number + 1 - skip} pairs, {time.monotonic() - begun:.0f} s: {_counts(tally)}", flush=True)
    print(f"{count} pairs of seed {seed} from {skip}: {_counts(tally)}")
    print("\n".join(f"  {name}: {shapes[name]}" for name in sorted(shapes)))
    return 1 if tally.outcomes[Outcome.WRONG] or tally.outcomes[Outcome.FAILED] else 0


def _counts(tally: Tally) -> str:
    counts = ", ".join(f"{outcome.value} {tally.outcomes[outcome]}" for outcome in Outcome)
    return f"accepted {tally.run}; {counts}; {tally.needless:.1%} of {tally.harmless} harmless changes parked"


def _told(number: int, pair: Pair, verdict: Verdict) -> str:
    old, new = (f"{each.text(streams=True)} {view_of(each) or ''} {dict(each.conf)}" for each in (pair.old, pair.new))
    rows = "\n   ".join(map(str, (verdict.written, verdict.expected) if verdict.written or verdict.expected else ()))
    return f"{verdict.outcome} (number {number}, {pair.kind}): {old}\n   ->  {new}\n   {verdict.words}{rows}"


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0))
