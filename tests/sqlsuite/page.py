"""Writes the tables of README.md from `differences.yaml` and `reasons.py`, so that the page says what the tests hold.

Usage: python -m tests.sqlsuite.page [--check]
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.sqlsuite.comparing import ProtocolName
from tests.sqlsuite.listing import Listing, parse
from tests.sqlsuite.reasons import REASONS

HERE = Path(__file__).parent
LIST = HERE / "differences.yaml"
PAGE = HERE / "README.md"
_PLACE = re.compile(r"(<!-- (reasons|files) -->\n).*?(<!-- end -->)", re.DOTALL)


def main(arguments: list[str]) -> int:
    wanted = rendered(PAGE.read_text(), parse(LIST.read_text()))
    if arguments == ["--check"]:
        if wanted != PAGE.read_text():
            print(f"{PAGE} is not what {LIST.name} says: python -m tests.sqlsuite.page", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(wanted)
    return 0


def rendered(page: str, listing: Listing) -> str:
    """Returns the page with its tables made anew."""
    tables = {"reasons": _reasons, "files": _files}
    return _PLACE.sub(
        lambda place: place[1] + "".join(f"{line}\n" for line in tables[place[2]](listing)) + place[3], page
    )


def _reasons(listing: Listing) -> Iterator[str]:
    counts = {protocol: Counter[str]() for protocol in ProtocolName}
    for file in listing.values():
        for protocol, found in file.differences.items():
            counts[protocol].update(each.reason for each in found)
    yield f"| reason | whose choice | {' | '.join(ProtocolName)} | what |"
    yield f"|---|---|{'--:|' * len(ProtocolName)}---|"
    for name, reason in REASONS.items():
        numbers = " | ".join(str(counts[protocol][name]) for protocol in ProtocolName)
        yield f"| {name} | {reason.cause} | {numbers} | {reason.text} |"
    total = " | ".join(str(counts[protocol].total()) for protocol in ProtocolName)
    statements = sum(file.statements for file in listing.values())
    yield f"| all | | {total} | of {statements:,} statements in {len(listing)} files |"


def _files(listing: Listing) -> Iterator[str]:
    yield f"| file | statements | {' | '.join(ProtocolName)} |"
    yield f"|---|--:|{'--:|' * len(ProtocolName)}"
    for name, file in sorted(listing.items()):
        numbers = [len(file.differences.get(protocol, ())) for protocol in ProtocolName]
        if any(numbers):
            yield f"| {name} | {file.statements} | {' | '.join(map(str, numbers))} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
