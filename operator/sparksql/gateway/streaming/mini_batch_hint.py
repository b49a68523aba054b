"""The hint MINI_BATCH: when batches begin and how much they take, and which tables are looked up, said in the text itself.

`SELECT /*+ MINI_BATCH(latency('5 seconds'), rows(10000), files(10)) */ ... FROM STREAM s`. Spark's grammar allows expressions as
arguments of a hint, but neither `name = value` nor `name => value`, so each bound is written as a call. With the name of a joined
table first it is a lookup: `MINI_BATCH(customers, latency('5 seconds'), rows(10000), ttl('10 minutes'))`, see `lookups`.

Fields of spec.streaming.trigger win where they are set, and an entry of spec.streaming.lookups over a hint for its table: what
the manifest says holds without a look at the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from sparksql.api.execution import MAX_LOOKUP_MILLIS, MAX_LOOKUP_ROWS, MAX_LOOKUP_TTL_SECONDS, Lookup, TriggerMode
from sparksql.gateway.spark.plans import nodes, rewritten
from sparksql.gateway.spark.scala import elements, simple_name
from sparksql.gateway.spark.shapes import Jvm, LogicalPlan
from sparksql.gateway.sql.errors import refusal
from sparksql.gateway.streaming.insert import ParsedInsert
from sparksql.gateway.streaming.trigger import MAX_INTERVAL_MILLIS, millis
from sparksql.wire.control import ErrorReason, StreamOptions

NAME = "MINI_BATCH"
_EXAMPLE = f"{NAME}(latency('5 seconds'), rows(10000), files(10))"
_LOOKUP_EXAMPLE = f"{NAME}(customers, latency('5 seconds'), rows(10000), ttl('10 minutes'))"
_WHOLE_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint"})


@dataclass(frozen=True)
class _Bound:
    """The values that an argument may have; of an interval in milliseconds, which must be whole `unit`s."""

    least: int
    most: int
    unit: int = 0

    @property
    def form(self) -> str:
        """Returns what may be written, for people."""
        if not self.unit:
            return f"a whole number from {self.least} to {self.most}"
        return f"an interval, '5 seconds', from {self.least // 1000} to {self.most // 1000} seconds"


# The longest interval that is chosen for a query, as the operator, which does not read the text, takes a query that is silent for
# some of these for one that makes no progress; and the bounds of maxRowsPerTrigger and maxFilesPerTrigger.
_OF_QUERY = {"latency": _Bound(0, MAX_INTERVAL_MILLIS, 1), "rows": _Bound(1, 2**53 - 1), "files": _Bound(1, 2**31 - 1)}
_OF_LOOKUP = {
    "latency": _Bound(0, MAX_LOOKUP_MILLIS, 1),
    "rows": _Bound(1, MAX_LOOKUP_ROWS),
    "ttl": _Bound(1000, MAX_LOOKUP_TTL_SECONDS * 1000, 1000),
}


@dataclass(frozen=True)
class Said:
    """What the hints of a text say: values by argument of the one for the query, and lookups. Intervals are in milliseconds."""

    values: dict[str, int] = field(default_factory=dict)
    lookups: tuple[Lookup, ...] = ()


def hinted(jvm: Jvm, parsed: ParsedInsert, options: StreamOptions) -> tuple[ParsedInsert, StreamOptions]:
    """Returns the INSERT without its hints, which Spark does not know, and the options with what they say.

    Raises StatementError for a hint that cannot be understood.
    """
    hints = [node for node in nodes(parsed.query) if _is_ours(node)]
    if not hints:
        return parsed, merged(options, Said())
    lookups = [hint for hint in hints if _table(hint) is not None]
    others = [hint for hint in hints if _table(hint) is None]
    if len(others) > 1:
        _refuse(f"is given {len(others)} times: a query has one, for all its STREAMs")
    tables = [_table(hint) for hint in lookups]
    for table in tables:
        if tables.count(table) > 1:
            _refuse(f"is given {tables.count(table)} times for {table}", _LOOKUP_EXAMPLE)
    values = _arguments(jvm, others[0], _OF_QUERY, _EXAMPLE) if others else {}
    said = Said(values, tuple(_lookup(jvm, hint) for hint in lookups))
    return replace(parsed, query=_without(jvm, parsed.query)), merged(options, said)


def merged(options: StreamOptions, said: Said) -> StreamOptions:
    """Returns options with what the hints say where they have none of their own.

    The interval of lookups, of a field or a hint, counts if nothing else gives one; the least of them.
    """
    known = {lookup.table.lower() for lookup in options.lookups}
    lookups = (*options.lookups, *(lookup for lookup in said.lookups if lookup.table.lower() not in known))
    interval = options.interval_millis
    if options.trigger is TriggerMode.AUTO and interval is None:
        latencies = [lookup.latency_millis for lookup in lookups if lookup.latency_millis is not None]
        interval = said.values.get("latency", min(latencies, default=None))
    return options.model_copy(
        update={
            "interval_millis": interval,
            "max_rows_per_trigger": options.max_rows_per_trigger or said.values.get("rows", 0),
            "max_files_per_trigger": options.max_files_per_trigger or said.values.get("files", 0),
            "lookups": lookups,
        }
    )


def _is_ours(node: LogicalPlan) -> bool:
    return simple_name(node) == "UnresolvedHint" and str(node.name()).upper() == NAME


def _without(jvm: Jvm, query: LogicalPlan) -> LogicalPlan:
    return rewritten(jvm, query, lambda node: _without(jvm, node.child()) if _is_ours(node) else None)


def _table(hint: Any) -> str | None:
    """The name of the table that a hint is for, None for one without."""
    arguments = elements(hint.parameters())
    if not arguments or simple_name(arguments[0]) != "UnresolvedAttribute":
        return None
    return str(arguments[0].sql())


def _lookup(jvm: Jvm, hint: Any) -> Lookup:
    said = _arguments(jvm, hint, _OF_LOOKUP, _LOOKUP_EXAMPLE)
    fields: dict[str, int] = {}
    if "latency" in said:
        fields["latency_millis"] = said["latency"]
    if "rows" in said:
        fields["rows"] = said["rows"]
    if "ttl" in said:
        fields["ttl_seconds"] = said["ttl"] // 1000
    return Lookup(table=_table(hint) or "", **fields)


def _arguments(jvm: Jvm, hint: Any, bounds: Mapping[str, _Bound], example: str) -> dict[str, int]:
    said: dict[str, int] = {}
    for argument in elements(hint.parameters())[_table(hint) is not None :]:
        name = _called(argument)
        if name not in bounds:
            _refuse(f"has no argument {str(argument.sql())[:100]}", example)
        if name in said:
            _refuse(f"has {name} twice", example)
        said[name] = _value(jvm, name, argument, bounds[name], example)
    if not said and _table(hint) is None:
        _refuse("says nothing", example)
    return said


def _called(argument: Any) -> str:
    if simple_name(argument) != "UnresolvedFunction":
        return ""
    return ".".join(str(part) for part in elements(argument.nameParts())).lower()


def _value(jvm: Jvm, name: str, call: Any, bound: _Bound, example: str) -> int:
    given = elements(call.arguments())
    value = None
    if len(given) == 1 and simple_name(given[0]) == "Literal":
        value = millis(jvm, given[0]) if bound.unit else _whole_number(given[0])
    if value is None or not bound.least <= value <= bound.most or (bound.unit and value % bound.unit):
        longer = "; spec.streaming.trigger.intervalMillis takes longer ones" if name == "latency" else ""
        _refuse(f"has {str(call.sql())[:100]}: {name} is {bound.form}{longer}", example)
    return value


def _whole_number(literal: Any) -> int | None:
    return int(literal.value()) if str(literal.dataType().simpleString()) in _WHOLE_NUMBERS else None


def _refuse(why: str, example: str = _EXAMPLE) -> NoReturn:
    raise refusal(ErrorReason.INVALID_SPEC, f"the hint {NAME} {why}. Write {example}, or leave out what is not needed")
