"""What a parsed statement reads as `STREAM name`."""

from __future__ import annotations

from sparksql.gateway.spark.plans import nodes
from sparksql.gateway.spark.scala import elements, option, simple_name
from sparksql.gateway.spark.shapes import LogicalPlan
from sparksql.gateway.sql.kinds import Kind, kind_of
from sparksql.gateway.sql.policy import block_statements


def may_read_stream(text: str) -> bool:
    """Returns whether a text has the keyword anywhere (upper case is what Spark's lexer sees, too)."""
    return "STREAM" in text.upper()


def is_stream(node: LogicalPlan) -> bool:
    """Returns whether a node of a parsed plan is `STREAM name`."""
    return simple_name(node) == "UnresolvedRelation" and bool(node.isStreaming())


def declared(plan: LogicalPlan) -> list[str]:
    """Returns the names behind STREAM in a parsed plan."""
    return [".".join(map(str, elements(n.multipartIdentifier()))) for n in nodes(plan) if is_stream(n)]


def executed_stream(plan: LogicalPlan, kind: Kind) -> LogicalPlan | None:
    """Returns a STREAM that a statement would read when it is executed; None for one that only keeps or shows a query.

    Of BEGIN ... END it is one of any statement of the block. What EXECUTE IMMEDIATE runs may be in a variable that an earlier
    statement sets, so its text is known only when it runs.
    """
    if simple_name(plan) == "CompoundBody":
        inner = (executed_stream(each, _kind(each)) for each in block_statements(plan))
        return next((found for found in inner if found is not None), None)
    if not (kind.query or kind.dml):
        return None
    return next((node for node in nodes(plan) if is_stream(node)), None)


def span_in(node: LogicalPlan, text: str) -> tuple[int, int] | None:
    """Returns the half-open range of a node in the text that Spark has parsed, None for a node of another text."""
    origin = node.origin()
    start, stop, source = (option(each) for each in (origin.startIndex(), origin.stopIndex(), origin.sqlText()))
    return None if start is None or stop is None or source != text else (int(start), int(stop) + 1)


def _kind(plan: LogicalPlan) -> Kind:
    return kind_of(simple_name(plan.child() if simple_name(plan) == "UnresolvedWith" else plan))
