"""CUMULATE with GAP in a batch: SQL over one row for each key and pane, whose cost is that of the panes and of the rows given.

Running aggregates, so that a pane is not in all the steps behind it: a day by minutes is 1,440 of each, not a million.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.shapes import Dataset
from sparksql.gateway.windowing.dynamic_processor import ADD, DISTINCT, END, FIRST, GREATEST, LAST, LEAST, PANE, START
from sparksql.gateway.windowing.dynamic_totals import Part

_BEGINS, _NEXT = "__curve_begins", "__curve_next"  # whether a pane is the first of a window; the window's next pane
_SEEN, _NEW = "__curve_seen", "__curve_new"  # one value of a pane; whether the window has had it in no earlier pane
_RUNNING = {ADD: "sum", LEAST: "min", GREATEST: "max", DISTINCT: "sum"}


def curves(driver: SparkDriver, panes: Dataset, step: int, gap: int, keys: Sequence[str], parts: Sequence[Part]) -> Any:
    """Returns the rows of windows: the keys, START, END, and what the parts have become, under their names."""
    to_seq, by_key = driver.jvm.PythonUtils.toSeq, ", ".join(keys)

    def select(frame: Dataset, *columns: str) -> Any:
        return frame.selectExpr(to_seq(list(columns)))

    in_order = f"OVER (PARTITION BY {by_key} ORDER BY {PANE})"
    frame = select(panes, "*", f"coalesce({FIRST} - lag({LAST}) {in_order} >= {gap}L, true) AS {_BEGINS}")
    begun = f"max(CASE WHEN {_BEGINS} THEN {PANE} END) {in_order} AS {START}"
    frame = select(frame, "*", begun, f"lead(CASE WHEN NOT {_BEGINS} THEN {PANE} END) {in_order} AS {_NEXT}")
    if any(part.merge == DISTINCT for part in parts):
        frame = _with_new_counted(driver, frame, keys, parts)
    so_far = f"OVER (PARTITION BY {by_key}, {START} ORDER BY {PANE} ROWS UNBOUNDED PRECEDING)"
    running = [
        f"CAST({_RUNNING[part.merge]}({part.name}) {so_far} AS {part.type.sql()}) AS {part.name}" for part in parts
    ]
    frame = select(frame, *keys, START, PANE, LAST, _NEXT, *running)
    # The row of an event's own step is there in any case; behind the last pane steps go on until the key is silent.
    silent = f"{LAST} + {gap - 1}L"
    last_step = f"coalesce({_NEXT}, greatest({PANE} + {step}L, {silent} - pmod({silent}, {step}L)))"
    ends = f"explode(sequence({PANE} + {step}L, {last_step}, {step}L)) AS {END}"
    return select(frame, *keys, START, ends, *(part.name for part in parts))


def _with_new_counted(driver: SparkDriver, frame: Dataset, keys: Sequence[str], parts: Sequence[Part]) -> Any:
    """Panes with the number of values that their window has not had in place of the values."""
    functions, to_seq = driver.jvm.org.apache.spark.sql.functions, driver.jvm.PythonUtils.toSeq
    places = {part.name: place for place, part in enumerate(parts) if part.merge == DISTINCT}
    none = "array(named_struct('place', -1, 'value', CAST(NULL AS STRING)))"  # keeps a pane without values
    values = ", ".join(
        f"transform({name}, value -> named_struct('place', {place}, 'value', value))" for name, place in places.items()
    )
    kept = [START, _NEXT, LAST, *(part.name for part in parts if part.name not in places)]
    seen = frame.selectExpr(to_seq([*keys, PANE, *kept, f"explode(concat({none}, {values})) AS {_SEEN}"]))
    by_value = ", ".join([*keys, START, f"{_SEEN}.place", f"{_SEEN}.value"])
    is_new = f"row_number() OVER (PARTITION BY {by_value} ORDER BY {PANE}) = 1 AS {_NEW}"
    seen = seen.selectExpr(to_seq(["*", is_new]))
    counted = [f"count_if({_NEW} AND {_SEEN}.place = {place}) AS {name}" for name, place in places.items()]
    first, *others = (functions.expr(text) for text in (*(f"any_value({name}) AS {name}" for name in kept), *counted))
    return seen.groupBy(keys[0], to_seq([*keys[1:], PANE])).agg(first, to_seq(others))
