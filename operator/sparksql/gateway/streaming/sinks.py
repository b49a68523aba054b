"""Where a stream writes, and what must be refused before it does.

A file table (parquet, orc, csv, json, text, avro) is written by Spark's file sink, which keeps a log of its batches in
`_spark_metadata` of the table. As soon as that folder is there, readers see only the files in the log; and a batch whose number
the log has is taken for written. So a query with a fresh checkpoint would lose its first batches in a used table, without an
error, and would hide rows that others have put into the table (measured with Spark 4.1.4).

Spark makes the log when a query starts, long before its first commit, and does not say for whom. So a mark beside it says which
checkpoint the log is of: a driver that dies in between finds its own log again, and a log without a batch is taken away when
its query ends without one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sparksql.api.execution import OutputMode
from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.spark.scala import elements, option, simple_name
from sparksql.gateway.spark.shapes import LogicalPlan
from sparksql.gateway.sql.errors import StatementError, refusal
from sparksql.wire.control import ErrorReason

SINK_LOG = "_spark_metadata"
MARK = "_sparksql_stream.json"  # Spark's readers pass over names that begin with an underscore
_FILE_FORMATS = frozenset({"parquet", "orc", "csv", "json", "text", "avro"})
# What the sinks of these tables take; any other one tells when the query starts.
_MODES_OF_FILES = (OutputMode.APPEND,)
_MODES = dict.fromkeys(("delta", "iceberg"), (OutputMode.APPEND, OutputMode.COMPLETE))
_BATCH = re.compile(r"[0-9]+")
_TRANSACTIONAL = "use a table of a transactional format (Iceberg, Delta)"
_UNFINISHED = (
    "another stream has begun to write this table of files and has committed nothing yet. If that stream will not run "
    "again, TRUNCATE TABLE makes the table free"
)


@dataclass(frozen=True)
class Sink:
    """A stream's target. `path` and `partitions` are those of a file table, `path` is None for any other.

    `provider` is what the table is made with, if the catalog tells: Spark refuses a writer of another format, and a writer that
    names none has the default one. `options` are the table's, which Spark does not give to a stream's writer: a csv table would
    be read with a header that it was not written with.
    """

    path: str | None = None
    partitions: tuple[str, ...] = ()
    provider: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


def sink_of(table: Any, name: str) -> Sink:
    """Returns the sink of an analysed table. Raises StatementError for one that no stream can write."""
    leaf = table
    while simple_name(leaf) == "SubqueryAlias":
        leaf = leaf.child()
    match simple_name(leaf):
        case "LogicalRelation":
            return _file_sink(leaf)
        case "HiveTableRelation":
            message = f"table {name} is a Hive serde table, which no stream can write: make it USING parquet or iceberg"
            raise refusal(ErrorReason.INVALID_SPEC, message)
        case "DataSourceV2Relation":
            return Sink(provider=leaf.table().properties().get("provider"))
        case "View":
            raise refusal(ErrorReason.INVALID_SPEC, f"{name} is a view: a stream writes into tables")
        case _:
            return Sink()


def _file_sink(relation: LogicalPlan) -> Sink:
    table = option(relation.catalogTable())
    provider = "" if table is None else str(option(table.provider()) or "").lower()
    if table is None or provider not in _FILE_FORMATS:
        return Sink(provider=provider or None)
    columns = tuple(str(name) for name in elements(table.partitionColumnNames()))
    options = {str(pair._1()): str(pair._2()) for pair in elements(table.storage().properties())}
    return Sink(str(table.location().toString()), columns, provider, options)


@dataclass(frozen=True)
class Found:
    """Describes what there is in a table of files and in a checkpoint before a query starts.

    `written` is the last batch of the sink's log, if it has one; `committed` and `planned` are those of the checkpoint.
    `is_ours`: the log is known to be this checkpoint's. `holds_data` is not looked for where there is a log.
    """

    has_log: bool
    is_ours: bool
    holds_data: bool
    written: int | None
    committed: int | None
    planned: int | None


def hazard(found: Found) -> str | None:
    """Returns why the query would lose rows in a file table, or hide some that are there; None if it would not."""
    match found:
        case Found(committed=int(), written=None):
            return (
                "its checkpoint has batches that this table of files does not: the table is another one, or was "
                "created again, and could not be read afterwards"
            )
        case Found(has_log=False, holds_data=True):
            return (
                "this table of files has rows that no stream has written: they could not be read any more, because from the "
                "first batch on only the stream's own files are"
            )
        case Found(has_log=True, committed=None, is_ours=False, written=None):
            return f"its checkpoint is new, and {_UNFINISHED}"
        # A crash between the sink's log and the commit leaves a batch behind that is planned, and comes next as it was.
        case Found(has_log=True, committed=None) if not (found.is_ours and found.written in (None, found.planned)):
            return (
                "its checkpoint is new, but another stream has written this table of files: batches whose numbers exist "
                "already would silently not be written"
            )
        case Found(committed=int(committed), written=int(written)) if written not in (committed, found.planned):
            return (
                f"its state ends with batch {committed}, and this table of files has batch {written} already: the batches "
                f"between them would silently not be written"
                if written > committed
                else f"its state ends with batch {committed}, and this table of files with batch {written}: it is another one"
            )
    return None


def check_sink(sink: Sink, checkpoint: str, files: HadoopFiles) -> None:
    """Raises StatementError when the query would lose rows in a file table, or hide some that are there."""
    if sink.path is None:
        return
    has_log = files.exists(f"{sink.path}/{SINK_LOG}")
    problem = hazard(
        Found(
            has_log=has_log,
            is_ours=_marked(sink.path, files) == files.qualified(checkpoint),
            holds_data=not has_log
            and _holds_data(sink.path, files),  # of a stream's table nobody asks, and it may be large
            written=_last_batch(files.children(f"{sink.path}/{SINK_LOG}")) if has_log else None,
            committed=_last_batch(files.children(f"{checkpoint}/commits")),
            planned=_last_batch(files.children(f"{checkpoint}/offsets")),
        )
    )
    if problem is not None:
        raise _hazard(problem)


def check_free(sink: Sink, files: HadoopFiles) -> None:
    """Raises StatementError when no query could write a file table, whatever its checkpoint has: rows of others are there.

    With a log of batches it depends on the checkpoint, which only a start knows.
    """
    if sink.path is None or files.exists(f"{sink.path}/{SINK_LOG}"):
        return
    rows = _holds_data(sink.path, files)
    problem = hazard(Found(has_log=False, is_ours=False, holds_data=rows, written=None, committed=None, planned=None))
    if problem is not None:
        raise _hazard(problem)


def check_mode(sink: Sink, mode: OutputMode) -> None:
    """Raises StatementError for an output mode that Spark refuses for this target, though only when the query starts."""
    taken = _MODES_OF_FILES if sink.path is not None else _MODES.get((sink.provider or "").lower())
    if taken is not None and mode not in taken:
        names = " and ".join(taken)
        message = (
            f"spec.streaming.outputMode: a target like this one supports {names}, not {mode}; "
            "to write changed rows use spec.streaming.upsert with Iceberg or Delta"
        )
        raise refusal(ErrorReason.INVALID_SPEC, message)


def mark(sink: Sink, checkpoint: str, files: HadoopFiles) -> None:
    """Marks a sink's log as this checkpoint's, before a checked query starts and makes it."""
    if sink.path is None:
        return
    ours = files.qualified(checkpoint)
    if _marked(sink.path, files) != ours:
        files.write_text(f"{sink.path}/{MARK}", json.dumps({"checkpoint": ours}))


def clear(sink: Sink, checkpoint: str, files: HadoopFiles) -> None:
    """Takes away the log of a query that has ended if it has no batch, so that the table is as if no stream had been there.

    Not where there are files: those of a batch that was not finished, which readers must not see, and the query comes again for.
    """
    if sink.path is None or _marked(sink.path, files) != files.qualified(checkpoint):
        return
    if _last_batch(files.children(f"{sink.path}/{SINK_LOG}")) is None and not _holds_data(sink.path, files):
        files.delete(f"{sink.path}/{SINK_LOG}")
        files.delete(f"{sink.path}/{MARK}")


def _marked(path: str, files: HadoopFiles) -> str | None:
    """The checkpoint that a table's log is of, as far as anybody knows."""
    try:
        return str(json.loads(files.read_text(f"{path}/{MARK}") or "{}").get("checkpoint"))
    except ValueError:  # cut off by a crash, before the log was made
        return None


