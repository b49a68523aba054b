"""How a streaming query runs whose rows go to somebody who looks at them, not into a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.shapes import Dataset, JvmSession
from sparksql.gateway.sql.errors import PlacedError, StatementError, operation_error
from sparksql.gateway.sql.script import Fragment
from sparksql.gateway.streaming import unsupported
from sparksql.gateway.streaming.changes import taken_back
from sparksql.gateway.windowing.rewrite import for_stream


def shown(
    driver: SparkDriver,
    session: JvmSession,
    frame: Dataset,
    modes: tuple[str, ...],
    place: tuple[Fragment, str],
    limited: Callable[[Any], Any] = lambda frame: frame,
) -> tuple[str, Dataset]:
    """Returns the first of these output modes in which Spark runs the query, and its Dataset, `limited`, in that mode.

    `place` is the statement and the whole text. Raises StatementError if there is none, for what is not about the mode.
    """
    refusals: list[StatementError] = []
    for mode in modes:
        try:
            exact, _ = taken_back(driver, session, frame, mode, None)
        except PlacedError as refused:
            refusals.append(StatementError(operation_error(refused, *place)))
            continue
        ready = limited(for_stream(driver, session, exact, mode))
        try:
            unsupported.check_supported(driver, session, ready.queryExecution().analyzed(), mode, *place)
        except StatementError as refused:
            refusals.append(refused)
        else:
            return mode, ready
    raise next((each for each in refusals if each.error.condition != unsupported.OUTPUT_MODE), refusals[0])
