"""Spark's suite as its files are in the jar of Spark's tests, which Maven brings into the user's cache folder."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.sqlsuite.golden import Golden, parse_golden
from tests.sqlsuite.inputs import parse_input
from tests.support.maven import jars

_INPUTS = "sql-tests/inputs/"
_RESULTS = "sql-tests/results/"
_IGNORED = "ignored.sql"  # by Spark's suite as well: it shows that a file can be


@dataclass(frozen=True)
class SuiteFile:
    """A file of the suite. `others` are results by which doubles are written as Java does from version 21 on."""

    name: str
    settings: Mapping[str, str]
    statements: tuple[Golden, ...]
    others: tuple[Golden, ...]


@cache
def _jar() -> zipfile.ZipFile:
    [path] = jars("tests/sqlsuite/pom.xml")
    return zipfile.ZipFile(path)


@cache
def names() -> tuple[str, ...]:
    """Returns the names of the suite's files, as their paths below its folder of inputs."""
    found = [each.removeprefix(_INPUTS) for each in _jar().namelist() if each.startswith(_INPUTS)]
    return tuple(sorted(each for each in found if each.endswith(".sql") and each != _IGNORED))


def read(name: str) -> SuiteFile:
    """Returns a file of the suite. Fails where its golden file has other statements than its input."""
    given = parse_input(_text(f"{_INPUTS}{name}"), lambda imported: _text(f"{_INPUTS}{imported}"))
    statements = parse_golden(_text(f"{_RESULTS}{name}.out"))
    assert tuple(each.sql for each in statements) == given.statements, f"{name} and its golden file differ"
    later = f"{_RESULTS}{name}.out.java21"
    others = parse_golden(_text(later)) if later in _jar().namelist() else ()
    return SuiteFile(name, given.settings, statements, others)


def extract(folder: str, target: Path) -> None:
    """Writes the files of a folder of the jar below `target`."""
    for each in _jar().namelist():
        if each.startswith(folder):
            _jar().extract(each, target)


def _text(path: str) -> str:
    return _jar().read(path).decode()
