"""Golden files of Spark's suite: what each statement gives. Pure.

A statement that fails has an empty schema, and its output is the exception's class above what that says: a JSON object where Spark
has a condition for it, else a message. A command without rows has an empty schema and an empty output.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_SEGMENT = re.compile(r"-- !query.*\n")
_EMPTY = "struct<>"
_BLANKS = "".join(map(chr, range(33)))


@dataclass(frozen=True)
class Rows:
    """A schema as Spark's catalog writes it, and rows as Hive's command line shows them."""

    schema: str
    output: str


@dataclass(frozen=True)
class Failure:
    """What a statement fails with: a condition with its SQLSTATE, or else a message."""

    exception: str
    condition: str | None
    sql_state: str | None
    message: str


Result = Rows | Failure


@dataclass(frozen=True)
class Golden:
    """A statement and its result."""

    sql: str
    result: Result


def parse_golden(text: str) -> tuple[Golden, ...]:
    """Returns the statements of a golden file with their results."""
    _, *segments = _SEGMENT.split(text)
    assert len(segments) % 3 == 0, "a statement has a text, a schema and an output"
    return tuple(
        Golden(sql.strip(_BLANKS), result(schema.strip(_BLANKS), output.rstrip()))
        for sql, schema, output in zip(segments[0::3], segments[1::3], segments[2::3], strict=True)
    )


def result(schema: str, output: str) -> Result:
    """Returns what a schema and an output of a golden file mean."""
    if schema != _EMPTY or not output:
        return Rows(schema, output)
    exception, _, said = output.partition("\n")
    if not said.startswith("{"):
        return Failure(exception, None, None, said)
    told = json.loads(said)
    return Failure(exception, told["errorClass"], told.get("sqlState"), said)
