"""Dates and timestamps of far years, and after the zone database's list of changes: what Spark's cast to STRING shows, everywhere."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.process import GatewayProcess

from .client import GatewayClient
from .rest_client import RestClient
from .test_thrift_frontend import COLUMNS, Frontend, Session, thrift_port

ZONE = "spark.sql.session.timeZone"
DATES = ("DATE'+12345-01-01'", "DATE'+999999-03-18'", "DATE'-0001-12-31'", "DATE'2026-01-31'")
TIMES = (
    "TIMESTAMP'+12345-07-01 01:02:03.5'",
    "TIMESTAMP'-0044-03-15 12:00:00'",
    "TIMESTAMP'2040-07-01 00:00:00'",
    "TIMESTAMP_NTZ'+294247-01-10 04:00:54.775807'",
)
VALUES = (*DATES, *TIMES)
FLAT = f"SELECT {', '.join(VALUES)}"
NESTED = f"SELECT {', '.join(f'array({value}), map({value}, 1), struct({value} AS t)' for value in VALUES)}"


@pytest.fixture
async def shown(client: GatewayClient, zone: str) -> list[str]:
    """The values as Spark itself casts them."""
    [row] = await client.rows(f"SELECT {', '.join(f'CAST({value} AS STRING)' for value in VALUES)}", conf={ZONE: zone})
    return [str(cell) for cell in row]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
async def test_far_dates_and_times_are_shown_as_spark_casts_them(
    client: GatewayClient, rest: RestClient, gateway: GatewayProcess, zone: str, shown: list[str]
) -> None:
    assert shown[:3] == ["+12345-01-01", "+999999-03-18", "-0001-12-31"]
    view = await client.ok(FLAT, conf={ZONE: zone})
    assert view.result is not None and [list(row) for row in view.result.preview] == [shown]
    nested: list[Any] = [cell for text in shown for cell in ([text], {text: 1}, {"t": text})]
    assert await client.rows(NESTED, conf={ZONE: zone}) == [tuple(nested)]
    async with rest.session(**{ZONE: zone}) as session:
        _, [plain] = await session.run(FLAT, "PLAIN_TEXT")
        assert [text.rstrip("0").rstrip(".") if " " in text else text for text in plain] == shown
        _, [row] = await session.run(FLAT)
        assert [cell.rstrip("Z").replace("T", " ") for cell in row] == shown
    with Frontend(gateway, thrift_port(gateway)).connect() as connection:
        assert Session(connection, COLUMNS, **{ZONE: zone}).rows(FLAT) == [tuple(shown)]
