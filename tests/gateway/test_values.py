"""One table of values: what each endpoint shows of each. Status shows what Spark's own cast to STRING does."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import Any

import pytest

from sparksql.wire.control import ResultOptions
from tests.support.process import GatewayProcess

from .client import GatewayClient
from .rest_client import RestClient
from .test_thrift_frontend import Frontend, Session, thrift_port

ZONE = "America/New_York"
NAN = pytest.approx(math.nan, nan_ok=True)


@dataclass(frozen=True)
class Shown:
    """A value in SQL; as the control API and REST have it in JSON, REST in PLAIN_TEXT, and HiveServer2."""

    sql: str
    control: Any
    rest: Any
    plain: Any
    hive: Any


VALUES = (
    Shown('true', True, True, 'TRUE', True),
    Shown('7Y', 7, 7, '7', 7),
    Shown('-9223372036854775808L', -9223372036854775808, -9223372036854775808, '-9223372036854775808', -9223372036854775808),
    Shown('CAST(0.1 AS FLOAT)', 0.1, 0.1, '0.1', 0.1),
    Shown('0.1D', 0.1, 0.1, '0.1', 0.1),
    Shown('1e10', 10000000000.0, 10000000000.0, '1.0E10', 10000000000.0),
    Shown('1.0E-5D', 1e-05, 1e-05, '1.0E-5', 1e-05),
    Shown("CAST('NaN' AS DOUBLE)", 'NaN', 'NaN', 'NaN', NAN),
    Shown("CAST('-Infinity' AS FLOAT)", '-Infinity', '-Infinity', '-Infinity', -math.inf),
    Shown('-0.0D', -0.0, -0.0, '-0.0', -0.0),
    Shown('1.50', '1.50', 1.5, '1.50', '1.50'),
    Shown('CAST(1000 AS DECIMAL(10,0))', '1000', 1000.0, '1000', '1000'),
    Shown('CAST(0 AS DECIMAL(20,10))', '0.0000000000', 0, '0.0000000000', '0.0000000000'),
    Shown('12345678901234567890123456789012345678', '12345678901234567890123456789012345678', 12345678901234567890123456789012345678, '12345678901234567890123456789012345678', '12345678901234567890123456789012345678'),
    Shown('\'a"\\n\\\\\'', 'a"\n\\', 'a"\n\\', 'a"\n\\', 'a"\n\\'),
    Shown("''", '', '', '', ''),
    Shown("CAST(X'53E9A2' AS STRING)", 'S�', 'S�', 'S�', 'S�'),
    Shown("X'6869'", 'aGk=', 'aGk=', "x'6869'", 'hi'),
    Shown("X''", '', '', "x''", ''),
    Shown("DATE'2026-01-31'", '2026-01-31', '2026-01-31', '2026-01-31', '2026-01-31'),
    Shown("DATE'-0044-03-15'", '-0044-03-15', '-0044-03-15', '-0044-03-15', '-0044-03-15'),
    Shown("DATE'+12345-01-31'", '+12345-01-31', '+12345-01-31', '+12345-01-31', '+12345-01-31'),
    Shown("TIMESTAMP'2024-01-01 07:00:00'", '2024-01-01 07:00:00', '2024-01-01T07:00:00Z', '2024-01-01 07:00:00.000000', '2024-01-01 07:00:00'),
    Shown("TIMESTAMP'2024-07-01 07:00:00.5'", '2024-07-01 07:00:00.5', '2024-07-01T07:00:00.5Z', '2024-07-01 07:00:00.500000', '2024-07-01 07:00:00.5'),
    Shown("TIMESTAMP'1883-01-01 00:00:00'", '1883-01-01 00:00:00', '1883-01-01T00:00:00Z', '1883-01-01 00:00:00.000000', '1883-01-01 00:00:00'),
    Shown("TIMESTAMP'+12345-07-01 12:00:00'", '+12345-07-01 12:00:00', '+12345-07-01T12:00:00Z', '+12345-07-01 12:00:00.000000', '+12345-07-01 12:00:00'),
    Shown("TIMESTAMP'-0044-03-15 12:00:00'", '-0044-03-15 12:00:00', '-0044-03-15T12:00:00Z', '-0044-03-15 12:00:00.000000', '-0044-03-15 12:00:00'),
    Shown("TIMESTAMP_NTZ'2024-01-01 07:00:00.000001'", '2024-01-01 07:00:00.000001', '2024-01-01T07:00:00.000001', '2024-01-01 07:00:00.000001', '2024-01-01 07:00:00.000001'),
    Shown('array(timestamp_seconds(1704110400))', ['2024-01-01 07:00:00'], ['2024-01-01T07:00:00Z'], '[2024-01-01 07:00:00.000000]', '["2024-01-01 07:00:00"]'),
    Shown("map('k', timestamp_seconds(1704110400))", {'k': '2024-01-01 07:00:00'}, {'k': '2024-01-01T07:00:00Z'}, '{k=2024-01-01 07:00:00.000000}', '{"k":"2024-01-01 07:00:00"}'),
    Shown("named_struct('t', timestamp_seconds(1704110400))", {'t': '2024-01-01 07:00:00'}, {'t': '2024-01-01T07:00:00Z'}, '(2024-01-01 07:00:00.000000)', '{"t":"2024-01-01 07:00:00"}'),
    Shown('array(CAST(0.1 AS FLOAT), NULL)', [0.1, None], [0.1, None], '[0.1, NULL]', '[0.1,null]'),
    Shown('array(1.50, NULL)', ['1.50', None], [1.5, None], '[1.50, NULL]', '[1.50,null]'),
    Shown("array(DATE'-0044-03-15')", ['-0044-03-15'], ['-0044-03-15'], '[-0044-03-15]', '["-0044-03-15"]'),
    Shown("array(X'6869')", ['aGk='], ['aGk='], "[x'6869']", '["aGk="]'),
    Shown("array(CAST(X'53E9A2' AS STRING))", ['S�'], ['S�'], '[S�]', '["S�"]'),
    Shown("array(CAST('NaN' AS DOUBLE))", ['NaN'], ['NaN'], '[NaN]', '["NaN"]'),
    Shown("map(1, 'a')", {'1': 'a'}, '{1=a}', '{1=a}', '{"1":"a"}'),
    Shown("map(named_struct('a', 1), 2)", {'{1}': 2}, '{(1)=2}', '{(1)=2}', '{"{\\"a\\":1}":2}'),
    Shown("map(DATE'2026-01-31', true)", {'2026-01-31': True}, '{2026-01-31=TRUE}', '{2026-01-31=TRUE}', '{"2026-01-31":true}'),
    Shown('map(\'a"\', array(map(1.5D, CAST(NULL AS INT))))', {'a"': [{'1.5': None}]}, '{a"=[{1.5=NULL}]}', '{a"=[{1.5=NULL}]}', '{"a\\"":[{"1.5":null}]}'),
    Shown("named_struct('variant', 'A1', 'b', 'red')", {'variant': 'A1', 'b': 'red'}, {'variant': 'A1', 'b': 'red'}, '(A1, red)', '{"variant":"A1","b":"red"}'),
    Shown("named_struct('a:int,b', 'x')", {'a:int,b': 'x'}, {'a:int,b': 'x'}, '(x)', '{"a:int,b":"x"}'),
    Shown("named_struct('time(', 1)", {'time(': 1}, {'time(': 1}, '(1)', '{"time(":1}'),
    Shown("array(named_struct('a', CAST(NULL AS INT), 'b', ''))", [{'a': None, 'b': ''}], [{'a': None, 'b': ''}], '[(NULL, )]', '[{"a":null,"b":""}]'),
    Shown('array()', '[]', '[]', '[]', '[]'),
    Shown('map()', '{}', '{}', '{}', '{}'),
    Shown('CAST(NULL AS ARRAY<INT>)', None, None, None, None),
    Shown('NULL', None, None, None, None),
    Shown("INTERVAL '1-2' YEAR TO MONTH", "INTERVAL '1-2' YEAR TO MONTH", "INTERVAL '1-2' YEAR TO MONTH", "INTERVAL '1-2' YEAR TO MONTH", "INTERVAL '1-2' YEAR TO MONTH"),
    Shown("INTERVAL '1 02:03:04.5' DAY TO SECOND", "INTERVAL '1 02:03:04.5' DAY TO SECOND", "INTERVAL '1 02:03:04.5' DAY TO SECOND", "INTERVAL '1 02:03:04.5' DAY TO SECOND", "INTERVAL '1 02:03:04.5' DAY TO SECOND"),
    Shown("array(INTERVAL '1' MONTH)", "[INTERVAL '1' MONTH]", "[INTERVAL '1' MONTH]", "[INTERVAL '1' MONTH]", "[INTERVAL '1' MONTH]"),
    Shown('make_interval(1, 2, 0, 3, 4)', '1 years 2 months 3 days 4 hours', '1 years 2 months 3 days 4 hours', '1 years 2 months 3 days 4 hours', '1 years 2 months 3 days 4 hours'),
    Shown('parse_json(\'{"a": [1, null]}\')', '{"a":[1,null]}', '{"a":[1,null]}', '{"a":[1,null]}', '{"a":[1,null]}'),
    Shown("named_struct('v', parse_json('[1]'))", '{[1]}', '{[1]}', '{[1]}', '{[1]}'),
)  # fmt: skip
BINARIES = ("X'6869'", "X''", "array(X'6869')")  # Spark's cast takes their bytes for a text
ROWS = ResultOptions(max_rows=10, preview_rows=10)
SELECTED = ", ".join(f"{each.sql} AS c{place}" for place, each in enumerate(VALUES))
CAST = ", ".join(f"CAST({each.sql} AS STRING) AS c{place}" for place, each in enumerate(VALUES))


async def test_a_value_is_the_same_through_every_endpoint(
    client: GatewayClient, rest: RestClient, gateway: GatewayProcess
) -> None:
    await client.ok(f"SET TIME ZONE '{ZONE}'")
    try:
        view, cast = await client.ok(f"SELECT {SELECTED}", result=ROWS), await client.ok(f"SELECT {CAST}", result=ROWS)
        (control,) = [row async for row in client.pages(view.operation_id)]
    finally:
        await client.ok("RESET spark.sql.session.timeZone")
    async with rest.session() as session:
        await session.run(f"SET TIME ZONE '{ZONE}'")
        (_, [json]), (_, [plain]) = (
            await session.run(f"SELECT {SELECTED}"),
            await session.run(f"SELECT {SELECTED}", "PLAIN_TEXT"),
        )
    hive = await asyncio.to_thread(_by_hive, gateway)
    assert view.result is not None and cast.result is not None
    for place, each in enumerate(VALUES):
        if each.sql not in BINARIES:
            assert view.result.preview[0][place] == cast.result.preview[0][place], each.sql
        came = control[place], json[place], plain[place], hive[place]
        assert came == (each.control, each.rest, each.plain, each.hive), each.sql


def _by_hive(gateway: GatewayProcess) -> tuple[Any, ...]:
    with Frontend(gateway, thrift_port(gateway)).connect() as connection:
        thrift = Session(connection)
        thrift.rows(f"SET TIME ZONE '{ZONE}'")
        return thrift.rows(f"SELECT {SELECTED}")[0]


@pytest.mark.parametrize(
    "zone",
    [
        "GMT+8",
        "UTC+8",
        "UT-3:30",
        "Z",
        "+8",
        "-08:30",
        "+01:02:03",
        "PST",
        "EST",
        "IST",
        "Etc/GMT+8",
        "Asia/Tokyo",
        "UTC",
        "GMT0",
    ],
)
async def test_instants_are_shown_in_every_spelling_of_a_zone_that_spark_takes(
    client: GatewayClient, zone: str
) -> None:
    instants = "timestamp_seconds(1704110400)", "timestamp_seconds(-2717640000)", "array(timestamp_seconds(1720000000))"
    await client.ok(f"SET spark.sql.session.timeZone={zone}")
    try:
        shown = await client.ok(f"SELECT {', '.join(instants)}", result=ROWS)
        cast = await client.ok(f"SELECT {', '.join(f'CAST({each} AS STRING)' for each in instants)}", result=ROWS)
    finally:
        await client.ok("RESET spark.sql.session.timeZone")
    assert shown.result is not None and cast.result is not None
    assert shown.result.preview == cast.result.preview
