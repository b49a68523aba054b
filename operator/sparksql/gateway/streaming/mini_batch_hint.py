"""The hint MINI_BATCH: when batches begin and how much they take, said in the text itself.

`SELECT /*+ MINI_BATCH(latency('5 seconds'), rows(10000), files(10)) */ ... FROM STREAM s`. Spark's grammar allows expressions as
arguments of a hint, but neither `name = value` nor `name => value`, so each bound is written as a call.

Fields of spec.streaming.trigger win where they are set: what the manifest says holds without a look at the text.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NoReturn

from sparksql.api.execution import TriggerMode
from sparksql.gateway.spark.plans import nodes, rewritten
from sparksql.gateway.spark.scala import elements, simple_name
from sparksql.gateway.spark.shapes import Jvm, LogicalPlan
from sparksql.gateway.sql.errors import refusal
from sparksql.gateway.streaming.insert import ParsedInsert
from sparksql.gateway.streaming.trigger import MAX_INTERVAL_MILLIS, millis
from sparksql.wire.control import ErrorReason, StreamOptions

NAME = "MINI_BATCH"
_EXAMPLE = f"{NAME}(latency('5 seconds'), rows(10000), files(10))"
# Bound of each argument: the longest interval that is chosen for a query, as the operator, which does not read the text, takes
# a query that is silent for some of these for one that makes no progress; and those of maxRowsPerTrigger and maxFilesPerTrigger.
_MOST = {"latency": MAX_INTERVAL_MILLIS, "rows": 2**53 - 1, "files": 2**31 - 1}
_WHOLE_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint"})


def hinted(jvm: Jvm, parsed: ParsedInsert, options: StreamOptions) -> tuple[ParsedInsert, StreamOptions]:
    """Returns the INSERT without its hint, which Spark does not know, and the options with what the hint says.

    Raises StatementError for a hint that cannot be understood.
    """
    hints = [node for node in nodes(parsed.query) if _is_ours(node)]
    if not hints:
        return parsed, options
    if len(hints) > 1:
        _refuse(f"is given {len(hints)} times: a query has one, for all its STREAMs")
    said = _arguments(jvm, hints[0])
    return replace(parsed, query=_without(jvm, parsed.query)), merged(options, said)


def merged(options: StreamOptions, said: dict[str, int]) -> StreamOptions:
    """Returns options with the hint's values, milliseconds and counts by argument, where they have none of their own."""
    chooses = options.trigger is TriggerMode.AUTO and options.interval_millis is None
    return options.model_copy(
        update={
            "interval_millis": said.get("latency") if chooses else options.interval_millis,
            "max_rows_per_trigger": options.max_rows_per_trigger or said.get("rows", 0),
            "max_files_per_trigger": options.max_files_per_trigger or said.get("files", 0),
        }
    )


def _is_ours(node: LogicalPlan) -> bool:
    return simple_name(node) == "UnresolvedHint" and str(node.name()).upper() == NAME


def _without(jvm: Jvm, query: LogicalPlan) -> LogicalPlan:
    return rewritten(jvm, query, lambda node: _without(jvm, node.child()) if _is_ours(node) else None)


def _arguments(jvm: Jvm, hint: Any) -> dict[str, int]:
    said: dict[str, int] = {}
    for argument in elements(hint.parameters()):
        name = _called(argument)
        if name not in _MOST:
            _refuse(f"does not know the argument {str(argument.sql())[:100]}")
        if name in said:
            _refuse(f"has {name} twice")
        said[name] = _value(jvm, name, argument)
    if not said:
        _refuse("says nothing")
    return said


def _called(argument: Any) -> str:
    if simple_name(argument) != "UnresolvedFunction":
        return ""
    return ".".join(str(part) for part in elements(argument.nameParts())).lower()


def _value(jvm: Jvm, name: str, call: Any) -> int:
    given = elements(call.arguments())
    value = None
    if len(given) == 1 and simple_name(given[0]) == "Literal":
        value = millis(jvm, given[0]) if name == "latency" else _whole_number(given[0])
    least, most = (0, "60 seconds") if name == "latency" else (1, str(_MOST[name]))
    if value is None or not least <= value <= _MOST[name]:
        wanted = "an interval, '5 seconds'," if name == "latency" else "a whole number"
        longer = "; spec.streaming.trigger.intervalMillis takes longer ones" if name == "latency" else ""
        _refuse(f"has {str(call.sql())[:100]}: {name} is {wanted} from {least} to {most}{longer}")
    return value


def _whole_number(literal: Any) -> int | None:
    return int(literal.value()) if str(literal.dataType().simpleString()) in _WHOLE_NUMBERS else None


def _refuse(why: str) -> NoReturn:
    raise refusal(ErrorReason.INVALID_SPEC, f"the hint {NAME} {why}. Write {_EXAMPLE}, or leave out what is not needed")
