"""What a new stream of an Iceberg table would leave out.

Iceberg begins a stream with the files that the oldest snapshot it still has added. Once `expire_snapshots` has removed older ones,
rows that came before are in the table and not in the stream, without an error (measured with Iceberg 1.12.0).
"""

from __future__ import annotations

from typing import Any

from sparksql.gateway.errors import refusal
from sparksql.gateway.files import HadoopFiles
from sparksql.gateway.scala import simple_name
from sparksql.gateway.streaming.sources import nodes
from sparksql.wire.control import ErrorReason

_FROM = "stream-from-timestamp"  # where the text says to begin


def check(jvm: Any, analysed: Any, checkpoint: str, files: HadoopFiles) -> None:
    """Raises StatementError when a query that begins anew would read only the end of an Iceberg table."""
    tables = [node for node in nodes(analysed) if simple_name(node) == "StreamingRelationV2" and _is_iceberg(node)]
    if not tables or files.children(f"{checkpoint}/offsets"):
        return
    for node in tables:
        options = node.extraOptions()
        if not options.containsKey(_FROM) and _has_lost_snapshots(jvm, node.table().table()):
            name = str(node.table().name())
            message = (
                f"snapshots of the Iceberg table {name} have expired: a new stream would leave out the rows that they added. "
                f"INSERT what is there by a batch first, then stream what comes: FROM STREAM ... WITH ('{_FROM}' = "
                "'<milliseconds since 1970>')"
            )
            raise refusal(ErrorReason.INVALID_SPEC, message)


def _is_iceberg(node: Any) -> bool:
    return "iceberg" in str(node.table().getClass().getName())


def _has_lost_snapshots(jvm: Any, table: Any) -> bool:
    table.refresh()
    oldest = jvm.org.apache.iceberg.util.SnapshotUtil.oldestAncestor(table)
    return oldest is not None and oldest.parentId() is not None
