"""What the tables of a plan are, so that one can be told from another: by place or name, never by what else is configured.

Only the options below are written down: others may hold credentials, or say how fast to read and not what.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

from sparksql.gateway.scala import elements, fields, option, simple_name
from sparksql.gateway.streaming.compatibility import Source
from sparksql.gateway.streaming.kafka import is_kafka
from sparksql.gateway.streaming.sources import rewritten

# In lower case; those of Kafka, then that of Iceberg.
_TELLING_OPTIONS = ("subscribe", "subscribepattern", "assign", "branch")
_LISTS = frozenset({"subscribe"})
_OUTPUT = 4  # columns among the fields of StreamingRelationV2; how many fields come after it hangs on Spark's version
_DECODING = frozenset({"Project", "Filter", "Generate"})


def streamed(plan: Any) -> Iterator[tuple[Any, str]]:
    """Streaming leaves of an analysed plan in the order of Spark's offset log, with the name that each has in the text."""
    pending = [(plan, "")]
    while pending:
        node, name = pending.pop()
        kind = simple_name(node)
        if kind in ("StreamingRelation", "StreamingRelationV2"):
            yield node, name or str(node.sourceName())
        name = str(node.alias()) if kind == "SubqueryAlias" else ""
        pending.extend((child, name) for child in reversed(elements(node.children())))


def undecoded(jvm: Any, plan: Any) -> Any:
    """An analysed plan in which a Kafka table with declared columns is a source that has them. How values are decoded is no part
    of what the columns mean: it changes with `value.mode`, with another declared column, and with this program."""

    def replaced(node: Any) -> Any | None:
        leaf = _decoded_leaf(node.child()) if simple_name(node) == "SubqueryAlias" else None
        if leaf is None:
            return None
        parts = list(fields(leaf))
        parts[_OUTPUT] = node.child().output()
        columns = leaf.copy(*parts)
        return node.withNewChildren(jvm.PythonUtils.toSeq([columns]))

    return rewritten(jvm, plan, replaced)


def _decoded_leaf(node: Any) -> Any | None:
    """The leaf below what `kafka_values` makes of Kafka's records; None for anything else."""
    if simple_name(node) not in _DECODING:
        return None
    while simple_name(node) in _DECODING:
        node = node.child()
    return node if simple_name(node) == "StreamingRelationV2" and is_kafka(node.sourceName()) else None


def source(leaf: Any, name: str, qualified: Callable[[str], str]) -> Source:
    """What a streaming leaf streams. `qualified` gives a path its full form."""
    if simple_name(leaf) == "StreamingRelationV2":
        identifier, catalog = option(leaf.identifier()), option(leaf.catalog())
        options = _told(leaf.extraOptions().asCaseSensitiveMap())
        if identifier is not None:
            prefix = "" if catalog is None else f"{catalog.name()}."
            return Source(name, f"table {prefix}{identifier.toString()}{options}")
        return Source(name, f"{leaf.sourceName()}{options}")
    relation = leaf.dataSource()
    table = option(relation.catalogTable())
    given = {str(pair._1()): str(pair._2()) for pair in elements(relation.options())}
    path = next((value for key, value in given.items() if key.lower() == "path"), None)
    if path is None and table is not None and option(table.storage().locationUri()) is not None:
        path = str(table.location().toString())
    place = "" if path is None else f" {qualified(path)}"
    return Source(name, f"{relation.className()}{place}{_told(given)}")


def static(leaf: Any) -> str:
    """What a leaf without a STREAM is: a table's name, or a digest of rows that the text has."""
    match simple_name(leaf):
        case "LogicalRelation" | "HiveTableRelation" as kind:
            table = option(leaf.catalogTable()) if kind == "LogicalRelation" else leaf.tableMeta()
            return _digest(leaf.relation()) if table is None else str(table.identifier().unquotedString())
        case "DataSourceV2Relation" | "DataSourceV2ScanRelation":
            return str(leaf.name())
        case "LocalRelation":
            return _digest(leaf.data())
        case kind:
            return kind


def _told(options: Any) -> str:
    given = {str(key).lower(): str(options[key]) for key in options}
    return "".join(f" {key}={_ordered(key, given[key])}" for key in _TELLING_OPTIONS if key in given)


def _ordered(key: str, value: str) -> str:
    return ",".join(sorted(part.strip() for part in value.split(","))) if key in _LISTS else value


def _digest(value: Any) -> str:
    return f"rows {hashlib.sha256(str(value.toString()).encode()).hexdigest()[:12]}"
