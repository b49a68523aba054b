"""Writes `differences.yaml` anew from a run of files of the suite, and the table of README.md from it.

Usage: python -m tests.sqlsuite.generate [--through PROTOCOL]... [FILE...]

Without files all are run, without `--through` over all protocols; the entries of what is not run stay. A difference keeps the reason that
it is listed with as long as it is the same one, and gets one of `reasons.py` by rule otherwise. What no rule explains gets the reason
`unexplained`, which the tests refuse: write a rule, or find the fault.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.sqlsuite import page, suite
from tests.sqlsuite.comparing import Difference, ProtocolName
from tests.sqlsuite.listing import FileList, listed, parse, written
from tests.sqlsuite.place import Place
from tests.sqlsuite.reasons import explained
from tests.sqlsuite.running import differences
from tests.support.reasons import UNEXPLAINED


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--through", action="append", type=ProtocolName, choices=list(ProtocolName))
    parser.add_argument("files", nargs="*", metavar="FILE")
    given = parser.parse_args(arguments)
    unknown = set(given.files) - set(suite.names())
    if unknown:
        parser.error(f"no such files: {' '.join(sorted(unknown))}")
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
    ):  # a shell leaves SIGINT ignored in the background; the driver is to end
        signal.signal(number, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="sqlsuite-") as folder:
        asyncio.run(_run(Path(folder), given.through or list(ProtocolName), given.files or suite.names()))
    return page.main([])


async def _run(folder: Path, protocols: Sequence[ProtocolName], names: Sequence[str]) -> None:
    place = Place(folder)
    try:
        for name in names:
            for protocol in protocols:
                found = await differences(place, protocol, name)
                print(f"{protocol} {name}: {len(found)} differ", flush=True)
                for each in _enter(name, protocol, found):
                    print(f"{each.shown}\n", flush=True)
    finally:
        place.close()


def _enter(name: str, protocol: ProtocolName, found: Sequence[Difference]) -> list[Difference]:
    """Writes what a run has found at once, so that one that is broken off has done something. Returns what has no reason."""
    listing = parse(page.LIST.read_text()) if page.LIST.exists() else {}
    entry = listing.setdefault(name, FileList(len(suite.read(name).statements)))
    entry.differences[protocol] = listed(entry, protocol, found, explained(name, found))
    page.LIST.write_text(_HEAD + written(listing))
    unexplained = {(each.number, each.kind) for each in entry.differences[protocol] if each.reason == UNEXPLAINED}
    return [each for each in found if (each.number, each.kind) in unexplained]


_HEAD = "# Written by tests/sqlsuite/generate.py; listing.py says how it is read, reasons.py what the reasons mean.\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
