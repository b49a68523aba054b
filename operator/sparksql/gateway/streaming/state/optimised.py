"""A plan as Spark's optimiser makes it: by all rules, and without those that hide what state is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.scala import option, scala_object
from sparksql.gateway.spark.shapes import JvmSession, LogicalPlan

_RULES = "org.apache.spark.sql.catalyst.optimizer."
_EXCLUDED = "spark.sql.optimizer.excludedRules"
_REWORDING = (
    "ConstantFolding",
    "InferFiltersFromConstraints",
    "InferFiltersFromGenerate",
    "LikeSimplification",
    "NullPropagation",
    "OptimizeIn",
    "ReorderAssociativeOperator",
    "SimplifyConditionals",
)
# Rules that move conditions below what the text has them above.
_PUSHING = (
    "PushDownLeftSemiAntiJoin",
    "PushDownPredicates",
    "PushExtraPredicateThroughJoin",
    "PushPredicateThroughJoin",
    "PushPredicateThroughNonJoin",
)


def optimised(driver: SparkDriver, session: JvmSession, plan: LogicalPlan, *, pushed: bool = True) -> Any:
    """Returns an analysed plan as Spark optimises it, without the rules that reword expressions.

    Not `pushed`: with conditions where the text has them. What keeps conditions above sessions is in force. Of a pushed plan it
    leaves no trace, so that states of earlier drivers have the same words; the other one shows which conditions stay above.
    """
    if not pushed:
        return _optimised(driver, session, plan, (*_REWORDING, *_PUSHING))
    return _without_generators(driver, _optimised(driver, session, plan, _REWORDING))


def run(driver: SparkDriver, session: JvmSession, plan: LogicalPlan) -> Any:
    """Returns an analysed plan as Spark runs it: by all rules of the session, without what keeps conditions above sessions."""
    return _without_generators(driver, _optimised(driver, session, plan, ()))


def _optimised(driver: SparkDriver, session: JvmSession, plan: LogicalPlan, excluded: Sequence[str]) -> Any:
    jvm, other = driver.jvm, session.cloneSession()
    given = option(session.conf().getOption(_EXCLUDED))
    rules = [*([given] if given else []), *(f"{_RULES}{rule}" for rule in excluded)]
    other.conf().set(_EXCLUDED, ",".join(rules))
    driver.activate(other)  # the optimiser follows the settings of the thread's session
    try:
        normalised = scala_object(jvm.org.apache.spark.sql.execution, "QueryExecution").normalize(
            other, plan, jvm.scala.Option.apply(None)
        )
        return other.sessionState().optimizer().execute(normalised)
    finally:
        driver.activate(session)
        driver.close_session(other)


def _without_generators(driver: SparkDriver, plan: LogicalPlan) -> Any:
    return driver.jvm.dev.sparksql.windows.MergedSessions.withoutGenerators(plan)
