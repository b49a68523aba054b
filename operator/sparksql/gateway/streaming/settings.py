"""Settings of a session that may say what a query means.

Spark's plans have most of what a setting means, but not all: how a text is read as a time, how a struct becomes text, how files are
read, is asked of the session while the query runs. So every setting of Spark's SQL counts that is given, but those that are known
to say how a query runs, how rows lie, where tables are, or how results are shown and written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from sparksql.gateway.streaming.description import Setting

ZONE = "spark.sql.session.timeZone"
_OF_SQL = "spark.sql."
# What begins so. `streaming`: Spark keeps those of them that say what is in the state in the checkpoint, and goes on with these.
_FAMILIES = tuple(
    f"{_OF_SQL}{name}."
    for name in (
        *("adaptive", "artifact", "bucketing", "cache", "catalog", "cbo", "classic", "cli", "codegen", "connect", "debug"),
        *("event", "exchange", "execution.arrow.maxRecordsPerBatch", "extensions", "hive.metastore", "iceberg.snapshot-property"),
        *("inMemoryColumnarStorage", "join", "maven", "objectHashAggregate", "optimizer", "pipelines", "redaction", "repl"),
        *("requireAllClusterKeys", "runtimeFilter", "shuffle", "shuffleDependency", "sort", "sortMergeJoinExec"),
        *("sources.bucketing", "sources.parallelPartitionDiscovery", "sources.v2.bucketing", "statistics", "streaming"),
        *("thriftServer", "thriftserver", "ui", "warehouse", "window", "windowExec"),
    )
)  # fmt: skip
_HARMLESS = frozenset(
    f"{_OF_SQL}{name}"
    for name in (
        # how a query is planned and run
        *("autoBroadcastJoinThreshold", "broadcastTimeout", "broadcastExchange.maxThreadThreshold", "defaultCacheStorageLevel"),
        *("execution.arrow.maxRecordsPerBatch", "execution.broadcastHashJoin.outputPartitioningExpandLimit"),
        *("execution.rangeExchange.sampleSizePerPartition", "execution.removeRedundantProjects", "execution.replaceHashWithSortAgg"),
        *("execution.removeRedundantSorts", "execution.reuseSubquery", "execution.sortBeforeRepartition", "execution.usePartitionEvaluator"),
        *("execution.topKSortFallbackThreshold", "execution.topKSortMaxRowsPerPartition", "execution.fastFailOnFileFormatOutput"),
        *("execution.pyspark.udf.simplifiedTraceback.enabled", "execution.pyspark.udf.faulthandler.enabled"),
        *("execution.interruptOnCancel", "filesourceTableRelationCacheSize", "metadataCacheTTLSeconds", "leafNodeDefaultParallelism"),
        *("limit.initialNumPartitions", "limit.scaleUpFactor", "maxBroadcastTableSize", "maxConcurrentOutputFileWriters"),
        *("maxSinglePartitionBytes", "shuffledHashJoinFactor", "planner.pythonExecution.memory", "files.maxPartitionBytes"),
        *("files.maxPartitionNum", "files.minPartitionNum", "files.openCostInBytes", "session.localRelationCacheThreshold"),
        *("session.localRelationChunkSizeBytes", "session.localRelationChunkSizeRows", "session.localRelationSizeLimit"),
        # how files are read, not what of them
        *("parquet.filterPushdown", "parquet.enableVectorizedReader", "parquet.enableNestedColumnVectorizedReader"),
        *("parquet.columnarReaderBatchSize", "orc.filterPushdown", "orc.enableVectorizedReader", "orc.columnarReaderBatchSize"),
        *("orc.enableNestedColumnVectorizedReader", "csv.filterPushdown.enabled", "json.filterPushdown.enabled"),
        *("avro.filterPushdown.enabled",),
        # how the target is written: what is in it already stays
        *("avro.compression.codec", "avro.deflate.level", "avro.zstandard.level", "avro.xz.level", "files.maxRecordsPerFile"),
        *("orc.columnarWriterBatchSize", "orc.compression.codec", "parquet.compression.codec", "parquet.outputTimestampType"),
        *("parquet.output.committer.class", "parquet.writeLegacyFormat", "parquet.fieldId.write.enabled"),
        *("sources.commitProtocolClass", "sources.outputCommitterClass", "sources.partitionOverwriteMode"),
        *("storeAssignmentPolicy",),
        # what names and texts stand for: the plan has it, whole
        *("defaultCatalog", "extensions", "scripting.enabled", "variable.substitute", "groupByAliases", "groupByOrdinal"),
        *("orderByOrdinal", "allowNamedFunctionArguments", "operatorPipeSyntaxEnabled", "pivotMaxValues", "transposeMaxValues"),
        *("ansi.doubleQuotedIdentifiers", "ansi.enforceReservedKeywords", "ansi.relationPrecedence", "timestampType"),
        # what people see
        *("error.messageFormat", "extendedExplainProviders", "maxMetadataStringLength", "maxPlanStringLength"),
        *("queryExecutionListeners", "stackTracesInDataFrameContext", "sqlcontext.queryExecutionListeners"),
    )
)  # fmt: skip
_BETWEEN = "\u0001"


def of_session(jvm: Any, session: Any, *, zone_counts: bool) -> tuple[Setting, ...]:
    """The settings of a session that may say what its queries mean, by name. `zone_counts`: the time zone does, too: where it
    counts in an expression, the plan has it."""
    entries = jvm.org.apache.spark.internal.config.ConfigEntry
    found = [_told(entries, name, value) for name, value in _given(session) if counts(name)]
    if zone_counts:
        zone = str(session.conf().get(ZONE))
        found.append(Setting(ZONE, zone, zone))
    return tuple(sorted(found, key=lambda each: each.name))


def counts(name: str) -> bool:
    """Whether a setting may say what a query means."""
    return name.startswith(_OF_SQL) and name != ZONE and name not in _HARMLESS and not name.startswith(_FAMILIES)


def changed(old: Mapping[str, Setting], new: Mapping[str, Setting]) -> Iterator[tuple[str, str, str]]:
    """Name and both values of each setting that differs; what is not given has its default."""
    for name in sorted({*old, *new}):
        was, now = old.get(name), new.get(name)
        before = was.value if was is not None else now.default if now is not None else ""
        after = now.value if now is not None else was.default if was is not None else ""
        if before.lower() != after.lower():
            yield name, before, after


def _told(entries: Any, name: str, value: str) -> Setting:
    """A setting that Spark does not know may be a secret: it is told by a digest."""
    entry = entries.findEntry(name)
    if entry is None:
        return Setting(name, f"#{hashlib.sha256(value.encode()).hexdigest()[:8]}", "")
    return Setting(name, value, str(entry.defaultValueString()))


def _given(session: Any) -> Iterator[tuple[str, str]]:
    """All settings in one call: there are many, and each call of the JVM takes its time."""
    pairs = str(session.sessionState().conf().getAllConfs().mkString(_BETWEEN))
    for pair in pairs.split(_BETWEEN):
        name, _, value = pair.partition(" -> ")
        yield name, value
