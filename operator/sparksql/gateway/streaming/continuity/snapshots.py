"""Snapshots of Iceberg tables after the place where a checkpoint has left them.

Iceberg fails without a condition when it meets a commit that changed or removed rows, and when its snapshot is no longer on
the line of the table: an IllegalStateException, or a NullPointerException (Iceberg 1.12.0). Why it failed is read from the table.

With the trigger AvailableNow Iceberg begins to look at the place where the stream itself began, which it keeps in
`sources/N/offsets/0` (InitialOffsetStore). Once that snapshot has expired such a query fails, whatever it has read since.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JJavaError

from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.spark.scala import option, simple_name
from sparksql.gateway.spark.shapes import Jvm, LogicalPlan
from sparksql.gateway.spark.table_formats import is_iceberg
from sparksql.gateway.sql.errors import StatementError, refusal
from sparksql.gateway.streaming.continuity.losses import ANEW as REMEDY
from sparksql.gateway.streaming.continuity.places import last_places, sources_of
from sparksql.gateway.streaming.history import snapshot_lost
from sparksql.wire.control import ErrorReason

_FIRST = "offsets/0"
MOVED = (
    "sparksqlMoved"  # among the fields of that file, of which Iceberg reads its own alone (StreamingOffset.fromJson)
)
_BRANCH = "branch"
# Iceberg's DataOperations that a stream does not read, and the option that passes over each (SparkReadOptions). It reads
# `append`, and passes over `replace`, which moves rows.
_UNREAD = {"overwrite": "streaming-skip-overwrite-snapshots", "delete": "streaming-skip-delete-snapshots"}


def is_iceberg_leaf(leaf: LogicalPlan) -> bool:
    """Returns whether a streaming leaf reads an Iceberg table."""
    return simple_name(leaf) == "StreamingRelationV2" and is_iceberg(leaf.table())


def moved_start(jvm: Jvm, files: HadoopFiles, leaf: LogicalPlan, folder: str, place: str) -> dict[str, str]:
    """Returns the file of where a stream began, by its URI, as it must be now; empty if it may stay as it is.

    `folder` is the source's in the checkpoint, and `place` the one that comes next.
    """
    uri = f"{folder}/{_FIRST}"
    began, now, head = _snapshot(files.read_text(uri)), _snapshot(place), _head(leaf, leaf.table())
    if began is None or now is None or head is None:
        return {}
    # A line may be long: it is walked within the JVM.
    util = jvm.org.apache.iceberg.util.SnapshotUtil
    if util.isAncestorOf(leaf.table().table(), int(head.snapshotId()), began):
        return {}
    return {uri: json.dumps({**json.loads(place), MOVED: True})}


def unread_source(jvm: Jvm, files: HadoopFiles, analysed: LogicalPlan, checkpoint: str) -> StatementError | None:
    """Returns why a query of Iceberg tables that has failed cannot continue from its checkpoint, None for another failure."""
    sources, places = sources_of(jvm, analysed), last_places(files, checkpoint)
    if places is None or len(places) != len(sources):
        return None
    for source, place in zip(sources, places, strict=True):
        snapshot = _snapshot(place) if is_iceberg_leaf(source.leaf) else None
        table = None if snapshot is None else _loaded(source.leaf)
        if snapshot is not None and table is not None and (found := _unread(source.leaf, table, snapshot)) is not None:
            return found
    return None


def _unread(leaf: LogicalPlan, table: Any, place: int) -> StatementError | None:
    """Why rows after a place cannot be read; None if they can, or if nothing of the table was read."""
    later = []
    for snapshot in _line(leaf, table):
        if int(snapshot.snapshotId()) == place:
            break
        later.append(snapshot)
    else:
        return snapshot_lost(str(table.name()), place)
    options = leaf.extraOptions()
    for snapshot in reversed(later):
        skipped_by = _UNREAD.get(str(snapshot.operation()))
        if skipped_by is not None and not options.getBoolean(skipped_by, False):
            return _changed(str(table.name()), snapshot, skipped_by)
    return None


def _changed(name: str, snapshot: Any, skipped_by: str) -> StatementError:
    message = (
        f"a commit of the Iceberg table {name} (snapshot {snapshot.snapshotId()}, {snapshot.operation()}) has changed or removed "
        "rows, and a stream reads only rows that commits append. To pass over such commits with all that they wrote, read the table "
        f"WITH ('{skipped_by}' = 'true'). {REMEDY}"
    )
    return refusal(ErrorReason.SOURCE_LOST, message)


def _line(leaf: LogicalPlan, table: Any) -> Iterator[Any]:
    """The snapshots of the branch that a leaf reads, from the newest on."""
    snapshot = _head(leaf, table)
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parentId()
        snapshot = None if parent is None else table.table().snapshot(parent)


def _head(leaf: LogicalPlan, table: Any) -> Any | None:
    branch = leaf.extraOptions().get(_BRANCH) or table.branch()
    return table.table().currentSnapshot() if branch is None else table.table().snapshot(branch)


def _loaded(leaf: LogicalPlan) -> Any | None:
    """The table as its catalog has it now: the one of the plan may be of before it was dropped. None without one."""
    catalog, identifier = option(leaf.catalog()), option(leaf.identifier())
    if catalog is None or identifier is None:
        return None
    try:
        catalog.invalidateTable(identifier)
        table = catalog.loadTable(identifier)
    except Py4JJavaError:  # the failure of the query stays
        return None
    return table if is_iceberg(table) else None


def _snapshot(place: str | None) -> int | None:
    """The snapshot of an offset of Iceberg's; None for that of an empty table, and for any other text."""
    try:
        offset = json.loads(place or "")
    except ValueError:
        return None
    found = offset.get("snapshot_id") if isinstance(offset, dict) else None
    return found if isinstance(found, int) and found >= 0 else None
