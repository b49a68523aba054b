"""Which condition an error has whose causes have conditions of their own: the one that Spark reports, unless that is a failed job's."""

from __future__ import annotations

import pytest

from sparksql.wire.control import ErrorReason
from sparksql.wire.failure.kind import FailureKind

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


async def test_an_error_has_the_class_of_its_java_types(client: GatewayClient) -> None:
    for sql, cause in (
        ("SELECT missing FROM range(1)", FailureKind.STATEMENT),
        ("SELEC 1", FailureKind.STATEMENT),
        ("SELECT 1 div (id - 1) FROM range(2)", None),
    ):
        error = (await client.run(sql)).error
        assert error is not None and error.cause is cause, error


async def test_raised_text_of_a_limit_or_of_a_refusal_stays_an_error_of_the_statement(client: GatewayClient) -> None:
    for text in ("bigger than spark.driver.maxResultSize (1)", "file:/x: SQL may not use this local place"):
        error = (await client.run(f"SELECT raise_error('{text}') FROM range(2)")).error
        assert error is not None and error.reason is ErrorReason.SQL_ERROR, error
        assert error.condition == "USER_RAISED_EXCEPTION"


async def test_a_statement_that_exhausts_the_drivers_heap_is_told_which_memory_to_raise(client: GatewayClient) -> None:
    error = (await client.run("SELECT length(repeat('x', 2000000000))")).error  # analysis computes it, in the driver
    assert error is not None and error.condition == "JAVA_HEAP_EXHAUSTED", error
    assert "raise spec.driver.memory" in error.message
    await client.ok("SELECT 1")
