"""Tells a client what its session can name: catalogs, schemas, tables, columns, functions, by JDBC's patterns.

What has been dropped meanwhile is left out. A table that cannot be read keeps its place among the tables. A look at columns
leaves it out and logs a warning, and fails if there is no other. A catalog that does not load fails the call.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from sparksql.gateway.catalog.columns import ColumnEntry, columns_in
from sparksql.gateway.catalog.name_patterns import NamePattern, escaped
from sparksql.gateway.catalog.sources import (
    SESSION_CATALOG,
    CatalogSource,
    Function,
    PluginSource,
    Relation,
    SessionSource,
    is_a,
)
from sparksql.gateway.sessions.model import ClientError, Problem
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.jackson import read_json
from sparksql.gateway.spark.shapes import JvmSession
from sparksql.gateway.sql.errors import condition_of, name_of

MAX_COLUMN_TABLES = 2_000  # a table's columns cost a few calls to the JVM, and in a remote catalog a request
MAX_COLUMN_SECONDS = 300  # of one look: a client waits for it, and it holds one of the threads of all clients
_GONE = frozenset({"TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND"})  # conditions of what was dropped since it was listed
_CATALOG_KEY = re.compile(r"spark\.sql\.catalog\.([^.]+)")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SchemaEntry:
    """A schema; the levels of a nested namespace are joined by dots."""

    catalog: str
    name: str


@dataclass(frozen=True)
class TableEntry:
    """A table or view; `type` is TABLE or VIEW. A temporary view has neither catalog nor schema, both are empty."""

    catalog: str
    schema: str
    name: str
    type: str
    comment: str


@dataclass(frozen=True)
class FunctionEntry:
    """A function. One of Spark's own or a temporary one has neither catalog nor schema; `class_name` is empty if unknown."""

    catalog: str
    schema: str
    name: str
    class_name: str


