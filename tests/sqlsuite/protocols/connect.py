"""Statements over Spark Connect, whose types are Spark's and whose values are Arrow's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pyspark.sql.connect.types import proto_schema_to_pyspark_data_type

from tests.sqlsuite.arrow import rows, table_of
from tests.sqlsuite.comparing import Answer, Error, Outcome
from tests.sqlsuite.types import Type
from tests.support.connect_client import ConnectSession, Failed, connect_channel
from tests.support.process import GatewayProcess


class ConnectReading:
    """Types and values of Spark Connect: values are those of Arrow's columns, read by `arrow.rows` before."""

    def type_of(self, kind: Type) -> str:
        """Returns the type as it is."""
        return kind.text

    def value(self, raw: Any, kind: Type) -> Any:
        """Returns the value as it is."""
        return raw


@asynccontextmanager
async def connect_session(gateway: GatewayProcess) -> AsyncIterator[ConnectStatements]:
    """A session of a client of its own."""
    async with connect_channel(gateway) as channel:
        session = ConnectSession(channel)
        try:
            yield ConnectStatements(session)
        finally:
            await session.close()


class ConnectStatements:
    """Statements of one session, each in Spark's two steps: the command, then the relation that it gave."""

    reading = ConnectReading()

    def __init__(self, session: ConnectSession) -> None:
        self._session = session

    async def run(self, sql: str) -> Outcome:
        """Runs a statement to its end. Raises Failed with UNAVAILABLE where the driver no longer exists."""
        try:
            command = await self._session.sql(sql)
            read = await self._session.execute(root=command.relation)
        except Failed as failed:
            failure = failed.failure
            if failure.condition is None and failure.code.name == "UNAVAILABLE":
                raise
            return Error(failure.condition, failure.sql_state, failure.message)
        schema = next(response.schema for response in read.responses if response.HasField("schema"))
        fields = proto_schema_to_pyspark_data_type(schema).fields
        columns = tuple((field.name, field.dataType.simpleString()) for field in fields)
        batches = [response.arrow_batch.data for response in read.responses if response.HasField("arrow_batch")]
        return Answer(columns, tuple(row for data in batches for row in rows(table_of(data))))
