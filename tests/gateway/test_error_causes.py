"""Which condition an error has whose causes have conditions of their own: the one that Spark reports, unless that is a failed job's."""

from __future__ import annotations

import pytest

from .client import GatewayClient

PATTERN = "INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_PATTERN_RECOGNITION"
REMEDY = "spark.sql.legacy.timeParserPolicy"


@pytest.mark.parametrize("source", ["", " FROM range(2)"])
async def test_an_error_with_a_remedy_keeps_it_over_its_cause_on_the_driver_and_in_a_job(
    client: GatewayClient, source: str
) -> None:
    pattern = "'yyyyyyy'" if not source else "repeat('y', id + 7)"
    error = (await client.run(f"SELECT date_format(DATE'2026-01-31', {pattern}){source}")).error
    assert error is not None
    assert (error.condition, error.sql_state) == (PATTERN, "42K0B")
    assert REMEDY in error.message


async def test_a_failed_write_is_reported_with_the_condition_of_its_reason(client: GatewayClient) -> None:
    await client.ok("CREATE TABLE failed_write (s STRING) USING parquet")
    for reason, condition in (
        ("1 div (id - 1)", "DIVIDE_BY_ZERO"),
        ("date_format(current_date(), 'yyyyyyy')", PATTERN),
    ):
        error = (await client.run(f"INSERT INTO failed_write SELECT CAST({reason} AS STRING) FROM range(2)")).error
        assert error is not None and error.condition == condition, error
    await client.ok("DROP TABLE failed_write")
