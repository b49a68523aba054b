"""The files that are counted, by place, and the subjects of commits."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.words.reading import Part, Piece, java_pieces, python_pieces

ROOT = Path(__file__).resolve().parents[2]
# Subjects up to this commit are not counted: they can no longer be changed.
COUNTED_SINCE = "67f5ca20"

# Written by `make generate` from sources that are counted themselves.
_GENERATED = ("docs/api-reference.md", "docs/test-coverage.md", "crds/", "charts/spark-sql-operator/files/crds/")
# The list of words and its tests have to name the words.
_ABOUT_WORDS = ("tests/words/", "tests/unit/words/")
_CODE_SUFFIXES = {".py": python_pieces, ".java": java_pieces}
_PRODUCT = ("operator/", "images/", "charts/", "release/", "examples/")


@dataclass(frozen=True)
class Reading:
    """A piece of a file with its place: code, comments, messages, the same of tests, docs, charts, commits."""

    place: str
    file: str
    piece: Piece


def files() -> list[str]:
    """Return the counted files that Git knows or that are new, relative to the repository."""
    listed = _git("ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    return [
        file
        for file in listed
        if not file.startswith((*_GENERATED, *_ABOUT_WORDS)) and _is_counted(file) and (ROOT / file).is_file()
    ]


def readings(file: str, content: str) -> Iterator[Reading]:
    """Yield the pieces of a file, each with its place."""
    path = Path(file)
    if path.suffix in _CODE_SUFFIXES:
        prefix = "" if file.startswith(_PRODUCT) else "test-"
        for piece in _CODE_SUFFIXES[path.suffix](content):
            yield Reading(f"{prefix}{piece.part.value}", file, piece)
    elif path.suffix == ".md":
        yield Reading("docs", file, Piece(Part.COMMENTS, content, 0))
    else:
        yield Reading("charts", file, Piece(Part.COMMENTS, content, 0))


def commit_subjects() -> list[str]:
    """Return the subjects of the commits that are counted. A checkout without the first of them has none."""
    try:
        return _git("log", "--no-merges", "--format=%s", f"{COUNTED_SINCE}..HEAD").splitlines()
    except subprocess.CalledProcessError:
        return []


def added_lines(revision: str) -> dict[str, set[int]]:
    """Return the lines that were added or changed since a revision, by file."""
    added = dict[str, set[int]]()
    file = ""
    for line in _git("diff", "--unified=0", "--no-color", revision).splitlines():
        if line.startswith("+++ "):
            file = line.removeprefix("+++ b/")
        elif line.startswith("@@ "):
            first, _, count = line.split()[2].removeprefix("+").partition(",")
            added.setdefault(file, set()).update(range(int(first), int(first) + int(count or 1)))
    return added


def untracked() -> set[str]:
    """Return the files that Git does not know yet."""
    return set(_git("ls-files", "--others", "--exclude-standard").splitlines())


def last_revision_of(file: Path) -> str:
    """Return the commit that last changed a file, or an empty string."""
    return _git("log", "-1", "--format=%H", "--", str(file)).strip()


def _is_counted(file: str) -> bool:
    suffix = Path(file).suffix
    return suffix in (*_CODE_SUFFIXES, ".md") or (file.startswith("charts/") and suffix in (".yaml", ".tpl", ".txt"))


def _git(*arguments: str) -> str:
    return subprocess.run(("git", *arguments), cwd=ROOT, check=True, capture_output=True, text=True).stdout
