"""Statements over HiveServer2, whose types are Hive's; lists, maps and structs are JSON."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sparksql.protocols.hiveserver2 import messages as m
from sparksql.wire.driver import CONFIG_FILE, DriverConfig
from tests.sqlsuite.comparing import Answer, Error, Outcome
from tests.sqlsuite.decoding import decimal_of, from_json, from_text, parse_json
from tests.sqlsuite.protocols.errors import told_error
from tests.sqlsuite.types import Type
from tests.support.process import GatewayProcess
from tests.support.thrift_client import Fields, ThriftClient, rows_of

_PROTOCOL = 9  # V10
_OTHER_NAMES = {"timestamp_ntz": "TIMESTAMP", "void": "NULL"}
_TEXT_IN_SPARK = ("interval", "variant", "geometry", "geography", "time", "void")
_SECONDS = 600.0
_PAGE_ROWS = 10_000
_NO_STATE = "HY000"  # JDBC's general error: clients want a SQLSTATE where Spark has none
_NO_COLUMNS = (("Result", "STRING"),)


class ThriftReading:
    """Types and values of HiveServer2."""

    def type_of(self, kind: Type) -> str:
        """Returns Hive's type; of what is nested only the kind, and a text for what Hive has no name for."""
        if (kind.name in _TEXT_IN_SPARK and kind.name != "void") or kind.name == "string":
            return "STRING"
        name = _OTHER_NAMES.get(kind.name, kind.name.upper())
        return kind.text.upper() if kind.name in ("decimal", "char", "varchar") else name

    def value(self, raw: Any, kind: Type) -> Any:
        """Returns the value of a typed column, of a JSON text, or of a text that stands for another type."""
        if isinstance(raw, bytes) and kind.name != "binary":
            raw = raw.decode()
        if raw is None or not isinstance(raw, str):
            return raw
        if kind.has(*_TEXT_IN_SPARK):
            return from_text(raw, kind)
        if kind.parts:
            return from_json(parse_json(raw), kind)
        return decimal_of(raw, kind) if kind.name == "decimal" else raw


@asynccontextmanager
async def thrift_session(gateway: GatewayProcess) -> AsyncIterator[ThriftStatements]:
    """A session of a connection of its own."""
    config = DriverConfig.model_validate_json((gateway.folder / "config" / CONFIG_FILE).read_text())
    port = config.endpoints.thrift_port
    with await asyncio.to_thread(ThriftClient, port, gateway.client_tls(), seconds=_SECONDS) as client:
        yield await asyncio.to_thread(ThriftStatements, client)


class ThriftStatements:
    """Statements of one session."""

    reading = ThriftReading()

    def __init__(self, client: ThriftClient) -> None:
        self._client = client
        opened = client.call("OpenSession", m.TOpenSessionReq(_PROTOCOL, "ada", {}))
        assert opened[1] == {1: 0}, opened
        self._handle = m.TSessionHandle(_identifier(opened[3]))

    async def run(self, sql: str) -> Outcome:
        """Runs a statement to its end. Raises OSError or EOFError where the driver no longer exists."""
        return await asyncio.to_thread(self._run, sql)

    def _run(self, sql: str) -> Outcome:
        executed = self._client.call("ExecuteStatement", m.TExecuteStatementReq(self._handle, sql))
        if executed[1][1] != 0:
            return _error(executed[1])
        operation = m.TOperationHandle(_identifier(executed[2]), executed[2][2])
        try:
            return self._answer(operation)
        finally:
            self._client.call("CloseOperation", m.OperationRequest(operation))

    def _answer(self, operation: m.TOperationHandle) -> Outcome:
        described = self._client.call("GetResultSetMetadata", m.OperationRequest(operation))
        if described[1][1] != 0:
            return _error(described[1])
        columns = tuple(_column(each) for each in described[2][1])
        rows: list[tuple[Any, ...]] = []
        while True:
            fetched = self._client.call("FetchResults", m.TFetchResultsReq(operation, 0, _PAGE_ROWS))
            if fetched[1][1] != 0:
                return _error(fetched[1])
            page = rows_of(fetched)
            if not page:
                return Answer((), ()) if columns == _NO_COLUMNS and not rows else Answer(columns, tuple(rows))
            rows += page


def _identifier(handle: Fields) -> m.THandleIdentifier:
    return m.THandleIdentifier(handle[1][1], handle[1][2])


def _column(described: Fields) -> tuple[str, str]:
    entry = described[2][1][0][1]
    name = m.TTypeId(entry[1]).name.removesuffix("_TYPE")
    qualifiers = {key: value[1] for key, value in entry.get(2, {1: {}})[1].items()}
    numbers = [str(qualifiers[k]) for k in (b"characterMaximumLength", b"precision", b"scale") if k in qualifiers]
    return described[1].decode(), f"{name}({','.join(numbers)})" if numbers else name


def _error(status: Fields) -> Error:
    state = status[3].decode() if 3 in status else None
    return told_error(status[5].decode(), None if state == _NO_STATE else state)
