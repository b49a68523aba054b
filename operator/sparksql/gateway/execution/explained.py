"""What a plan shows to its reader: window table functions as they were called, and words for the columns between them.

The only place where Spark's text of a plan becomes an answer. Columns that only the gateway knows have names that no table has;
they are in the state of streams and stay what they are, and here they are told in the words of the documentation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sparksql.gateway.spark.plans import nodes
from sparksql.gateway.spark.scala import elements, simple_name
from sparksql.gateway.spark.shapes import LogicalPlan
from sparksql.gateway.sql.masking import Masker
from sparksql.gateway.sql.own_columns import WORDS
from sparksql.gateway.windowing.calls import WindowCall
from sparksql.gateway.windowing.dynamic_processor import END, START
from sparksql.gateway.windowing.expressions import column_id
from sparksql.gateway.windowing.paths import rows_below, windows_assigned_by

Calls = Mapping[int, str]  # what a column comes from, by the id that Spark gave it

_COLUMN = re.compile(
    rf"(?<!\w)({'|'.join(sorted(WORDS, key=len, reverse=True))})((?:(?<=_)\w+)?#\d+)"
)  # Spark tells a column by its name and its id
_BOUND = re.compile(r" AS (window_(?:start|end|time))#(\d+)")
_CURVE = "CUMULATE with GAP"
_OF_CURVES = frozenset({"Generate", "TransformWithStateInPySpark"})  # what gives their rows, in a batch and in a stream
_MADE = "precisetimestampconversion("
_ID = re.compile(r"#(\d+)")


def explained(text: str, plan: LogicalPlan, masker: Masker) -> str:
    """Returns Spark's text of a plan in its reader's words, without secrets; `plan` is what was explained, with its windows."""
    return masker.mask(in_words(text, called_columns(plan)))


def called_columns(plan: LogicalPlan) -> dict[int, str]:
    """Returns the columns that calls of window table functions give, and those that these are made of."""
    found: dict[int, str] = {}
    for node in nodes(plan):
        if simple_name(node) in _OF_CURVES:
            found |= {
                int(each.exprId().id()): _CURVE for each in elements(node.output()) if str(each.name()) in (START, END)
            }
        if (windows := windows_assigned_by(node)) is None:
            continue
        made = [*elements(node.output())[-3:], *elements(node.child().output())]
        below = {column_id(column) for column in elements(rows_below(node).output())[:-1]}
        words = _words(windows.call) if windows.pane_of is None else f"a step of {windows.pane_of}"
        found |= {number: words for each in made if (number := column_id(each)) is not None and number not in below}
    return found


def in_words(text: str, calls: Calls) -> str:
    """Returns the text of a plan with the bounds of windows as what they are of, and without names that only we know."""
    parts: list[str] = []
    done = 0
    for bound in _BOUND.finditer(text):
        begin = _begin(text, bound.start())
        made = text[begin : bound.start()]
        ids = [bound[2], *_ID.findall(made)]
        words = next((calls[int(each)] for each in ids if int(each) in calls), None)
        if words is not None and begin >= done and made.startswith(_MADE):
            parts += [text[done:begin], f"{bound[1]} of {words}"]
            done = bound.start()
    return _COLUMN.sub(lambda column: WORDS[column[1]] + column[2], "".join([*parts, text[done:]]))


def _begin(text: str, end: int) -> int:
    """Where the expression begins that ends there: behind the comma or bracket that it is not the end of."""
    depth = 0
    for at in range(end - 1, -1, -1):
        match text[at]:
            case ")" | "]":
                depth += 1
            case "(" | "[" if depth:
                depth -= 1
            case "(" | "[":
                return at + 1
            case "," if not depth:
                return at + 2
            case "\n":
                return at + 1
    return 0


def _words(call: WindowCall) -> str:
    lengths = [call.size] if call.step == call.size else [call.step, call.size]
    return f"{call.function}({', '.join([call.time, *map(_interval, lengths), *([_interval(call.offset)] if call.offset else [])])})"


def _interval(micros: int) -> str:
    seconds, rest = divmod(micros, 1_000_000)
    return f"{micros}us" if rest else f"{seconds}s"
