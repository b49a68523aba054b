"""Statements over the REST API, whose types are Flink's and whose values are JSON."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.gateway.rest_client import Answer as Response
from tests.gateway.rest_client import RestSession, connect_rest
from tests.sqlsuite.comparing import Answer, Error, Outcome
from tests.sqlsuite.decoding import FLINK, SPARK, from_json, from_text, parse_json
from tests.sqlsuite.protocols.errors import told_error
from tests.sqlsuite.types import Type
from tests.support.process import GatewayProcess

_NAMES = {
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "string": "VARCHAR(2147483647)",
    "binary": "VARBINARY(2147483647)",
    "timestamp": "TIMESTAMP_WITH_LOCAL_TIME_ZONE(6)",
    "timestamp_ntz": "TIMESTAMP_WITHOUT_TIME_ZONE(6)",
}
_TEXT = "VARCHAR(2147483647)"
_TEXT_IN_SPARK = ("interval", "variant", "geometry", "geography", "time", "void")


class RestReading:
    """Types and values of the REST API."""

    def type_of(self, kind: Type) -> str:
        """Returns Flink's type; what Flink's clients cannot read is text."""
        if _is_text(kind):
            return _TEXT
        match kind.name:
            case "array":
                return f"ARRAY<{self.type_of(kind.parts[0])}>"
            case "map":
                return f"MAP<{','.join(self.type_of(part) for part in kind.parts)}>"
            case "struct":
                fields = (f"{n} {self.type_of(part)}" for n, part in zip(kind.names, kind.parts, strict=True))
                return f"ROW<{','.join(fields)}>"
            case "decimal" | "char" | "varchar":
                return kind.text.upper()
            case _:
                return _NAMES[kind.name]

    def value(self, raw: Any, kind: Type) -> Any:
        """Returns the value of a JSON value, or of a text that stands for one of another type."""
        if raw is None or kind.name in ("string", "char", "varchar"):
            return raw
        if _is_text(kind):
            return from_text(raw, kind, SPARK if kind.has(*_TEXT_IN_SPARK) else FLINK)
        return from_json(raw, kind)


def _is_text(kind: Type) -> bool:
    if kind.name == "map" and kind.parts[0].name not in ("string", "char", "varchar"):
        return True
    if len({name.lower() for name in kind.names}) < len(kind.names):
        return True
    return kind.name in _TEXT_IN_SPARK or any(_is_text(part) for part in kind.parts)


@asynccontextmanager
async def rest_session(gateway: GatewayProcess) -> AsyncIterator[RestStatements]:
    """A session of a client of its own."""
    async with connect_rest(gateway) as client, client.session() as session:
        yield RestStatements(session)


class RestStatements:
    """Statements of one session."""

    reading = RestReading()

    def __init__(self, session: RestSession) -> None:
        self._session = session

    async def run(self, sql: str) -> Outcome:
        """Runs a statement to its end. Raises aiohttp.ClientError where the driver no longer exists."""
        path = f"{self._session.path}/statements"
        submitted = await self._session.client.call("POST", path, {"statement": sql})
        if submitted.status != 200:
            return _error(submitted)
        operation = str(submitted.body["operationHandle"])
        try:
            return await self._result(operation)
        finally:
            await self._session.client.call("DELETE", f"{self._session.path}/operations/{operation}/close")

    async def _result(self, operation: str) -> Outcome:
        columns: tuple[tuple[str, str], ...] = ()
        rows: list[tuple[Any, ...]] = []
        token = 0
        while True:
            page = await self._session.page(operation, token)
            if page.status != 200:
                return _error(page)
            body = parse_json(page.raw.decode())
            columns = columns or _columns(body)
            rows += [tuple(row["fields"]) for row in body["results"]["data"]]
            if body["resultType"] == "EOS":
                return Answer((), ()) if _is_of_command(body) else Answer(columns, tuple(rows))
            token += 1


def _is_of_command(body: dict[str, Any]) -> bool:
    """Whether the rows are not the statement's own: OK, or the id of an INSERT's job."""
    return body["resultKind"] == "SUCCESS" or ("jobID" in body and not body["isQueryResult"])


def _columns(body: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((each["name"], _type(each["logicalType"])) for each in body["results"]["columns"])


def _type(logical: dict[str, Any]) -> str:
    match logical["type"]:
        case "ARRAY":
            return f"ARRAY<{_type(logical['elementType'])}>"
        case "MAP":
            return f"MAP<{_type(logical['keyType'])},{_type(logical['valueType'])}>"
        case "ROW":
            return "ROW<" + ",".join(f"{each['name']} {_type(each['fieldType'])}" for each in logical["fields"]) + ">"
        case name:
            numbers = [str(logical[key]) for key in ("length", "precision", "scale") if logical.get(key) is not None]
            return f"{name}({','.join(numbers)})" if numbers else str(name)


def _error(response: Response) -> Error:
    """Spark's error as it is told in the last cause: class, condition, message, SQLSTATE, place."""
    return told_error(response.told)
