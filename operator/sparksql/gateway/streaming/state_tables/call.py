"""A call of `savepoint_state`: its arguments, and the savepoint that it names among those of the namespace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sparksql.gateway.spark.plans import span_of
from sparksql.gateway.spark.scala import elements, simple_name
from sparksql.gateway.spark.shapes import Expression, LogicalPlan
from sparksql.gateway.sql.errors import PlacedError
from sparksql.gateway.windowing.calls import Span
from sparksql.wire.savepoints import STATE_FUNCTION, SavepointPlace

_ARGUMENTS = ("SAVEPOINT", "OPERATOR", "FORM")
_EXAMPLE = f"{STATE_FUNCTION}('savepoint'), or {STATE_FUNCTION}('savepoint', 'operator')"
_FORMS = ("values", "kept")


@dataclass(frozen=True)
class StateCall:
    """A call, with the ranges of the text that Spark has read. Without `operator` it is about all of them.

    `as_kept`: aggregates are given as the columns that they are kept in, of an average a sum and a count.
    """

    savepoint: str
    operator: str | None = None
    as_kept: bool = False
    span: Span | None = None
    span_of_operator: Span | None = None

    def refusal(self, message: str) -> PlacedError:
        """Returns the error that this call cannot be done."""
        return PlacedError(f"{STATE_FUNCTION}: {message}", self.span)

    def refused_operator(self, message: str) -> PlacedError:
        """Returns the error that the operator of this call cannot be read."""
        return PlacedError(f"{STATE_FUNCTION}: {message}", self.span_of_operator or self.span)


def read_call(node: LogicalPlan) -> StateCall:
    """Returns what a call says. Raises PlacedError for arguments that it cannot have."""
    span = span_of(node)
    given: dict[str, tuple[str, Span | None]] = {}
    for place, argument in enumerate(elements(node.functionArgs())):
        is_named = simple_name(argument) == "NamedArgumentExpression"
        name = str(argument.key()).upper() if is_named else _ARGUMENTS[place] if place < len(_ARGUMENTS) else ""
        if name not in _ARGUMENTS or name in given:
            raise PlacedError(f"{STATE_FUNCTION} has one to three names as arguments: {_EXAMPLE}", span)
        value = argument.value() if is_named else argument
        given[name] = _text(value, span), span_of(value)
    if "SAVEPOINT" not in given:
        raise PlacedError(f"{STATE_FUNCTION} has the name of a SqlSavepoint as its argument: {_EXAMPLE}", span)
    operator, span_of_operator = given.get("OPERATOR", (None, None))
    form, span_of_form = given.get("FORM", (_FORMS[0], None))
    if form not in _FORMS or (operator is None and "FORM" in given):
        raise PlacedError(
            f"{STATE_FUNCTION}: the third argument is 'kept' to read the aggregates of a named operator as they are stored",
            span_of_form or span,
        )
    return StateCall(given["SAVEPOINT"][0], operator, form == _FORMS[1], span, span_of_operator)


def location_of(call: StateCall, known: Iterable[SavepointPlace], namespace: str) -> str:
    """Returns where the savepoint of a call lies. Raises PlacedError for one that is not there, or not complete."""
    place = next((each for each in known if each.name == call.savepoint), None)
    if place is None:
        raise call.refusal(
            f"there is no SqlSavepoint {call.savepoint!r} in namespace {namespace}; the argument is a name, not a path"
        )
    if place.location is None:
        raise call.refusal(
            f"SqlSavepoint {place.name} is {place.phase}: only one that is Completed can be read; wait for it, "
            "or name another one"
        )
    return place.location


def _text(value: Expression, span: Span | None) -> str:
    content: Any = value.value() if simple_name(value) == "Literal" else None
    if content is None or str(value.dataType().simpleString()) != "string":
        raise PlacedError(
            f"{STATE_FUNCTION} has quoted names as arguments, constants: {_EXAMPLE}", span_of(value) or span
        )
    return str(content.toString())
