"""Where the rows of a query over changes go, and what must be known for that: which rows are gone, and of which key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sparksql.api.execution import Upsert
from sparksql.gateway.changelog.relations import DELETED, Changes, Groups, Rows
from sparksql.gateway.changelog.rewrite import has_changes, relation_of
from sparksql.gateway.changelog.source import ROW_KIND, SEQ
from sparksql.gateway.spark.driver import SparkDriver
from sparksql.gateway.spark.plans import span_of
from sparksql.gateway.spark.scala import elements
from sparksql.gateway.spark.shapes import Dataset, JvmSession
from sparksql.gateway.sql.errors import PlacedError, StatementError, refusal
from sparksql.gateway.streaming.result_keys import result_keys
from sparksql.gateway.windowing.expressions import as_long, project
from sparksql.gateway.windowing.marks import alias
from sparksql.wire.control import ErrorReason


def taken_back(
    driver: SparkDriver, session: JvmSession, frame: Dataset, output_mode: str, upsert: Upsert | None
) -> tuple[Any, Upsert | None]:
    """Returns a streaming Dataset that takes changes back, itself if it reads none as rows, and the upsert with its keys.

    For an upsert it has hidden columns, see `changelog.relations`. Raises PlacedError for a query that is not exact over changes,
    StatementError for an upsert that is not.
    """
    plan = frame.queryExecution().analyzed()
    if not has_changes(plan):
        return frame, upsert
    is_complete = output_mode.lower() == "complete"
    # Of an upsert a batch must tell the groups that are gone, though it tells all others.
    relation = relation_of(driver.jvm, plan, is_whole=is_complete and upsert is None)
    match relation:
        case Rows():
            made = relation.plan
        case Changes():
            upsert = upsert and _keyed(relation, upsert)
            made = _as_changes(driver, relation) if upsert is None else _upserted(driver, relation, upsert)
        case Groups():
            _check_groups(relation, output_mode, upsert)
            made = relation.plan
    return driver.of_rows(session, made), upsert


def _keyed(changes: Changes, upsert: Upsert) -> Upsert:
    """The upsert with keys: where it has none, the fewest columns of the query that are known to be a key of its rows."""
    if upsert.keys:
        return upsert
    shown = {_id(column): str(column.name()) for column in changes.shown}
    known = sorted((key for key in changes.keys if key <= shown.keys()), key=len)
    if not known or (len(known) > 1 and len(known[0]) == len(known[1])):
        message = (
            f"they are missing, and which columns are the key of a row of {changes.table} is not known: name them, with the key of "
            "each table in its option 'key.columns'"
        )
        raise _invalid("keys", message)
    return upsert.replace(keys=tuple(shown[each] for each in shown if each in known[0]))


def _as_changes(driver: SparkDriver, changes: Changes) -> Any:
    """The rows of changes themselves, which the query must show as what they are."""
    shown = changes.shown
    if not any(_id(column) in changes.kinds for column in shown):
        message = (
            f"the rows of changes of {changes.table} would be taken for rows of a table: select {ROW_KIND} as well where nothing is "
            "joined, or keep them like the table with spec.streaming.upsert"
        )
        raise PlacedError(message, span_of(changes.plan))
    return project(driver.jvm, shown, changes.plan)


def _upserted(driver: SparkDriver, changes: Changes, upsert: Upsert) -> Any:
    """The rows to merge: with their place among the changes of a key, or with weights for a batch to set off."""
    _check_order(upsert)
    named = {str(column.name()).lower(): _id(column) for column in changes.shown}
    given = {named[key.lower()] for key in upsert.keys if key.lower() in named}
    if not any(key <= given for key in changes.keys):
        message = (
            f"a changelog of {changes.table} is kept by the keys of its rows, as they are, and {', '.join(upsert.keys)} are not known to "
            "be these: name the key in the tables' option 'key.columns' (in a join of each), select its columns, and give them all"
        )
        raise _invalid("keys", message)
    jvm = driver.jvm
    if changes.order is None:
        if any(_id(column) in changes.reserved for column in changes.shown):
            message = (
                f"a join of changelogs has no {ROW_KIND} and no {SEQ} of its own: leave these columns out of the query"
            )
            raise PlacedError(message, span_of(changes.plan))
        return project(jvm, [*changes.shown, changes.weight], changes.plan)
    goes = jvm.org.apache.spark.sql.catalyst.expressions.LessThan(changes.weight, as_long(jvm, 0))
    return project(jvm, [*changes.shown, changes.order, alias(jvm, goes, DELETED)], changes.plan)


def _check_groups(groups: Groups, output_mode: str, upsert: Upsert | None) -> None:
    if upsert is None or output_mode.lower() == "append":
        message = (
            "an aggregation of a changelog updates and deletes its rows: use spec.streaming.outputMode: Update with "
            "spec.streaming.upsert by the columns that it groups by, or outputMode: Complete"
        )
        raise PlacedError(message, groups.span)
    _check_order(upsert)
    keys, columns = result_keys(groups.plan), elements(groups.plan.output())
    wanted = None if keys is None else {str(columns[key].name()).lower() for key in keys}
    if not wanted or (upsert.keys and wanted != _lower(upsert.keys)):
        shown = "the columns of GROUP BY, all of them selected" if not wanted else ", ".join(sorted(wanted))
        message = (
            f"deleted groups of a changelog are deleted by {shown}; the keys are {', '.join(upsert.keys) or 'missing'}"
        )
        raise _invalid("keys", message)


def _check_order(upsert: Upsert) -> None:
    if upsert.order_by is not None:
        raise _invalid("orderBy", "the changes of a changelog have an order of their own: leave orderBy out")


def _lower(names: Iterable[str]) -> set[str]:
    return {name.lower() for name in names}


def _id(column: Any) -> int:
    return int(column.exprId().id())


def _invalid(field: str, problem: str) -> StatementError:
    return refusal(ErrorReason.INVALID_SPEC, f"spec.streaming.upsert.{field}: {problem}")
