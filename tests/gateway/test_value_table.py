"""Each value of the table through each endpoint and in each format, at one and at two levels of other types."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from sparksql.cli import render
from sparksql.cli.cells import cell_text, printable
from sparksql.wire.control import Column, ResultOptions
from tests.support.connect_client import ConnectSession, connect_channel
from tests.support.process import GatewayProcess
from tests.support.thorough import thorough_but

from .client import API, GatewayClient
from .rest_client import RestClient
from .test_thrift_frontend import COLUMNS, ROWS, Frontend, Session, thrift_port
from .value_table import AT_ONE_LEVEL, AT_TWO_LEVELS, TABLE, ZONE, Value

SET_ZONE = "spark.sql.session.timeZone"
ONE_ROW = ResultOptions(max_rows=10, preview_rows=10)
CHUNK = 160  # columns of a query


def chunks(table: tuple[Value, ...]) -> list[list[Value]]:
    return [[*table[at : at + CHUNK]] for at in range(0, len(table), CHUNK)]


CHUNKED = pytest.mark.parametrize(
    "values", thorough_but(chunks(AT_ONE_LEVEL), chunks(AT_ONE_LEVEL) + chunks(AT_TWO_LEVELS))
)


def query(values: Sequence[Value], form: str = "{}") -> str:
    return f"SELECT {', '.join(f'{form.format(each.sql)} AS c{at}' for at, each in enumerate(values))}"


def differences(values: Sequence[Value], came: Any, expected: list[Any]) -> list[str]:
    """What came otherwise than expected."""
    cells = list(came)
    assert len(cells) == len(values)
    return [
        f"{value.sql}: {cell!r} instead of {wanted!r}"
        for value, cell, wanted in zip(values, cells, expected, strict=True)
        if not _is_same(cell, wanted)
    ]


def _is_same(cell: Any, wanted: Any) -> bool:
    """By their reprs, as NaN is not NaN and -0.0 is 0.0. JSON has one type of numbers."""
    match cell, wanted:
        case dict(), dict():
            return cell.keys() == wanted.keys() and all(_is_same(cell[key], wanted[key]) for key in cell)
        case list(), list():
            return len(cell) == len(wanted) and all(map(_is_same, cell, wanted))
        case (int(), float()) | (float(), int()):
            return bool(cell == wanted)
        case _:
            return repr(cell) == repr(wanted)


def test_table_of_values_has_each_type_alone_and_at_two_levels() -> None:
    assert len(AT_ONE_LEVEL) > 300
    assert len(AT_TWO_LEVELS) > 400
    assert len({each.sql for each in TABLE}) == len(TABLE)


@CHUNKED
async def test_value_in_status_is_what_spark_casts_to_a_text(client: GatewayClient, values: Sequence[Value]) -> None:
    shown = await client.ok(query(values), conf={SET_ZONE: ZONE}, result=ONE_ROW)
    assert shown.result is not None
    assert differences(values, shown.result.preview[0], [each.previewed for each in values]) == []
    [cast] = await client.rows(query(values, "CAST({} AS STRING)"), conf={SET_ZONE: ZONE})
    assert differences(values, cast, [each.text for each in values]) == []


@CHUNKED
async def test_value_in_json_pages_and_the_formats_of_the_plugin_is_that_of_the_table(
    client: GatewayClient, values: Sequence[Value]
) -> None:
    view = await client.ok(query(values), conf={SET_ZONE: ZONE}, result=ONE_ROW)
    [row] = [row async for row in client.pages(view.operation_id)]
    assert differences(values, row, [each.control for each in values]) == []
    assert view.result is not None
    columns = view.result.columns
    as_json = json.loads(render.json_row(render.json_names(columns), columns, row))
    assert differences(values, as_json.values(), [each.control for each in values]) == []
    texts = [cell_text(each.control) for each in values]
    [as_csv] = csv.reader(io.StringIO(render.csv_line(map(cell_text, row))))
    assert differences(values, as_csv, texts) == []
    assert differences(values, _vertical(columns, row), [_on_a_screen(text) for text in texts]) == []
    [line] = render.table(columns, [row]).splitlines()[2:]
    assert line.split() == " | ".join(printable("NULL" if text is None else text) for text in texts).split()


def _on_a_screen(text: str | None) -> str:
    return "NULL" if text is None else "\n".join(map(printable, text.split("\n")))


def _vertical(columns: tuple[Column, ...], row: tuple[Any, ...]) -> Iterator[str]:
    for column, cell in zip(columns, row, strict=True):
        _, *lines = render.expanded([column], [[cell]]).splitlines()
        yield "\n".join(line.partition(" | ")[2] if " | " in line else line.rpartition(" |")[2] for line in lines)


@CHUNKED
async def test_value_in_both_row_formats_of_rest_is_that_of_the_table(
    rest: RestClient, values: Sequence[Value]
) -> None:
    async with rest.session(**{SET_ZONE: ZONE}) as session:
        _, [row] = await session.run(query(values))
        assert differences(values, row, [each.rest for each in values]) == []
        _, [plain] = await session.run(query(values), "PLAIN_TEXT")
        assert differences(values, plain, [each.plain for each in values]) == []


@pytest.mark.parametrize("protocol", [COLUMNS, ROWS])
@CHUNKED
async def test_value_for_a_client_of_hiveserver2_is_that_of_the_table(
    client: GatewayClient, gateway: GatewayProcess, values: Sequence[Value], protocol: int
) -> None:
    row = await asyncio.to_thread(_by_hive, gateway, protocol, query(values))
    assert differences(values, row, [each.hive for each in values]) == []


def _by_hive(gateway: GatewayProcess, protocol: int, sql: str) -> tuple[Any, ...]:
    with Frontend(gateway, thrift_port(gateway)).connect() as connection:
        [row] = Session(connection, protocol, **{SET_ZONE: ZONE}).rows(sql)
        return row


@CHUNKED
async def test_value_in_arrow_is_what_sparks_own_server_sends(
    client: GatewayClient, rest: RestClient, gateway: GatewayProcess, values: Sequence[Value]
) -> None:
    """Of types that Arrow's clients do not all know the gateway sends the text; Connect's server is Spark's own."""
    view = await client.ok(query(values), conf={SET_ZONE: ZONE}, result=ONE_ROW)
    async with client.http.get(f"{API}/statements/{view.operation_id}/results", params={"format": "arrow"}) as answer:
        pages = pa.ipc.open_stream(await answer.read()).read_all()
    async with rest.session(**{SET_ZONE: ZONE}) as session:
        of_rest = await session.arrow(await session.submit(query(values)))
    theirs = iter(await _by_connect(gateway, [each for each in values if not each.is_text]))
    expected = [value.control if value.is_text else next(theirs) for value in values]
    assert differences(values, _cells(pages), expected) == []
    assert differences(values, _cells(of_rest), expected) == []


