"""Descriptions of streams' state to compare: one that counts by country and city, and variations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sparksql.gateway.streaming.state.description import (
    AGGREGATE,
    Description,
    StateColumn,
    StatefulOperator,
    StreamSource,
    Watermark,
)
from sparksql.gateway.streaming.state.structure_nodes import Node

ORDERS, CLICKS = StreamSource("orders", "parquet file:/orders"), StreamSource("clicks", "parquet file:/clicks")
COUNTRY, CITY = StateColumn("country", "string", "[1].country"), StateColumn("city", "string", "[1].city")
COUNT, TOTAL = StateColumn("n", "bigint", "count(1)"), StateColumn("total", "bigint", "sum([1].amount)")
TOTALS = StatefulOperator(AGGREGATE, (COUNTRY, CITY), (COUNT, TOTAL), inputs=("source 1",))
JOIN = StatefulOperator(
    "join of streams",
    (StateColumn("id", "int", "[1].id = [2].id"),),
    (StateColumn("left id", "int", "[1].id"), StateColumn("right id", "int", "[2].id")),
    (("type", "Inner"), ("condition", "none")),
    ("source 1", "source 2"),
)
OLD = Description("4.1.4", "hash", "append", (ORDERS,), (Watermark("[1].ts", 10_000),), (TOTALS,))
JOINED = replace(OLD, sources=(ORDERS, CLICKS), operators=(JOIN,))
STATELESS = replace(OLD, watermarks=(), operators=())


def with_operator(**changes: Any) -> Description:
    return replace(OLD, operators=(replace(TOTALS, **changes),))


RENAMED = with_operator(keys=(replace(COUNTRY, name="c"), CITY), values=(COUNT, replace(TOTAL, name="sum")))
REWORDED = with_operator(values=(COUNT, replace(TOTAL, meaning="sum(cast([1].amount AS bigint))")))
NODES: dict[str, Node] = {
    "a": ["Aggregate", {"keys": [[{"ref": "k"}, []]], "functions": [], "input": {"ref": "s"}}],
    "b": ["Aggregate", {"keys": [[{"ref": "l"}, []]], "functions": [], "input": {"ref": "s"}}],
    "k": ["JsonToStructs", {"schema": {"type": "int"}, "child": "j"}],
    "l": ["JsonToStructs", {"schema": {"type": "long"}, "child": "j"}],
    "o": ["Aggregate", {"keys": [], "functions": [{"ref": "x"}], "input": {"ref": "s"}}],
    "x": ["Opaque", {"of": "com.example.Function"}],
    "s": ["Source", {"number": 1}],
}


def whole(digest: str, as_written: str = "", **changes: Any) -> Description:
    return replace(with_operator(structure=digest, as_written=as_written), nodes=NODES, **changes)
