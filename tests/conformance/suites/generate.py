"""Runs whole suites, and replaces their entries in `differences.yaml` and the tables of README.md.

Usage: python -m tests.conformance.suites.generate [SUITE...]

A test that fails keeps the reason that it is listed with. A new one gets the reason `unexplained`, which the tests refuse, and its
message is printed: find whose choice the failure is, and write the reason into the list.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.conformance import target as targets
from tests.conformance.suites import page
from tests.conformance.suites.listing import failing, listed, parse, written
from tests.conformance.suites.running import run
from tests.conformance.suites.suites import SUITES, area
from tests.support.reasons import UNEXPLAINED


def main(names: Sequence[str]) -> int:
    listing = parse(page.LIST.read_text()) if page.LIST.exists() else {}
    with tempfile.TemporaryDirectory(prefix="client-suites-") as folder, targets.of_processes(Path(folder)) as target:
        for name in names or SUITES:
            outcomes = run(SUITES[name], Path(folder, name), target)
            known = failing(listing.get(name, {}))
            failed = {test: known.get(test, UNEXPLAINED) for test, outcome in outcomes.items() if not outcome.passed}
            for test in sorted(failed):
                if failed[test] == UNEXPLAINED:
                    print(f"{name} {test}\n{outcomes[test].message[-3000:]}\n", flush=True)
            listing[name] = listed({test: outcomes[test].skipped for test in sorted(outcomes)}, failed, area)
            page.LIST.write_text(_HEAD + written(listing))
    return page.main([])


_HEAD = "# Written by tests/conformance/suites/generate.py; listing.py says how it is read, reasons.py what the reasons mean.\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
