"""Where the names of a catalog come from: Spark's session catalog, or what a DataSource V2 catalog implements.

Spark answers one object at a time, and each answer is a call to the JVM. Names and kinds are therefore brought over a schema at
a time, as JSON that the JVM writes; only a table's columns cost calls of their own. Nothing here starts a Spark job, so
browsing works without an executor.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol, TypeVar

from sparksql.gateway.catalog.name_patterns import NamePattern, find_namespaces
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.jackson import read_json
from sparksql.gateway.spark.scala import simple_name
from sparksql.gateway.spark.shapes import JvmSession
from sparksql.gateway.sql.errors import condition_of

SESSION_CATALOG = "spark_catalog"
_CONNECTOR = "org.apache.spark.sql.connector.catalog"

# Formats whose tables are Spark's own, whichever catalog stands before Spark's: it has no other copy of their columns.
_SPARKS_FORMATS = frozenset({"avro", "csv", "json", "orc", "parquet", "text"})

T = TypeVar("T")


@dataclass(frozen=True)
class Relation:
    """A table or view; `fields` asks for its schema, as JSON."""

    catalog: str
    schema: str
    name: str
    type: str
    comment: str
    fields: Callable[[], str]


@dataclass(frozen=True)
class Function:
    """A function; `class_name` asks for what implements it."""

    catalog: str
    schema: str
    name: str
    class_name: Callable[[], str]


class CatalogSource(Protocol):
    """Objects of one catalog: by patterns, and by the exact namespace that they are in."""

    def schemas(self, pattern: NamePattern) -> list[str]:
        """Returns the names of schemas that match."""

    def relations(self, schemas: NamePattern, tables: NamePattern) -> list[Relation]:
        """Returns the tables and views that match, in the schemas that match."""

    def functions(self, schemas: NamePattern, functions: NamePattern) -> list[Function]:
        """Returns the functions that match, in the schemas that match."""

    def names_below(self, namespace: tuple[str, ...]) -> list[str]:
        """Returns the last levels of the namespaces right below one, or below the root."""
        ...

    def table_names(self, namespace: tuple[str, ...]) -> list[str]:
        """Returns the names of tables and views in a namespace."""

    def fields(self, namespace: tuple[str, ...], name: str) -> str:
        """Returns the schema of a table or view, as JSON."""
        ...


class SessionSource:
    """Spark's session catalog, kept in memory or by a Hive metastore."""

    def __init__(self, driver: SparkDriver, session: JvmSession) -> None:
        self._driver = driver
        self._catalog = session.sessionState().catalog()
        self._manager = session.sessionState().catalogManager()
        self.temporary_schema = str(self._catalog.globalTempDatabase())

    def schemas(self, pattern: NamePattern) -> list[str]:
        """Returns the names of schemas that match."""
        names = {*read_json(self._driver, self._catalog.listDatabases(pattern.stars)), self.temporary_schema}
        return sorted(name for name in names if pattern.matches(name))

    def relations(self, schemas: NamePattern, tables: NamePattern) -> list[Relation]:
        """Returns the tables and views that match, global temporary views included."""
        found: list[Relation] = []
        for schema in self.schemas(schemas):
            if schema == self.temporary_schema:
                found.extend(self.temporary_views(schema, tables))
            else:
                found.extend(_unless_gone(self._permanent, schema, tables))
        return sorted(found, key=_place)

    def temporary_views(self, schema: str, pattern: NamePattern) -> list[Relation]:
        """Returns the global temporary views, or with an empty schema the session's own."""
        views = self._catalog.listTempViews(schema, pattern.stars)
        return [
            self._relation("" if schema == "" else SESSION_CATALOG, schema, views, index, told)
            for index, told in enumerate(read_json(self._driver, views))
            if (told["identifier"]["database"] or "") == schema and pattern.matches(told["identifier"]["table"])
        ]

    def functions(self, schemas: NamePattern, functions: NamePattern) -> list[Function]:
        """Returns the permanent functions that match, in the schemas that match."""
        return [
            function
            for schema in self.schemas(schemas)
            if schema != self.temporary_schema
            for function in _unless_gone(self._permanent_functions, schema, functions)
        ]

    def own_functions(self, pattern: NamePattern) -> list[Function]:
        """Returns Spark's own and the session's temporary functions."""
        listed = self._catalog.listFunctions(self._catalog.getCurrentDatabase())
        return [
            Function("", "", told["funcName"], partial(self._own_class, listed, index))
            for index, (told, _) in enumerate(read_json(self._driver, listed))
            if told["database"] is None and pattern.matches(told["funcName"])
        ]

    def function_names(self) -> list[str]:
        """Names of the functions that need no schema before them: Spark's own, temporary and the current schema's."""
        listed = self._catalog.listFunctions(self._catalog.getCurrentDatabase())
        return [told["funcName"] for told, _ in read_json(self._driver, listed)]

    def names_below(self, namespace: tuple[str, ...]) -> list[str]:
        """Returns the schemas below the root; a schema has none below."""
        return [] if namespace else self.schemas(NamePattern.parse(None))

    def table_names(self, namespace: tuple[str, ...]) -> list[str]:
        """Returns the names of tables and views in a schema."""
        if len(namespace) != 1:
            return []
        return [told["table"] for told in read_json(self._driver, self._catalog.listTables(namespace[0], "*", False))]

    def fields(self, namespace: tuple[str, ...], name: str) -> str:
        """Returns the schema of a table, or of a global temporary view, as JSON."""
        jvm = self._driver.jvm
        identifier = jvm.org.apache.spark.sql.catalyst.TableIdentifier(name, jvm.scala.Option.apply(*namespace))
        if len(namespace) == 1 and namespace[0] != self.temporary_schema and self._is_extended:
            return self._plugin.fields(namespace, name)
        return self._stored(namespace[0], name, self._catalog.getTempViewOrPermanentTableMetadata(identifier))

    def _permanent(self, schema: str, pattern: NamePattern) -> list[Relation]:
        identifiers = self._catalog.listTables(schema, pattern.stars, False)
        try:
            tables = self._catalog.getTablesByName(identifiers)
        except Exception:  # one table that cannot be read spoils all of them
            return self._one_by_one(schema, pattern, identifiers)
        return [
            self._relation(SESSION_CATALOG, schema, tables, index, told)
            for index, told in enumerate(read_json(self._driver, tables))
            if pattern.matches(told["identifier"]["table"])
        ]

    def _one_by_one(self, schema: str, pattern: NamePattern, identifiers: Any) -> list[Relation]:
        views = {told["table"] for told in read_json(self._driver, self._catalog.listViews(schema, pattern.stars))}

        def relation(index: int, name: str) -> Relation:
            def stored() -> str:
                return str(self._catalog.getTableMetadata(identifiers.apply(index)).schema().json())

            is_view = name in views
            fields = stored if is_view or not self._is_extended else partial(self._plugin.fields, (schema,), name)
            return Relation(SESSION_CATALOG, schema, name, "VIEW" if is_view else "TABLE", "", fields)

        names = [str(told["table"]) for told in read_json(self._driver, identifiers)]
        return [relation(index, name) for index, name in enumerate(names) if pattern.matches(name)]

    def _relation(self, catalog: str, schema: str, tables: Any, index: int, told: Any) -> Relation:
        name = str(told["identifier"]["table"])
        is_view = told["tableType"]["name"] == "VIEW"
        is_sparks = is_view or not self._is_extended or str(told["provider"]).lower() in _SPARKS_FORMATS

        def fields() -> str:
            # A catalog that stands before Spark's has tables of its own there. Of these Hive's metastore has a copy of the
            # columns that knows no NOT NULL and has all names in small letters; or none that Spark can read.
            return (
                self._stored(schema, name, tables.apply(index)) if is_sparks else self._plugin.fields((schema,), name)
            )

        return Relation(catalog, schema, name, "VIEW" if is_view else "TABLE", told["comment"] or "", fields)

    def _stored(self, schema: str, name: str, table: Any) -> str:
        text = str(table.schema().json())
        # A format that keeps its schema itself leaves none in the session catalog.
        return text if json.loads(text)["fields"] else self._plugin.fields((schema,), name)

    @cached_property
    def _plugin(self) -> PluginSource:
        return PluginSource(self._driver, self._manager.catalog(SESSION_CATALOG), SESSION_CATALOG)

    @cached_property
    def _is_extended(self) -> bool:
        """Whether another catalog stands before Spark's own."""
        return simple_name(self._manager.catalog(SESSION_CATALOG)) != "V2SessionCatalog"

    def _permanent_functions(self, schema: str, pattern: NamePattern) -> list[Function]:
        metastore = self._catalog.externalCatalog()
        names = read_json(self._driver, metastore.listFunctions(schema, pattern.stars))
        return [
            Function(SESSION_CATALOG, schema, name, partial(self._permanent_class, schema, name))
            for name in sorted(names)
            if pattern.matches(name)
        ]

    def _permanent_class(self, schema: str, name: str) -> str:
        return str(self._catalog.externalCatalog().getFunction(schema, name).className())

    def _own_class(self, listed: Any, index: int) -> str:
        return str(self._catalog.lookupFunctionInfo(listed.apply(index)._1()).getClassName())


