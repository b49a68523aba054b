"""CREATE TABLE and CREATE TEMPORARY VIEW `USING kafka`, with the columns that Spark itself refuses.

Both come to the catalog with the columns that a query will give, and with their options, which is what a STREAM of them is read
by. Spark's own command would compare the columns with those of a Kafka record.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.scala import elements, option, scala_object, simple_name
from sparksql.gateway.spark.shapes import Jvm, JvmSession, LogicalPlan
from sparksql.gateway.streaming.kafka.options import (
    CHANGELOG_COLUMNS,
    ENDS,
    OP,
    PROVIDER,
    KafkaColumn,
    KafkaTable,
    ValueFormat,
    columns_of,
    is_kafka,
)
from sparksql.gateway.streaming.kafka.tables import check_table, kafka_table
from sparksql.gateway.streaming.kafka.values import read

_KEEPS_PLAN = "view.storingAnalyzedPlan"  # Spark's CatalogTable.VIEW_STORING_ANALYZED_PLAN
_PROPERTIES = 11  # index of CatalogTable's `properties`


def table_definition(driver: SparkDriver, session: JvmSession, plan: LogicalPlan) -> Any:
    """Returns a parsed CREATE TABLE that Spark can run. Raises StatementError.

    One `USING kafka` is checked; others stay as they are.
    """
    if simple_name(plan) != "CreateTable" or not is_kafka(option(plan.tableSpec().provider())):
        return plan
    command = driver.analyse(session, plan).analyzed()
    if simple_name(command) != "CreateDataSourceTableCommand":
        return plan  # another catalog's
    metadata = command.table()
    name = ".".join(
        str(part) for part in (option(metadata.identifier().database()), metadata.identifier().table()) if part
    )
    table = _checked(driver, name, columns_of(metadata.schema()), metadata.storage().properties())
    if not metadata.partitionColumnNames().isEmpty() or metadata.bucketSpec().isDefined():
        raise table.invalid("it has no partitions and no buckets of its own: leave PARTITIONED BY and CLUSTERED BY out")
    schema = _schema(driver, session, table)
    if schema.length() != metadata.schema().length():
        parser = session.sessionState().sqlParser()
        columns = parser.parsePlan(f"CREATE TABLE t ({schema.toDDL()}) USING kafka").columns()
        plan = plan.copy(plan.name(), columns, plan.partitioning(), plan.tableSpec(), plan.ignoreIfExists())
        metadata = driver.analyse(session, plan).analyzed().table()
    return driver.jvm.org.apache.spark.sql.execution.command.CreateTableCommand(metadata, plan.ignoreIfExists())


def make_view(driver: SparkDriver, session: JvmSession, plan: LogicalPlan) -> bool:
    """Executes a parsed CREATE TEMPORARY VIEW `USING kafka`; False for any other statement. Raises StatementError.

    The view holds the plan of a batch, as Spark's own does, and beside it what a STREAM of it is read by.
    """
    if simple_name(plan) != "CreateTempViewUsing" or not is_kafka(plan.provider()) or getattr(plan, "global")():
        return False
    jvm, identifier = driver.jvm, plan.tableIdent()
    catalog = jvm.org.apache.spark.sql.catalyst.catalog
    declared = option(plan.userSpecifiedSchema())
    columns = columns_of(declared) if declared is not None else ()
    table = _checked(driver, str(identifier.table()), columns, plan.options())
    schema = _schema(driver, session, table)
    sources = jvm.org.apache.spark.sql.execution.datasources
    first = (
        jvm.org.apache.spark.sql.catalyst.TableIdentifier(identifier.table()),
        scala_object(catalog, "CatalogTableType").VIEW(),
        sources.DataSource.buildStorageFormatFromOptions(plan.options()),
        schema,
        jvm.scala.Option.apply(PROVIDER),
    )
    metadata = _catalog_table(jvm, first)
    batch = read(jvm, session, kafka_table(metadata, {}, driver.policy, streaming=False), streaming=False)
    relation = catalog.TemporaryViewRelation(metadata, jvm.scala.Option.apply(batch.logicalPlan()))
    session.sessionState().catalog().createTempView(identifier.table(), relation, plan.replace())
    return True


def _checked(driver: SparkDriver, name: str, columns: tuple[KafkaColumn, ...], options: Any) -> KafkaTable:
    table = KafkaTable(name, columns, {str(pair._1()): str(pair._2()) for pair in elements(options)})
    check_table(table, driver.policy)
    return table


def _schema(driver: SparkDriver, session: JvmSession, table: KafkaTable) -> Any:
    """StructType of the table's rows. Raises StatementError, or what Spark raises for the source's options."""
    if table.format is ValueFormat.RAW:
        options = {key: value for key, value in table.options.items() if key.lower() not in ENDS}
        return read(driver.jvm, session, replace(table, options=options), streaming=True).schema()
    columns = list(table.columns)
    schema = driver.jvm.org.apache.spark.sql.types.StructType()
    for column in columns:
        schema = schema.add(column.name, column.type)
    if table.has_all_changes:
        declared = {column.name.lower() for column in columns}
        for name, type_name in CHANGELOG_COLUMNS.items():
            if name not in declared:
                schema = schema.add(name, type_name)
    elif table.format.has_changes and not any(column.is_operation for column in columns):
        schema = schema.add(OP, "string")  # whoever does not see it takes a delete for a row
    whole = replace(table, columns=columns_of(schema))
    read(driver.jvm, session, whole, streaming=True)
    return schema


def _catalog_table(jvm: Jvm, first: tuple[Any, ...]) -> Any:
    """A CatalogTable of a temporary view that keeps its plan; the fields behind the first five have their defaults."""
    catalog = jvm.org.apache.spark.sql.catalyst.catalog
    fields = int(jvm.java.lang.Class.forName(catalog.CatalogTable._fqn).getConstructors()[0].getParameterCount())
    values = [*first]
    values += [getattr(catalog.CatalogTable, f"apply$default${index}")() for index in range(len(first) + 1, fields + 1)]
    values[_PROPERTIES] = jvm.PythonUtils.toScalaMap({_KEEPS_PLAN: "true"})
    return catalog.CatalogTable(*values)
