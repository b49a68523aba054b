"""Upserts into a table of PostgreSQL, each batch exactly once.

Spark's executors write a batch into a stage, a table of this attempt alone. Then one transaction of one connection, the
driver's, notes the batch's number and brings the stage into the table. A batch that runs again, or that a driver which was
taken for lost still writes, finds its number there and changes nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JJavaError

from sparksql.api.execution import Upsert
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.scala import elements, simple_name
from sparksql.gateway.spark.shapes import Dataset, Jvm, JvmSession, LogicalPlan
from sparksql.gateway.sql.classifier import Classifier
from sparksql.gateway.streaming.upsert import postgresql
from sparksql.gateway.streaming.upsert.batch import check_columns, check_expression, invalid, prepared, query_of
from sparksql.gateway.streaming.upsert.names import DELETE, prefixed, quoted
from sparksql.gateway.streaming.upsert.postgresql import DatabaseTable
from sparksql.gateway.streaming.upsert.target import table_leaf

_URL = "jdbc:postgresql:"
# Types whose values Spark and the database order in the same way; text they may not, by the database's collation.
_ORDERED = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "date", "timestamp", "timestamp_ntz")
_DRIVER = -1  # what Spark's factory of connections takes for the number of a partition


@dataclass
class DatabaseWriter:
    """Writes batches into a table of PostgreSQL. `jdbc` are Spark's JDBCOptions of the target; they hold secrets."""

    driver: SparkDriver = field(repr=False)
    options: Upsert
    table: DatabaseTable
    jdbc: Any = field(repr=False)
    _is_ready: bool = field(default=False, init=False)

    def check(self, session: JvmSession, frame: Dataset) -> None:
        """Raises when the query or the database's table does not fit: StatementError, or what Spark or the database throws."""
        check_columns(self.options, self.table.columns, frame)
        classifier = Classifier(self.driver.jvm, session, self.driver.policy)
        for text in filter(None, (self.options.order_by, self.options.delete_when)):
            check_expression(self.driver.jvm, classifier, session, text, frame)
        with _connected(self.driver.jvm, self.jdbc) as connection:
            optional = _rows(connection, postgresql.nullable(self.table))
            if optional:
                raise invalid(
                    "keys", f"column {optional[0][0]} of {self.table.qualified} may be NULL: make it NOT NULL"
                )
            try:
                _rows(connection, postgresql.plan_of_upsert(self.table))
            except Py4JJavaError as failed:
                if str(failed.java_exception.getSQLState()) != postgresql.NO_UNIQUE_INDEX:
                    raise
                raise invalid(
                    "keys", f"{self.table.qualified} has no unique index of exactly these columns"
                ) from failed

    def described(self) -> str:
        """Returns the target and the keys."""
        return f"Upsert into {self.table.qualified} by ({', '.join(map(quoted, self.table.keys))})"

    def write(self, frame: Dataset, batch_id: int) -> int | None:
        """Writes one batch, unless it is there already. Called in the query's thread. Returns the rows that it has changed."""
        query_id = query_of(frame.sparkSession())
        table = self.table
        batch = prepared(self.driver.jvm, self.options, table.columns, table.keys, frame)
        stage = table.stage(query_id, uuid.uuid4().hex[:8])
        with _connected(self.driver.jvm, self.jdbc) as connection:
            if not self._is_ready:
                self._prepare(connection, query_id)
                self._is_ready = True
            _execute(connection, postgresql.make_stage(table, stage))
        self._fill(batch, stage)
        with _connected(self.driver.jvm, self.jdbc) as connection:
            connection.setAutoCommit(False)
            if _execute(connection, postgresql.take_batch(table, query_id, batch_id)):
                # Of its DROP TABLE the count is 0.
                changed = sum(_execute(connection, each) for each in postgresql.apply_stage(table, stage))
            else:
                changed = 0
                _execute(connection, f"DROP TABLE {stage}")
            connection.commit()
        return changed

    def _prepare(self, connection: Any, query_id: str) -> None:
        """Makes what the first batch of a start needs, and removes what the start before may have left."""
        _execute(connection, postgresql.make_batches(self.table))
        for [stage] in _rows(connection, postgresql.leftovers(self.table, query_id)):
            _execute(connection, f"DROP TABLE IF EXISTS {stage}")

    def _fill(self, batch: Dataset, stage: str) -> None:
        """Has the executors write a batch into a stage."""
        columns = [f"{prefixed(name)} AS {quoted(name)}" for name in self.table.columns]
        rows = batch.selectExpr(self.driver.jvm.PythonUtils.toSeq([*columns, DELETE]))
        writer = rows.write().format("jdbc").mode("append")
        for pair in elements(self.jdbc.parameters().toSeq()):
            writer = writer.option(pair._1(), pair._2())
        writer.option("dbtable", stage).save()


