"""Which messages of the Connect protocol a plan may hold: an allow-list of message types, everything else is refused.

The choice among relations, commands, expressions and catalog operations is a choice of message type, so one list covers them
all, and a kind that a newer Spark adds is refused until it is listed here. Names are those of the package `spark.connect`;
entries of maps are not messages here, their values are.
"""

from __future__ import annotations

PACKAGE = "spark.connect."

_REQUESTS = """
    ExecutePlanRequest ExecutePlanRequest.RequestOption ReattachOptions ResultChunkingOptions UserContext Plan
    AnalyzePlanRequest AnalyzePlanRequest.DDLParse AnalyzePlanRequest.Explain AnalyzePlanRequest.GetStorageLevel
    AnalyzePlanRequest.InputFiles AnalyzePlanRequest.IsLocal AnalyzePlanRequest.IsStreaming AnalyzePlanRequest.JsonToDDL
    AnalyzePlanRequest.Persist AnalyzePlanRequest.SameSemantics AnalyzePlanRequest.Schema AnalyzePlanRequest.SemanticHash
    AnalyzePlanRequest.SparkVersion AnalyzePlanRequest.TreeString AnalyzePlanRequest.Unpersist StorageLevel
    Origin PythonOrigin JvmOrigin StackTraceElement RelationCommon ExpressionCommon
"""
_COMMANDS = """
    Command SqlCommand CreateDataFrameViewCommand
    WriteOperation WriteOperation.BucketBy WriteOperation.SaveTable
    WriteOperationV2 MergeIntoTableCommand MergeAction MergeAction.Assignment CheckpointCommand RemoveCachedRemoteRelationCommand
"""
_RELATIONS = """
    Relation SQL Read Read.DataSource Read.NamedTable
    LocalRelation CachedLocalRelation ChunkedCachedLocalRelation CachedRemoteRelation
    WithRelations Project Filter Join Join.JoinDataType AsOfJoin LateralJoin SetOperation Sort Limit Offset Tail Sample
    Aggregate Aggregate.GroupingSets Aggregate.Pivot Unpivot Unpivot.Values Transpose Deduplicate Drop Range SubqueryAlias
    Repartition RepartitionByExpression ToDF ToSchema WithColumns WithColumnsRenamed WithColumnsRenamed.Rename
    WithWatermark Hint Parse CollectMetrics ShowString HtmlString
    NADrop NAFill NAReplace NAReplace.Replacement StatApproxQuantile StatCorr StatCov StatCrosstab StatDescribe StatFreqItems
    StatSampleBy StatSampleBy.Fraction StatSummary UnresolvedTableValuedFunction
"""
_CATALOG = """
    Catalog CurrentDatabase SetCurrentDatabase ListDatabases ListTables ListFunctions ListColumns GetDatabase GetTable
    GetFunction DatabaseExists TableExists FunctionExists CreateExternalTable CreateTable
    DropTempView DropGlobalTempView RecoverPartitions IsCached CacheTable UncacheTable ClearCache
    RefreshTable RefreshByPath CurrentCatalog SetCurrentCatalog ListCatalogs
"""
_EXPRESSIONS = """
    Expression Expression.Literal Expression.Literal.Array Expression.Literal.CalendarInterval Expression.Literal.Decimal
    Expression.Literal.Map Expression.Literal.SpecializedArray Expression.Literal.Struct Expression.Literal.Time
    Expression.UnresolvedAttribute Expression.UnresolvedFunction Expression.ExpressionString Expression.UnresolvedStar
    Expression.Alias Expression.Cast Expression.UnresolvedRegex Expression.SortOrder Expression.LambdaFunction
    Expression.Window Expression.Window.WindowFrame Expression.Window.WindowFrame.FrameBoundary
    Expression.UnresolvedExtractValue Expression.UpdateFields Expression.UnresolvedNamedLambdaVariable
    Expression.DirectShufflePartitionID CallFunction NamedArgumentExpression SubqueryExpression
    SubqueryExpression.TableArgOptions Bools Doubles Floats Ints Longs Strings
"""
_TYPES = """
    DataType DataType.Array DataType.Binary DataType.Boolean DataType.Byte DataType.CalendarInterval DataType.Char
    DataType.Date DataType.DayTimeInterval DataType.Decimal DataType.Double DataType.Float DataType.Geography
    DataType.Geometry DataType.Integer DataType.Long DataType.Map DataType.NULL DataType.Short DataType.String
    DataType.Struct DataType.StructField DataType.Time DataType.Timestamp DataType.TimestampNTZ DataType.Unparsed
    DataType.VarChar DataType.Variant DataType.YearMonthInterval
"""
ALLOWED = frozenset(
    PACKAGE + name
    for names in (_REQUESTS, _COMMANDS, _RELATIONS, _CATALOG, _EXPRESSIONS, _TYPES)
    for name in names.split()
)

_CODE = "it runs code that the platform did not choose; express it in SQL or with built-in functions"
_STREAMING = "streaming queries are not offered over Connect yet; use a SqlStatement with spec.streaming"
# What people may well try, and what to tell them.
REASONS = {
    **dict.fromkeys(
        (
            "CommonInlineUserDefinedFunction",
            "CommonInlineUserDefinedTableFunction",
            "CommonInlineUserDefinedDataSource",
            "TypedAggregateExpression",
            "MapPartitions",
            "GroupMap",
            "CoGroupMap",
            "ApplyInPandasWithState",
        ),
        _CODE,
    ),
    **dict.fromkeys(
        (
            "WriteStreamOperationStart",
            "StreamingQueryCommand",
            "StreamingQueryManagerCommand",
            "StreamingQueryListenerBusCommand",
        ),
        _STREAMING,
    ),
    "MlRelation": "machine learning is not offered over Connect",
    "MlCommand": "machine learning is not offered over Connect",
    "PipelineCommand": "declarative pipelines are not offered over Connect",
    "ExecuteExternalCommand": "it runs a command outside of Spark",
    "CreateResourceProfileCommand": "the resources of executors are the session's to choose",
    "GetResourcesCommand": "the resources of executors are the session's to choose",
    "DataType.UDT": "a user-defined type names a class of the platform's to load",
}
STREAMING_READ = _STREAMING
