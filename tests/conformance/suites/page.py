"""Writes the tables of README.md from `differences.yaml` and `reasons.py`, so that the page says what the tests hold.

Usage: python -m tests.conformance.suites.page [--check]
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.conformance.suites.listing import Areas, failing, parse
from tests.conformance.suites.reasons import REASONS

HERE = Path(__file__).parent
LIST = HERE / "differences.yaml"
PAGE = HERE / "README.md"
_PLACE = re.compile(r"(<!-- (reasons|areas) -->\n).*?(<!-- end -->)", re.DOTALL)


def main(arguments: list[str]) -> int:
    wanted = rendered(PAGE.read_text(), parse(LIST.read_text()))
    if arguments == ["--check"]:
        if wanted != PAGE.read_text():
            print(f"{PAGE} is not what {LIST.name} says: python -m tests.conformance.suites.page", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(wanted)
    return 0


def rendered(page: str, listing: Mapping[str, Areas]) -> str:
    """Returns the page with its tables generated from the list."""
    tables = {"reasons": _reasons, "areas": _areas}
    return _PLACE.sub(
        lambda place: place[1] + "".join(f"{line}\n" for line in tables[place[2]](listing)) + place[3], page
    )


def _reasons(listing: Mapping[str, Areas]) -> Iterator[str]:
    counts = {suite: Counter(failing(areas).values()) for suite, areas in listing.items()}
    yield f"| reason | whose choice | {' | '.join(counts)} | what |"
    yield f"|---|---|{'--:|' * len(counts)}---|"
    for name, reason in REASONS.items():
        yield f"| {name} | {reason.cause} | {' | '.join(str(each[name]) for each in counts.values())} | {reason.text} |"
    total = " | ".join(
        f"{each.total()} of {sum(area.tests for area in listing[suite].values())}" for suite, each in counts.items()
    )
    yield f"| all | | {total} | tests |"


def _areas(listing: Mapping[str, Areas]) -> Iterator[str]:
    yield "| suite | area | tests | skipped | fail |"
    yield "|---|---|--:|--:|--:|"
    for suite, areas in listing.items():
        for name, area in sorted(areas.items()):
            yield f"| {suite} | {name} | {area.tests} | {area.skipped} | {len(area.differences)} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
