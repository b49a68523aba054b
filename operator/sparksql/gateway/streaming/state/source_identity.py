"""What the tables of a plan are, so that one can be told from another: by place or name, never by what else is configured.

Only the options below are written down: others may hold credentials, or say how fast to read and not what.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Any

from sparksql.gateway.spark.plans import children, rewritten
from sparksql.gateway.spark.scala import elements, fields, option, simple_name, text_map
from sparksql.gateway.spark.shapes import Jvm, LogicalPlan
from sparksql.gateway.spark.table_formats import is_iceberg
from sparksql.gateway.spark.types import has_times
from sparksql.gateway.streaming.kafka.options import is_kafka
from sparksql.gateway.streaming.state.description import StreamSource
from sparksql.gateway.streaming.state.read_options import of_scala, read_by_stream, read_by_table

# In lower case; those of Kafka, then that of Iceberg.
_TELLING_OPTIONS = ("subscribe", "subscribepattern", "assign", "branch")
_LISTS = frozenset({"subscribe"})
_OUTPUT = 4  # columns among the fields of StreamingRelationV2; how many fields come after it hangs on Spark's version
_ADDRESS = re.compile(r"@[0-9a-f]+\b")
# Formats whose values are found by the names of their columns; of a class, where Spark reads a file by one.
_BY_NAME = frozenset({"parquet", "orc", "json", "avro", "xml", "delta", "kafka", "rate", "rate-micro-batch"})
_OF_INSTANTS = frozenset({"parquet", "orc", "avro", "delta"})
_OWN_FORMAT = re.compile(r"org\.apache\.spark\.sql\.(?:\w+\.)+(\w+?)(?:Parquet)?(?:FileFormat|DataSourceV2)")
STREAMS = frozenset({"StreamingRelation", "StreamingRelationV2"})  # leaves of an analysed plan that stream
_DECODING = frozenset({"Project", "Filter", "Generate"})


def streamed(plan: LogicalPlan) -> Iterator[tuple[Any, str]]:
    """Yields the streaming leaves of an analysed plan, with the name that each has in the text.

    They come in the order of Spark's offset log.
    """
    pending = [(plan, "")]
    while pending:
        node, name = pending.pop()
        kind = simple_name(node)
        if kind in STREAMS:
            yield node, name or str(node.sourceName())
        name = str(node.alias()) if kind == "SubqueryAlias" else ""
        pending.extend((child, name) for child in reversed(children(node)))


def first_column(leaf: LogicalPlan) -> int:
    """Returns Spark's id of a streaming leaf's first column, 0 without any: what is used twice under one name is one source."""
    columns = leaf.output()
    return 0 if columns.isEmpty() else int(columns.head().exprId().id())


def undecoded(jvm: Jvm, plan: LogicalPlan) -> Any:
    """Returns an analysed plan in which a Kafka table with declared columns is a source that has them.

    How values are decoded is no part of what the columns mean: it changes with `value.mode`, with another declared
    column, and with this program.
    """

    def replaced(node: LogicalPlan) -> Any | None:
        leaf = _decoded_leaf(node.child()) if simple_name(node) == "SubqueryAlias" else None
        if leaf is None:
            return None
        parts = list(fields(leaf))
        parts[_OUTPUT] = node.child().output()
        columns = leaf.copy(*parts)
        return node.withNewChildren(jvm.PythonUtils.toSeq([columns]))

    return rewritten(jvm, plan, replaced)


def _decoded_leaf(node: LogicalPlan) -> Any | None:
    """The leaf below what `kafka.values` makes of Kafka's records; None for anything else."""
    if simple_name(node) not in _DECODING:
        return None
    while simple_name(node) in _DECODING:
        node = node.child()
    return node if simple_name(node) == "StreamingRelationV2" and is_kafka(node.sourceName()) else None


def source(leaf: LogicalPlan, name: str, qualified: Callable[[str], str]) -> StreamSource:
    """Returns what a streaming leaf streams. `qualified` gives a path its full form."""
    if simple_name(leaf) == "StreamingRelationV2":
        identifier, catalog = option(leaf.identifier()), option(leaf.catalog())
        given = text_map(leaf.extraOptions().asCaseSensitiveMap())
        told = _told(given)
        read = "" if is_kafka(leaf.sourceName()) else read_by_stream(given).strip()
        if identifier is not None:
            prefix = "" if catalog is None else f"{catalog.name()}."
            return StreamSource(name, f"table {prefix}{identifier.toString()}{told}", read)
        return StreamSource(name, f"{leaf.sourceName()}{told}", read)
    relation = leaf.dataSource()
    table = option(relation.catalogTable())
    given = of_scala(relation.options())
    path = next((value for key, value in given.items() if key.lower() == "path"), None)
    if path is None and table is not None and option(table.storage().locationUri()) is not None:
        path = str(table.location().toString())
    place = "" if path is None else f" {qualified(path)}"
    return StreamSource(name, f"{relation.className()}{place}{_told(given)}", read_by_stream(given).strip())


def static(leaf: LogicalPlan) -> str:
    """Returns what a leaf without a STREAM is: a table's name, or a digest of rows that the text has."""
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


