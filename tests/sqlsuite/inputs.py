"""Input files of Spark's suite: statements, and the settings that a file asks for. Pure.

A line that begins with `--` is a comment; some comments give orders:

| order | meaning |
|---|---|
| `--SET k=v,k=v` | settings for the file |
| `--CONFIG_DIM1 k=v,k=v` | one choice of a dimension; the suite runs the file with each combination of choices |
| `--IMPORT name` | the statements of another file come first |
| `--QUERY-DELIMITER-START`, `--QUERY-DELIMITER-END` | what stands between is one statement, whatever semicolons it has |

`--ONLY_IF` concerns other databases than Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

_SPLIT = re.compile(r"(?<=[^\\]);")
_DIMENSION = re.compile(r"--CONFIG_DIM(\S*) +(.*)")
_DELIMITER = "--QUERY-DELIMITER"
_BLANKS = "".join(map(chr, range(33)))  # what Java trims


@dataclass(frozen=True)
class Input:
    """What a file runs. `settings` has the first choice of each dimension."""

    statements: tuple[str, ...]
    settings: Mapping[str, str]


def parse_input(text: str, load: Callable[[str], str]) -> Input:
    """Returns the statements and settings of a file. `load` gives the text of an imported one."""
    comments, code = _parted(text)
    orders = [line for line in comments if line.startswith("--")]
    imported = [line for name in _values(orders, "--IMPORT ") for line in _parted(load(name))[1]]
    return Input(tuple(_statements([*imported, *code])), _settings(orders))


def _parted(text: str) -> tuple[list[str], list[str]]:
    """Comment lines and all others."""
    comments: list[str] = []
    code: list[str] = []
    for line in text.split("\n"):
        bare = line.strip(_BLANKS)
        is_comment = bare.startswith("--") and not bare.startswith(_DELIMITER)
        (comments if is_comment else code).append(line)
    return comments, code


def _values(orders: Iterable[str], order: str) -> list[str]:
    return [line.removeprefix(order) for line in orders if line.startswith(order)]


def _settings(orders: list[str]) -> dict[str, str]:
    settings = [pair for value in _values(orders, "--SET ") for pair in _pairs(value)]
    first: dict[str, str] = {}
    for line in orders:
        if match := _DIMENSION.match(line):
            first.setdefault(match[1], match[2])
    return dict([*settings, *(pair for value in first.values() for pair in _pairs(value))])


def _pairs(text: str) -> list[tuple[str, str]]:
    return [(key.strip(_BLANKS), value.strip(_BLANKS)) for key, _, value in (p.partition("=") for p in text.split(","))]


def _statements(code: list[str]) -> list[str]:
    texts: list[str] = []
    for is_whole, lines in _blocks(code):
        joined = "\n".join(lines)
        texts += [joined.removesuffix(";")] if is_whole else _SPLIT.split(joined)
    return [bare for text in texts if (bare := _without_comments(text.strip(_BLANKS)))]


def _blocks(code: list[str]) -> list[tuple[bool, list[str]]]:
    """Runs of lines, and whether each is one statement."""
    blocks: list[tuple[bool, list[str]]] = [(False, [])]
    for line in code:
        bare = line.strip(_BLANKS)
        if bare.startswith(_DELIMITER):
            blocks.append((bare.startswith(f"{_DELIMITER}-START"), []))
        else:
            blocks[-1][1].append(line)
    return blocks


def _without_comments(text: str) -> str:
    """A statement without the comment lines that its block brought along."""
    return "\n".join(line for line in text.split("\n") if not line.startswith("--")).strip(_BLANKS)
