"""Spark's parser in one JVM, and the gateway's own reader of statements on top of it. Nothing runs but the parser.

The JVM starts at once and Spark within it: both while the files are still read. Without Java or Spark there is no reader, and the
report has a note.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sparksql.api.execution import StatementMode
from sparksql.gateway.execution.session.init import not_accepted
from sparksql.gateway.spark.jvm import DriverJvm, JvmError
from sparksql.gateway.spark.references import release_in_batches
from sparksql.gateway.sql.classifier import Classified, Classifier
from sparksql.gateway.sql.errors import StatementError
from sparksql.gateway.sql.script import offset_of
from sparksql.gateway.sql.state_calls import may_read_state
from sparksql.gateway.sql.stream_reads import may_read_stream
from sparksql.gateway.sql.text_bounds import check_text
from sparksql.gateway.sql.version_syntax import may_join_versions
from sparksql.gateway.sql.window_syntax import may_call
from sparksql.lint.findings import Finding
from sparksql.lint.sql.sources import SqlText
from sparksql.wire.control import ErrorReason, OperationError
from sparksql.wire.driver import SqlPolicy

_HEAP_MIB = 1024
_SHORT_LIVED = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # a JVM of seconds does not earn back what the second compiler costs
)
_CONF = {
    "spark.master": "local[1]",
    "spark.app.name": "sparksql-lint",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.catalogImplementation": "in-memory",
}
UNUSABLE = (JvmError, OSError, Py4JError, PySparkException)
"""What is raised where Spark does not start."""
_NEEDS_STREAMING = "the statement reads a STREAM and runs until stopped: it needs spec.streaming"
# Statements of Iceberg's session extension, which the session image has (IcebergSqlExtensions.g4 of Iceberg 1.10).
_OF_ICEBERG = re.compile(
    r"\s*ALTER\s+TABLE\b.{1,1000}?\b(?:(?:ADD|DROP|REPLACE)\s+PARTITION\s+FIELD|WRITE\s+(?:LOCALLY\s+)?(?:ORDERED|UNORDERED|DISTRIBUTED)"
    r"|(?:SET|DROP)\s+IDENTIFIER\s+FIELDS|(?:CREATE|REPLACE|DROP)\s+(?:OR\s+REPLACE\s+)?(?:BRANCH|TAG))\b",
    re.IGNORECASE | re.DOTALL,
)


class Reader:
    """Reads texts with a session's parser."""

    def __init__(self, spark: SparkSession) -> None:
        self._session = spark._jsparkSession
        self._parser = self._session.sessionState().sqlParser()
        self._classifier = Classifier(spark._jvm, self._session, SqlPolicy())

    def findings(self, text: SqlText) -> Iterator[Finding]:
        """Yields why the gateway would refuse a text before it runs; at most one refusal of the whole text."""
        if _is_plain(text) and self._parses(text.sql):
            return
        conf = self._session.sessionState().conf()
        before: dict[str, str | None] = {
            key: conf.getConfString(key) if conf.contains(key) else None for key, _ in text.conf
        }
        with contextlib.suppress(Exception):  # a value that Spark does not take is refused where the session starts
            for key, value in text.conf:
                conf.setConfString(key, value)
        try:
            classified = self._classifier.classify(text.sql, text.parameters, text.mode)
        except StatementError as refused:
            if not _depends_on_class(refused.error) and not _OF_ICEBERG.match(_statement_at(text.sql, refused.error)):
                yield _finding(text, refused.error)
            return
        finally:
            for key, former in before.items():
                _restore(conf, key, former)
        yield from _of_use(text, classified)

    def _parses(self, sql: str) -> bool:
        """Whether Spark's parser takes a text; the gateway's reader explains why one is not."""
        if not _is_readable(sql):
            return False
        try:
            self._parser.parsePlan(sql)
        except (Py4JError, PySparkException):
            return False
        return True