def database_writer(driver: SparkDriver, options: Upsert, relation: LogicalPlan) -> DatabaseWriter | None:
    """Returns what writes into an analysed table of a database, None for another table. Raises StatementError."""
    jdbc = _jdbc_options(table_leaf(relation))
    if jdbc is None:
        return None
    if not str(jdbc.url()).startswith(_URL):
        raise invalid("", "of databases only PostgreSQL supports upserts")
    if options.deleted_retention_seconds is not None:
        raise invalid("deletedRetentionSeconds", "it is for tables of Iceberg and Delta")
    types = {str(column.name()): str(column.dataType().simpleString()) for column in elements(relation.output())}
    lower = {name.lower() for name in types}
    unknown = [key for key in options.keys if key.lower() not in lower]
    if unknown:
        raise invalid("keys", f"the target has no column {unknown[0]}")
    with _connected(driver.jvm, jdbc) as connection:
        found = _rows(connection, postgresql.find(str(jdbc.tableOrQuery())))
    if not found:
        raise invalid("", "the target must be a table of the database by its name, not a query")
    schema, name = found[0]
    keys, order = postgresql.own_names(options.keys, types), _order(options.order_by, types)
    return DatabaseWriter(driver, options, DatabaseTable(schema, name, tuple(types), keys, order), jdbc)


def _order(text: str | None, types: dict[str, str]) -> str | None:
    """The column that `orderBy` is. Raises StatementError for anything else: the database does not know Spark's expressions."""
    if text is None:
        return None
    name = text.strip().strip("`").lower()
    column = next((column for column in types if column.lower() == name), None)
    if column is None or types[column].partition("(")[0] not in _ORDERED:
        raise invalid(
            "orderBy", "for PostgreSQL it must be a column of the target that is a number, a date or a timestamp"
        )
    return column


def _jdbc_options(leaf: LogicalPlan) -> Any | None:
    """Spark's JDBCOptions of a table in a JDBC catalog or USING jdbc, None for another."""
    match simple_name(leaf):
        case "DataSourceV2Relation" if simple_name(leaf.table()) == "JDBCTable":
            return leaf.table().jdbcOptions()
        case "LogicalRelation" if simple_name(leaf.relation()) == "JDBCRelation":
            return leaf.relation().jdbcOptions()
        case _:
            return None


@contextmanager
def _connected(jvm: Jvm, jdbc: Any) -> Iterator[Any]:
    """A connection as Spark makes it. What was not committed is undone when it closes."""
    dialect = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(jdbc.url())
    connection = dialect.createConnectionFactory(jdbc).apply(_DRIVER)
    try:
        yield connection
    finally:
        connection.close()


def _execute(connection: Any, sql: str) -> int:
    """Runs a statement; answers how many rows it has changed."""
    statement = connection.createStatement()
    try:
        return int(statement.executeUpdate(sql))
    finally:
        statement.close()


def _rows(connection: Any, sql: str) -> list[tuple[str, ...]]:
    statement = connection.createStatement()
    try:
        found = statement.executeQuery(sql)
        width = range(1, int(found.getMetaData().getColumnCount()) + 1)
        rows = []
        while found.next():
            rows.append(tuple(str(found.getString(column)) for column in width))
        return rows
    finally:
        statement.close()
