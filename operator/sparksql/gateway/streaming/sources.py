"""What a query streams. Spark reads `STREAM parquet.`path`` and the like as a batch, without an error: that is refused here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparksql.gateway.spark.plans import nodes, rewritten
from sparksql.gateway.spark.scala import simple_name
from sparksql.gateway.spark.shapes import Jvm, LogicalPlan
from sparksql.gateway.sql.errors import StatementError, refusal
from sparksql.gateway.sql.stream_reads import declared, is_stream
from sparksql.wire.control import ErrorReason, StreamOptions

_STREAMING_LEAVES = frozenset({"StreamingRelation", "StreamingRelationV2", "StreamingExecutionRelation"})


def check_sources(parsed: Any, analysed: LogicalPlan) -> None:
    """Raises StatementError when a query reads no STREAM, or when Spark would read one of them as a batch."""
    names = declared(parsed)
    streams = sum(simple_name(node) in _STREAMING_LEAVES for node in nodes(analysed))
    if streams < len(names):
        raise read_as_batch(names)
    if streams == 0:
        message = "the query reads no STREAM: write FROM STREAM <table>, or leave spec.streaming out"
        raise refusal(ErrorReason.INVALID_SPEC, message)


def read_as_batch(names: list[str]) -> StatementError:
    """Returns the refusal of a STREAM that Spark would read once, as it is now."""
    message = (
        f"Spark would read a STREAM of this query as a batch (of {', '.join(names)}): it streams tables and views, not paths. "
        "Make a table of the path, CREATE TABLE t (columns) USING parquet LOCATION '...', and read FROM STREAM t"
    )
    return refusal(ErrorReason.INVALID_SPEC, message)


def streaming_views(analysed: LogicalPlan) -> list[str]:
    """Returns the names of the views of an analysed plan that read a STREAM, the outermost first."""
    views = [node for node in nodes(analysed) if simple_name(node) == "View" and node.isStreaming()]
    return [str(view.desc().identifier().unquotedString()) for view in views]


def with_options(jvm: Jvm, plan: LogicalPlan, options: Mapping[str, str]) -> Any:
    """Returns a parsed plan whose STREAMs have further options; what the text gives wins."""

    def replaced(node: LogicalPlan) -> Any | None:
        if not is_stream(node):
            return None
        given = node.options()
        merged = jvm.java.util.HashMap(given.asCaseSensitiveMap())
        for key, value in options.items():
            if not given.containsKey(key):
                merged.put(key, value)
        return node.copy(
            node.multipartIdentifier(), jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap(merged), True
        )

    return rewritten(jvm, plan, replaced)


def limited(jvm: Jvm, query: LogicalPlan, options: StreamOptions) -> Any:
    """Returns a parsed query with the bounds of a batch among the options of its STREAMs. Raises StatementError."""
    limits = read_limits(options)
    if not limits:
        return query
    if not declared(query):
        message = (
            "spec.streaming.trigger: the query reads its STREAM through a view, where a limit of a batch cannot be "
            "added; give it in the view: FROM STREAM t WITH ('maxFilesPerTrigger' = '1')"
        )
        raise refusal(ErrorReason.INVALID_SPEC, message)
    return with_options(jvm, query, limits)


def read_limits(options: StreamOptions) -> dict[str, str]:
    """Returns the options of a source that bound a batch, under the names that file tables, Kafka and Iceberg know."""
    limits: dict[str, str] = {}
    if options.max_files_per_trigger:
        limits["maxFilesPerTrigger"] = str(options.max_files_per_trigger)
        limits["streaming-max-files-per-micro-batch"] = str(options.max_files_per_trigger)
    if options.max_rows_per_trigger:
        limits["maxOffsetsPerTrigger"] = str(options.max_rows_per_trigger)
        limits["streaming-max-rows-per-micro-batch"] = str(options.max_rows_per_trigger)
    return limits