class PluginSource:
    """A DataSource V2 catalog, asked for what it implements. A table's comment would cost loading it and is left out."""

    def __init__(self, driver: SparkDriver, plugin: Any, name: str) -> None:
        self._driver = driver
        self._connector = driver.jvm.org.apache.spark.sql.connector.catalog
        self._plugin = plugin
        self._name = name

    def schemas(self, pattern: NamePattern) -> list[str]:
        """Returns the names of namespaces that match, of all levels."""
        return sorted(".".join(namespace) for namespace in self._namespaces(pattern) if namespace)

    def relations(self, schemas: NamePattern, tables: NamePattern) -> list[Relation]:
        """Returns the tables and views that match, in the namespaces that match."""
        found: list[Relation] = []
        for namespace in sorted(self._namespaces(schemas)):
            if self._is("TableCatalog"):
                found.extend(self._listed(namespace, tables, self._plugin.listTables, "TABLE"))
            if self._is("ViewCatalog"):
                found.extend(self._listed(namespace, tables, self._plugin.listViews, "VIEW"))
        return sorted(found, key=_place)

    def functions(self, schemas: NamePattern, functions: NamePattern) -> list[Function]:
        """Returns functions without their classes: a plugin would load each function."""
        if not self._is("FunctionCatalog"):
            return []
        return [
            Function(self._name, ".".join(namespace), name, str)
            for namespace in sorted(self._namespaces(schemas))
            for name, _ in _unless_gone(self._identifiers, self._plugin.listFunctions, namespace)
            if functions.matches(name)
        ]

    def names_below(self, namespace: tuple[str, ...]) -> list[str]:
        """Returns the last levels of the namespaces right below one, or below the root."""
        return [below[-1] for below in self._children(namespace)] if self._is("SupportsNamespaces") else []

    def table_names(self, namespace: tuple[str, ...]) -> list[str]:
        """Returns the names of tables and views in a namespace."""
        found = self._identifiers(self._plugin.listTables, namespace) if self._is("TableCatalog") else []
        views = self._identifiers(self._plugin.listViews, namespace) if self._is("ViewCatalog") else []
        return [name for name, _ in (*found, *views)]

    def fields(self, namespace: tuple[str, ...], name: str) -> str:
        """Returns the schema of a table or view, as JSON."""
        identifier = self._connector.Identifier.of(self._array(namespace), name)
        if self._is("ViewCatalog") and self._plugin.viewExists(identifier):
            return self._view_fields(identifier)
        return self._table_fields(identifier)

    def _listed(
        self, namespace: tuple[str, ...], pattern: NamePattern, listing: Callable[[Any], Any], kind: str
    ) -> Iterator[Relation]:
        fields = self._table_fields if kind == "TABLE" else self._view_fields
        for name, identifier in _unless_gone(self._identifiers, listing, namespace):
            if pattern.matches(name):
                yield Relation(self._name, ".".join(namespace), name, kind, "", partial(fields, identifier))

    def _identifiers(self, listing: Callable[[Any], Any], namespace: tuple[str, ...]) -> list[tuple[str, Any]]:
        return [(str(identifier.name()), identifier) for identifier in listing(self._array(namespace))]

    def _table_fields(self, identifier: Any) -> str:
        columns = self._plugin.loadTable(identifier).columns()
        return str(self._connector.CatalogV2Util.v2ColumnsToStructType(columns).json())

    def _view_fields(self, identifier: Any) -> str:
        return str(self._plugin.loadView(identifier).schema().json())

    def _namespaces(self, pattern: NamePattern) -> list[tuple[str, ...]]:
        """Namespaces that match; the root alone for a catalog that has none."""
        if self._is("SupportsNamespaces"):
            return find_namespaces(self._children, pattern)
        return [()] if pattern.matches("") else []

    def _children(self, parent: tuple[str, ...]) -> list[tuple[str, ...]]:
        if not parent:
            return [tuple(namespace) for namespace in read_json(self._driver, self._plugin.listNamespaces())]
        try:
            below = self._plugin.listNamespaces(self._array(parent))
        except Exception:  # gone, or a catalog that does not nest and says so
            return []
        return [tuple(namespace) for namespace in read_json(self._driver, below)]

    def _array(self, namespace: tuple[str, ...]) -> Any:
        array = self._driver.context._gateway.new_array(self._driver.jvm.java.lang.String, len(namespace))
        for index, level in enumerate(namespace):
            array[index] = level
        return array

    def _is(self, interface: str) -> bool:
        return is_a(self._driver, self._plugin, interface)


def _place(relation: Relation) -> tuple[str, str]:
    return relation.schema, relation.name


def _unless_gone(look: Callable[..., list[T]], *arguments: Any) -> list[T]:
    """What a look at a schema finds: nothing if it has been dropped since it was listed."""
    try:
        return look(*arguments)
    except Exception as exception:
        if condition_of(exception) == "SCHEMA_NOT_FOUND":
            return []
        raise


def is_a(driver: SparkDriver, plugin: Any, interface: str) -> bool:
    """Returns whether a catalog plugin implements an interface of Spark's connector package."""
    return bool(driver.jvm.py4j.reflection.TypeUtil.isInstanceOf(f"{_CONNECTOR}.{interface}", plugin))
