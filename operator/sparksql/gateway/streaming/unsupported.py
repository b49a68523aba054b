"""What Spark cannot run as a stream, found before the query starts: nothing is written yet, and the clause is known.

Spark looks twice. Its checker walks the analysed plan when a query is started, after the sink has made its log; it has one
condition, `_LEGACY_ERROR_TEMP_3102`, for nearly all that it refuses, and no place. The rest it refuses while it plans the first
batch, in the query's own thread, which looks like the failure of a query that runs. Both are asked here, with the output mode
that the query will have; planning is what EXPLAIN does with a streaming Dataset, and neither reads nor writes (Spark 4.1.4).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException

from sparksql.gateway.changelog.rewrite import for_checker, joins_streams
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.plans import nodes
from sparksql.gateway.spark.scala import elements, option, scala_object, simple_name
from sparksql.gateway.spark.shapes import JvmSession, LogicalPlan
from sparksql.gateway.sql.conditions import Condition
from sparksql.gateway.sql.errors import MAX_FRAGMENT_CHARS, StatementError, operation_error
from sparksql.gateway.sql.script import Fragment, locate
from sparksql.gateway.streaming import batch_plan
from sparksql.gateway.windowing.top_n import without_windows

OUTPUT_MODE = (
    "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION"  # Spark's, of an output mode that does not go with the query
)
_LEGACY = "_LEGACY_ERROR_TEMP_"  # Spark's names for errors that it has not named yet
_SESSION_WINDOW = "spark.sessionWindow"  # in the metadata of the column that session_window gives
_CHECK = "spark.sql.streaming.unsupportedOperationCheck"
_AGGREGATES = frozenset({"Aggregate", "Distinct"})

log = logging.getLogger(__name__)

Find = Callable[[Any, Any], Iterator[Any]]


@dataclass(frozen=True)
class _Kind:
    """Describes a kind of refusal: words of Spark's message, what to do, and how to find what is refused.

    `find` looks below the node that Spark names (the whole plan if it names none); None where that node itself is
    refused.
    """

    says: str
    remedy: str
    find: Find | None = None


def check_supported(
    driver: SparkDriver, session: JvmSession, analysed: LogicalPlan, output_mode: str, fragment: Fragment, sql: str
) -> None:
    """Raises StatementError when Spark cannot run the analysed plan of a stream, from a fragment of `sql`, in this mode."""
    jvm = driver.jvm
    mode = batch_plan.output_mode(jvm, output_mode)
    try:
        if session.sessionState().conf().isUnsupportedOperationCheckEnabled():
            checker = scala_object(jvm.org.apache.spark.sql.catalyst.analysis, "UnsupportedOperationChecker")
            hides = without_windows if output_mode.lower() == "append" else for_checker
            checker.checkForStreaming(hides(jvm, analysed), mode)
        batch_plan.planned_batch(jvm, session, analysed, mode)
    except AnalysisException as refused:
        raise _refusal(refused, analysed, fragment, sql) from refused
    # What is no refusal the query itself will meet, and tell. A TypeError: another version of Spark has this class elsewhere.
    except (PySparkException, Py4JError, TypeError) as unknown:
        log.info("a query could not be planned before its start: %s", type(unknown).__name__)


@contextmanager
def start_allowed(session: JvmSession, analysed: LogicalPlan) -> Iterator[None]:
    """Lets a query that `check_supported` has passed start, though it has functions OVER partitions that come in one batch.

    So it does with aggregations of joined changes. Spark's checker knows no such cases, so it is off for a moment; the session
    must be the statement's own.
    """
    has_windows = any(simple_name(node) == "Window" and node.isStreaming() for node in nodes(analysed))
    if not has_windows and not joins_streams(analysed):
        yield
        return
    conf = session.conf()
    before = option(conf.getOption(_CHECK))
    conf.set(_CHECK, "false")
    try:
        yield
    finally:
        conf.unset(_CHECK) if before is None else conf.set(_CHECK, before)


def _refusal(refused: AnalysisException, analysed: LogicalPlan, fragment: Fragment, sql: str) -> StatementError:
    error = operation_error(refused, fragment, sql)
    changes: dict[str, object] = {}
    if error.condition is None or error.condition.startswith(_LEGACY):
        own = Condition.UNSUPPORTED_STREAMING_OPERATION
        changes |= {"condition": own.label, "sql_state": own.sql_state}
    kind = next((kind for kind in _KINDS if kind.says in error.message), None)
    if kind is not None:
        changes["message"] = f"{error.message.rstrip('.')}. {kind.remedy}"
    span = next(_spans(refused, kind, analysed, fragment.parsed_text), None)
    if span is not None:
        begin, end = fragment.original(span[0]), fragment.original(span[1])
        line, position = locate(sql, fragment.offset + begin)
        shown = fragment.text[begin:end][:MAX_FRAGMENT_CHARS]
        changes |= {"line": line, "position": position, "fragment": shown}
    return StatementError(error.model_copy(update=changes))


def _spans(
    refused: AnalysisException, kind: _Kind | None, analysed: LogicalPlan, text: str
) -> Iterator[tuple[int, int]]:
    """Yields ranges of the text that may be shown, the best first: what is refused, then what is around it.

    What stands in a view has no place in this text; the view's name has.
    """
    node = _named(refused) or analysed
    found = [] if kind is None or kind.find is None else list(kind.find(node, analysed))
    around = [near for suspect in (*found[:1], node) for near in _path(analysed, suspect)]
    for suspect in (*found, *(() if found else (node,)), *around, *nodes(analysed)):
        span = _span(suspect, text)
        if span is not None:
            yield span


def _named(refused: AnalysisException) -> Any | None:
    """The node of the plan that Spark's checker refuses; it keeps it in the exception."""
    try:
        return option(refused._origin.plan())
    except (Py4JError, TypeError, AttributeError):
        return None


