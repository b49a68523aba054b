"""What each SQL statement is, by the class that Spark's parser makes of it.

One explicit table of Spark 4.1's parser classes, never a look at the text. Invariant: a class that is not in the table is
taken for the worst, a statement with effects that changes the session: it runs alone, never twice, and never in `init`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Effect(Enum):
    """Names what running a statement may change."""

    READ = auto()  # nothing: running it again is harmless
    WRITE = auto()  # data, the catalog or caches, but not the session
    MAYBE_SESSION = auto()  # data or the catalog, or the session, depending on what the names stand for
    SESSION = auto()  # the session: settings, temporary objects, resources, current schema


@dataclass(frozen=True)
class Kind:
    """Describes a kind of statement.

    `type` is shown in status; `in_init` tells that `init` accepts it; `dml` that its answer is a row of what was
    written; `query` that it is a plain query; `dynamic` that analysing it already executes something, which is a query
    where `of_query`.
    """

    type: str
    effect: Effect
    in_init: bool = False
    dml: bool = False
    query: bool = False
    dynamic: bool = False
    of_query: bool = False

    @property
    def read_only(self) -> bool:
        """Returns whether running it changes nothing."""
        return self.effect is Effect.READ

    @property
    def exclusive(self) -> bool:
        """Returns whether it may change the session, and so runs alone in it."""
        return self.effect in (Effect.SESSION, Effect.MAYBE_SESSION)

    @property
    def on_driver(self) -> bool:
        """Returns whether running it needs no executor.

        A SET of a variable may need one, because it may hold a query.
        """
        return self.type in _ON_DRIVER and not self.dynamic


_ON_DRIVER = frozenset({"SHOW", "LIST", "DESCRIBE", "EXPLAIN", "USE", "SET", "RESET"})


def _reads(type_: str, classes: str) -> dict[str, Kind]:
    return {name: Kind(type_, Effect.READ) for name in classes.split()}


def _writes(type_: str, classes: str, in_init: bool = False, dml: bool = False) -> dict[str, Kind]:
    return {name: Kind(type_, Effect.WRITE, in_init=in_init, dml=dml) for name in classes.split()}


def _may_change_session(type_: str, classes: str, in_init: bool = False, dynamic: bool = False) -> dict[str, Kind]:
    return {name: Kind(type_, Effect.MAYBE_SESSION, in_init=in_init, dynamic=dynamic) for name in classes.split()}


def _changes_session(type_: str, classes: str) -> dict[str, Kind]:
    return {name: Kind(type_, Effect.SESSION, in_init=True) for name in classes.split()}


# Roots of parsed queries. `Union` of INSERTs and `UnresolvedWith` before an INSERT are looked into by the classifier.
_QUERIES = """
    Aggregate Deduplicate Distinct Except Expand Filter Generate GlobalLimit Intersect Join LateralJoin LocalLimit
    LocalRelation Offset OneRowRelation Pivot Project Range Repartition RepartitionByExpression Sample Sort SubqueryAlias
    Tail Transpose Union UnionLoop UnresolvedHaving UnresolvedHint UnresolvedInlineTable UnresolvedRelation
    UnresolvedSubqueryColumnAliases UnresolvedTableValuedFunction UnresolvedWith Unpivot Window WithWindowDefinition
    RelationTimeTravel UnresolvedEventTimeWatermark UnresolvedTVFAliases LimitAll ScriptTransformation
