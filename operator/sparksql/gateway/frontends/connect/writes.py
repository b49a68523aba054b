"""Which path-based tables and folders a request writes, so that they can be held alone while it does.

All calls block and take what Spark itself makes of the request, with the client's own parameters bound. Requests that write
nothing, or only to transactional tables, have no targets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql.connect.proto import base_pb2 as wire

from sparksql.gateway.execution.writes.targets import write_targets
from sparksql.gateway.frontends.connect.backend import Backend, SessionKey
from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.spark.scala import elements, option
from sparksql.gateway.spark.shapes import JvmSession
from sparksql.gateway.sql.kinds import Kind

_SESSION_CATALOG = "spark_catalog"
_MAY_WRITE_PATHS = frozenset({"TRUNCATE", "LOAD", "ALTER TABLE"})


def may_write(request: wire.ExecutePlanRequest, kind: Kind | None) -> bool:
    """Returns whether it is worth asking for the targets."""
    command = request.plan.command.WhichOneof("command_type") if request.plan.HasField("command") else None
    if command == "sql_command":
        return kind is not None and (kind.dml or kind.type in _MAY_WRITE_PATHS)
    return command in ("write_operation", "write_operation_v2")


def targets(backend: Backend, key: SessionKey, session: JvmSession, request: wire.ExecutePlanRequest) -> frozenset[str]:
    """Returns qualified URIs of the path-based tables that a request writes.

    Raises what Spark raises for a request that it refuses.
    """
    driver, command = backend.driver, request.plan.command
    files = HadoopFiles(driver.jvm, driver.context._jsc.hadoopConfiguration())
    driver.activate(session)
    try:
        match command.WhichOneof("command_type"):
            case "sql_command":
                return _of_sql(backend, key, session, command.sql_command, files)
            case "write_operation":
                written = command.write_operation
                name = written.table.table_name if written.HasField("table") else None
                found = _written(session, name, written.path or None, written.options)
            case "write_operation_v2":
                written = command.write_operation_v2
                found = _written(session, written.table_name, None, {**written.options, **written.table_properties})
            case _:
                return frozenset()
        return frozenset(files.qualified(path) for path in found)
    finally:
        driver.deactivate()


def _of_sql(backend: Backend, key: SessionKey, session: JvmSession, command: Any, files: HadoopFiles) -> frozenset[str]:
    driver, asked = backend.driver, command.input
    if asked.WhichOneof("rel_type") == "with_relations":
        # Connect's own way with these executes the command at once.
        session = session.cloneSession()
        driver.activate(session)
        for reference in asked.with_relations.references:
            named = reference.subquery_alias
            frame = driver.of_rows(session, backend.plan(key, named.input.SerializeToString()))
            frame.createOrReplaceTempView(named.alias)
        asked = asked.with_relations.root
    plan = (
        session.sessionState().sqlParser().parsePlan(command.sql)
        if command.sql
        else backend.plan(key, asked.SerializeToString())
    )
    return write_targets(session, driver.analyse(session, plan).analyzed(), files)


def _written(session: JvmSession, table: str | None, path: str | None, options: Mapping[str, str]) -> Iterator[str]:
    location = path or next((value for key, value in options.items() if key.lower() == "path"), None)
    if table is None:
        if location is not None:
            yield location
        return
    identifier = _in_session_catalog(session, table)
    if identifier is None:
        return
    catalog = session.sessionState().catalog()
    if catalog.tableExists(identifier):
        existing = option(catalog.getTableMetadata(identifier).storage().locationUri())
        if existing is not None:
            yield str(existing.toString())
    elif location is None:
        yield str(catalog.defaultTablePath(identifier).toString())
    if location is not None:
        yield location


def _in_session_catalog(session: JvmSession, table: str) -> Any | None:
    """The table's identifier, None for one of another catalog."""
    state = session.sessionState()
    parts = [str(part) for part in elements(state.sqlParser().parseMultipartIdentifier(table))]
    if parts[0] == _SESSION_CATALOG:
        parts = parts[1:]
    elif (
        state.catalogManager().isCatalogRegistered(parts[0])
        or str(state.catalogManager().currentCatalog().name()) != _SESSION_CATALOG
    ):
        return None
    if len(parts) not in (1, 2):
        return None
    quoted = ".".join("`" + part.replace("`", "``") + "`" for part in parts)
    return state.sqlParser().parseTableIdentifier(quoted)