def check_batch(targets: Iterable[str], files: HadoopFiles) -> None:
    """Raises StatementError when a batch would write rows into a stream's table of files that nobody could read."""
    for target in targets:
        if not files.exists(f"{target}/{SINK_LOG}"):
            continue
        message = (
            "a stream writes this table of files, and whoever reads it sees the stream's files only: rows of a batch "
            f"would be lost. For both, {_TRANSACTIONAL}"
        )
        if _last_batch(files.children(f"{target}/{SINK_LOG}")) is None:
            message = f"rows of a batch would be lost: {_UNFINISHED}"
        raise refusal(ErrorReason.INVALID_SPEC, message)


def _last_batch(uris: Iterable[str]) -> int | None:
    """The greatest number among the files of a log: `7`, or `9.compact`."""
    names = (uri.rstrip("/").rpartition("/")[2] for uri in uris)
    return max((int(found[0]) for name in names if (found := _BATCH.match(name))), default=None)


def _holds_data(path: str, files: HadoopFiles) -> bool:
    names = (uri.rstrip("/").rpartition("/")[2] for uri in files.children(path))
    return any(not name.startswith(("_", ".")) for name in names)


def _hazard(reason: str) -> StatementError:
    return refusal(
        ErrorReason.INVALID_SPEC, f"the stream may not write into its target: {reason}. For that, {_TRANSACTIONAL}"
    )
