"""Writes the layers of CONTRIBUTING.md and the table of imports of docs/architecture.md.

Usage: python -m tests.layers [--check]. A page has a place for each: <!-- layers --> or <!-- import graph --> to <!-- end -->.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from textwrap import indent

import grimp

from tests.layers.graph import Figures, edges_of, figures

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "sparksql",
    "sparksql.controllers",
    "sparksql.domain",
    "sparksql.front",
    "sparksql.gateway",
    "sparksql.gateway.frontends",
    "sparksql.gateway.streaming",
    "sparksql.gateway.streaming.state",
    "sparksql.gateway.windowing",
)
_ROOT_PACKAGE = "sparksql"


def main(arguments: Sequence[str]) -> int:
    """Return the exit code."""
    pages = {
        ROOT / "CONTRIBUTING.md": ("layers", layers((ROOT / "pyproject.toml").read_text())),
        ROOT / "docs" / "architecture.md": ("import graph", table(_figures())),
    }
    for page, (place, content) in pages.items():
        before = page.read_text()
        after = placed(before, place, content)
        if after == before:
            continue
        if "--check" in arguments:
            sys.stderr.write(f"{page.relative_to(ROOT)}: {place} differs from the code; run `python -m tests.layers`\n")
            return 1
        page.write_text(after)
    return 0


def layers(pyproject: str) -> str:
    """Return the layers of the operator's contract, lowest first."""
    contracts = tomllib.loads(pyproject)["tool"]["importlinter"]["contracts"]
    contract = next(each for each in contracts if each["type"] == "layers" and "containers" not in each)
    names = [
        ", ".join(sorted(unit.strip().removeprefix(f"{_ROOT_PACKAGE}.") for unit in layer.split("|")))
        for layer in reversed(contract["layers"])
    ]
    return f"`{' < '.join(names)}`\n"


def table(rows: Sequence[Figures]) -> str:
    """Return the figures as a table."""
    lines = ["| package | units | imports between them | floors | units in cycles |", "|---|---|---|---|---|"]
    for row in rows:
        cyclic = ", ".join(f"`{unit.rpartition('.')[2]}`" for unit in row.cyclic) or "none"
        lines.append(f"| `{row.package}` | {row.units} | {row.edges} | {row.floors} | {cyclic} |")
    return "\n".join(lines) + "\n"


def placed(page: str, place: str, content: str) -> str:
    """Return a page with new content at a place. Raises ValueError for a page without the place."""
    pattern = re.compile(rf"(<!-- {place} -->\n).*?([ ]*<!-- end -->)", re.DOTALL)
    if not pattern.search(page):
        raise ValueError(f"the page has no place <!-- {place} --> to <!-- end -->; add it")
    return pattern.sub(lambda match: f"{match[1]}{indent(content, _indent_of(match[2]))}{match[2]}", page, count=1)


def _indent_of(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _figures() -> list[Figures]:
    graph = grimp.build_graph(_ROOT_PACKAGE, cache_dir=None)
    return [figures(package, edges_of(graph, package)) for package in PACKAGES]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
