"""What Spark itself cannot analyse of a statement, though it can run it: the gaps that are closed here.

Tables of some sources cannot be streamed by name. A table `USING kafka` has a schema in the catalog, which Spark hands to the
source, which refuses any schema; it cannot be written, nor read if it declares columns of its own. And a table of a source that
knows only the newer interface (`rate`) is not even looked up as such when the session catalog is Iceberg's or Delta's (measured
with Spark 4.1.4). Both are read here as a user expects: by the provider and the options that the catalog keeps, with those that
the text gives over them.

WATERMARK is not resolved at all in a session with Hive support, whose analyzer lacks the rule (Spark 4.1.4).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.plans import has_subqueries, nodes, rewritten
from sparksql.gateway.spark.scala import elements, option, scala_object, simple_name
from sparksql.gateway.spark.shapes import Dataset, Jvm, JvmSession, LogicalPlan
from sparksql.gateway.sql.errors import StatementError, refusal
from sparksql.gateway.sql.relations import SESSION_CATALOG, given_options, is_view, metadata_of, provider_of
from sparksql.gateway.sql.version_syntax import may_join_versions
from sparksql.gateway.streaming.kafka.options import PROVIDER, ValueFormat
from sparksql.gateway.streaming.kafka.sink import topic_of
from sparksql.gateway.streaming.kafka.tables import kafka_table
from sparksql.gateway.streaming.kafka.values import read
from sparksql.gateway.streaming.lookups.versions import check_no_versions
from sparksql.gateway.windowing.expand import has_calls
from sparksql.gateway.windowing.rewrite import for_table, with_windows_called
from sparksql.gateway.windowing.statements import with_queries
from sparksql.wire.control import ErrorReason

PROVIDERS = frozenset({PROVIDER, "rate", "rate-micro-batch"})
T = TypeVar("T")

_RELATION = "UnresolvedRelation"
# `t WITH (...)` in a text, not that of `WITH x AS (...)`.
_RELATION_OPTIONS = re.compile(r"\bWITH\s*\(", re.IGNORECASE)
_WATERMARK = "UnresolvedEventTimeWatermark"
_MAX_WATERMARKS = 16  # one above the other; analysis tells what is wrong with more


def prepared(driver: SparkDriver, session: JvmSession, plan: LogicalPlan) -> Any:
    """Returns a parsed statement that Spark can analyse; parts of it are analysed already. Raises StatementError."""
    check_no_versions(plan)
    return _watermarked(driver.jvm, session, _with_windows(driver, session, _bound(driver, session, plan)))


def _with_windows(driver: SparkDriver, session: JvmSession, plan: LogicalPlan) -> Any:
    """The plan with windows for its calls of window table functions, itself without any."""
    if not has_calls(plan):
        return plan
    jvm, is_view = driver.jvm, simple_name(plan) == "CreateViewCommand"

    def called(query: Any) -> Any:
        plan = with_windows_called(driver, session, query, lambda table: _watermarked(jvm, session, table))
        return plan if is_view else for_table(jvm, plan)

    plan = with_queries(jvm, plan, called)
    if has_calls(plan):  # Spark would drop what is left of a call, and read the table without windows
        raise refusal(
            ErrorReason.INVALID_SPEC, "window table functions cannot be called in this statement: put them into a query"
        )
    return keeping_plan(jvm, plan, "") if is_view else plan


def _watermarked(jvm: Jvm, session: JvmSession, plan: LogicalPlan) -> Any:
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


def _has_watermark(plan: LogicalPlan) -> bool:
    return any(simple_name(node) == _WATERMARK for node in nodes(plan))


def _by_name(jvm: Jvm, node: LogicalPlan) -> Any | None:
    """`WATERMARK expression AS name` as a column of that name and a watermark of it: Spark 4.1.4 cannot resolve the first."""
    if simple_name(node) != _WATERMARK or simple_name(node.eventTimeColExpr()) != "Alias":
        return None
    analysis, to_seq = jvm.org.apache.spark.sql.catalyst.analysis, jvm.PythonUtils.toSeq
    column = node.eventTimeColExpr()
    columns = to_seq([analysis.UnresolvedStar(jvm.scala.Option.apply(None)), column])
    child = rewritten(jvm, node.child(), lambda inner: _by_name(jvm, inner))
    project = jvm.org.apache.spark.sql.catalyst.plans.logical.Project(columns, child)
    return node.copy(analysis.UnresolvedAttribute(to_seq([column.name()])), node.delay(), project)


def used(
    driver: SparkDriver, session: JvmSession, text: str, plan: LogicalPlan, use: Callable[[Any], T]
) -> tuple[Any, T]:
    """Returns what `use` makes of a parsed batch statement, and the plan that it was made of.

    The Kafka tables of that plan are bound if Spark cannot analyse it as it is. Looking at each of a plan's nodes takes
    longer than analysing it, so statements that Spark can analyse do not pay for it, but for those that give a relation
    options, which Spark ignores for a temporary view. Raises what `use` raises, and StatementError for what the tables
    refuse.
    """
    if may_join_versions(text):
        check_no_versions(plan)
    has_options = _RELATION_OPTIONS.search(text) is not None
    has_windows = has_calls(plan)
    if has_options or has_windows:
        plan = _with_target(driver, session, _with_windows(driver, session, _bound(driver, session, plan)))
    try:
        return plan, use(plan)
    except Exception:
        if has_options or has_windows or _is_analysable(driver, session, plan):
            raise
        bound = _with_target(driver, session, _bound(driver, session, plan))
        if bound is plan:
            raise
    return bound, use(bound)


def _is_analysable(driver: SparkDriver, session: JvmSession, plan: LogicalPlan) -> bool:
    try:
        driver.analyse(session, plan)
    except Exception:
        return False
    return True


def _with_target(driver: SparkDriver, session: JvmSession, plan: LogicalPlan) -> Any:
    """The plan, or for an INSERT into a Kafka table the one that writes its records."""
    match simple_name(plan):
        case "InsertIntoStatement":
            insert, query = plan, plan.query()
        case "UnresolvedWith" if simple_name(plan.child()) == "InsertIntoStatement":
            insert = plan.child()
            query = plan.withNewChildren(driver.jvm.PythonUtils.toSeq([insert.query()]))
        case _:
            return plan
    if simple_name(insert.table()) != _RELATION:
        return plan
    topic = topic_of(driver, session, insert)
    return plan if topic is None else topic.command(driver.of_rows(session, query))


def _bound(driver: SparkDriver, session: JvmSession, plan: LogicalPlan) -> Any:
    """The plan with the tables that Spark cannot read by name replaced by what their sources give; itself without any."""
    binder = _Binder(driver, session)
    bound = binder.bound(plan, frozenset())
    if not binder.found:
        return plan
    match simple_name(bound):
        case "CreateView" | "CreateIcebergView" | "AlterViewAs":
            raise _in_view(binder.found[0])
        case "CreateViewCommand":
            return keeping_plan(driver.jvm, bound, binder.found[0])
    return bound


class _Binder:
    """Binds the relations of one statement. `found` are the tables that it has bound."""

    def __init__(self, driver: SparkDriver, session: JvmSession) -> None:
        self._driver = driver
        self._jvm = driver.jvm
        self._session = session
        self.found: list[str] = []

    def bound(self, plan: LogicalPlan, hidden: frozenset[str]) -> Any:
        """The plan with its tables bound; the names in `hidden` are those of a WITH around it."""
        subqueries = has_subqueries(plan)
        return rewritten(self._jvm, plan, lambda node: self._replaced(node, hidden, subqueries=subqueries))

    def _replaced(self, node: LogicalPlan, hidden: frozenset[str], *, subqueries: bool) -> Any | None:
        if simple_name(node) == "UnresolvedWith":
            return self._with(node, hidden)
        if subqueries:
            self._check_subqueries(node, hidden)
        if simple_name(node) != _RELATION or self._is_hidden(node, hidden):
            return None
        metadata = metadata_of(self._jvm, self._session, node)
        if metadata is None:
            return None
        provider = provider_of(metadata)
        if provider not in PROVIDERS or not (node.isStreaming() or provider == PROVIDER):
            return None
        self.found.append(str(metadata.identifier().table()))
        return _named(self._jvm, metadata.identifier(), _read(self._driver, self._session, metadata, provider, node))

    def _with(self, node: LogicalPlan, hidden: frozenset[str]) -> Any:
        relations = []
        for relation in elements(node.cteRelations()):
            query = self.bound(relation._2(), hidden)
            relations.append(self._jvm.scala.Tuple3(relation._1(), query, relation._3()))
            hidden |= {str(relation._1()).lower()}
        child = self.bound(node.child(), hidden)
        return node.copy(child, self._jvm.PythonUtils.toSeq(relations), node.allowRecursion())

    def _is_hidden(self, node: LogicalPlan, hidden: frozenset[str]) -> bool:
        parts = elements(node.multipartIdentifier())
        return len(parts) == 1 and str(parts[0]).lower() in hidden

    def _check_subqueries(self, node: LogicalPlan, hidden: frozenset[str]) -> None:
        """Raises StatementError for a Kafka table with declared columns in a node's subquery, where nothing is bound."""
        for inner in (inner for query in elements(node.subqueries()) for inner in nodes(query)):
            if simple_name(inner) != _RELATION or self._is_hidden(inner, hidden):
                continue
            metadata = metadata_of(self._jvm, self._session, inner)
            if metadata is None or provider_of(metadata) != PROVIDER or is_view(metadata):
                continue
            table = kafka_table(metadata, {}, self._driver.policy, streaming=False)
            if table.format is not ValueFormat.RAW:
                raise table.invalid(
                    "it cannot be read in a subquery of an expression; put it into a WITH: "
                    "WITH k AS (SELECT ... FROM t) SELECT ... WHERE x IN (SELECT ... FROM k)"
                )


