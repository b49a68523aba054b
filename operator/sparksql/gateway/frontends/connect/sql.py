"""Takes the SQL in a plan through the same reading and policy as every other statement. All calls block."""

from __future__ import annotations

import re
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from sparksql.api.execution import StatementMode
from sparksql.gateway.execution.resources import check_resources
from sparksql.gateway.execution.tables.drop import with_files
from sparksql.gateway.frontends.connect.plans import Findings
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.spark.scala import elements, simple_name
from sparksql.gateway.spark.shapes import JvmSession
from sparksql.gateway.sql import policy as rules
from sparksql.gateway.sql.classifier import Classifier, Statement
from sparksql.gateway.sql.errors import StatementError, operation_error
from sparksql.gateway.sql.local_queries import is_local
from sparksql.gateway.sql.script import Fragment
from sparksql.gateway.sql.text_bounds import check_text
from sparksql.wire.driver import SqlPolicy

# What makes a query without FROM one over a row that the driver holds (see `sql.local_queries`). Nobody can name its column
# by chance.
_ONE_ROW = "FROM VALUES (0) AS `one row`(`of the driver`)"
_MAX_PROBE_CHARS = 2_000
_EXPRESSION_ID = re.compile(r"#\d+L?")
_MAY_NAME_FILES = frozenset({"ADD", "CREATE FUNCTION", "BEGIN END", "EXECUTE IMMEDIATE"})


def check_statement(
    driver: SparkDriver, session: JvmSession, policy: SqlPolicy, findings: Findings
) -> Statement | None:
    """Checks and returns a SQL command's one statement, None without one. Raises StatementError for what is not allowed."""
    driver.activate(session)  # the parser follows the settings of the thread's session
    try:
        check_text("\n".join((*findings.queries, *findings.expressions)))
        classifier = Classifier(driver.jvm, session, policy)
        for query in findings.queries:
            _check_query(classifier, query)
        for expression in findings.expressions:
            _check_expression(session, classifier, expression)
        return None if findings.statement is None else _command(driver, session, classifier, findings.statement)
    finally:
        driver.deactivate()


def without_executor(driver: SparkDriver, session: JvmSession, text: str) -> str | None:
    """Returns a query that needs no executor, as a text for which Spark plans none; None for any other query.

    Connect takes texts alone: what Spark reads with the clause behind it must be the same query.
    """
    if len(text) > _MAX_PROBE_CHARS:
        return None
    driver.activate(session)
    try:
        parser = session.sessionState().sqlParser()
        plan = parser.parsePlan(text)
        if not is_local(driver.jvm, plan):
            return None
        if "OneRowRelation" not in {simple_name(leaf) for leaf in elements(plan.collectLeaves())}:
            return text
        extended = f"{text.rstrip().rstrip(';')}\n{_ONE_ROW}"
        read = parser.parsePlan(extended)
        is_plain = simple_name(plan) == simple_name(read) == "Project" and simple_name(plan.child()) == "OneRowRelation"
        same = is_plain and _columns(read) == _columns(plan)
        return extended if same and "*" not in text and is_local(driver.jvm, read) else None
    except (Py4JError, PySparkException):
        return None  # Spark tells what is wrong with it
    finally:
        driver.deactivate()


def _columns(project: Any) -> str:
    """What a parsed query selects, without the numbers that each reading gives anew."""
    return _EXPRESSION_ID.sub("", str(project.projectList().toString()))


def with_purge(driver: SparkDriver, session: JvmSession, text: str) -> str:
    """Returns a DROP TABLE as a text that removes the table's files; any other text as it is.

    A table of Iceberg's is dropped as it is, see `execution.tables.drop`. Connect takes texts alone, so the word is put
    behind the text, and what Spark reads then decides whether that was right.
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


def _statement(classifier: Classifier, text: str) -> Statement:
    statements = classifier.classify(text, (), StatementMode.EXECUTE).statements
    if len(statements) != 1:
        raise rules.not_allowed(f"Connect runs one statement at a time, not a script of {len(statements)}")
    if statements[0].windows:
        raise rules.not_allowed(
            "Connect cannot call TUMBLE, HOP, CUMULATE or SESSION, which are not Spark's own: group by window(ts, ...), "
            "or run the statement as a SqlStatement, or over REST or HiveServer2"
        )
    if statements[0].states:
        raise rules.not_allowed(
            "Connect cannot call savepoint_state, which is not Spark's own: run it as a SqlStatement"
        )
    return statements[0]


def _command(driver: SparkDriver, session: JvmSession, classifier: Classifier, text: str) -> Statement:
    statement = _statement(classifier, text)
    if statement.kind.type in _MAY_NAME_FILES:
        _check_resources(driver, session, statement.fragment)
    return statement


def _check_resources(driver: SparkDriver, session: JvmSession, fragment: Fragment) -> None:
    files = HadoopFiles(driver.jvm, driver.context._jsc.hadoopConfiguration())
    try:
        check_resources(driver.jvm, session, session.sessionState().sqlParser().parsePlan(fragment.text), files)
    except StatementError:
        raise
    except Exception as exception:  # what Spark says of the text of an EXECUTE IMMEDIATE
        raise StatementError(operation_error(exception, fragment, fragment.text)) from exception


def _check_query(classifier: Classifier, text: str) -> None:
    """A SQL text inside a plan is executed as soon as the plan is looked at, so it must have no effect."""
    kind = _statement(classifier, text).kind
    if not (kind.query or kind.of_query):
        raise rules.not_allowed(f"{kind.type} is allowed as a SQL command, not within a plan")


def _check_expression(session: JvmSession, classifier: Classifier, text: str) -> None:
    """An expression can hold a query, and that a TRANSFORM: then it must pass as the column of a query."""
    try:
        session.sessionState().sqlParser().parseExpression(text)
    except Exception as exception:
        raise StatementError(operation_error(exception, Fragment(text, 0), text)) from exception
    _check_query(classifier, f"SELECT {text}\n")
