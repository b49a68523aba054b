"""Takes the SQL in a plan through the same reading and policy as every other statement. All calls block."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from sparksql.gateway import policy as rules
from sparksql.gateway.classify import Classifier
from sparksql.gateway.connect.plans import Findings
from sparksql.gateway.drops import with_files
from sparksql.gateway.errors import StatementError, operation_error
from sparksql.gateway.scala import simple_name
from sparksql.gateway.script import Fragment
from sparksql.gateway.spark import SparkDriver
from sparksql.gateway.statements import Kind
from sparksql.wire.control import Mode
from sparksql.wire.driver import SqlPolicy


def check(driver: SparkDriver, session: Any, policy: SqlPolicy, findings: Findings) -> Kind | None:
    """The kind of a SQL command's one statement, None without one. Raises StatementError for what is not allowed."""
    driver.activate(session)  # the parser follows the settings of the thread's session
    try:
        classifier = Classifier(driver.jvm, session, policy)
        for query in findings.queries:
            _check_query(classifier, query)
        for expression in findings.expressions:
            _check_expression(session, classifier, expression)
        return None if findings.statement is None else _kind(classifier, findings.statement)
    finally:
        driver.deactivate()


def with_purge(driver: SparkDriver, session: Any, text: str) -> str:
    """A DROP TABLE as a text that removes the files of a table that is not Iceberg's (see `drops`); any other text as it is.

    Connect takes texts alone, so the word is put behind it, and what Spark reads then decides whether that was right.
    """
    driver.activate(session)
    try:
        parser = session.sessionState().sqlParser()
        plan = parser.parsePlan(text)
        if with_files(driver, session, plan) is plan:
            return text
        purging = f"{text.rstrip().rstrip(';')}\nPURGE"
        read = parser.parsePlan(purging)
        return purging if simple_name(read) == "DropTable" and read.purge() else text
    except (Py4JError, PySparkException):
        return text  # Spark tells what is wrong with it
    finally:
        driver.deactivate()


def _kind(classifier: Classifier, text: str) -> Kind:
    statements = classifier.classify(text, (), Mode.EXECUTE).statements
    if len(statements) != 1:
        raise rules.not_allowed(f"Connect takes one statement at a time, not a script of {len(statements)}")
    return statements[0].kind


def _check_query(classifier: Classifier, text: str) -> None:
    """A SQL text inside a plan is executed as soon as the plan is looked at, so it must have no effect."""
    kind = _kind(classifier, text)
    if not kind.query:
        raise rules.not_allowed(f"{kind.type} is allowed as a SQL command, not within a plan")


def _check_expression(session: Any, classifier: Classifier, text: str) -> None:
    """An expression can hold a query, and that a TRANSFORM: then it must pass as the column of a query."""
    try:
        session.sessionState().sqlParser().parseExpression(text)
    except Exception as exception:
        raise StatementError(operation_error(exception, Fragment(text, 0), text)) from exception
    _check_query(classifier, f"SELECT {text}\n")
