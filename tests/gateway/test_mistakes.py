"""Mistakes in texts of SQL, as users make them: the answer names the place or the field, and what to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from sparksql.api.execution import TriggerMode
from sparksql.wire.control import OperationState, Parameter, StreamOptions

from .client import GatewayClient

STREAMING = StreamOptions(checkpoint="file:///tmp/no-checkpoint", trigger=TriggerMode.AVAILABLE_NOW)


@dataclass(frozen=True)
class Mistake:
    """`place` is line and position, or the field that the message names; `remedy` is in the message."""

    sql: str
    place: tuple[int, int] | str
    remedy: str
    fields: dict[str, Any] = field(default_factory=dict)


def given(value: str, type_: str = "STRING", name: str = "d") -> dict[str, Any]:
    return {"parameters": (Parameter(name=name, value=value, type=type_),)}


MISTAKES = {
    "misspelt keyword in the second statement": Mistake("SELECT 1;\nSELCT 2", (2, 1), "did you mean SELECT?"),
    "missing table": Mistake("SELECT * FROM nowhere", (1, 15), "spelling"),
    "missing column": Mistake("SELECT ident FROM (SELECT 1 AS id, 2 AS name)", (1, 8), "Did you mean"),
    "value of a parameter": Mistake(
        "SELECT :d", "spec.parameters[d]", "correct its value or its type", given("abc", "DATE")
    ),
    "type of a parameter": Mistake(
        "SELECT :d", "spec.parameters[d]", "correct its value or its type", given("2026-01-31", "DAET")
    ),
    "unused parameter": Mistake("SELECT 1", "spec.parameters[d]", "remove it", given("x")),
    "marker without a parameter": Mistake("SELECT :d", (1, 8), "spec.parameters"),
    "setting with a field of its own": Mistake(
        "SELECT 1", "spark.executor.memory", "spec.executors.memory", {"conf": {"spark.executor.memory": "1g"}}
    ),
    "misspelt setting": Mistake(
        "SELECT 1",
        "spark.sql.shufle.partitions",
        "did you mean",
        {"conf": {"spark.sql.shufle.partitions": "1"}},
    ),
    "value of a setting": Mistake(
        "SELECT 1",
        "spark.sql.shuffle.partitions",
        "It should be",
        {"conf": {"spark.sql.shuffle.partitions": "eight"}},
    ),
    "stream of no stream": Mistake("SELECT 1", (1, 1), "INSERT INTO <table>", {"streaming": STREAMING}),
    "stream without spec.streaming": Mistake(
        "CREATE TABLE ticks (id INT) USING parquet;\nSELECT * FROM STREAM ticks", (2, 15), "it needs spec.streaming"
    ),
    "division by zero": Mistake("SELECT 1 / 0", (1, 8), "try_divide"),
    "cast of a text": Mistake("SELECT CAST('x' AS INT)", (1, 8), "try_cast"),
    "insert into a missing table": Mistake("INSERT INTO nowhere SELECT 1", (1, 13), "spelling"),
    "jar from elsewhere": Mistake("ADD JAR '/tmp/x.jar'", (1, 1), "allow.jarPrefixes"),
    "reflection": Mistake(
        "SELECT reflect('java.lang.System', 'getenv', 'HOME')", (1, 8), "compute it with functions of SQL"
    ),
    "local file": Mistake("SELECT * FROM json.`/etc/passwd`", (1, 1), "A class adds a folder by mounting a volume"),
    "python": Mistake("df = spark.read.table('t')", (1, 1), "this is not Spark SQL"),
    "template": Mistake("SELECT {{ 1 }}", (1, 8), "with :name for each of spec.parameters"),
}


@pytest.mark.parametrize("case", MISTAKES)
async def test_mistake_in_a_text_is_answered_with_its_place_and_a_remedy(client: GatewayClient, case: str) -> None:
    mistake = MISTAKES[case]
    view = await client.run(mistake.sql, **mistake.fields)
    assert view.state is OperationState.ERROR, view
    error = view.error
    assert error is not None
    if isinstance(mistake.place, str):
        assert mistake.place in error.message
    else:
        assert (error.line, error.position) == mistake.place, error
    assert mistake.remedy in error.message
