"""Typed values for `:name` markers: Spark makes the literal and binds it, nothing is pasted into the text here.

A value is a string that Spark casts to the declared type by its ANSI rules; what it cannot cast is the fault of the
parameter, so the error names it. Names are compared as written, as Spark does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from sparksql.gateway.spark.scala import elements, scala_object, simple_name
from sparksql.gateway.spark.shapes import Jvm, JvmSession, LogicalPlan
from sparksql.gateway.sql.errors import refusal
from sparksql.gateway.sql.masking import Masker
from sparksql.wire.control import ErrorReason, Parameter


def check_usage(parameters: Sequence[Parameter], markers: Iterable[str]) -> None:
    """Refuses a name given twice and one that the text uses nowhere. Raises StatementError."""
    names = Counter(parameter.name for parameter in parameters)
    for name, count in names.items():
        if count > 1:
            raise refusal(ErrorReason.INVALID_SPEC, f"{_field(name)} is given more than once: keep one of them")
    used = {marker.strip("`") for marker in markers}
    for name in names:
        if name not in used:
            message = (
                f"{_field(name)} is used nowhere in the statement: remove it, or write :{name} where its value belongs"
            )
            raise refusal(ErrorReason.INVALID_SPEC, message)


def _field(name: str) -> str:
    """Names a parameter as the field of the statement that gives it."""
    return f"spec.parameters[{name}]: parameter {name!r}"


def check_unbindable(parameters: Sequence[Parameter], markers: Iterable[str], statement_type: str) -> None:
    """Refuses a parameter where Spark takes the text as it stands. Raises StatementError."""
    names = {parameter.name for parameter in parameters}
    for marker in markers:
        if marker in names:
            message = f"{_field(marker)} stands in {statement_type}, where Spark substitutes none: write the value itself there"
            raise refusal(ErrorReason.INVALID_SPEC, message)


class ParameterBinder:
    """Makes Spark's literals for one session, whose time zone and parser rules apply."""

    def __init__(self, jvm: Jvm, session: JvmSession) -> None:
        self._jvm = jvm
        self._state = session.sessionState()
        self._parser = self._state.sqlParser()

    def parse(self, sql: str, literals: Mapping[str, Any]) -> Any:
        """Returns Spark's parsed plan of one statement with its markers bound. Raises what the parser raises."""
        if not literals:
            return self._parser.parsePlan(sql)
        escapes_stay = self._state.conf().escapedStringLiterals() and any(
            "\\" in str(literal.sql()) for literal in literals.values()
        )
        if escapes_stay or not self._parser_binds():
            return self._bound(self._parser.parsePlan(sql), literals)
        return self._parsed_with(sql, literals)

    def _parser_binds(self) -> bool:
        """Whether the session's parser takes parameters in: that of an extension may leave them out (Delta's 4.4.0 does)."""
        literals = {"p": self._cast("1", "INT")}
        return _left(self._parsed_with("SELECT :p", literals), literals) is None

    def _parsed_with(self, sql: str, literals: Mapping[str, Any]) -> Any:
        values = self._jvm.java.util.HashMap()
        for name, literal in literals.items():
            values[name] = literal
        context = self._jvm.org.apache.spark.sql.catalyst.parser.NamedParameterContext(
            self._jvm.PythonUtils.toScalaMap(values)
        )
        return self._parser.parsePlanWithParameters(sql, context)

    def _bound(self, plan: LogicalPlan, literals: Mapping[str, Any]) -> Any:
        """Returns a plan with its markers replaced, where Spark's own way is closed.

        Spark writes a literal's text into the statement. Not every parser takes that, and with `escapedStringLiterals`
        Spark reads a string that has a quote or a backslash otherwise than it has written it. Raises StatementError for
        a marker that is no part of an expression, or where Spark binds later.
        """
        to_seq = self._jvm.PythonUtils.toSeq
        match simple_name(plan):
            case "ExplainCommand":
                bound = plan.copy(self._bound(plan.logicalPlan(), literals), plan.mode())
            case "UnresolvedWith":
                relations = [
                    self._jvm.scala.Tuple3(relation._1(), self._bound(relation._2(), literals), relation._3())
                    for relation in elements(plan.cteRelations())
                ]
                bound = plan.copy(self._bound(plan.child(), literals), to_seq(relations), plan.allowRecursion())
            case _:
                analysis = self._jvm.org.apache.spark.sql.catalyst.analysis
                given = analysis.NameParameterizedQuery(plan, to_seq(list(literals)), to_seq(list(literals.values())))
                bound = scala_object(analysis, "BindParameters").apply(given)
        left = _left(bound, literals)
        if left is not None:
            message = (
                f"parameter {left!r} cannot be bound where it stands: neither while spark.sql.parser.escapedStringLiterals is set and a "
                "value has a quote or a backslash, nor with a parser that binds none, as that of Delta's session extension"
            )
            raise refusal(ErrorReason.INVALID_SPEC, message)
        return bound

    def literals(self, parameters: Sequence[Parameter]) -> dict[str, Any]:
        """Returns Catalyst expressions by name. Raises StatementError naming the parameter that cannot be cast."""
        return {parameter.name: self._literal(parameter) for parameter in parameters}

    def masker(self, parameters: Sequence[Parameter], literals: Mapping[str, Any]) -> Masker:
        """Hides the secret parameters: as given, as cast, and as Spark prints the literal."""
        return secrets_of(parameters).also(
            str(text)
            for parameter in parameters
            if parameter.secret and parameter.name in literals
            for text in (literals[parameter.name].toString(), literals[parameter.name].sql())
        )

    def _literal(self, parameter: Parameter) -> Any:
        try:
            return self._cast(parameter.value, parameter.type)
        except (PySparkException, Py4JError, ValueError):
            # Spark's message holds the value, which may be secret; name and type suffice to correct it.
            message = f"{_field(parameter.name)} cannot be cast to {parameter.type}: correct its value or its type"
            raise refusal(ErrorReason.INVALID_SPEC, message) from None

    def _cast(self, value: str, type_name: str) -> Any:
        catalyst = self._jvm.org.apache.spark.sql.catalyst
        literal = catalyst.expressions.Literal.create(value, self._jvm.org.apache.spark.sql.types.DataTypes.StringType)
        ansi = scala_object(catalyst.expressions, "EvalMode").ANSI()
        zone = self._jvm.scala.Some(self._state.conf().sessionLocalTimeZone())
        cast = catalyst.expressions.Cast(literal, self._parser.parseDataType(type_name), zone, ansi)
        if not cast.resolved():
            raise ValueError(type_name)
        # Folding keeps the value inside the JVM: through Python a TINYINT would come back as an INT.
        logical = catalyst.plans.logical
        folded = (
            scala_object(catalyst.optimizer, "ConstantFolding")
            .apply(logical.Filter(cast, logical.OneRowRelation()))
            .condition()
        )
        if simple_name(folded) != "Literal":
            raise ValueError(type_name)
        # Spark takes literals alone and binds their SQL text: a decimal keeps its scale, its precision is what it has.
        return folded


def _left(plan: LogicalPlan, literals: Mapping[str, Any]) -> str | None:
    """A name whose marker a plan still has, None when there is none.

    It reads the plan's text, which shows a plan that a command keeps as a value too. What the text may leave out is found by
    Spark's analysis (UNBOUND_SQL_PARAMETER), so that only the message differs.
    """
    shown = str(plan.toString())
    left = next((name for name in literals if f"namedparameter({name})" in shown), None)
    return next(iter(literals)) if left is None and "NameParameterizedQuery" in shown else left


def secrets_of(parameters: Iterable[Parameter]) -> Masker:
    """Hides the secret parameters as given."""
    return Masker(parameter.value for parameter in parameters if parameter.secret)