def _path(plan: LogicalPlan, wanted: Any) -> list[Any]:
    """The nodes from the one that has `wanted`, a node or an expression, up to the root; none if it is not in the plan."""
    if plan.equals(wanted) or any(each.equals(wanted) for each in _expressions(plan)):
        return [plan]
    for child in elements(plan.children()):
        below = _path(child, wanted)
        if below:
            return [*below, plan]
    return []


def _span(tree: Any, text: str) -> tuple[int, int] | None:
    """The half-open range of the submitted text that a node or an expression comes from."""
    origin = tree.origin()
    start, stop, said = (option(each) for each in (origin.startIndex(), origin.stopIndex(), origin.sqlText()))
    if start is None or stop is None or said is None or origin.objectType().isDefined():
        return None
    if said == text:
        return int(start), int(stop) + 1
    clause = said[int(start) : int(stop) + 1]  # of the text with its parameters bound, or of an earlier statement
    return (text.index(clause), text.index(clause) + len(clause)) if text.count(clause) == 1 else None


def _expressions(node: LogicalPlan) -> Iterator[Any]:
    """All expressions of a node, from the outermost on."""
    pending = elements(node.expressions())
    while pending:
        expression = pending.pop(0)
        yield expression
        pending.extend(elements(expression.children()))


def _expression(name: str, is_meant: Callable[[Any], bool] = lambda _: True) -> Find:
    def find(node: LogicalPlan, _: Any) -> Iterator[Any]:
        return (each for each in _expressions(node) if simple_name(each) == name and is_meant(each))

    return find


def _anywhere(name: str) -> Find:
    """An expression of any streaming node: Spark names none."""

    def find(_: Any, analysed: LogicalPlan) -> Iterator[Any]:
        for node in nodes(analysed):
            if node.isStreaming():
                yield from (each for each in _expressions(node) if simple_name(each) == name)

    return find


def _aggregate(_: Any, analysed: LogicalPlan) -> Iterator[Any]:
    return (node for node in nodes(analysed) if simple_name(node) in _AGGREGATES and node.isStreaming())


def _session_aggregate(node: LogicalPlan, analysed: LogicalPlan) -> Iterator[Any]:
    for aggregate in _aggregate(node, analysed):
        keys = elements(aggregate.groupingExpressions()) if simple_name(aggregate) == "Aggregate" else ()
        if any(simple_name(key) == "AttributeReference" and key.metadata().contains(_SESSION_WINDOW) for key in keys):
            yield aggregate


_OUTER = (
    "An outer join of a STREAM with a table keeps the rows of the STREAM: put it on the left of LEFT JOIN, SEMI JOIN or ANTI JOIN, or on "
    "the right of RIGHT JOIN"
)
_APPEND = "Use spec.streaming.outputMode: Append"
_KINDS = (
    _Kind(
        "Distinct aggregations",
        "They are exact with spec.streaming.outputMode: Append and a window of a WATERMARK, and one count(DISTINCT x) with no other "
        "aggregate is so in each mode; approx_count_distinct(x) is near it",
        _expression("AggregateExpression", lambda each: bool(each.isDistinct())),
    ),
    _Kind("'correctness' issue", f"{_APPEND}, in which aggregations, DISTINCT and joins may follow each other"),
    _Kind(
        "for streaming aggregations without watermark",
        "Give the STREAM a WATERMARK and group by its column or a window of it, of a window function by window_end, or use "
        "spec.streaming.outputMode: Update or Complete",
        _aggregate,
    ),
    _Kind("for session window", f"{_APPEND} or Complete", _session_aggregate),
    _Kind("for no streaming aggregations", f"{_APPEND}, or aggregate"),
    _Kind("Global aggregation with session window", "Group by a column besides session_window", _session_aggregate),
    _Kind("Window function is not supported", "Group by window(ts, ...) instead; the latest row of each key is kept by "
          "spec.streaming.upsert with orderBy", _anywhere("WindowExpression")),
    _Kind("monotonically_increasing_id", "Take a column of the source instead", _expression("MonotonicallyIncreasingID")),
    _Kind("Sorting is not", "Leave the order out, and sort when the table is read"),
    _Kind("Limits are not", f"Leave LIMIT out, or use {_APPEND[4:]}"),
    _Kind("Offset is not", "Leave OFFSET out"),
    _Kind("Sampling is not", "Filter instead: WHERE rand() < 0.1"),
    _Kind("Union between", "Read both as a STREAM, or insert the rows of the table by a statement of their own"),
    _Kind("Except on", "Use LEFT ANTI JOIN, with the table that does not stream on the right"),
    _Kind("Intersect of", "Use LEFT SEMI JOIN, with the table that does not stream on the right"),
    _Kind("Join between two streaming", _APPEND),
    _Kind("join without equality", "Add an equality to the condition of the join: ON a.k = b.k AND ..."),
    _Kind("Stream-stream", "For example both with a WATERMARK, ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 HOUR"),
    _Kind("FullOuter joins with", _OUTER),
    _Kind("LeftOuter join with", _OUTER),
    _Kind("LeftSemi join with", _OUTER),
    _Kind("LeftAnti joins with", _OUTER),
    _Kind("RightOuter join with", _OUTER),
)  # fmt: skip
