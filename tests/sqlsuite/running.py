"""Files of the suite through a protocol: what differs from their golden files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from tests.sqlsuite import suite
from tests.sqlsuite.comparing import Difference, Error, Kind, Outcome, ProtocolName, Reading, Surroundings, difference
from tests.sqlsuite.place import Place
from tests.sqlsuite.protocols.connect import connect_session
from tests.sqlsuite.protocols.control import control_session
from tests.sqlsuite.protocols.rest import rest_session
from tests.sqlsuite.protocols.thrift import thrift_session
from tests.sqlsuite.suite import SuiteFile
from tests.sqlsuite.surroundings import preparing, tables_in
from tests.support.process import GatewayProcess

STATEMENT_SECONDS = 300.0
_DEATH_SECONDS = 10.0
_BINARY_STYLE = "spark.sql.binaryOutputStyle"


class Statements(Protocol):
    """A session that runs one statement after the other."""

    @property
    def reading(self) -> Reading:
        """Returns how the protocol writes types and values."""

    async def run(self, sql: str) -> Outcome:
        """Runs a statement to its end."""


SESSIONS: Mapping[ProtocolName, Callable[[GatewayProcess], AbstractAsyncContextManager[Statements]]] = {
    ProtocolName.REST: rest_session,
    ProtocolName.CONTROL: control_session,
    ProtocolName.THRIFT: thrift_session,
    ProtocolName.CONNECT: connect_session,
}


async def differences(place: Place, protocol: ProtocolName, name: str) -> tuple[Difference, ...]:
    """Runs a file and returns what differs. A driver that dies, or does not answer, is a difference; the file ends with it."""
    file = suite.read(name)
    gateway = await place.with_tables(tables_in(each.sql for each in file.statements))
    run = _Run(file, place)
    try:
        async with SESSIONS[protocol](gateway) as statements:
            await run.all(statements)
    except TimeoutError:
        run.lost(f"no answer within {STATEMENT_SECONDS:.0f} s")
        place.close()
    except Exception:
        if not place.has_died(_DEATH_SECONDS):
            raise
        run.lost("the driver has died")
        place.close()
    return tuple(run.found)


class _Run:
    """One run of a file. `found` are the differences so far."""

    def __init__(self, file: SuiteFile, place: Place) -> None:
        self.found: list[Difference] = []
        self._file = file
        self._surroundings = Surroundings(file.settings.get(_BINARY_STYLE, "UTF-8"), place.masks())
        self._number = 0

    async def all(self, statements: Statements) -> None:
        for sql in preparing(self._file.name, self._file.settings):
            outcome = await statements.run(sql)
            if isinstance(outcome, Error):
                self.found.append(Difference(0, Kind.FAILED, sql, "", outcome.message))
        for number, golden in enumerate(self._file.statements, 1):
            self._number = number
            async with asyncio.timeout(STATEMENT_SECONDS):
                outcome = await statements.run(golden.sql)
            expected = [golden.result, *(each.result for each in self._file.others[number - 1 : number])]
            found = difference(number, golden.sql, expected, outcome, statements.reading, self._surroundings)
            self.found += [] if found is None else [found]

    def lost(self, message: str) -> None:
        sql = self._file.statements[self._number - 1].sql if self._number else ""
        self.found.append(Difference(self._number, Kind.LOST, sql, "", message))
