"""The few statements of Flink's dialect that its clients send by themselves, and what they mean here. Pure.

Flink's SQL Client and JDBC driver ask for the current catalog and database, choose a catalog, and SET and RESET quoted keys.
Everything else is Spark SQL and is not looked at. A key that does not begin with `spark.` is the client's own: it is kept as a
property of its session and Spark never hears of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

SPARK_KEY = "spark."
# Options of Flink's own that users write unquoted as well; no Spark key begins so.
_FLINK_KEYS = (
    "execution.",
    "parallelism.",
    "pipeline.",
    "rest.",
    "restart-strategy",
    "sql-client.",
    "state.",
    "table.",
)


@dataclass(frozen=True)
class SparkSql:
    """A text for Spark. `shows` tells that it answers for a SHOW, which clients do not take for a query."""

    text: str = field(repr=False)
    shows: bool = False


@dataclass(frozen=True)
class SetProperty:
    """Sets a property of the client's session."""

    key: str
    value: str = field(repr=False)


@dataclass(frozen=True)
class ResetProperty:
    """Takes back what was set of a property."""

    key: str


Command = SparkSql | SetProperty | ResetProperty

MAX_CHARS = 2_000  # what clients send by themselves is short

# Possessive quantifiers throughout: no text may make a pattern try again and again.
_QUOTED = r"'((?:[^']|'')*+)'"
_BLANKS = r"(?:\s|--[^\n]*+(?:\n|\Z)|/\*(?:(?!\*/).)*+\*/)*+"
_END = rf"{_BLANKS};?{_BLANKS}"
_SET = re.compile(rf"{_BLANKS}SET\s++{_QUOTED}\s*+=\s*+{_QUOTED}{_END}", re.IGNORECASE | re.DOTALL)
_SET_UNQUOTED = re.compile(rf"{_BLANKS}SET\s++([\w.-]++)\s*+=([^;]*+){_END}", re.IGNORECASE | re.DOTALL)
_RESET = re.compile(rf"{_BLANKS}RESET\s++{_QUOTED}{_END}", re.IGNORECASE | re.DOTALL)
_CATALOG = r"(`(?:[^`]|``)++`|'[^']++'|\w++)"
_USE_CATALOG = re.compile(rf"{_BLANKS}USE\s++CATALOG\s++{_CATALOG}{_END}", re.IGNORECASE | re.DOTALL)
_SHOW_CURRENT = re.compile(rf"{_BLANKS}SHOW\s++CURRENT\s++(CATALOG|DATABASE){_END}", re.IGNORECASE | re.DOTALL)


def interpret(sql: str) -> Command:
    """Returns the command that a client's text asks for."""
    if len(sql) > MAX_CHARS:
        return SparkSql(sql)
    if match := _SHOW_CURRENT.fullmatch(sql):
        what = match.group(1).lower()
        return SparkSql(f"SELECT current_{what}() AS `current {what} name`", shows=True)
    if match := _USE_CATALOG.fullmatch(sql):
        return SparkSql(f"SET CATALOG {_identifier(match.group(1))}")
    if match := _RESET.fullmatch(sql):
        return ResetProperty(_unquoted(match.group(1)))
    if match := _SET.fullmatch(sql):
        return SetProperty(_unquoted(match.group(1)), _unquoted(match.group(2)))
    if (match := _SET_UNQUOTED.fullmatch(sql)) and match.group(1).startswith(_FLINK_KEYS):
        return SetProperty(match.group(1), match.group(2).strip())
    return SparkSql(sql)


def _unquoted(text: str) -> str:
    return text.replace("''", "'")


def _identifier(name: str) -> str:
    return "`" + name[1:-1].replace("`", "``") + "`" if name.startswith("'") else name
