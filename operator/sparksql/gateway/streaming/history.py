"""What a stream of an Iceberg table would leave out.

Iceberg begins a stream with the files that the oldest snapshot it still has added. Once `expire_snapshots` has removed older
ones, rows that came before are in the table and not in the stream, without an error. A stream whose last snapshot is no longer
on the table's line cannot go on; after CREATE OR REPLACE or a rollback Iceberg says so with a bare NullPointerException (both
measured with Iceberg 1.12.0).
"""

from __future__ import annotations

import json
from typing import Any

from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.spark.plans import nodes
from sparksql.gateway.spark.scala import simple_name
from sparksql.gateway.spark.shapes import Jvm, LogicalPlan
from sparksql.gateway.spark.table_formats import is_iceberg
from sparksql.gateway.sql.errors import StatementError, refusal
from sparksql.wire.control import ErrorReason

_FROM = "stream-from-timestamp"  # where the text says to begin
_LATER = (
    "To start from the present rows, set another spec.runNonce; to start from another state, set spec.streaming.startFrom to "
    "a savepoint and change restoreNonce"
)


def check_history(jvm: Jvm, analysed: LogicalPlan, checkpoint: str, files: HadoopFiles) -> None:
    """Refuses a query of an Iceberg table whose history is no longer whole. Raises StatementError.

    Such a query either begins anew and would read only the end of the table, or goes on from a snapshot that is not of
    its table.
    """
    relations = [
        node for node in nodes(analysed) if simple_name(node) == "StreamingRelationV2" and is_iceberg(node.table())
    ]
    if not relations:
        return
    for node in relations:
        node.table().table().refresh()
    batches = [int(number) for uri in files.children(f"{checkpoint}/offsets") if (number := _name(uri)).isdecimal()]
    if batches:
        _check_place(jvm, relations, files.read_text(f"{checkpoint}/offsets/{max(batches)}") or "")
    else:
        _check_begin(jvm, relations)


def _check_begin(jvm: Jvm, relations: list[Any]) -> None:
    for node in relations:
        if not node.extraOptions().containsKey(_FROM) and _has_lost_snapshots(jvm, node.table().table()):
            message = (
                f"snapshots of the Iceberg table {node.table().name()} have expired: a new stream would leave out the rows that they "
                f"added. INSERT what is there by a batch first, then stream what comes: FROM STREAM ... WITH ('{_FROM}' = "
                "'<milliseconds since 1970>')"
            )
            raise refusal(ErrorReason.INVALID_SPEC, message)


def _check_place(jvm: Jvm, relations: list[Any], offsets: str) -> None:
    """Of several tables the offsets do not tell which is whose: a snapshot must be of one of them."""
    tables = [node.table().table() for node in relations]
    for snapshot in snapshots(offsets):
        if not any(_has_snapshot(jvm, table, snapshot) for table in tables):
            names = " or ".join(str(node.table().name()) for node in relations)
            raise snapshot_lost(names, snapshot)


def snapshot_lost(names: str, snapshot: int) -> StatementError:
    """Returns the refusal of a query whose place is not in a table any more."""
    message = (
        f"the stream has read the Iceberg table {names} up to snapshot {snapshot}, which the table no longer has: it has expired "
        f"or was rolled back, or the table was created again. {_LATER}"
    )
    return refusal(ErrorReason.SOURCE_LOST, message)


def snapshots(offsets: str) -> list[int]:
    """Returns the snapshots where Iceberg's sources stand, by a file of Spark's log of offsets.

    The file has a version, metadata, then a line a source. The snapshot of an empty table is -1 and left out.
    """
    found: list[int] = []
    for line in offsets.splitlines()[2:]:
        try:
            offset = json.loads(line)
        except ValueError:
            continue  # of another source
        if isinstance(offset, dict) and isinstance(snapshot := offset.get("snapshot_id"), int) and snapshot >= 0:
            found.append(snapshot)
    return found


def _name(uri: str) -> str:
    return uri.rsplit("/", 1)[-1]


def _has_lost_snapshots(jvm: Jvm, table: Any) -> bool:
    oldest = jvm.org.apache.iceberg.util.SnapshotUtil.oldestAncestor(table)
    return oldest is not None and oldest.parentId() is not None


def _has_snapshot(jvm: Jvm, table: Any, snapshot: int) -> bool:
    """Whether it is on the line of one of the table's branches."""
    util = jvm.org.apache.iceberg.util.SnapshotUtil
    heads = [int(ref.snapshotId()) for ref in table.refs().values() if ref.isBranch()]
    return any(util.isAncestorOf(table, head, snapshot) for head in heads)
