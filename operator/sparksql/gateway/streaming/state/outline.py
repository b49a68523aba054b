"""What is known of a query without its optimised plan: its text, what it streams, and the settings of its session.

That is enough for the very same text to go on from its state, and for no other. A new checkpoint has it while the first batch
begins; that of a query whose plan cannot be described keeps it.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JError

from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.plans import nodes
from sparksql.gateway.spark.scala import elements, simple_name
from sparksql.gateway.spark.shapes import Jvm, JvmSession, LogicalPlan
from sparksql.gateway.streaming.state import settings, source_identity
from sparksql.gateway.streaming.state.description import (
    Description,
    Setting,
    StateColumn,
    StatefulOperator,
    StreamSource,
)

log = logging.getLogger(__name__)


def outline(
    driver: SparkDriver,
    session: JvmSession,
    analysed: LogicalPlan,
    *,
    text: str,
    output_mode: str,
    mask: Callable[[str], str],
    qualified: Callable[[str], str],
) -> Description:
    """Returns what is known of a streaming query that comes from `text`, by its analysed plan.

    `mask` hides secret values, `qualified` gives paths their full form.
    """
    sources = _readable_sources(driver.jvm, analysed, qualified)
    found = undescribed(str(driver.context.version), text, output_mode, sources)
    return replace(found, settings=_readable_settings(driver.jvm, session, analysed, mask))


def undescribed(
    spark_version: str,
    text: str,
    output_mode: str,
    sources: tuple[StreamSource, ...] = (),
    columns: tuple[StateColumn, ...] = (),
) -> Description:
    """Returns the description of a query whose plan has not been read.

    Its state is taken to fit the very same text over the same sources, with the same `columns`, and nothing else.
    `sources` and `columns` are empty when they have not been read either.
    """
    text_hash = hashlib.sha256(text.encode()).hexdigest()
    operators = (StatefulOperator(f"text {text_hash[:12]}", values=columns),)
    return Description(spark_version, text_hash, output_mode.lower(), sources, operators=operators)


def with_columns(jvm: Jvm, found: Description, analysed: LogicalPlan, mask: Callable[[str], str]) -> Description:
    """Returns an outline with the columns of its sources, for a query that will not be described."""
    try:
        columns = tuple(
            StateColumn(mask(name), mask(str(column.dataType().catalogString())), mask(f"{name} of the source {of}"))
            for leaf, of in source_identity.streamed(plan_of_sources(jvm, analysed))
            for column in elements(leaf.output())
            for name in [str(column.name())]
        )
    except (Py4JError, RecursionError) as unknown:
        log.warning("nor can the columns of its sources: %s", type(unknown).__name__)
        return found
    return replace(found, operators=tuple(replace(each, values=columns) for each in found.operators))


def plan_of_sources(jvm: Jvm, analysed: LogicalPlan) -> Any:
    """Returns an analysed plan as far as sources are concerned: queries of a WITH in their places, values not decoded."""
    if any(simple_name(node) == "WithCTE" for node in nodes(analysed)):
        analysed = jvm.org.apache.spark.sql.catalyst.optimizer.InlineCTE(True, False).apply(analysed)
    return source_identity.undecoded(jvm, analysed)


def settings_of(jvm: Jvm, session: JvmSession, leaves: list[Any], mask: Callable[[str], str]) -> tuple[Setting, ...]:
    """Returns the settings of a session that may say what a query over these leaves means."""
    zoned = any(source_identity.reads_times_in_a_zone(leaf) for leaf in leaves)
    found = settings.of_session(jvm, session, zone_counts=zoned)
    return tuple(Setting(each.name, mask(each.value), each.default) for each in found)


def _readable_sources(jvm: Jvm, analysed: LogicalPlan, qualified: Callable[[str], str]) -> tuple[StreamSource, ...]:
    """The sources of a plan, each once as for Spark; none when they cannot be read."""
    try:
        found: dict[int, StreamSource] = {}
        for leaf, name in source_identity.streamed(plan_of_sources(jvm, analysed)):
            first = source_identity.first_column(leaf)
            if first not in found:
                found[first] = source_identity.source(leaf, name, qualified)
        return tuple(found.values())
    except (Py4JError, RecursionError) as unknown:
        log.warning("the sources of a query cannot be read: %s", type(unknown).__name__)
        return ()


def _readable_settings(
    jvm: Jvm, session: JvmSession, analysed: LogicalPlan, mask: Callable[[str], str]
) -> tuple[Setting, ...] | None:
    """The settings of a query; None when it cannot be told whether the time zone counts."""
    try:
        return settings_of(jvm, session, elements(analysed.collectLeaves()), mask)
    except (Py4JError, RecursionError) as unknown:
        log.warning("the settings of a query cannot be read: %s", type(unknown).__name__)
        return None