async def _by_connect(gateway: GatewayProcess, values: Sequence[Value]) -> list[Any]:
    async with connect_channel(gateway) as channel:
        spark = ConnectSession(channel)
        await spark.set_conf(SET_ZONE, ZONE)
        command = await spark.sql(query(values) if values else "SELECT 1 AS nothing")
        stream = await spark.execute(root=command.relation)
        await spark.close()
    [batch] = [each.arrow_batch.data for each in stream.responses if each.HasField("arrow_batch")]
    return _cells(pa.ipc.open_stream(batch).read_all())


def _cells(table: pa.Table) -> list[Any]:
    return [_plain(column[0]) for column in table.columns]


def _plain(scalar: Any) -> Any:
    """A value of Arrow as numbers and texts: Python's own dates end with the year 9999."""
    if not scalar.is_valid:
        return None
    match scalar:
        case pa.MapScalar() | pa.ListScalar():
            return [_plain(each) for each in scalar.values]
        case pa.StructScalar():
            return {name: _plain(inner) for name, inner in scalar.items()}
        case pa.TimestampScalar() | pa.Date32Scalar():
            return scalar.value
        case pa.StringScalar():  # Spark's own server sends invalid UTF-8
            return scalar.as_buffer().to_pybytes().decode(errors="replace")
        case _:
            return scalar.as_py()
