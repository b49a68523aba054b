"""Enters the session's database and runs its init statements: in order, in the base session, before the gateway is ready.

Only statements that prepare a session are accepted (SET, RESET, USE, CREATE, DROP, ALTER, ADD, LOAD, REFRESH, DECLARE). The
first one that fails ends it; its number in the list, its text and Spark's error are told.
"""

from __future__ import annotations

from collections.abc import Sequence

from sparksql.api.execution import StatementMode
from sparksql.gateway.execution.resources import check_resources
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.sql.classifier import Classified, Classifier
from sparksql.gateway.sql.errors import StatementError, bounded, operation_error, refusal
from sparksql.gateway.sql.parameters import ParameterBinder
from sparksql.gateway.sql.script import Fragment
from sparksql.gateway.streaming import analysis
from sparksql.gateway.windowing.calls import opened
from sparksql.wire.control import ErrorReason, InitFailure, OperationError
from sparksql.wire.driver import InitStatement, SqlPolicy

MAX_SHOWN_CHARS = 200


def enter_database(driver: SparkDriver, name: str) -> InitFailure | None:
    """Makes the session's database if it is not there, and the current one of all that runs later; the failure, or None."""
    if not name:
        return None
    driver.activate(driver.base)
    create, use = f"CREATE DATABASE IF NOT EXISTS `{name}`", f"USE `{name}`"
    not_made = _run(driver, Fragment(create, 0), create)
    not_entered = _run(driver, Fragment(use, 0), use)
    if (
        not_entered is None
    ):  # one that is there may be used by whom may make none, or was made by another driver meanwhile
        return None
    return _failure(0, create, not_made) if not_made is not None else _failure(0, use, not_entered)


def run_init(driver: SparkDriver, policy: SqlPolicy, statements: Sequence[InitStatement]) -> InitFailure | None:
    """Runs all entries of the list, each of which may be a script; the first failure, or None."""
    classifier = Classifier(driver.jvm, driver.base, policy)
    driver.activate(driver.base)
    for number, entry in enumerate(statements, start=1):
        try:
            classified = classifier.classify(entry.sql, (), StatementMode.EXECUTE)
        except StatementError as refused:
            return _failure(number, entry.sql, refused.error)
        failure = not_accepted(classified, entry.sql) or _run_entry(driver, classified, entry.sql)
        if failure is not None:
            return _failure(number, failure[0].text, failure[1])
    return None


def not_accepted(classified: Classified, sql: str) -> tuple[Fragment, OperationError] | None:
    """Returns the first statement that init does not accept and why, None if it accepts all."""
    for statement in classified.statements:
        if not statement.kind.in_init:
            message = (
                f"init does not accept {statement.kind.type}: it prepares a session (SET, USE, CREATE, ADD and the like); "
                "take it out, and run it as a SqlStatement"
            )
            refused = refusal(ErrorReason.NOT_ALLOWED, message)
            return statement.fragment, operation_error(refused, statement.fragment, sql)
    return None


def _run_entry(driver: SparkDriver, classified: Classified, sql: str) -> tuple[Fragment, OperationError] | None:
    for statement in classified.statements:
        error = _run(driver, statement.fragment, sql)
        if error is not None:
            return statement.fragment, error
    return None


def _run(driver: SparkDriver, fragment: Fragment, sql: str) -> OperationError | None:
    try:
        plan = ParameterBinder(driver.jvm, driver.base).parse(fragment.parsed_text, {})
        files = HadoopFiles(driver.jvm, driver.context._jsc.hadoopConfiguration())
        check_resources(driver.jvm, driver.base, plan, files)
        if fragment.edited is not None:
            plan = analysis.prepared(driver, driver.base, opened(driver.jvm, plan))
        driver.of_rows(driver.base, plan)
    except Exception as exception:
        return operation_error(exception, fragment, sql)
    return None


def _failure(number: int, text: str, error: OperationError) -> InitFailure:
    return InitFailure(position=number, statement=text[:MAX_SHOWN_CHARS], error=bounded(error))
