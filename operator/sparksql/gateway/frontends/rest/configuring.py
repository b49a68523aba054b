"""Decides which statement configures a session: one that may come in by configure-session, as an init file's do."""

from __future__ import annotations

from collections.abc import Sequence

from sparksql.api.execution import StatementMode
from sparksql.gateway.sessions import flink_dialect
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.shapes import JvmSession
from sparksql.gateway.sql.classifier import Classifier
from sparksql.gateway.sql.errors import StatementError
from sparksql.gateway.sql.kinds import Kind
from sparksql.wire.driver import SqlPolicy

_SETTINGS = frozenset({"SET", "RESET"})


def unsupported_text(driver: SparkDriver, session: JvmSession, sql: str) -> str | None:
    """Returns why a text may not come in by configure-session, see `unsupported`. Blocks.

    A text that does not parse, or is not allowed, has no reason here: running it gives Spark's error.
    """
    command = flink_dialect.interpret(sql)
    if not isinstance(command, flink_dialect.SparkSql):
        return None
    try:
        classified = Classifier(driver.jvm, session, SqlPolicy()).classify(command.text, (), StatementMode.EXECUTE)
    except StatementError:
        return None
    return unsupported([statement.kind for statement in classified.statements])


def unsupported(kinds: Sequence[Kind]) -> str | None:
    """Names what does not configure a session: a script, or a statement that reads or writes data; None if all is well."""
    if len(kinds) > 1:
        return f"a script of {len(kinds)} statements"
    return next((kind.type for kind in kinds if (kind.read_only or kind.dml) and kind.type not in _SETTINGS), None)
