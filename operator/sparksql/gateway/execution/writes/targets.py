"""Which paths a statement writes, told from its analysed plan.

Spark's committer for path-based tables (parquet, orc, csv, json, text, Hive serde) keeps a job's files below `_temporary` of
the table and removes that folder at the end, so two writers of one table lose each other's rows. Tables of transactional
formats (Iceberg, Delta) are DataSource V2 relations or commands that are not in this table, and are not serialised.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from typing import Any

from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.spark.scala import elements, option, simple_name
from sparksql.gateway.spark.shapes import JvmSession, LogicalPlan

_TEMPORARY = "_temporary"
_MAX_DEPTH = 4  # INSERTs stand below WithCTE and Union only

log = logging.getLogger(__name__)


def write_targets(session: JvmSession, plan: LogicalPlan, files: HadoopFiles) -> frozenset[str]:
    """Returns the qualified URIs of the path-based tables and folders that an analysed plan writes."""
    return frozenset(files.qualified(path) for path in _paths(session, plan))


def remove_temporary(target: str, files: HadoopFiles) -> None:
    """Removes the folder that the committer leaves behind in a table (a qualified URI).

    The caller holds the table alone, so nobody else's files are in that folder. A failure is logged.
    """
    try:
        files.delete(f"{target}/{_TEMPORARY}")
    except Exception as exception:
        log.warning("a folder of the committer could not be removed: %s", type(exception).__name__)


def _paths(session: JvmSession, plan: LogicalPlan) -> Iterator[str]:
    pending = deque([(plan, 0)])
    while pending:
        node, depth = pending.popleft()
        path = _path(session, node)
        if path is not None:
            yield path
        elif depth < _MAX_DEPTH:
            pending.extend((child, depth + 1) for child in elements(node.children()))


def _path(session: JvmSession, node: LogicalPlan) -> str | None:
    match simple_name(node):
        case "InsertIntoHadoopFsRelationCommand":
            return str(node.outputPath().toString())
        case "InsertIntoHiveTable":
            return _table_path(session, node.table())
        case "CreateDataSourceTableAsSelectCommand":
            return _table_path(session, node.table())
        case "CreateHiveTableAsSelectCommand":
            return _table_path(session, node.tableDesc())
        case "OptimizedCreateHiveTableAsSelectCommand":
            return _table_path(session, node.tableDesc())
        case "InsertIntoDataSourceDirCommand" | "InsertIntoHiveDirCommand":
            location = option(node.storage().locationUri())
            return None if location is None else str(location.toString())
        case "TruncateTableCommand":
            return _named_path(session, node.tableName())
        case "LoadDataCommand":
            return _named_path(session, node.table())
        case "AlterTableDropPartitionCommand":
            return _named_path(session, node.tableName())
        case _:
            return None


def _table_path(session: JvmSession, table: Any) -> str:
    location = option(table.storage().locationUri())
    if location is None:  # not made yet: where the catalog will put it
        location = session.sessionState().catalog().defaultTablePath(table.identifier())
    return str(location.toString())


def _named_path(session: JvmSession, identifier: Any) -> str | None:
    return _table_path(session, session.sessionState().catalog().getTableMetadata(identifier))
