"""What Spark itself cannot analyse of a streaming query, though it can run it: two gaps that are closed here.

Tables of some sources cannot be streamed by name. A table `USING kafka` has the source's fixed schema in the catalog, which Spark hands to the source, which refuses any schema;
and a table of a source that knows only the newer interface (`rate`) is not even looked up as such when the session catalog is
Iceberg's or Delta's (measured with Spark 4.1.4). Both are read here as a user expects: by the provider and the options that
the catalog keeps, with those that the text gives over them.

WATERMARK is not resolved at all in a session with Hive support, whose analyzer lacks the rule (Spark 4.1.4).
"""

from __future__ import annotations

from typing import Any

from sparksql.gateway.scala import elements, option, scala_object, simple_name
from sparksql.gateway.streaming.sources import is_stream, nodes, rewritten

PROVIDERS = frozenset({"kafka", "rate", "rate-micro-batch"})
_SESSION_CATALOG = "spark_catalog"
_WATERMARK = "UnresolvedEventTimeWatermark"
_MAX_WATERMARKS = 16  # one above the other; analysis tells what is wrong with more


def prepared(jvm: Any, session: Any, plan: Any) -> Any:
    """A parsed statement that Spark can analyse; parts of it are analysed already."""
    return _watermarked(jvm, session, _bound(jvm, session, plan))


def _watermarked(jvm: Any, session: Any, plan: Any) -> Any:
    """The plan with its WATERMARKs resolved, innermost first: each needs its child analysed, and what is above it waits."""
    if not _has_watermark(plan):
        return plan
    plan = rewritten(jvm, plan, lambda node: _by_name(jvm, node))
    rule = scala_object(jvm.org.apache.spark.sql.catalyst.analysis, "ResolveEventTimeWatermark")
    for _ in range(_MAX_WATERMARKS):
        plan = rule.apply(session.sessionState().analyzer().execute(plan))
        if not _has_watermark(plan):
            break
    return plan


def _has_watermark(plan: Any) -> bool:
    return any(simple_name(node) == _WATERMARK for node in nodes(plan))


def _by_name(jvm: Any, node: Any) -> Any | None:
    """`WATERMARK expression AS name` as a column of that name and a watermark of it: Spark 4.1.4 cannot resolve the first."""
    if simple_name(node) != _WATERMARK or simple_name(node.eventTimeColExpr()) != "Alias":
        return None
    analysis, to_seq = jvm.org.apache.spark.sql.catalyst.analysis, jvm.PythonUtils.toSeq
    column = node.eventTimeColExpr()
    columns = to_seq([analysis.UnresolvedStar(jvm.scala.Option.apply(None)), column])
    child = rewritten(jvm, node.child(), lambda inner: _by_name(jvm, inner))
    project = jvm.org.apache.spark.sql.catalyst.plans.logical.Project(columns, child)
    return node.copy(analysis.UnresolvedAttribute(to_seq([column.name()])), node.delay(), project)


def _bound(jvm: Any, session: Any, plan: Any) -> Any:
    def replaced(node: Any) -> Any | None:
        table = _catalog_table(jvm, session, node) if is_stream(node) else None
        provider = None if table is None else option(table.provider())
        if table is None or str(provider or "").lower() not in PROVIDERS:
            return None
        reader = session.readStream().format(provider)
        properties = table.storage().properties()
        for pair in elements(properties):
            reader = reader.option(pair._1(), pair._2())
        given = node.options().asCaseSensitiveMap()
        for key in given:
            reader = reader.option(key, given[key])
        identifier = table.identifier()
        qualifier = [_SESSION_CATALOG, option(identifier.database())]
        catalyst = jvm.org.apache.spark.sql.catalyst
        alias = catalyst.AliasIdentifier(
            identifier.table(), jvm.PythonUtils.toSeq([part for part in qualifier if part])
        )
        return catalyst.plans.logical.SubqueryAlias(alias, reader.load().logicalPlan())

    return rewritten(jvm, plan, replaced)


def _catalog_table(jvm: Any, session: Any, node: Any) -> Any | None:
    """Metadata of the session catalog's table that a relation names; None for views, other catalogs, and what is not there."""
    parts = [str(part) for part in elements(node.multipartIdentifier())]
    catalog, manager = session.sessionState().catalog(), session.sessionState().catalogManager()
    if len(parts) == 3 and parts[0].lower() == _SESSION_CATALOG:
        parts = parts[1:]
    elif len(parts) > 2 or str(manager.currentCatalog().name()).lower() != _SESSION_CATALOG:
        return None
    identifier = jvm.org.apache.spark.sql.catalyst.TableIdentifier(
        parts[-1], jvm.scala.Option.apply(parts[0] if len(parts) == 2 else None)
    )
    if catalog.isTempView(identifier) or not catalog.tableExists(identifier):
        return None
    return catalog.getTableMetadata(identifier)
