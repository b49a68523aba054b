"""The calls of TCLIService, answered from the session service.

A client's mistake is a status in the call's own answer. Invariants: a call waits for nothing but the statement that it is
about, and holds no thread while it does; what a connection opened is closed with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from datetime import datetime
from typing import Any

from sparksql.gateway.catalog.catalog import Catalog
from sparksql.gateway.frontends.ahead import MOST_BYTES
from sparksql.gateway.frontends.thrift import errors, listings
from sparksql.gateway.frontends.thrift.errors import ThriftError
from sparksql.gateway.frontends.thrift.fetching import Fetched, FetchedAhead, fetched
from sparksql.gateway.frontends.thrift.info import info_value
from sparksql.gateway.frontends.thrift.listings import Listing, jdbc_pattern
from sparksql.gateway.frontends.thrift.operations import (
    Handles,
    ResultColumn,
    ThriftOperation,
    ThriftSession,
    listing_columns,
    no_rows,
    schema_of,
    statement_columns,
)
from sparksql.gateway.frontends.thrift.types import hive_type
from sparksql.gateway.frontends.thrift.unbounded import next_rows
from sparksql.gateway.sessions.model import ClientError, OperationInfo, OperationStatus, Problem
from sparksql.gateway.sessions.service import SessionService
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.protocols.hiveserver2 import messages
from sparksql.protocols.hiveserver2.codec import Struct
from sparksql.protocols.hiveserver2.messages import (
    FetchType,
    OperationRequest,
    OperationResponse,
    SessionRequest,
    StatusResponse,
    TFetchOrientation,
    TOperationState,
    TOperationType,
)
from sparksql.protocols.hiveserver2.properties import read_configuration, use_statement
from sparksql.wire.control import ClientProtocol
from sparksql.wire.front import new_handle_beside

POLL_SECONDS = 0.5  # clients ask for a status without a pause of their own; meanwhile they can send no cancel
MAX_LISTINGS = 16  # of one session; clients read them at once, so the oldest is closed
_PAGE_ROWS = 50_000  # a page has about 4 MiB whatever its rows
_KEPT_OPERATIONS = 2_000  # of one session, before those that have expired are forgotten
_WAIT_SECONDS = 60.0
_LOG_COLUMNS = (ResultColumn("Log", hive_type("string")),)


class Calls:
    """Answers the calls of one connection; every method raises ClientError or ThriftError.

    `user` is what the client calls itself.
    """

    def __init__(self, service: SessionService, handles: Handles, ahead: FetchedAhead, user: str) -> None:
        self._service = service
        self._handles = handles
        self._ahead = ahead
        self._user = user
        self._opened: set[str] = set()

    async def close(self) -> None:
        """Closes the sessions that the connection opened and has not closed."""
        for handle in list(self._opened):
            with contextlib.suppress(ClientError):  # it has expired
                await self._service.close(handle)
            self._forget(handle)

    def keep_alive(self) -> None:
        """Counts the connection as use of its sessions."""
        for handle in list(self._opened):
            with contextlib.suppress(ClientError):
                self._service.session(handle)

    # Sessions

    async def open_session(self, request: messages.TOpenSessionReq) -> Struct:
        """Answers OpenSession: makes a session with the client's properties, in the schema that it asks for.

        The version of the protocol is the lower one of the client's and NEWEST_PROTOCOL.
        """
        configuration = read_configuration(request.configuration)
        opened = await self._service.open(ClientProtocol.THRIFT, self._user, configuration.properties)
        self._opened.add(opened.handle)
        self._service.on_close(opened.handle, self._forget)
        protocol = max(0, min(request.client_protocol, messages.NEWEST_PROTOCOL))
        session = ThriftSession(opened.handle, protocol)
        self._handles.add_session(session)
        if configuration.database is not None:
            view = await self._service.run(opened.handle, use_statement(configuration.database))
            self._service.close_operation(opened.handle, view.handle)
            if view.status is not OperationStatus.FINISHED:
                await self._service.close(opened.handle)
                raise ThriftError(errors.statement_failure(view))
        return messages.TOpenSessionResp(
            server_protocol_version=protocol, session_handle=session.on_wire, configuration={}
        )

    async def close_session(self, request: SessionRequest) -> Struct:
        """Answers CloseSession: closes the session and all that it holds."""
        session = self._handles.session(request.session_handle)
        await self._service.close(session.handle)
        self._forget(session.handle)
        return StatusResponse()

    async def set_client_info(self, request: SessionRequest) -> Struct:
        """Answers SetClientInfo, of which nothing is kept."""
        self._session(request)
        return StatusResponse()

    async def get_info(self, request: messages.TGetInfoReq) -> Struct:
        """Answers GetInfo: names, the version of Spark, quoting and lengths.

        Raises ThriftError for other types of information.
        """
        session = self._session(request)
        if request.info_type == messages.TGetInfoType.CLI_DBMS_VER:
            version = await self._service.with_session(session.handle, _spark_version)
            return messages.TGetInfoResp(info_value=messages.TGetInfoValue(version))
        return messages.TGetInfoResp(info_value=info_value(request.info_type))

    # Statements

    async def execute_statement(self, request: messages.TExecuteStatementReq) -> Struct:
        """Answers ExecuteStatement: submits a statement, and waits until its rows can be fetched unless the client will.

        A statement that is waited for is closed when its client leaves or when it fails, which raises ThriftError.
        """
        session = self._session(request)
        conf = read_configuration(request.conf_overlay).properties
        seconds = max(0, request.query_timeout)
        handle = self._service.submit(session.handle, request.statement, conf=conf, execution_seconds=seconds)
        if not request.run_async:
            try:
                view = await self._readable(session, handle)
            except asyncio.CancelledError:  # the client has left
                with contextlib.suppress(ClientError):
                    self._service.close_operation(session.handle, handle)
                raise
            if not (view.unbounded or view.status is OperationStatus.FINISHED):
                self._service.close_operation(session.handle, handle)
                raise ThriftError(errors.statement_failure(view))
        operation = ThriftOperation(handle, session, TOperationType.EXECUTE_STATEMENT)
        self._handles.add_operation(operation)
        self._tidy(session)
        return OperationResponse(operation_handle=operation.on_wire)

    async def get_operation_status(self, request: messages.TGetOperationStatusReq) -> Struct:
        """Answers GetOperationStatus; waits up to POLL_SECONDS for the rows of an operation that runs.

        A query without end is finished for a client once its rows can be fetched.
        """
        operation = self._handles.operation(request.operation_handle)
        progress = messages.TProgressUpdateResp([], []) if request.get_progress_update else None
        if operation.listing is not None:
            return messages.TGetOperationStatusResp(
                operation_state=TOperationState.FINISHED_STATE, has_result_set=True, progress_update_response=progress
            )
        view = self._service.operation(operation.session.handle, operation.handle)
        if not view.status.is_terminal:
            view = await self._service.wait_for_rows(operation.session.handle, operation.handle, POLL_SECONDS)
        is_bad = view.status.is_terminal and view.status is not OperationStatus.FINISHED
        failure = errors.statement_failure(view) if is_bad else None
        return messages.TGetOperationStatusResp(
            operation_state=errors.state_of(OperationStatus.FINISHED if view.unbounded else view.status),
            sql_state=failure.sql_state if failure else None,
            error_code=failure.error_code if failure else None,
            error_message=failure.error_message if failure else None,
            operation_started=_milliseconds(view.started),
            operation_completed=_milliseconds(view.completed),
            has_result_set=True,
            progress_update_response=progress,
        )

    async def cancel_operation(self, request: OperationRequest) -> Struct:
        """Answers CancelOperation: begins to stop a statement; one that has ended and a listing are left as they are."""
        operation = self._handles.operation(request.operation_handle)
        if operation.listing is None:
            try:
                self._service.cancel(operation.session.handle, operation.handle)
            except ClientError as refused:
                if refused.problem is not Problem.ILLEGAL_TRANSITION:  # it has ended, which is what a cancel wants
                    raise
        return StatusResponse()

    async def close_operation(self, request: OperationRequest) -> Struct:
        """Answers CloseOperation: forgets an operation and its result."""
        operation = self._handles.operation(request.operation_handle)
        self._handles.drop_operation(operation)
        if operation.listing is None:
            self._service.close_operation(operation.session.handle, operation.handle)
        return StatusResponse()

    async def get_query_id(self, request: OperationRequest) -> Struct:
        """Answers GetQueryId with the operation's handle."""
        return messages.TGetQueryIdResp(self._handles.operation(request.operation_handle).handle)

    async def get_log(self, request: OperationRequest) -> Struct:
        """Answers GetLog with no text: no line is kept for clients."""
        self._handles.operation(request.operation_handle)
        return messages.TGetLogResp(log="")

    # Results

    async def get_result_set_metadata(self, request: OperationRequest) -> Struct:
        """Answers GetResultSetMetadata with the columns of an operation, for whose rows it waits."""
        columns, _ = await self._columns(self._handles.operation(request.operation_handle))
        return messages.TGetResultSetMetadataResp(schema=schema_of(columns))

    async def fetch_results(self, request: messages.TFetchResultsReq) -> Fetched:
        """Answers FetchResults with the next rows of an operation, for which it waits, or with the first ones.

        At most _PAGE_ROWS rows come at a time; of a log there are none. Raises ThriftError for another orientation.
        """
        operation = self._handles.operation(request.operation_handle)
        if request.fetch_type == FetchType.LOG:
            return await fetched(no_rows(_LOG_COLUMNS), _LOG_COLUMNS, 0, 0, operation.session.protocol)
        columns, is_unbounded = await self._columns(operation)
        most = min(request.max_rows if request.max_rows > 0 else _PAGE_ROWS, _PAGE_ROWS)
        match request.orientation:
            case TFetchOrientation.FETCH_NEXT if is_unbounded:
                return await next_rows(self._service, operation, columns, most)
            case TFetchOrientation.FETCH_FIRST if is_unbounded:
                message = "rows of a query over a STREAM can be fetched once: use FETCH_NEXT (0)"
                raise ThriftError(errors.refusal(message, errors.FETCH_OUT_OF_RANGE))
            case TFetchOrientation.FETCH_NEXT:
                first = operation.next_row
            case TFetchOrientation.FETCH_FIRST:
                first = 0
            case other:
                message = f"fetch orientation {other} is not served: there are FETCH_NEXT (0) and FETCH_FIRST (4)"
                raise ThriftError(errors.refusal(message, errors.FETCH_OUT_OF_RANGE))
        ready = await self._ahead.take(operation.handle, (first, most))
        answer = ready or await self._fetched(operation, columns, first, most)
        operation.next_row = first + answer.count
        if first > 0 and answer.has_more and len(answer.rows) <= MOST_BYTES:
            making = self._fetched(operation, columns, operation.next_row, most)
            self._ahead.begin(operation.handle, (operation.next_row, most), making)
        return answer

    async def _columns(self, operation: ThriftOperation) -> tuple[tuple[ResultColumn, ...], bool]:
        """Waits until a statement's rows can be fetched; also tells whether they come without end."""
        if operation.listing is not None:
            return listing_columns(operation.listing), False
        view = await self._readable(operation.session, operation.handle)
        if not (view.unbounded or view.status is OperationStatus.FINISHED):
            raise ThriftError(errors.statement_failure(view))
        return statement_columns(view), view.unbounded

    async def _fetched(
        self, operation: ThriftOperation, columns: tuple[ResultColumn, ...], first: int, most: int
    ) -> Fetched:
        """Rows of an ended operation from `first` on."""
        session = operation.session
        if operation.listing is not None:
            table = operation.listing.table()
            return await fetched(table.slice(first, most), columns, first, table.num_rows, session.protocol)
        view = self._service.operation(session.handle, operation.handle)
        if first >= view.row_count or not view.columns:
            return await fetched(no_rows(columns), columns, first, 0, session.protocol)
        table, _ = await self._service.page(session.handle, operation.handle, first, most)
        return await fetched(table, columns, first, view.row_count, session.protocol)

    async def _readable(self, session: ThriftSession, handle: str) -> OperationInfo:
        """Waits until the operation has ended or is known to be without end."""
        view = self._service.operation(session.handle, handle)
        while not (view.status.is_terminal or view.unbounded):
            view = await self._service.wait_for_rows(session.handle, handle, _WAIT_SECONDS)
        return view

    # The catalog

    async def get_type_info(self, request: SessionRequest) -> Struct:
        """Answers GetTypeInfo with a listing of the types that a column may have."""
        return self._listed(self._session(request), TOperationType.GET_TYPE_INFO, listings.type_info())

    async def get_table_types(self, request: SessionRequest) -> Struct:
        """Answers GetTableTypes with a listing of TABLE and VIEW."""
        return self._listed(self._session(request), TOperationType.GET_TABLE_TYPES, listings.table_types())

    async def get_primary_keys(self, request: SessionRequest) -> Struct:
        """Answers GetPrimaryKeys with an empty listing: Spark tells of no keys."""
        return self._listed(self._session(request), TOperationType.UNKNOWN, listings.primary_keys())

    async def get_cross_reference(self, request: SessionRequest) -> Struct:
        """Answers GetCrossReference with an empty listing: Spark tells of no keys."""
        return self._listed(self._session(request), TOperationType.UNKNOWN, listings.cross_reference())

    async def get_catalogs(self, request: SessionRequest) -> Struct:
        """Answers GetCatalogs with a listing of all catalogs of the session."""
        return await self._look(
            request, TOperationType.GET_CATALOGS, lambda catalog: listings.catalogs(catalog.catalogs())
        )

    async def get_schemas(self, request: messages.TGetSchemasReq) -> Struct:
        """Answers GetSchemas with a listing of the schemas whose names match."""
        schema = jdbc_pattern(request.schema_name)
        return await self._look(
            request,
            TOperationType.GET_SCHEMAS,
            lambda catalog: listings.schemas(catalog.schemas(request.catalog_name, schema)),
        )

    async def get_tables(self, request: messages.TGetTablesReq) -> Struct:
        """Answers GetTables with a listing of the tables and views that match, of all types if the client names none."""
        types = frozenset(name.upper() for name in request.table_types) if request.table_types else None
        schema, table = jdbc_pattern(request.schema_name), jdbc_pattern(request.table_name)
        return await self._look(
            request,
            TOperationType.GET_TABLES,
            lambda catalog: listings.tables(catalog.tables(request.catalog_name, schema, table, types)),
        )

    async def get_columns(self, request: messages.TGetColumnsReq) -> Struct:
        """Answers GetColumns with a listing of the columns that match."""
        schema, table, column = map(jdbc_pattern, (request.schema_name, request.table_name, request.column_name))
        return await self._look(
            request,
            TOperationType.GET_COLUMNS,
            lambda catalog: listings.columns(catalog.columns(request.catalog_name, schema, table, column)),
        )

    async def get_functions(self, request: messages.TGetFunctionsReq) -> Struct:
        """Answers GetFunctions with a listing of the functions that match."""
        schema, function = jdbc_pattern(request.schema_name), jdbc_pattern(request.function_name)
        return await self._look(
            request,
            TOperationType.GET_FUNCTIONS,
            lambda catalog: listings.functions(catalog.functions(request.catalog_name, schema, function)),
        )

    async def no_delegation(self, request: SessionRequest) -> Struct:
        """Refuses the calls of delegation tokens. Raises ThriftError."""
        message = "delegation tokens belong to Kerberos; every connection gives the session's token instead"
        raise ThriftError(errors.refusal(message, errors.NOT_SUPPORTED))

    async def _look(
        self, request: SessionRequest, kind: TOperationType, function: Callable[[Catalog], Listing]
    ) -> Struct:
        session = self._session(request)

        def look(driver: SparkDriver, spark: Any) -> Listing:
            return function(Catalog(driver, spark))

        return self._listed(session, kind, await self._service.with_session(session.handle, look))

    def _listed(self, session: ThriftSession, kind: TOperationType, listing: Listing) -> Struct:
        held = [operation for operation in session.operations.values() if operation.listing is not None]
        if len(held) >= MAX_LISTINGS:
            self._handles.drop_operation(held[0])
        operation = ThriftOperation(new_handle_beside(session.handle), session, kind, listing)
        self._handles.add_operation(operation)
        return OperationResponse(operation_handle=operation.on_wire)

    def _tidy(self, session: ThriftSession) -> None:
        """Forgets statements that their client never closed and the service has: looks at the two oldest each time."""
        if len(session.operations) <= _KEPT_OPERATIONS:
            return
        for operation in list(itertools.islice(session.operations.values(), 2)):
            self._handles.drop_operation(operation)
            with contextlib.suppress(ClientError):
                self._service.operation(session.handle, operation.handle)
                self._handles.add_operation(operation)

    def _session(self, request: SessionRequest) -> ThriftSession:
        session = self._handles.session(request.session_handle)
        self._service.session(session.handle)
        return session

    def _forget(self, handle: str) -> None:
        self._opened.discard(handle)
        self._handles.drop_session(handle)


def _spark_version(driver: SparkDriver, spark: Any) -> str:
    return str(driver.context.version)


def _milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp() * 1000)
