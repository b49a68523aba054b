"""The list of differences: which statements differ from Spark's golden files, in what, through which protocols, and why. Pure.

In `differences.yaml` each file of the suite has the number of its statements and, if some differ, lines of those that differ alike:

    charvarchar.sql:
      statements: 90
      differences:
      - {are: 2 7-10, differ: rows, because: metastore}
      - {are: 24, differ: failed, through: rest thrift, because: metastore}

A line without `through` holds for all protocols. Number 0 stands for the settings of a file.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from tests.sqlsuite.comparing import Difference, Kind, ProtocolName
from tests.support.reasons import UNEXPLAINED


@dataclass(frozen=True, order=True)
class Listed:
    """A statement that differs, by its number in its file, and the name of the reason."""

    number: int
    kind: Kind
    reason: str


@dataclass
class FileList:
    """A file's number of statements, and its differences by protocol."""

    statements: int
    differences: dict[ProtocolName, frozenset[Listed]] = field(default_factory=dict)


Listing = dict[str, FileList]


def parse(text: str) -> Listing:
    """Returns the list that a text holds."""
    return {name: _file(each) for name, each in (yaml.safe_load(text) or {}).items()}


def written(listing: Listing) -> str:
    """Returns the text of a list: files by name, lines by their first statement."""
    lines: list[str] = []
    for name in sorted(listing):
        lines += [f"{name}:", f"  statements: {listing[name].statements}"]
        found = _lines(listing[name].differences)
        lines += ["  differences:", *found] if found else []
    return "\n".join(lines) + "\n"


def listed(
    file: FileList, protocol: ProtocolName, found: Sequence[Difference], reasons: Sequence[str]
) -> frozenset[Listed]:
    """Returns differences with the reasons that rules give; one that no rule tells keeps the reason that it is listed with."""
    given = {(each.number, each.kind): each.reason for others in file.differences.values() for each in others}
    given |= {(each.number, each.kind): each.reason for each in file.differences.get(protocol, ())}
    return frozenset(
        Listed(each.number, each.kind, given.get((each.number, each.kind), reason) if reason == UNEXPLAINED else reason)
        for each, reason in zip(found, reasons, strict=True)
    )


def _file(read: Mapping[str, Any]) -> FileList:
    found: dict[ProtocolName, set[Listed]] = {protocol: set() for protocol in ProtocolName}
    for line in read.get("differences", ()):
        through = map(ProtocolName, line["through"].split()) if "through" in line else ProtocolName
        for protocol in through:
            found[protocol] |= {Listed(n, Kind(line["differ"]), line["because"]) for n in _numbers(str(line["are"]))}
    return FileList(read["statements"], {protocol: frozenset(each) for protocol, each in found.items()})


def _lines(differences: Mapping[ProtocolName, frozenset[Listed]]) -> list[str]:
    protocols: dict[Listed, list[ProtocolName]] = defaultdict(list)
    for protocol in ProtocolName:
        for each in differences.get(protocol, ()):
            protocols[each].append(protocol)
    alike: dict[tuple[Kind, tuple[ProtocolName, ...], str], list[int]] = defaultdict(list)
    for each, through in sorted(protocols.items()):
        alike[each.kind, tuple(through), each.reason].append(each.number)
    ordered = sorted(alike.items(), key=lambda item: (item[1], item[0]))
    return [_line(_ranges(numbers), *key) for key, numbers in ordered]


def _line(numbers: str, kind: Kind, through: tuple[ProtocolName, ...], reason: str) -> str:
    named = "" if through == tuple(ProtocolName) else f"through: {' '.join(through)}, "
    return f"  - {{are: {numbers}, differ: {kind}, {named}because: {reason}}}"


def _numbers(text: str) -> Iterable[int]:
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        yield from range(int(first), int(last or first) + 1)


def _ranges(numbers: Iterable[int]) -> str:
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return " ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