def _restore(conf: Any, key: str, value: str | None) -> None:
    if value is None:
        conf.unsetConf(key)
    else:
        conf.setConfString(key, value)


def _is_plain(text: SqlText) -> bool:
    """Whether the parser alone decides: the gateway reads more only of what this text has not.

    The parser takes one call, the gateway's reading some hundred: that matters for thousands of files.
    """
    sql = text.sql
    special = may_call(sql) or may_join_versions(sql) or may_read_stream(sql) or may_read_state(sql)
    is_executed = text.mode is StatementMode.EXECUTE and not text.is_init
    return is_executed and not (text.parameters or text.conf or ";" in sql or special)


def _of_use(text: SqlText, classified: Classified) -> Iterator[Finding]:
    """What does not go with the place where a text stands."""
    if text.is_init:
        refused = not_accepted(classified, text.sql)
        if refused is not None:
            yield _finding(text, refused[1])
        return
    if text.is_stream or text.mode is not StatementMode.EXECUTE:
        return
    for statement in classified.statements:
        if statement.reads_stream:
            begin = 0 if statement.stream is None else statement.fragment.original(statement.stream[0])
            yield text.finding(_NEEDS_STREAMING, statement.fragment.offset + begin)


def _is_readable(sql: str) -> bool:
    """Whether a text is no larger than what the gateway reads."""
    try:
        check_text(sql)
    except StatementError:
        return False
    return True


def _depends_on_class(error: OperationError) -> bool:
    """Whether the session's class, which a file need not have, may allow what is refused."""
    return error.reason is ErrorReason.NOT_ALLOWED


def _finding(text: SqlText, error: OperationError) -> Finding:
    if error.line is not None:
        return text.finding(error.message, offset_of(text.sql, error.line, (error.position or 1) - 1))
    named = (each.name for each in text.parameters if error.message.startswith(f"spec.parameters[{each.name}]:"))
    return text.finding(error.message, parameter=next(named, None))


def _statement_at(sql: str, error: OperationError) -> str:
    """The text from the statement on that an error is about."""
    if error.line is None:
        return ""
    at = offset_of(sql, error.line, (error.position or 1) - 1)
    return sql[sql.rfind(";", 0, at) + 1 :]


@contextlib.contextmanager
def started() -> Iterator[DriverJvm]:
    """Starts the JVM, which ends with the block. Raises JvmError where there is no Java, or no Spark."""
    options = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} {_SHORT_LIVED}".strip()
    jvm = DriverJvm.start(_HEAP_MIB, _discard, {**os.environ, "JAVA_TOOL_OPTIONS": options})
    try:
        yield jvm
    finally:
        jvm.stop()


@contextlib.contextmanager
def reader(jvm: DriverJvm) -> Iterator[Reader]:
    """Starts Spark in a JVM. Raises JvmError, or what Spark raises."""
    connection = jvm.connect()
    with tempfile.TemporaryDirectory(prefix="sparksql-lint-") as folder:
        os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = (
            str(connection.port),
            connection.secret,
        )
        try:
            conf = SparkConf(loadDefaults=False)
            for key, value in {**_CONF, "spark.sql.warehouse.dir": folder, "spark.local.dir": folder}.items():
                conf.set(key, value)
            spark = SparkSession.builder.config(conf=conf).getOrCreate()
        finally:
            del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
        # PySpark writes an error with a place in a text to standard error as well, with its stack.
        logging.getLogger("SQLQueryContextLogger").disabled = True
        assert spark._jvm is not None
        release_in_batches(spark._jvm._gateway_client)
        try:
            yield Reader(spark)
        finally:
            spark.stop()


def findings(texts: Sequence[SqlText], jvm: DriverJvm) -> list[tuple[SqlText, Finding]]:
    """Returns the findings of texts, each with its text. Raises JvmError, or what Spark raises where it does not start."""
    with reader(jvm) as each:
        return [(text, finding) for text in texts for finding in each.findings(text)]


def _discard(line: bytes) -> None:
    """Takes what the JVM logs."""