def _read(driver: SparkDriver, session: JvmSession, metadata: Any, provider: str, node: LogicalPlan) -> Any:
    """A Dataset of a table's rows, by its provider and options, with those that the text gives over them."""
    streaming = bool(node.isStreaming())
    if provider == PROVIDER:
        table = kafka_table(metadata, given_options(node), driver.policy, streaming=streaming)
        if table.has_all_changes and not streaming:
            message = (
                "with 'changelog.rows' = 'all' it can be read as a STREAM only; in a batch read the table that a stream keeps, or one "
                "over the same topic with 'changelog.rows' = 'latest'"
            )
            raise table.invalid(message)
        return read(driver.jvm, session, table, streaming=streaming)
    reader = session.readStream().format(provider)
    options = {str(pair._1()): str(pair._2()) for pair in elements(metadata.storage().properties())}
    for key, value in {**options, **given_options(node)}.items():
        reader = reader.option(key, value)
    return reader.load()


def _named(jvm: Jvm, identifier: Any, frame: Dataset) -> Any:
    """The plan of a Dataset under the table's qualified name, as Spark gives it to a table that it reads itself."""
    catalyst, database = jvm.org.apache.spark.sql.catalyst, option(identifier.database())
    qualifier = [SESSION_CATALOG, str(database)] if database else []
    alias = catalyst.AliasIdentifier(identifier.table(), jvm.PythonUtils.toSeq(qualifier))
    return catalyst.plans.logical.SubqueryAlias(alias, frame.logicalPlan())


def keeping_plan(jvm: Jvm, view: Any, table: str) -> Any:
    """CREATE TEMPORARY VIEW that keeps its analysed plan: what it would keep else is its text, to be analysed at each use."""
    if simple_name(view.viewType()) == "PersistedView$":
        raise _in_view(table)
    none = jvm.scala.Option.apply(None)
    return view.copy(
        view.name(),
        view.userSpecifiedColumns(),
        view.comment(),
        view.collation(),
        view.properties(),
        none,
        view.plan(),
        view.allowExisting(),
        view.replace(),
        view.viewType(),
        view.viewSchemaMode(),
        view.isAnalyzed(),
        view.referredTempFunctions(),
    )


def _in_view(table: str) -> StatementError:
    message = f"a view of the catalog cannot read table {table}, as it stores the query's text only: use CREATE TEMPORARY VIEW"
    return refusal(ErrorReason.INVALID_SPEC, message)