"""
QUERY_CLASSES = frozenset(_QUERIES.split())

KINDS: dict[str, Kind] = {
    **{name: Kind("SELECT", Effect.READ, query=True) for name in QUERY_CLASSES},
    **_reads(
        "SHOW",
        """ShowTables ShowTablesExtended ShowTablePartition ShowViews ShowNamespacesCommand
        ShowCatalogsCommand ShowCurrentNamespaceCommand ShowColumns ShowColumnsCommand ShowPartitions ShowFunctions
        ShowProceduresCommand ShowCreateTable ShowTableProperties ShowCollationsCommand""",
    ),
    **_reads("LIST", "ListJarsCommand ListFilesCommand ListArchivesCommand"),
    **_reads(
        "DESCRIBE",
        """DescribeRelation DescribeRelationJsonCommand DescribeColumn DescribeQueryCommand DescribeNamespace
        DescribeFunction DescribeProcedureCommand""",
    ),
    **_reads("EXPLAIN", "ExplainCommand"),
    **_writes("INSERT", "InsertIntoStatement InsertIntoDir OverwriteByExpression", dml=True),
    **_writes("UPDATE", "UpdateTable", dml=True),
    **_writes("DELETE", "DeleteFromTable", dml=True),
    **_writes("MERGE", "MergeIntoTable", dml=True),
    **_writes("TRUNCATE", "TruncateTable TruncatePartition"),
    **_writes("LOAD", "LoadData", in_init=True),
    **_writes("CREATE TABLE", "CreateTable CreateTableLikeCommand CreateTableLike ReplaceTable", in_init=True),
    **_writes("CREATE TABLE AS SELECT", "CreateTableAsSelect ReplaceTableAsSelect", in_init=True, dml=True),
    **_writes("CREATE VIEW", "CreateView CreateIcebergView", in_init=True),
    **_changes_session("CREATE TEMPORARY VIEW", "CreateViewCommand CreateTempViewUsing"),
    **_writes(
        "CREATE PIPELINE DATASET",
        """CreateMaterializedViewAsSelect CreateStreamingTable CreateStreamingTableAsSelect CreateFlowCommand""",
    ),
    **_writes("CREATE DATABASE", "CreateNamespace", in_init=True),
    **_writes("CREATE FUNCTION", "CreateFunction CreateUserDefinedFunction", in_init=True),
    # The temporary and the persistent form of these two are one class.
    **_may_change_session("CREATE FUNCTION", "CreateFunctionCommand CreateSQLFunctionCommand", in_init=True),
    **_writes("CREATE INDEX", "CreateIndex", in_init=True),
    **_writes("DROP INDEX", "DropIndex", in_init=True),
    # The name may be that of a temporary view.
    **_may_change_session("DROP TABLE", "DropTable", in_init=True),
    **_may_change_session("DROP VIEW", "DropView DropIcebergView", in_init=True),
    **_writes("DROP DATABASE", "DropNamespace", in_init=True),
    **_writes("DROP FUNCTION", "DropFunction", in_init=True),
    **_changes_session("DROP TEMPORARY FUNCTION", "DropFunctionCommand"),
    **_changes_session("DROP VARIABLE", "DropVariable"),
    **_writes(
        "ALTER TABLE",
        """AddColumns DropColumns RenameColumn AlterColumns ReplaceColumns SetTableProperties UnsetTableProperties
        AddPartitions DropPartitions RenamePartitions RecoverPartitions SetTableLocation SetTableSerDeProperties
        AlterTableClusterBy AlterTableCollation AddCheckConstraint AddConstraint DropConstraint RepairTable""",
        in_init=True,
    ),
    **_may_change_session("ALTER TABLE", "RenameTable", in_init=True),
    **_may_change_session(
        "ALTER VIEW",
        "AlterViewAs SetViewProperties UnsetViewProperties AlterViewSchemaBinding",
        in_init=True,
    ),
    **_writes(
        "ALTER DATABASE",
        """SetNamespaceProperties UnsetNamespacePropertiesCommand SetNamespaceLocation
        SetNamespaceCollationCommand""",
        in_init=True,
    ),
    **_writes("COMMENT", "CommentOnTable CommentOnNamespace"),
    **_changes_session("USE", "SetCatalogAndNamespace SetNamespaceCommand SetCatalogCommand"),
    **_changes_session("SET", "SetCommand SetPathCommand SetVariable"),
    **_changes_session("RESET", "ResetCommand"),
    **_changes_session("DECLARE", "CreateVariable"),
    **_changes_session("ADD", "AddJarsCommand AddFilesCommand AddArchivesCommand"),
    **_may_change_session("EXECUTE IMMEDIATE", "UnresolvedExecuteImmediate", dynamic=True),
    **_may_change_session("BEGIN END", "CompoundBody", dynamic=True),
    "Call": Kind("CALL", Effect.WRITE, dynamic=True),
    **_writes("CACHE", "CacheTable"),
    **{"CacheTableAsSelect": Kind("CACHE", Effect.SESSION)},
    **_writes("UNCACHE", "UncacheTable ClearCacheCommand$"),
    **_writes("REFRESH", "RefreshTable RefreshResource RefreshFunction", in_init=True),
    **_writes("ANALYZE", "AnalyzeTable AnalyzeTables AnalyzeColumn"),
}

# `SET`, `SET -v` and `SET key` only show settings.
SHOW_SETTINGS = Kind("SET", Effect.READ, in_init=True)
UNKNOWN = Kind("UNKNOWN", Effect.MAYBE_SESSION, dynamic=True)
MULTI_INSERT = KINDS["InsertIntoStatement"]


def kind_of(parser_class: str) -> Kind:
    """Returns the kind that a parser class stands for, UNKNOWN for one that is not in the table."""
    return KINDS.get(parser_class, UNKNOWN)


def script_type(types: tuple[str, ...]) -> str:
    """Returns the statement type of a text: that of its one statement, SCRIPT for several."""
    return types[0] if len(types) == 1 else "SCRIPT"
