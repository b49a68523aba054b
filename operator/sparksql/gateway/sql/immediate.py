"""The text of EXECUTE IMMEDIATE, and what Spark makes of it: a statement of its own, with the values behind USING in it.

A value may stand where the parser wants a literal, that of a name or of a class, so that the text must be read with it. Values
that are not known before the statement runs are left as markers, which only expressions may have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sparksql.gateway.spark.scala import elements, simple_name
from sparksql.gateway.spark.shapes import Expression, Jvm, JvmSession, LogicalPlan
from sparksql.gateway.sql.errors import condition_of
from sparksql.gateway.sql.identifiers import analysed
from sparksql.gateway.sql.policy import not_allowed

_MARKER_FOR_LITERAL = "UNEXPECTED_USE_OF_PARAMETER_MARKER"


def immediate_text(plan: LogicalPlan) -> str:
    """Returns the SQL of an EXECUTE IMMEDIATE. Raises StatementError when it is not a literal."""
    text = plan.sqlStmtStr()
    if simple_name(text) != "Literal" or text.value() is None:
        raise not_allowed("the text of EXECUTE IMMEDIATE must be a literal, so that it can be checked before it runs")
    return str(text.value().toString())


def immediate_plan(jvm: Jvm, session: JvmSession, plan: LogicalPlan, *, variables: bool) -> LogicalPlan:
    """Returns the parsed statement that an EXECUTE IMMEDIATE executes.

    With `variables` those of the session have the values that they have now. Raises StatementError, or what the parser throws.
    """
    text, parser = immediate_text(plan), session.sessionState().sqlParser()
    arguments = elements(plan.args())
    values = [_value(jvm, session, argument, variables=variables) for argument in arguments]
    known = [value for value in values if value is not None]
    if arguments and len(known) == len(values):
        return parser.parsePlanWithParameters(text, _context(jvm, known))
    try:
        return parser.parsePlan(text)
    except Exception as exception:
        if not arguments or condition_of(exception) != _MARKER_FOR_LITERAL:
            raise
    raise not_allowed(
        "EXECUTE IMMEDIATE has a parameter in place of a literal or a name: give it a literal or a session variable in USING, so that the "
        "statement can be checked before it runs"
    )


@dataclass(frozen=True)
class _Value:
    """A literal behind USING. `name` is empty for one that has neither a name of its own nor that of a variable."""

    name: str
    literal: Expression


def _value(jvm: Jvm, session: JvmSession, argument: Expression, *, variables: bool) -> _Value | None:
    """The literal that an argument stands for, None if only the run tells."""
    is_named = simple_name(argument) == "Alias"
    name, value = (str(argument.name()), argument.child()) if is_named else ("", argument)
    if simple_name(value) == "Literal":
        return _Value(name, value)
    if not variables or simple_name(value) != "UnresolvedAttribute":  # analysis of other expressions may read sources
        return None
    resolved = analysed(jvm, session, value)
    if resolved is None or simple_name(resolved) != "VariableReference":
        return None
    return _Value(name or str(resolved.originalNameParts().last()), resolved.varDef().currentValue())


def _context(jvm: Jvm, values: Sequence[_Value]) -> Any:
    """The values as Spark gives them to its parser, which takes those that the text's markers want."""
    context, to_seq = jvm.org.apache.spark.sql.catalyst.parser.HybridParameterContext, jvm.PythonUtils.toSeq
    return context(to_seq([value.literal for value in values]), to_seq([value.name for value in values]))