def static_place(leaf: LogicalPlan, qualified: Callable[[str], str]) -> str:
    """Returns what a leaf without a STREAM is, whole: its table, or its place and the options that it is read with."""
    kind = simple_name(leaf)
    if kind == "LogicalRelation" and _is_of_files(leaf.relation()):
        return _files(leaf.relation(), None if option(leaf.catalogTable()) is None else static(leaf), qualified)
    if kind == "DataSourceV2Relation":
        catalog, identifier = option(leaf.catalog()), option(leaf.identifier())
        prefix = "" if catalog is None else f"{catalog.name()}."
        place = str(leaf.name()) if identifier is None else f"{prefix}{identifier.toString()}"
        return (
            f"{place}{read_by_table(text_map(leaf.options().asCaseSensitiveMap()))} {leaf.timeTravelSpec().toString()}"
        )
    return static(leaf)


def _is_of_files(relation: Any) -> bool:
    """Delta's relations are of a class without a name below Spark's."""
    kind = relation.getClass()
    return "HadoopFsRelation" in (str(kind.getSimpleName()), str(kind.getSuperclass().getSimpleName()))


def _files(relation: Any, table: str | None, qualified: Callable[[str], str]) -> str:
    location = relation.location()
    paths = " ".join(sorted(qualified(str(path.toString())) for path in elements(location.rootPaths())))
    place = f"{relation.fileFormat().getClass().getName()} {paths}" if table is None else table
    if simple_name(location) == "TahoeLogFileIndex" and location.isTimeTravelQuery():
        place += f" version {location.snapshotAtAnalysis().version()}"
    return f"{place}{read_by_table(of_scala(relation.options()))}"


def is_told(leaf: LogicalPlan) -> bool:
    """Returns whether what `static_place` gives tells a leaf from others, and is the same each time.

    A relation of some library may have nothing but its address in memory.
    """
    if simple_name(leaf) != "LogicalRelation" or option(leaf.catalogTable()) is not None:
        return True
    relation = leaf.relation()
    return _is_of_files(relation) or not _ADDRESS.search(str(relation.toString()))


def column_ids(leaf: LogicalPlan) -> dict[str, str]:
    """Returns what tells columns where names do not, by their names.

    Those of Iceberg are told by their ids. Those of formats that are not known to find values by the names of their
    columns, as CSV, are told by their places.
    """
    table = leaf.table() if simple_name(leaf) in ("DataSourceV2Relation", "StreamingRelationV2") else None
    if table is not None and is_iceberg(table):
        columns = table.table().schema().columns()
        return {str(columns[index].name()): str(columns[index].fieldId()) for index in range(len(columns))}
    if read_as(leaf) in _BY_NAME:
        return {}
    return {str(column.name()): f"place {index}" for index, column in enumerate(elements(leaf.output()))}


def read_as(leaf: LogicalPlan) -> str:
    """Returns the format that a table's rows are read as: a short name, or the class where Spark knows no such."""
    match simple_name(leaf):
        case "StreamingRelation":
            return _short_name(str(leaf.dataSource().className()))
        case "StreamingRelationV2":
            name = str(leaf.sourceName()).lower()
            return name if name in _BY_NAME else str(leaf.table().getClass().getName())
        case "LogicalRelation" if _is_of_files(leaf.relation()):
            return _short_name(str(leaf.relation().fileFormat().getClass().getName()))
        case "DataSourceV2Relation":
            return str(leaf.table().getClass().getName())
        case kind:
            return kind


def _short_name(provider: str) -> str:
    """`csv` of Spark's own class for it, and of `CSV`."""
    found = _OWN_FORMAT.fullmatch(provider)
    return (provider if found is None else found[1]).lower()


def reads_times_in_a_zone(leaf: LogicalPlan) -> bool:
    """Returns whether times of a table may be read in the session's time zone.

    They may where they are written without one: as text, and so in the names of partitions. They are not in formats
    that are known to keep instants.
    """
    columns = elements(leaf.output())
    times = [str(column.name()) for column in columns if has_times(column.dataType())]
    match read_as(leaf):
        case "kafka":  # the time of a record; others are in its value
            return times not in ([], ["timestamp"])
        case "rate" | "rate-micro-batch" | "LocalRelation":
            return False
        case kind if kind in _OF_INSTANTS:
            return bool(set(times) & _partitions(leaf))
        case kind if kind.startswith("org.apache.iceberg.spark."):
            return False
        case _:
            return bool(times)


def _partitions(leaf: LogicalPlan) -> set[str]:
    if simple_name(leaf) == "StreamingRelation":
        table = option(leaf.dataSource().catalogTable())
        names = [*elements(leaf.dataSource().partitionColumns())]
        names += [] if table is None else elements(table.partitionColumnNames())
    else:
        names = [field.name() for field in leaf.relation().partitionSchema().fields()]
    return {str(name) for name in names}


def _told(options: dict[str, str]) -> str:
    given = {key.lower(): value for key, value in options.items()}
    return "".join(f" {key}={_ordered(key, given[key])}" for key in _TELLING_OPTIONS if key in given)


def _ordered(key: str, value: str) -> str:
    return ",".join(sorted(part.strip() for part in value.split(","))) if key in _LISTS else value


def _digest(value: Any) -> str:
    return f"rows {hashlib.sha256(str(value.toString()).encode()).hexdigest()[:12]}"
