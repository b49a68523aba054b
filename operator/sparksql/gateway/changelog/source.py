"""A stream of a table's changes as rows: how it is marked, and how a plan tells it.

Each change is one or two rows: `_row_kind` says whether a row comes (+I, +U) or goes (-U, -D). Whoever takes them for plain rows
counts an update twice, so the rows are behind a guard, a filter that fails with the first row. Only the rewriting of this package
takes it away, once it has seen that the whole query is exact: a way into Spark that does not come past it cannot be wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sparksql.gateway.spark.scala import elements, simple_name
from sparksql.gateway.spark.shapes import Dataset, Jvm, LogicalPlan
from sparksql.gateway.windowing.marks import metadata

ROW_KIND = "_row_kind"
SEQ = "_seq"
_MARK = "sparksql.changelog"  # metadata of the column `_row_kind` where it is made


@dataclass(frozen=True)
class Source:
    """The rows of a table's changes: its name, its key columns if it declares them, and the rows without the guard.

    `row_kind` and `seq` are the columns of these names.
    """

    table: str
    key: tuple[str, ...]
    rows: LogicalPlan
    row_kind: Any
    seq: Any


def guarded(jvm: Jvm, rows: Dataset, table: str, key: Iterable[str]) -> Any:
    """Returns a Dataset with the columns `_row_kind` and `_seq` as the changes of a table, behind the guard."""
    functions, to_seq = jvm.org.apache.spark.sql.functions, jvm.PythonUtils.toSeq
    told = metadata(jvm, {_MARK: json.dumps({"table": table, "key": list(key)})})
    names = [str(name) for name in rows.columns()]
    columns = [functions.col("`" + name.replace("`", "``") + "`") for name in names]
    marked = [
        getattr(column, "as")(name, told) if name == ROW_KIND else column
        for column, name in zip(columns, names, strict=True)
    ]
    problem = f"table {table} has the rows of changes, which only a query over a STREAM of it can read, by a SqlStatement or REST"
    guard = functions.raise_error(functions.lit(problem)).cast("boolean")
    return rows.select(to_seq(marked)).where(guard)


def source_of(node: LogicalPlan) -> Source | None:
    """Returns the changes that a node of an analysed plan guards, None for any other node."""
    if (
        simple_name(node) != "Filter"
        or simple_name(node.condition()) != "Cast"
        or simple_name(node.child()) != "Project"
    ):
        return None
    rows = node.child()
    if simple_name(node.condition().child()) != "RaiseError":
        return None
    for named in elements(rows.projectList()):
        if simple_name(named) == "Alias" and named.metadata().contains(_MARK):
            told = json.loads(str(named.metadata().getString(_MARK)))
            output = {str(column.name()): column for column in elements(rows.output())}
            return Source(told["table"], tuple(told["key"]), rows, output[ROW_KIND], output[SEQ])
    return None