class Catalog:
    """Lists what one client's session can name. All calls block.

    A catalog of None or "" is the current one, others are compared exactly; an unknown one has nothing. Raises what Spark
    raises for a catalog that does not load.
    """

    def __init__(self, driver: SparkDriver, session: JvmSession, clock: Callable[[], float] = time.monotonic) -> None:
        """`session` is a JVM `org.apache.spark.sql.classic.SparkSession`; `clock` gives seconds."""
        self._clock = clock
        self._driver = driver
        self._session = session
        self._manager = session.sessionState().catalogManager()

    def catalogs(self) -> list[str]:
        """Returns the names of configured catalogs, loaded or not, in order."""
        self._driver.activate(self._session)
        keys = self._session.sessionState().conf().getAllConfs().keySet()
        names = {found[1] for key in read_json(self._driver, keys) if (found := _CATALOG_KEY.fullmatch(key))}
        return sorted({SESSION_CATALOG, *names})

    def current(self) -> tuple[str, str]:
        """Returns the current catalog and schema."""
        self._driver.activate(self._session)
        namespace = read_json(self._driver, self._manager.currentNamespace())
        return str(self._manager.currentCatalog().name()), ".".join(namespace)

    def schemas(self, catalog: str | None, schema: str | None) -> list[SchemaEntry]:
        """Returns the schemas that match, `global_temp` among those of the session catalog."""
        name = self._name(catalog)
        pattern = NamePattern.parse(schema)
        return [SchemaEntry(name, found) for source in self._sources(name) for found in source.schemas(pattern)]

    def tables(
        self, catalog: str | None, schema: str | None, table: str | None, types: frozenset[str] | None
    ) -> list[TableEntry]:
        """Returns the tables and views that match.

        Temporary views are among those of the current catalog, with an empty schema.
        """
        return [
            TableEntry(found.catalog, found.schema, found.name, found.type, found.comment)
            for found in self._relations(catalog, schema, table)
            if types is None or found.type in types
        ]

    def columns(
        self, catalog: str | None, schema: str | None, table: str | None, column: str | None
    ) -> list[ColumnEntry]:
        """Returns the columns that match, table by table, as each table's own format has them.

        A table that cannot be read is left out if another one can. Raises ClientError if none can, for more than
        MAX_COLUMN_TABLES tables, and after MAX_COLUMN_SECONDS.
        """
        relations = self._relations(catalog, schema, table)
        if len(relations) > MAX_COLUMN_TABLES:
            raise ClientError(
                Problem.INVALID,
                f"schema {schema!r} and table {table!r} match {len(relations)} tables; columns are listed for at most "
                f"{MAX_COLUMN_TABLES}: give a narrower schema or table pattern",
            )
        pattern = NamePattern.parse(column)
        return [entry for entry in self._columns_in(relations) if pattern.matches(entry.name)]

    def columns_of(self, table: TableEntry) -> list[ColumnEntry]:
        """Returns the columns of one table or view, none if it has been dropped.

        Raises ClientError if it cannot be read.
        """
        found = self._relations(table.catalog or None, escaped(table.schema), escaped(table.name))
        return self._columns_in([each for each in found if (each.schema, each.name) == (table.schema, table.name)])

    def functions(self, catalog: str | None, schema: str | None, function: str | None) -> list[FunctionEntry]:
        """Returns the functions that match. Spark's own and temporary ones are among those of the current catalog."""
        name = self._name(catalog)
        schemas, functions = NamePattern.parse(schema), NamePattern.parse(function)
        found = [entry for source in self._sources(name) for entry in source.functions(schemas, functions)]
        if name == self.current()[0] and schemas.matches(""):
            found = [*self._session_source.own_functions(functions), *found]
        return [FunctionEntry(entry.catalog, entry.schema, entry.name, _class_name(entry)) for entry in found]

    def place_of(self, parts: Sequence[str]) -> tuple[str, tuple[str, ...]]:
        """Returns catalog and namespace of a dotted name, as Spark resolves it: its first part may be a catalog's."""
        if parts and parts[0].lower() == self._session_source.temporary_schema:
            return SESSION_CATALOG, (parts[0].lower(),)
        if parts and parts[0] in self.catalogs():
            return parts[0], tuple(parts[1:])
        return str(self._manager.currentCatalog().name()), tuple(parts)

    def names_below(self, parts: Sequence[str]) -> list[str]:
        """Returns the names of the schemas right below a namespace, without their path."""
        catalog, namespace = self.place_of(parts)
        return [name for source in self._sources(catalog) for name in source.names_below(namespace)]

    def table_names(self, parts: Sequence[str]) -> list[str]:
        """Returns the names of a namespace's tables and views.

        Without a name they are those of the current namespace and temporary views.
        """
        if parts:
            catalog, namespace = self.place_of(parts)
            return [name for source in self._sources(catalog) for name in source.table_names(namespace)]
        temporary = self._session_source.temporary_views("", NamePattern.parse(None))
        return [*(view.name for view in temporary), *self.table_names(self._current_place())]

    def column_names(self, parts: Sequence[str]) -> list[str]:
        """Returns the names of the columns of a table that a statement names so.

        Raises what Spark raises for an unknown one.
        """
        *path, name = parts
        if not path:
            temporary = self._session_source.temporary_views("", NamePattern.parse(escaped(name)))
            if temporary:
                return [entry.name for entry in columns_in(temporary[0])]
            path = self._current_place()
        catalog, namespace = self.place_of(path)
        texts = [source.fields(namespace, name) for source in self._sources(catalog)]
        return [field["name"] for text in texts for field in json.loads(text)["fields"]]

    def function_names(self) -> list[str]:
        """Returns the names of the functions that can be called without naming a schema."""
        return self._session_source.function_names()

    def _current_place(self) -> list[str]:
        namespace = read_json(self._driver, self._manager.currentNamespace())
        return [str(self._manager.currentCatalog().name()), *namespace]

    def _relations(self, catalog: str | None, schema: str | None, table: str | None) -> list[Relation]:
        name = self._name(catalog)
        schemas, tables = NamePattern.parse(schema), NamePattern.parse(table)
        found = [relation for source in self._sources(name) for relation in source.relations(schemas, tables)]
        if name == self.current()[0] and schemas.matches(""):
            found = [*self._session_source.temporary_views("", tables), *found]
        return found

    def _columns_in(self, relations: Sequence[Relation]) -> list[ColumnEntry]:
        found: list[ColumnEntry] = []
        unread: list[tuple[Relation, str]] = []
        until = self._clock() + MAX_COLUMN_SECONDS
        for index, relation in enumerate(relations):
            if self._clock() > until:
                raise ClientError(
                    Problem.INVALID,
                    f"the columns of {index} of {len(relations)} tables took {MAX_COLUMN_SECONDS} s: give a narrower schema or "
                    "table pattern",
                )
            try:
                found.extend(columns_in(relation))
            except Exception as exception:
                if condition_of(exception) not in _GONE:
                    unread.append((relation, name_of(exception)))
        if unread:
            self._report(unread, len(relations))
        return found

    def _report(self, unread: Sequence[tuple[Relation, str]], count: int) -> None:
        """Logs that tables could not be read. Raises ClientError if these are all that there are."""
        relation, cause = unread[0]
        name = ".".join(part for part in (relation.catalog, relation.schema, relation.name) if part)
        if len(unread) == count:
            raise ClientError(
                Problem.INVALID,
                f"the columns of {name} could not be read ({cause}): mend or drop this table; DESCRIBE {name} shows more",
            )
        log.warning("the columns of %d of %d tables could not be read, first %s: %s", len(unread), count, name, cause)

    def _name(self, catalog: str | None) -> str:
        return catalog or self.current()[0]

    def _sources(self, name: str) -> list[CatalogSource]:
        """The one source of a catalog's objects; none for an unknown catalog."""
        if name not in self.catalogs():
            return []
        plugin = self._manager.catalog(name)
        # A plugin may extend Spark's session catalog (which then knows all names) or replace it.
        if name == SESSION_CATALOG and (
            plugin.getClass().getSimpleName() == "V2SessionCatalog" or is_a(self._driver, plugin, "CatalogExtension")
        ):
            return [self._session_source]
        return [PluginSource(self._driver, plugin, name)]

    @cached_property
    def _session_source(self) -> SessionSource:
        return SessionSource(self._driver, self._session)


def _class_name(function: Function) -> str:
    """Empty for one that cannot be read, or has been dropped meanwhile."""
    try:
        return function.class_name()
    except Exception as exception:
        log.debug("a function could not be read: %s", type(exception).__name__)
        return ""
