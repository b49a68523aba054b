"""Writes the tables of `docs/upgrades.md` from the cases that the tests try, so that the page says no more than they show.

Usage: python -m tests.gateway.upgrades.page [--check]. The page has a place for each subject: <!-- cases: SUBJECT --> to <!-- end -->.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from .. import listed
from .cases import CASES
from .structures import DIFFERENT, RETYPED, SAME, TODAY
from .texts import Accepted, Case, Parked, Rewritten

HERE = Path(__file__).parent
PAGE = HERE.parents[2] / "docs" / "upgrades.md"
_PLACE = re.compile(r"(<!-- cases: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
# What texts of one expression have of it: as a key, or as a value.
_EXPRESSION = re.compile(
    r"SELECT (?:country, )?(.+?)(?:, count\(\*\), sum\(amount\))? FROM STREAM src WATERMARK.* GROUP BY"
)
# Subjects by what the names of cases begin with; the first that fits counts.
_BEGINNINGS = {
    "stateless": "stateless",
    "aggregation over a stream-static join": "table",
    "aggregation": "aggregation",
    "window": "window",
    "session window": "window",
    "watermark": "window",
    "distinct": "distinct",
    "limit": "distinct",
    "join of streams": "join",
    "setting": "setting",
    "target": "setting",
    "": "text",
}
_WORDING = "wording"
# Beginnings that the heading of their table says already.
_SAID = frozenset({"stateless", "aggregation", "join of streams", "setting"})
# Subjects of texts that are compared as such; the others are wordings of an expression.
_SUBJECTS: Mapping[str, frozenset[str]] = {
    "aggregation": frozenset(
        {
            "a filter above the source",
            "a filter between two operators with state",
            "a filter of a source that is read twice",
            "a filter of a table that filters the groups",
            "a filter on a key above the groups",
            "a key in the condition of a join above the groups",
            "a table joined to the groups",
            "a table that filters the groups",
            "branches of a UNION swapped",
            "HAVING of a value",
            "HAVING of a value beside one of a key",
            "HAVING with a key",
        }
    ),
    "join": frozenset({"a filter of one side", "order of join keys", "sides of a self-join swapped"}),
    "table": frozenset(
        {
            "a filter below an aggregated table",
            "a filter of an inner join's table",
            "a filter of an outer join's table",
            "frame of a window",
            "LIMIT of a table",
            "which of two uses of one table a column is of",
            "order below a LIMIT",
            "rows of range()",
            "rows in the text",
            "values of PIVOT",
        }
    ),
    "text": frozenset({"a view of the same query", "subqueries and aliases"}),
}


@dataclass(frozen=True)
class Row:
    """A line of a table. `told` are words of the message."""

    subject: str
    change: str
    outcome: str
    told: str = ""

    @property
    def text(self) -> str:
        return f"| {_cell(self.change)} | {self.outcome} | {f'`{_cell(self.told)}`' if self.told else ''} |"


def rows() -> Iterator[Row]:
    """All cases, those that are run first, those that go on before the others."""
    found = [
        *map(_of_case, CASES),
        *_listed(),
        *(Row(_subject(name), _worded(name, *texts), listed.GOES_ON) for name, texts in SAME.items()),
        *(Row(_subject(name), _worded(name, *texts[:2]), listed.PARKED) for name, texts in DIFFERENT.items()),
        *(Row("source", _retyped(*each), listed.PARKED) for each in RETYPED.values()),
    ]
    once: dict[tuple[str, str], Row] = {}
    for row in found:
        once.setdefault((row.subject, row.change), row)
    yield from sorted(once.values(), key=lambda row: row.outcome)  # stable


def page(before: str) -> str:
    """The page with its tables as they are to be. Raises ValueError for a subject without a place, or a place without a case."""
    tables: dict[str, list[str]] = {}
    for row in rows():
        tables.setdefault(row.subject, []).append(row.text)
    places = [place[1] for place in _PLACE.findall(before)]
    if sorted(places) != sorted(tables):
        raise ValueError(f"the page has places for {sorted(places)}, and there are cases of {sorted(tables)}")

    def table(place: re.Match[str]) -> str:
        head = ["| change | outcome | words of the message |", "|---|---|---|"]
        return place[1] + "\n".join(["", *head, *tables[place[2]], "", place[3]])

    return _PLACE.sub(table, before)


def _of_case(case: Case) -> Row:
    beginning = next(each for each in _BEGINNINGS if case.name.startswith(each))
    change = case.name.removeprefix(f"{beginning}: ") if beginning in _SAID else case.name
    match case.outcome:
        case Parked(words):
            return Row(_BEGINNINGS[beginning], change, listed.PARKED, words)
        case Rewritten(words):
            return Row(_BEGINNINGS[beginning], change, listed.REWRITTEN, words)
        case Accepted():
            return Row(_BEGINNINGS[beginning], change, listed.GOES_ON)


def _subject(name: str) -> str:
    if name.startswith("the setting "):
        return "setting"
    return next((subject for subject, names in _SUBJECTS.items() if name in names), _WORDING)


def _worded(name: str, before: str, after: str) -> str:
    """A name, and of one expression what it was and is. The page must not change from day to day."""
    told = [found[1].replace(TODAY, "DATE'<today>'") for text in (before, after) if (found := _EXPRESSION.match(text))]
    if _subject(name) != _WORDING or len(told) < 2 or told[0].startswith("count("):
        return name
    return f"{name}: {' → '.join(f'`{each}`' for each in dict.fromkeys(told))}"


def _retyped(before: str, after: str, sql: str) -> str:
    was, now = (each.partition(" ")[2] for each in (before, after))
    found = _EXPRESSION.match(sql)
    assert found is not None, sql
    return f"{was} becomes {now} under the same text: `{found[1]}`"


def _listed() -> Iterator[Row]:
    """Lines of tests that stand for themselves."""
    for file in sorted(HERE.parent.rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            for call in getattr(node, "decorator_list", ()):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "listed":
                    subject, change, outcome = call.args
                    assert isinstance(outcome, ast.Name)
                    yield Row(ast.literal_eval(subject), ast.literal_eval(change), getattr(listed, outcome.id))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main(arguments: list[str]) -> int:
    """Exit code."""
    before = PAGE.read_text()
    after = page(before)
    if after == before:
        return 0
    if "--check" in arguments:
        sys.stderr.write(f"{PAGE} is not what the tests try: run `python -m tests.gateway.upgrades.page`\n")
        return 1
    PAGE.write_text(after)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
