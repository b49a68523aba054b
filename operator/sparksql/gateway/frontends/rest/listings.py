"""Answers about what a session can name, by exact names: what FLIP-91 asks of a gateway and the released API has no routes for.

Temporary views are in the database with the empty name of the current catalog in JDBC's listings; here they are among the tables
of the current database, as a statement that names them without one would find them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from aiohttp import web

from sparksql.gateway.catalog.catalog import Catalog
from sparksql.gateway.catalog.catalog import FunctionEntry as FoundFunction
from sparksql.gateway.catalog.catalog import TableEntry as FoundTable
from sparksql.gateway.catalog.name_patterns import escaped
from sparksql.gateway.frontends.rest import models
from sparksql.gateway.frontends.rest.errors import Cause
from sparksql.gateway.frontends.rest.handlers import Call, Handler, answer
from sparksql.gateway.frontends.rest.types import logical_type

if TYPE_CHECKING:
    from sparksql.gateway.sessions.service import SessionService

T = TypeVar("T")


class Listings:
    """Answers the routes that list."""

    def __init__(self, service: SessionService) -> None:
        self._service = service

    def handlers(self) -> dict[str, Handler]:
        """Returns the handlers by the names of their routes."""
        return {
            "list_sessions": self._sessions,
            "list_catalogs": self._catalogs,
            "list_databases": self._databases,
            "list_tables": self._tables,
            "get_table": self._table,
            "list_functions": self._functions,
            "list_own_functions": self._own_functions,
        }

    async def _sessions(self, call: Call) -> web.Response:
        entries = [
            models.SessionEntry(
                session_handle=view.handle,
                session_name=view.name,
                protocol=str(view.protocol),
                open_time=view.open_time,
                last_used_time=view.last_used_time,
                operations=view.operations,
            )
            for view in self._service.sessions
        ]
        return answer(models.SessionsResponse(sessions=entries))

    async def _catalogs(self, call: Call) -> web.Response:
        def look(catalog: Catalog) -> models.CatalogsResponse:
            current, database = catalog.current()
            return models.CatalogsResponse(
                catalogs=catalog.catalogs(), current_catalog=current, current_database=database
            )

        return answer(await self._look(call, look))

    async def _databases(self, call: Call) -> web.Response:
        name = call.match.parameters["catalog"]

        def look(catalog: Catalog) -> models.DatabasesResponse:
            _check_catalog(call, catalog, name)
            return models.DatabasesResponse(databases=[entry.name for entry in catalog.schemas(name, None)])

        return answer(await self._look(call, look))

    async def _tables(self, call: Call) -> web.Response:
        def look(catalog: Catalog) -> models.TablesResponse:
            return models.TablesResponse(tables=[_entry(found) for found in _tables_of(call, catalog, None)])

        return answer(await self._look(call, look))

    async def _table(self, call: Call) -> web.Response:
        name = call.match.parameters["table"]

        def look(catalog: Catalog) -> models.TableResponse:
            tables = _tables_of(call, catalog, escaped(name))
            if not tables:
                database = call.match.parameters["database"]
                raise call.failed(
                    Cause("TableNotExistException", f"Table {name} does not exist in database {database}.")
                )
            found = tables[0]
            return models.TableResponse(
                **_entry(found).model_dump(),
                columns=[
                    models.ColumnInfo(
                        name=column.name,
                        logical_type=logical_type(column.type).model_copy(update={"nullable": column.nullable}),
                        comment=column.comment or None,
                    )
                    for column in catalog.columns_of(found)
                ],
            )

        return answer(await self._look(call, look))

    async def _functions(self, call: Call) -> web.Response:
        def look(catalog: Catalog) -> models.FunctionsResponse:
            name, database = _check_database(call, catalog)
            found = catalog.functions(name, escaped(database), None)
            return _functions(entry for entry in found if entry.schema)

        return answer(await self._look(call, look))

    async def _own_functions(self, call: Call) -> web.Response:
        return answer(await self._look(call, lambda catalog: _functions(catalog.functions(None, "", None))))

    async def _look(self, call: Call, look: Callable[[Catalog], T]) -> T:
        return await self._service.with_session(call.session, lambda driver, session: look(Catalog(driver, session)))


def _check_catalog(call: Call, catalog: Catalog, name: str) -> None:
    if name not in catalog.catalogs():
        raise call.failed(Cause("CatalogNotExistException", f"A catalog with name [{name}] does not exist."))


def _check_database(call: Call, catalog: Catalog) -> tuple[str, str]:
    """The catalog and the database in the path. Raises RestError if one is not there."""
    name, database = call.match.parameters["catalog"], call.match.parameters["database"]
    _check_catalog(call, catalog, name)
    if not catalog.schemas(name, escaped(database)):
        raise call.failed(Cause("DatabaseNotExistException", f"Database {database} does not exist in Catalog {name}."))
    return name, database


def _tables_of(call: Call, catalog: Catalog, pattern: str | None) -> list[FoundTable]:
    """Tables and views of the database in the path; temporary views first, which hide tables of their name."""
    name, database = _check_database(call, catalog)
    tables = catalog.tables(name, escaped(database), pattern, None)
    if (name, database) == catalog.current():
        return [*(found for found in catalog.tables(name, "", pattern, None) if not found.schema), *tables]
    return tables


def _entry(found: FoundTable) -> models.TableEntry:
    return models.TableEntry(name=found.name, kind=models.TableKind(found.type), comment=found.comment)


def _functions(found: Iterable[FoundFunction]) -> models.FunctionsResponse:
    entries = [models.FunctionEntry(name=each.name, class_name=each.class_name) for each in found]
    return models.FunctionsResponse(functions=entries)
