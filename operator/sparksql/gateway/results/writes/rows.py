"""How many rows a write has changed, from the plan that Spark has run: rows inserted, updated or deleted.

Only what is understood is counted. A copy-on-write UPDATE writes rows that it does not change as well, and a DELETE of whole
files counts none: their number is unknown, which is None and never 0.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from sparksql.gateway.results.writes.inner import InnerWrites
from sparksql.gateway.spark.scala import elements, option, simple_name
from sparksql.gateway.spark.shapes import LogicalPlan
from sparksql.gateway.sql.errors import name_of

# Commands of files that count the rows of each task that was committed.
_FILE_COMMANDS = frozenset({"InsertIntoHadoopFsRelationCommand", "InsertIntoHiveTable", "InsertIntoHiveDirCommand"})
# Of MERGE, by Spark and by formats that run it as a command of their own.
_MERGED = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")

log = logging.getLogger(__name__)


def rows_written(plan: LogicalPlan, inner: InnerWrites | None) -> int | None:
    """Returns the rows that the command of a Dataset's logical plan has changed, None if Spark does not count them.

    `inner` has the writes that the command itself has run. Waits for them for a few seconds at most.
    """
    if simple_name(plan) != "CommandResult":
        return None
    try:
        return _rows(plan.commandPhysicalPlan(), plan.commandLogicalPlan(), inner)
    except Exception as exception:  # the rows are written, whether they can be counted or not
        log.warning("the rows that a statement has written could not be counted: %s", name_of(exception))
        return None


def _rows(executed: Any, logical: LogicalPlan, inner: InnerWrites | None) -> int | None:
    node = _final(executed)
    match simple_name(node):
        case "DataWritingCommandExec":
            return _metric(node, "numOutputRows") if simple_name(node.cmd()) in _FILE_COMMANDS else None
        case "AppendDataExec" | "OverwriteByExpressionExec" | "OverwritePartitionsDynamicExec":
            return _committed(node)
        case "ReplaceDataExec" | "WriteDeltaExec":
            return _changed(node, logical.operation())
        case "UnionExec":  # of several INSERTs
            counts = [_rows(child, logical, inner) for child in elements(node.children())]
            known = [count for count in counts if count is not None]
            return sum(known) if len(known) == len(counts) else None
        case (
            "CreateTableAsSelectExec"
            | "AtomicCreateTableAsSelectExec"
            | "ReplaceTableAsSelectExec"
            | "AtomicReplaceTableAsSelectExec"
        ):
            return _inner(node.query(), inner)
        case "ExecutedCommandExec":
            return _command(node.cmd(), node, inner)
        case _:
            return None


def _command(command: Any, node: Any, inner: InnerWrites | None) -> int | None:
    match simple_name(command):
        case (
            "CreateDataSourceTableAsSelectCommand"
            | "CreateHiveTableAsSelectCommand"
            | "OptimizedCreateHiveTableAsSelectCommand"
            | "InsertIntoDataSourceDirCommand"
        ):
            return _inner(command.query(), inner)
        case _:
            return _merged(node)


def _inner(query: LogicalPlan, inner: InnerWrites | None) -> int | None:
    written = None if inner is None else inner.of(query)
    return None if written is None else _rows(written.executedPlan(), written.analyzed(), None)


def _changed(node: Any, operation: Any) -> int | None:
    """The rows that an UPDATE, a DELETE or a MERGE has changed of a table whose format takes part in it."""
    below = list(_below(node))
    merges = [each for each in below if simple_name(each) == "MergeRowsExec"]
    is_delta = simple_name(node) == "WriteDeltaExec"
    match str(operation.command().name()):
        case "MERGE" if len(merges) == 1:
            return _merged(merges[0])
        case "DELETE" if is_delta:
            return _committed(node)
        case "UPDATE" if is_delta:
            written, parts = _committed(node), 2 if operation.representUpdateAsDeleteAndInsert() else 1
            return None if written is None else written // parts
        case "DELETE":
            # By Spark's contract all rows of the groups that are replaced are read, and those that stay are written.
            replaced = [each for each in below if simple_name(each) == "BatchScanExec" and _is_replaced(each)]
            read, kept = _metric(replaced[0], "numOutputRows") if len(replaced) == 1 else None, _committed(node)
            return None if read is None or kept is None or kept > read else read - kept
        case _:
            return None


def _is_replaced(scan: Any) -> bool:
    return simple_name(scan.table()) == "RowLevelOperationTable"


def _final(node: Any) -> Any:
    """The node that has run, without what adaptive execution puts around it."""
    while True:
        match simple_name(node):
            case "AdaptiveSparkPlanExec":
                node = node.executedPlan()
            case (
                "ResultQueryStageExec"
                | "ShuffleQueryStageExec"
                | "BroadcastQueryStageExec"
                | "TableCacheQueryStageExec"
            ):
                node = node.plan()
            case _:
                return node


def _below(node: Any) -> Iterator[Any]:
    pending = elements(node.children())
    while pending:
        found = _final(pending.pop())
        yield found
        pending.extend(elements(found.children()))


def _committed(node: Any) -> int | None:
    """The rows of the tasks whose output a DataSource V2 write has committed."""
    progress = option(node.commitProgress())
    return None if progress is None else int(progress.numOutputRows())


def _merged(node: Any) -> int | None:
    counts = [_metric(node, name) for name in _MERGED]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _metric(node: Any, name: str) -> int | None:
    metric = option(node.metrics().get(name))
    return None if metric is None else int(metric.value())
