"""Makes SHOW TABLE EXTENDED know the tables of a catalog that stands before Spark's own, as Iceberg's session catalog does.

Spark (4.1, measured) answers from the metastore alone there: an Iceberg table has the provider `hive`, columns in small letters
and no NOT NULL, and one with `engine.hive.enabled` fails the whole statement. Here each table is loaded by that catalog. The text
is Spark's own for Spark's tables and views, and has the same lines for others. Clients as dbt read the format in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.jackson import read_json
from sparksql.gateway.spark.scala import option, simple_name, text_map
from sparksql.gateway.spark.shapes import JvmSession, LogicalPlan
from sparksql.gateway.sql.errors import condition_of, name_of
from sparksql.wire.control import Column

COLUMNS = (
    Column(name="namespace", type="string"),
    Column(name="tableName", type="string"),
    Column(name="isTemporary", type="boolean"),
    Column(name="information", type="string"),
)
_CATALOG = "spark_catalog"
_GONE = "TABLE_OR_VIEW_NOT_FOUND"
# Properties that have a line of their own, by Spark's names (TableCatalog), in the order of Spark's text.
_OWNER, _PROVIDER, _COMMENT, _LOCATION, _EXTERNAL = "owner", "provider", "comment", "location", "external"
_RESERVED = frozenset({_OWNER, _PROVIDER, _COMMENT, _LOCATION, _EXTERNAL, "table_type"})


def extended_tables(
    driver: SparkDriver, session: JvmSession, plan: LogicalPlan, check: Callable[[], None]
) -> tuple[tuple[Column, ...], pa.Table] | None:
    """Returns the answer of a parsed SHOW TABLE EXTENDED, None if Spark's own is right.

    `check` is called before each table. Raises what it raises, and what Spark raises for a schema that is not there.
    """
    plugin = session.sessionState().catalogManager().v2SessionCatalog()
    if simple_name(plugin) == "V2SessionCatalog":
        return None
    command = driver.analyse(session, plan).analyzed()
    if simple_name(command) != "ShowTablesCommand":
        return None  # of another catalog
    catalog = session.sessionState().catalog()
    schema = str(option(command.databaseName()) or catalog.getCurrentDatabase())
    if schema == str(catalog.globalTempDatabase()):
        return None
    listed = catalog.listTables(schema, str(option(command.tableIdentifierPattern()) or "*"))
    rows: list[tuple[str, str, bool, str]] = []
    for index, told in enumerate(read_json(driver, listed)):
        check()
        name, is_temporary = str(told["table"]), not told["database"]
        try:
            if is_temporary:
                text = str(catalog.getTempViewOrPermanentTableMetadata(listed.apply(index)).simpleString())
            else:
                text = _information(driver, session, schema, name, _loaded(driver, plugin, schema, name))
        except Exception as exception:
            if condition_of(exception) == _GONE:  # dropped since it was listed
                continue
            text = _lines({"Catalog": _CATALOG, "Database": schema, "Table": name, "Error": name_of(exception)})
        rows.append(("" if is_temporary else schema, name, is_temporary, f"{text}\n"))
    types = (pa.string(), pa.string(), pa.bool_(), pa.string())
    cells = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(types)]
    return COLUMNS, pa.Table.from_arrays(cells, names=[column.name for column in COLUMNS])


def _loaded(driver: SparkDriver, plugin: Any, schema: str, name: str) -> Any:
    namespace = driver.context._gateway.new_array(driver.jvm.java.lang.String, 1)
    namespace[0] = schema
    return plugin.loadTable(driver.jvm.org.apache.spark.sql.connector.catalog.Identifier.of(namespace, name))


def _information(driver: SparkDriver, session: JvmSession, schema: str, name: str, table: Any) -> str:
    if simple_name(table) == "V1Table":
        return str(table.catalogTable().simpleString())
    properties = text_map(table.properties())
    others = {key: value for key, value in properties.items() if key not in _RESERVED}
    jvm, conf = driver.jvm, session.sessionState().conf()
    shown = read_json(driver, conf.redactOptions(jvm.PythonUtils.toScalaMap(others)))
    struct = jvm.org.apache.spark.sql.connector.catalog.CatalogV2Util.v2ColumnsToStructType(table.columns())
    return _lines(
        {
            "Catalog": _CATALOG,
            "Database": schema,
            "Table": name,
            "Owner": properties.get(_OWNER, ""),
            "Type": "EXTERNAL" if _EXTERNAL in properties else "MANAGED",
            "Provider": properties.get(_PROVIDER, ""),
            "Comment": properties.get(_COMMENT, ""),
            "Table Properties": f"[{', '.join(f'{key}={shown[key]}' for key in sorted(shown))}]" if shown else "",
            "Location": properties.get(_LOCATION, ""),
            "Schema": str(struct.treeString()).rstrip("\n"),
        }
    )


def _lines(parts: dict[str, str]) -> str:
    return "".join(f"{title}: {value}\n" for title, value in parts.items() if value)
