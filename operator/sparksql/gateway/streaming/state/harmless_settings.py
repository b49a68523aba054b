"""Names of settings that do not say what a query means: settings of Spark 4.1, Delta and Hadoop, each looked at.

They say how a query runs, how rows and state lie, where tables are, or how results are shown and written. A name that a later
version adds is not among them, and counts.
"""

from __future__ import annotations

from collections.abc import Iterator

# What follows is people's own: names of catalogs, of properties of what is written, and of storage.
OPEN = (
    "spark.sql.catalog.",
    "spark.sql.iceberg.snapshot-property.",
    "spark.databricks.delta.properties.defaults.",
    "fs.",
)
_TABLE = """
# how a query is planned, run and cached
spark.sql.adaptive: advisoryPartitionSizeInBytes applyFinalStageShuffleOptimizations autoBroadcastJoinThreshold
    coalescePartitions.enabled coalescePartitions.initialPartitionNum coalescePartitions.minPartitionNum
    coalescePartitions.minPartitionSize coalescePartitions.parallelismFirst customCostEvaluatorClass enabled
    fetchShuffleBlocksInBatch forceApply forceOptimizeSkewedJoin localShuffleReader.enabled logLevel
    maxShuffledHashJoinLocalMapThreshold nonEmptyPartitionRatioForBroadcastJoin
    optimizeSkewsInRebalancePartitions.enabled optimizer.excludedRules rebalancePartitionsSmallPartitionFactor
    shuffle.targetPostShuffleInputSize skewJoin.enabled skewJoin.skewedPartitionFactor
    skewJoin.skewedPartitionThresholdInBytes streaming.stateless.enabled
spark.sql.bucketing: coalesceBucketsInJoin.enabled coalesceBucketsInJoin.maxBucketRatio
spark.sql.cache: serializer
spark.sql.cbo: enabled joinReorder.card.weight joinReorder.dp.star.filter joinReorder.dp.threshold
    joinReorder.enabled planStats.enabled starJoinFTRatio starSchemaDetection
spark.sql.classic: shuffleDependency.fileCleanup.enabled
spark.sql.codegen: aggregate.fastHashMap.capacityBit aggregate.map.twolevel.enabled
    aggregate.map.twolevel.partialOnly aggregate.map.vectorized.enable aggregate.sortAggregate.enabled
    aggregate.splitAggregateFunc.enabled broadcastCleanedSourceThreshold cache.maxEntries comments factoryMode
    fallback hugeMethodLimit join.buildSideOuterShuffledHashJoin.enabled join.existenceSortMergeJoin.enabled
    join.fullOuterShuffledHashJoin.enabled join.fullOuterSortMergeJoin.enabled logLevel logging.maxLines
    maxFields methodSplitThreshold splitConsumeFuncByOperator useIdInClassName wholeStage
spark.sql.connect: shuffleDependency.fileCleanup.enabled
spark.sql.exchange: reuse
spark.sql.inMemoryColumnarStorage: batchSize compressed enableVectorizedReader hugeVectorReserveRatio
    hugeVectorThreshold partitionPruning
spark.sql.join: preferSortMergeJoin
spark.sql.objectHashAggregate: sortBased.fallbackThreshold
spark.sql.optimizer: avoidCollapseUDFWithExpensiveExpr canChangeCachedPlanOutputPartitioning
    collapseProjectAlwaysInline dynamicPartitionPruning.enabled dynamicPartitionPruning.fallbackFilterRatio
    dynamicPartitionPruning.reuseBroadcastOnly dynamicPartitionPruning.useStats expression.nestedPruning.enabled
    expressionProjectionCandidateLimit inSetConversionThreshold inSetSwitchThreshold maxIterations
    nestedPredicatePushdown.supportedFileSources nestedSchemaPruning.enabled plannedWrite.enabled
    propagateDistinctKeys.enabled pruneFiltersCanPruneStreamingSubplan
    runtime.bloomFilter.applicationSideScanSizeThreshold runtime.bloomFilter.creationSideThreshold
    runtime.bloomFilter.enabled runtime.bloomFilter.expectedNumItems runtime.bloomFilter.maxNumBits
    runtime.bloomFilter.maxNumItems runtime.bloomFilter.numBits runtime.rowLevelOperationGroupFilter.enabled
    runtimeFilter.number.threshold serializer.nestedSchemaPruning.enabled windowGroupLimitThreshold
spark.sql.shuffle: orderIndependentChecksum.enableFullRetryOnMismatch orderIndependentChecksum.enabled
    partitions
spark.sql.shuffleDependency: fileCleanup.enabled skipMigration.enabled
spark.sql.sort: enableRadixSort
spark.sql.sortMergeJoinExec: buffer.in.memory.threshold buffer.spill.size.threshold buffer.spill.threshold
spark.sql.sources: bucketing.autoBucketedScan.enabled bucketing.enabled bucketing.maxBuckets
    parallelPartitionDiscovery.parallelism parallelPartitionDiscovery.threshold
    v2.bucketing.allowCompatibleTransforms.enabled v2.bucketing.allowJoinKeysSubsetOfPartitionKeys.enabled
    v2.bucketing.enabled v2.bucketing.partiallyClusteredDistribution.enabled
    v2.bucketing.partition.filter.enabled v2.bucketing.pushPartValues.enabled v2.bucketing.shuffle.enabled
    v2.bucketing.sorting.enabled
spark.sql.statistics: fallBackToHdfs histogram.enabled histogram.numBins ndv.maxError
    parallelFileListingInStatsComputation.enabled percentile.accuracy size.autoUpdate.enabled
    updatePartitionStatsInAnalyzeTable.enabled
spark.sql.windowExec: buffer.in.memory.threshold buffer.spill.size.threshold buffer.spill.threshold
# how a stream runs, and how its state lies: what of these a checkpoint was begun with, Spark goes on with
spark.sql.streaming: aggregation.stateFormatVersion asyncLogPurge.enabled checkpoint.escapedPathCheck.enabled
    checkpoint.fileChecksum.enabled checkpoint.fileChecksum.skipCreationIfFileMissingChecksum
    checkpoint.renamedFileCheck.enabled checkpointFileManagerClass checkpointLocation commitProtocolClass
    continuous.epochBacklogQueueSize continuous.executorPollIntervalMs continuous.executorQueueSize
    disabledV2Writers fileSink.log.cleanupDelay
    fileSink.log.compactInterval fileSink.log.deletion fileSource.cleaner.numThreads fileSource.log.cleanupDelay
    fileSource.log.compactInterval fileSource.log.deletion flatMapGroupsWithState.stateFormatVersion
    forceDeleteTempCheckpointLocation join.stateFormatVersion kafka.useDeprecatedOffsetFetching
    maxBatchesToRetainInMemory metadataCache.enabled metricsEnabled minBatchesToRetain multipleWatermarkPolicy
    noDataMicroBatches.enabled noDataProgressEventInterval numRecentProgressUpdates pollingDelay
    ratioExtraSpaceAllowedInCheckpoint realTimeMode.minBatchDuration statefulOperator.useStrictDistribution
    stopActiveRunOnRestart stopTimeout streamingQueryListeners ui.enabled ui.enabledCustomMetricList
    ui.retainedProgressUpdates ui.retainedQueries
spark.sql.streaming.stateStore: compression.codec coordinatorReportSnapshotUploadLag encodingFormat
    maintenanceInterval maintenanceProcessingTimeout maintenanceShutdownTimeout maxLaggingStoresToReport
    maxNumStateSchemaFiles maxVersionsToDeletePerMaintenance minDeltasForSnapshot multiplierForMinTimeDiffToLog
    multiplierForMinVersionDiffToLog numStateStoreInstanceMetricsToReport numStateStoreMaintenanceThreads
    providerClass skipNullsForStreamStreamJoins.enabled snapshotLagReportInterval unloadOnCommit
spark.sql.streaming.stateStore.rocksdb: allowFAllocate blockCacheSizeMB blockSizeKB boundedMemoryUsage
    changelogCheckpointing.enabled compactOnCommit compression formatVersion highPriorityPoolRatio
    lockAcquireTimeoutMs maxMemoryUsageMB maxOpenFiles maxWriteBufferNumber resetStatsOnLoad
    trackTotalNumberOfRows writeBufferCacheRatio writeBufferSizeMB
# what a session loads and where: what is loaded shows in plans
spark.sql.artifact: copyFromLocalToFs.allowDestLocal isolation.alwaysApplyClassloader isolation.enabled
spark.sql.extensions: test.loadFromCp
spark.sql.hive: metastore.barrierPrefixes metastore.jars metastore.jars.path metastore.sharedPrefixes
    metastore.version
spark.sql.maven: additionalRemoteRepositories
spark.sql.warehouse: dir
# what people see, and frontends that are not the gateway's
spark.sql.cli: print.header
spark.sql.debug: maxToStringFields
spark.sql.event: truncate.length
spark.sql.pipelines: event.queue.capacity execution.maxConcurrentFlows execution.streamstate.pollingInterval
    execution.watchdog.maxRetryTime execution.watchdog.minRetryTime maxFlowRetryAttempts
    timeoutMsForTerminationJoinAndLock
spark.sql.redaction: options.regex string.regex
spark.sql.repl: eagerEval.enabled eagerEval.maxNumRows eagerEval.truncate
spark.sql.thriftServer: incrementalCollect interruptOnCancel queryTimeout
spark.sql.thriftserver: scheduler.pool ui.retainedSessions ui.retainedStatements
spark.sql.ui: explainMode retainedExecutions
# how a query is planned and run
spark.sql: autoBroadcastJoinThreshold broadcastExchange.maxThreadThreshold broadcastTimeout
    defaultCacheStorageLevel execution.arrow.maxRecordsPerBatch
    execution.broadcastHashJoin.outputPartitioningExpandLimit execution.fastFailOnFileFormatOutput
    execution.interruptOnCancel execution.pyspark.udf.faulthandler.enabled
    execution.pyspark.udf.simplifiedTraceback.enabled execution.rangeExchange.sampleSizePerPartition
    execution.removeRedundantProjects execution.removeRedundantSorts execution.replaceHashWithSortAgg
    execution.reuseSubquery execution.sortBeforeRepartition execution.topKSortFallbackThreshold
    execution.topKSortMaxRowsPerPartition execution.usePartitionEvaluator files.maxPartitionBytes
    files.maxPartitionNum files.minPartitionNum files.openCostInBytes filesourceTableRelationCacheSize
    leafNodeDefaultParallelism limit.initialNumPartitions limit.scaleUpFactor maxBroadcastTableSize
    maxConcurrentOutputFileWriters maxSinglePartitionBytes metadataCacheTTLSeconds
    planner.pythonExecution.memory session.localRelationCacheThreshold session.localRelationChunkSizeBytes
    session.localRelationChunkSizeRows session.localRelationSizeLimit shuffledHashJoinFactor
# how files are read, not what of them
spark.sql: avro.filterPushdown.enabled csv.filterPushdown.enabled json.filterPushdown.enabled
    orc.columnarReaderBatchSize orc.enableNestedColumnVectorizedReader orc.enableVectorizedReader
    orc.filterPushdown parquet.columnarReaderBatchSize parquet.enableNestedColumnVectorizedReader
    parquet.enableVectorizedReader parquet.filterPushdown
# how the target is written: what is in it already stays
spark.sql: avro.compression.codec avro.deflate.level avro.xz.level avro.zstandard.level files.maxRecordsPerFile
    orc.columnarWriterBatchSize orc.compression.codec parquet.compression.codec parquet.fieldId.write.enabled
    parquet.output.committer.class parquet.outputTimestampType parquet.writeLegacyFormat
    sources.commitProtocolClass sources.outputCommitterClass sources.partitionOverwriteMode
    storeAssignmentPolicy
# what names and texts stand for: the plan has it, whole
spark.sql: allowNamedFunctionArguments ansi.doubleQuotedIdentifiers ansi.enforceReservedKeywords
    ansi.relationPrecedence defaultCatalog extensions groupByAliases groupByOrdinal operatorPipeSyntaxEnabled
    orderByOrdinal pivotMaxValues scripting.enabled timestampType transposeMaxValues variable.substitute
# what people see
spark.sql: error.messageFormat extendedExplainProviders maxMetadataStringLength maxPlanStringLength
    queryExecutionListeners sqlcontext.queryExecutionListeners stackTracesInDataFrameContext
# how Delta writes and keeps tables, and what it notes in the session itself (lastCommitVersionInSession)
spark.databricks.delta: autoCompact.enabled autoCompact.maxFileSize autoCompact.minNumFiles checkpoint.partSize
    commitInfo.userMetadata delta.log.cacheRetentionMinutes delta.log.cacheSize lastCommitVersionInSession
    maxCommitAttempts merge.materializeSource merge.repartitionBeforeWrite.enabled optimizeWrite.binSize
    optimizeWrite.enabled optimizeWrite.maxShufflePartitions optimizeWrite.numShuffleBlocks
    retentionDurationCheck.enabled schema.autoMerge.enabled snapshotPartitions stats.collect stats.skipping
    vacuum.parallelDelete.enabled vacuum.parallelDelete.parallelism
# how files are committed, and where the metastore is and how it locks: Hadoop's settings, as Hadoop calls them
mapreduce.fileoutputcommitter: algorithm.version cleanup.skipped
iceberg.engine.hive: lock-enabled
hive.metastore: uris client.socket.timeout
"""


def _names(table: str) -> Iterator[str]:
    """Names of lines `prefix: name name`, which go on where a line is indented; `#` begins a comment."""
    prefix = ""
    for line in table.strip().splitlines():
        if line.startswith("#"):
            continue
        before, colon, after = line.partition(":")
        if colon:
            prefix = before
        yield from (f"{prefix}.{name}" for name in (after if colon else line).split())


HARMLESS = frozenset(_names(_TABLE))
