"""Mistakes in texts of SQL, as users make them: the answer names the place or the field, and what to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from sparksql.api.execution import TriggerMode
from sparksql.wire.control import OperationState, Parameter, StreamOptions
from tests.support.mistakes import assert_answered, rows_of

from .client import GatewayClient

STREAMING = StreamOptions(checkpoint="file:///tmp/no-checkpoint", trigger=TriggerMode.AVAILABLE_NOW)


@dataclass(frozen=True)
class Mistake:
    """A text with the mistake; the table has the place and the remedy of the answer."""

    sql: str
    fields: dict[str, Any] = field(default_factory=dict)


def given(value: str, type_: str = "STRING", name: str = "d") -> dict[str, Any]:
    return {"parameters": (Parameter(name=name, value=value, type=type_),)}


MISTAKES = {
    "misspelt keyword in the second statement": Mistake("SELECT 1;\nSELCT 2"),
    "missing table": Mistake("SELECT * FROM nowhere"),
    "missing column": Mistake("SELECT ident FROM (SELECT 1 AS id, 2 AS name)"),
    "value of a parameter": Mistake("SELECT :d", given("abc", "DATE")),
    "type of a parameter": Mistake("SELECT :d", given("2026-01-31", "DAET")),
    "unused parameter": Mistake("SELECT 1", given("x")),
    "marker without a parameter": Mistake("SELECT :d"),
    "setting with a field of its own": Mistake("SELECT 1", {"conf": {"spark.executor.memory": "1g"}}),
    "misspelt setting": Mistake(
        "SELECT 1",
        {"conf": {"spark.sql.shufle.partitions": "1"}},
    ),
    "value of a setting": Mistake(
        "SELECT 1",
        {"conf": {"spark.sql.shuffle.partitions": "eight"}},
    ),
    "stream of no stream": Mistake("SELECT 1", {"streaming": STREAMING}),
    "stream without spec.streaming": Mistake("CREATE TABLE ticks (id INT) USING parquet;\nSELECT * FROM STREAM ticks"),
    "division by zero": Mistake("SELECT 1 / 0"),
    "cast of a text": Mistake("SELECT CAST('x' AS INT)"),
    "insert into a missing table": Mistake("INSERT INTO nowhere SELECT 1"),
    "jar from elsewhere": Mistake("ADD JAR '/tmp/x.jar'"),
    "reflection": Mistake("SELECT reflect('java.lang.System', 'getenv', 'HOME')"),
    "local file": Mistake("SELECT * FROM json.`/etc/passwd`"),
    "python": Mistake("df = spark.read.table('t')"),
    "template": Mistake("SELECT {{ 1 }}"),
}


ROWS = rows_of("gateway/test_mistakes.py")


def test_mistakes_are_those_of_the_table() -> None:
    assert MISTAKES.keys() == ROWS.keys()


@pytest.mark.parametrize("case", ROWS)
async def test_mistake_in_a_text_is_answered_with_its_place_and_a_remedy(client: GatewayClient, case: str) -> None:
    mistake, row = MISTAKES[case], ROWS[case]
    view = await client.run(mistake.sql, **mistake.fields)
    assert view.state is OperationState.ERROR, view
    error = view.error
    assert error is not None
    if row.position is not None:
        assert (error.line, error.position) == row.position, error
    assert row.remedy
    assert_answered(row.mistake, error.message)
