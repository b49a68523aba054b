"""Which statements configure a session: those that may come in by configure-session, as an init file's do."""

from __future__ import annotations

from sparksql.api.execution import StatementMode
from sparksql.gateway.sessions import flink_dialect
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.shapes import JvmSession
from sparksql.gateway.sql.classifier import Classifier
from sparksql.gateway.sql.errors import StatementError
from sparksql.wire.driver import SqlPolicy

_SETTINGS = frozenset({"SET", "RESET"})


def refused_type(driver: SparkDriver, session: JvmSession, sql: str) -> str | None:
    """Returns the type of a statement in the text that reads or writes data instead of configuring. Blocks.

    A text that does not parse, or is not allowed, is none: running it tells why.
    """
    command = flink_dialect.interpret(sql)
    if not isinstance(command, flink_dialect.SparkSql):
        return None
    try:
        classified = Classifier(driver.jvm, session, SqlPolicy()).classify(command.text, (), StatementMode.EXECUTE)
    except StatementError:
        return None
    kinds = [statement.kind for statement in classified.statements]
    return next((kind.type for kind in kinds if (kind.read_only or kind.dml) and kind.type not in _SETTINGS), None)
