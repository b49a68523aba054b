"""Values that are changes of rows: how each writer of them says which row it was, and what became of it.

All are brought into Debezium's words: `before`, `after` and `op`, which is `c`, `u`, `d`, or `r` for a row of a snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparksql.gateway.spark.types import is_struct
from sparksql.gateway.streaming.kafka.options import OP, KafkaTable
from sparksql.gateway.streaming.kafka.records import RECORD

VALUE, CHANGE, CHANGED_ROW, CORRUPT = "__value", "__change", "changed", "__corrupt"
# Of a change: the row that is told, and its operation.
ROW = (
    f"named_struct('{CHANGED_ROW}', CASE WHEN {CHANGE}.op = 'd' THEN {CHANGE}.before ELSE {CHANGE}.after END, "
    f"'{OP}', {CHANGE}.op)"
)
# The same with both halves of an update, and which of them a row is.
HALVES = (
    f"CASE {CHANGE}.op WHEN 'd' THEN array({{goes}}) WHEN 'u' THEN array({{goes}}, {{comes}}) "
    f"WHEN 'c' THEN array({{comes}}) WHEN 'r' THEN array({{comes}}) END"
).format(
    goes=f"named_struct('{CHANGED_ROW}', {CHANGE}.before, 'kind', if({CHANGE}.op = 'd', '-D', '-U'), 'half', 0)",
    comes=f"named_struct('{CHANGED_ROW}', {CHANGE}.after, 'kind', if({CHANGE}.op = 'u', '+U', '+I'), 'half', 1)",
)
UNREAD_JSON = f"{VALUE} IS NULL OR {VALUE}.{CORRUPT} IS NOT NULL"


@dataclass(frozen=True)
class Envelope:
    """How one writer's changes are read, as SQL over the parsed `__value`.

    `change` gives a change in Debezium's words. `unread` holds for a value that could not be parsed, `markers` for one that
    is understood and changes no row. `writer` names it in the error for a malformed value.
    """

    writer: str
    change: str
    unread: str
    markers: str | None = None


_DEBEZIUM = "Debezium with the columns that the table declares (a delete needs its row in before)"
# The envelope stands in `payload` if its schema is in the value.
DEBEZIUM = Envelope(
    writer=_DEBEZIUM,
    change=f"coalesce({VALUE}.payload, named_struct('before', {VALUE}.before, 'after', {VALUE}.after, 'op', {VALUE}.op))",
    unread=UNREAD_JSON,
)
DEBEZIUM_RECORD = Envelope(writer=_DEBEZIUM, change=f"{VALUE}.{RECORD}", unread=f"{VALUE}.{RECORD} IS NULL")
# Maxwell tells the whole row in `data`, for a delete the one that was; a bootstrap begins and ends with a value without a row.
MAXWELL = Envelope(
    writer="Maxwell with the columns that the table declares",
    change=(
        f"named_struct('before', {VALUE}.data, 'after', {VALUE}.data, 'op', CASE {VALUE}.type WHEN 'insert' THEN 'c' "
        "WHEN 'update' THEN 'u' WHEN 'delete' THEN 'd' WHEN 'bootstrap-insert' THEN 'r' END)"
    ),
    unread=UNREAD_JSON,
    markers=f"coalesce({VALUE}.type IN ('bootstrap-start', 'bootstrap-complete'), false)",
)


def debezium_json(row: Any, empty: Any) -> Any:
    """Returns the StructType of Debezium's JSON, with and without its schema, for rows of a StructType; `empty` is one."""
    envelope = empty.add("before", row).add("after", row).add("op", "string")
    return envelope.add("payload", envelope)


def maxwell_json(row: Any, empty: Any) -> Any:
    """Returns the StructType of Maxwell's JSON for rows of a StructType; `empty` is one."""
    return empty.add("type", "string").add("data", row)


def row_type(table: KafkaTable, envelope: Any) -> Any:
    """Returns the type of the changed rows in a Debezium envelope, a record or message. Raises StatementError for another one."""
    types = {str(name): envelope.apply(name).dataType() for name in envelope.fieldNames()}
    names = {name: str(type_.simpleString()) for name, type_ in types.items() if name in ("before", "after", "op")}
    if len(names) < 3 or names["op"] != "string" or names["before"] != names["after"] or not is_struct(types["after"]):
        raise table.invalid(
            f"{table.shape} is not Debezium's envelope: a record with op, a string, and before and after, "
            "both of the row's record"
        )
    return types["after"]
