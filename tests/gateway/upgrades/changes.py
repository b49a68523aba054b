"""Streaming queries drawn at random, and changes of them: harmless ones, which mean the same or may change, and others."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from .expressions import BOOL, INT, TEXT, TIME, VALUE, Part, changed, expression, has_columns, reworded
from .grammar import LAYOUTS, Query, view_of

WINDOWS = (
    ("window(ts, '1 minute')", "window(ts, '60 seconds')", "window(ts, '1 minutes', '60 seconds')"),
    ("window(ts, '2 minutes')", "window(ts, '120 seconds')"),
    ("window(ts, '1 minute', '30 seconds')", "window(ts, '60 seconds', '30 seconds')"),
    ("window(ts, '1 minute', '20 seconds')",),
    ("window(ts, '1 minute', '1 minute', '5 seconds')",),
    ("session_window(ts, '20 seconds')", "session_window(ts, INTERVAL '20' SECOND)"),
    ("session_window(ts, '15 seconds')",),
)
_TABLES = (
    ("SELECT * FROM dim WHERE {filter}", "SELECT * FROM (SELECT * FROM dim) WHERE {filter}"),
    ("SELECT * FROM dim2 WHERE {filter}",),
    ("SELECT code, max(region) AS region, max(weight) AS weight FROM dim WHERE {filter} GROUP BY code",),
    ("SELECT code, min(region) AS region, max(weight) AS weight FROM dim WHERE {filter} GROUP BY code",),
    ("SELECT * FROM dim WHERE {filter} ORDER BY weight DESC LIMIT 3",),
    ("SELECT * FROM dim WHERE {filter} ORDER BY weight DESC LIMIT 2",),
    ("SELECT code, region, weight FROM (SELECT *, rank() OVER (ORDER BY weight DESC) AS q FROM dim WHERE {filter}) WHERE q < 4",),
)  # fmt: skip
TABLE_FILTERS = ("true", "weight > 1", "weight > 2", "region <> 'west'", "region > 'a'")
MEMBERSHIPS = (
    "",
    "country IN (SELECT code FROM dim)",
    "country IN (SELECT code FROM dim WHERE weight > 1)",
    "country NOT IN (SELECT code FROM dim WHERE weight < 2)",
    "EXISTS (SELECT * FROM dim WHERE code = country AND region <> 'west')",
    "amount > 0",
    "city IS NOT NULL",
    "price > 4 AND amount < 99",
)
SHOWN = (
    *(("true",), ("n > 0", "0 < n", "n >= 1"), ("n > 1", "1 < n"), ("n <> 2",), ("k IS NOT NULL", "NOT isnull(k)")),
    *(("length(k) < 5",), ("k <> 'de'",), ("until IS NOT NULL",)),
)
_STYLES = ("subquery", "cte", "view", "two subqueries")
_SHAPES = (*("grouped",) * 6, *("united", "branches", "twice", "distinct", "stateless", "joined", "joined"))


class Kind(StrEnum):
    SAME = "same"  # another wording
    MAY = "may"  # what may change, by docs/upgrades.md
    OTHER = "other"  # whatever it means


def query(drawn: random.Random) -> Query:
    shape = drawn.choice(_SHAPES)
    source = drawn.choice(("src", "src", "lines"))
    other = drawn.choice(("other", "other", source)) if shape == "united" else "other"
    windows = WINDOWS[:4] if shape == "twice" else WINDOWS
    made = Query(
        shape,
        key=_of_columns(drawn, drawn.choice((TEXT, TEXT, INT, BOOL)), drawn.choice((0, 1, 2))),
        second=_of_columns(drawn, drawn.choice((TEXT, INT, BOOL, TIME)), drawn.choice((0, 1))),
        values=tuple(expression(drawn, VALUE, drawn.choice((1, 1, 2))) for _ in range(drawn.choice((1, 2)))),
        rows=expression(drawn, BOOL, drawn.choice((1, 2))),
        more_rows=expression(drawn, BOOL, 1),
        window=drawn.choice(drawn.choice(windows)),
        shown=drawn.choice(drawn.choice(SHOWN)) if shape in ("grouped", "united") else "true",
        source=source,
        other=other,
        conf=drawn.choice(((), (), (), *(((name, old),) for name, old, _ in SETTINGS))),
    )
    if shape == "joined":
        made = replace(made, join=drawn.choice(("JOIN", "LEFT JOIN")))
        return replace(made, condition=drawn.choice((None, expression(drawn, BOOL, 1))))
    if shape in ("grouped", "stateless", "distinct") and drawn.random() < 0.4:
        return replace(
            made,
            table=drawn.choice(drawn.choice(_TABLES)),
            table_kind=drawn.choice(("JOIN", "LEFT JOIN")),
            table_filter=drawn.choice(TABLE_FILTERS),
            key=drawn.choice((Part(TEXT, "region"), Part(TEXT, "upper(region)"), made.key)),
        )
    if shape in ("grouped", "distinct", "stateless") and drawn.random() < 0.3:
        return replace(made, membership=drawn.choice(MEMBERSHIPS))
    return made


def _of_columns(drawn: random.Random, type_: str, depth: int) -> Part:
    """What may be a key: Spark takes a number alone for the place of a column."""
    while True:
        found = expression(drawn, type_, depth)
        if has_columns(found):
            return found


# Settings that mean something, with two values: each read by Spark while it analyses, or while it runs.
SETTINGS: tuple[tuple[str, str, str], ...] = (
    ("spark.sql.ansi.enabled", "true", "false"),
    ("spark.sql.session.timeZone", "UTC", "Asia/Tokyo"),
    ("spark.sql.caseSensitive", "false", "true"),
    ("spark.sql.legacy.timeParserPolicy", "CORRECTED", "LEGACY"),
    ("spark.sql.legacy.castComplexTypesToString.enabled", "false", "true"),
    ("spark.sql.jsonGenerator.ignoreNullFields", "true", "false"),
    ("spark.sql.mapKeyDedupPolicy", "EXCEPTION", "LAST_WIN"),
    ("spark.sql.legacy.sizeOfNull", "true", "false"),
    ("spark.sql.legacy.statisticalAggregate", "false", "true"),
    ("spark.sql.legacy.nullInEmptyArray", "false", "true"),
    ("spark.sql.decimalOperations.allowPrecisionLoss", "true", "false"),
    ("spark.sql.legacy.concatBinaryAsString", "false", "true"),
    ("spark.sql.legacy.percentileDiscCalculation", "false", "true"),
    ("spark.sql.legacy.nullValueWrittenAsQuotedEmptyStringCsv", "false", "true"),
    ("spark.sql.csv.parser.columnPruning.enabled", "true", "false"),
    ("spark.sql.columnNameOfCorruptRecord", "_corrupt_record", "j"),
)
HARMLESS_SETTINGS: tuple[tuple[str, str], ...] = (
    ("spark.sql.adaptive.enabled", "false"),
    ("spark.sql.autoBroadcastJoinThreshold", "-1"),
    ("spark.sql.shuffle.partitions", "3"),
    ("spark.sql.codegen.wholeStage", "true"),
    ("spark.sql.files.maxPartitionBytes", "4096"),
    ("spark.sql.streaming.minBatchesToRetain", "5"),
    ("spark.sql.ansi.enabled", "true"),  # as it is
)
# Streams at the same place, read in another way.
_READ_OTHERWISE: Mapping[str, tuple[str, ...]] = {
    "src": ("src_wide",),
    "lines": ("lines_null", "lines_turned", "lines_wide"),
}
_PARTS = ("key", "second", "rows", "more_rows", "condition")


def _same(drawn: random.Random, old: Query) -> Query:
    """The same in other words."""
    match drawn.choice((*_PARTS, "values", "window", "shown", "style", "layout", "table", "conf", "options")):
        case "values":
            index = drawn.randrange(len(old.values))
            other = reworded(drawn, old.values[index])
            return old if other is None else replace(old, values=_with(old.values, index, other))
        case "window":
            return replace(old, window=_of_group(drawn, WINDOWS, old.window))
        case "shown":
            return replace(old, shown=_of_group(drawn, SHOWN, old.shown))
        case "style":
            return replace(old, style=drawn.choice(_STYLES))
        case "layout":
            return replace(old, layout=drawn.randrange(len(LAYOUTS)))
        case "table" if old.table:
            return replace(old, table=_of_group(drawn, _TABLES, old.table))
        case "conf":
            return replace(old, conf=(*old.conf, drawn.choice(HARMLESS_SETTINGS)))
        case "options":
            return replace(
                old, options=drawn.choice(("WITH ('maxFilesPerTrigger' = '1')", "WITH ('latestFirst' = 'false')"))
            )
        case name if name in _PARTS and getattr(old, name) is not None:
            other = reworded(drawn, getattr(old, name))
            return old if other is None else replace(old, **{name: other})  # type: ignore[arg-type]
    return old


def _may(drawn: random.Random, old: Query) -> Query:
    """What docs/upgrades.md says may change."""
    if drawn.random() < 0.15:
        return replace(old, delay=drawn.choice(("INTERVAL 5 SECONDS", "INTERVAL 20 SECONDS")))
    if old.reads_one_source_twice:
        return old
    if (
        old.table
        and old.table_kind == "JOIN"
        and "max(" not in old.table
        and "LIMIT" not in old.table
        and drawn.random() < 0.4
    ):
        return (
            old
            if "rank()" in old.table or "min(" in old.table
            else replace(old, table_filter=drawn.choice(TABLE_FILTERS))
        )
    match drawn.choice(("rows", "rows", "more_rows", "shown", "key", "membership")):
        case "rows":
            return replace(old, rows=changed(drawn, old.rows))
        case "more_rows" if old.shape == "joined":
            return replace(old, more_rows=changed(drawn, old.more_rows))
        case "shown" if old.shape in ("grouped", "united") and old.shown in _OF_VALUES:
            return replace(old, shown=drawn.choice(_OF_VALUES))
        case "key" if old.shape == "stateless":
            return replace(old, key=changed(drawn, old.key))
        case "membership" if old.shape in ("grouped", "distinct", "stateless") and not old.table:
            return replace(old, membership=drawn.choice(MEMBERSHIPS))
    return old


_OF_VALUES = ("true", "n > 0", "n > 1", "n <> 2")


def _other(drawn: random.Random, old: Query) -> Query:
    """Another part of the same type."""
    match drawn.choice(
        (
            *_PARTS,
            "key",
            "values",
            "values",
            "values",
            "shown",
            "window",
            "table",
            "read",
            "conf",
            "sides",
            "membership",
        )
    ):
        case "values":
            index = drawn.randrange(len(old.values))
            return replace(old, values=_with(old.values, index, changed(drawn, old.values[index])))
        case "shown" if old.shape != "joined":
            return replace(old, shown=drawn.choice(drawn.choice(SHOWN)))
        case "window":
            return replace(old, window=drawn.choice(drawn.choice(WINDOWS[:4] if old.shape == "twice" else WINDOWS)))
        case "table" if old.table:
            changes = {"table": drawn.choice(drawn.choice(_TABLES)), "table_filter": drawn.choice(TABLE_FILTERS)}
            name = drawn.choice((*changes, "table_kind"))
            return replace(old, **{name: changes.get(name) or drawn.choice(("JOIN", "LEFT JOIN"))})  # type: ignore[arg-type]
        case "read":
            return replace(old, source=drawn.choice(_READ_OTHERWISE[old.source]))
        case "conf":
            name, _, value = drawn.choice([each for each in SETTINGS if not old.conf or each[0] == old.conf[0][0]])
            return replace(old, conf=((name, value),))
        case "sides" if old.shape in ("joined", "branches", "united"):
            return replace(old, rows=old.more_rows, more_rows=old.rows, source=old.other, other=old.source)
        case "membership" if old.shape in ("grouped", "distinct") and not old.table:
            return replace(old, membership=drawn.choice(MEMBERSHIPS))
        case name if name in _PARTS and getattr(old, name) is not None:
            other = changed(drawn, getattr(old, name))
            return replace(old, **{name: other}) if has_columns(other) else old  # type: ignore[arg-type]
    return old


_CHANGES = {Kind.SAME: _same, Kind.MAY: _may, Kind.OTHER: _other}
_CHANGES_OF_ONE = 8


@dataclass(frozen=True)
class Pair:
    old: Query
    new: Query
    kind: Kind


def pairs(seed: int) -> Iterator[Pair]:
    """Pairs of a seed, without an end: the same each time. Several have one old query, so that this is run once."""
    drawn = random.Random(seed)
    while True:
        old = query(drawn)
        for _ in range(_CHANGES_OF_ONE):
            kind = drawn.choice((Kind.SAME, Kind.MAY, Kind.OTHER, Kind.OTHER))
            new = _CHANGES[kind](drawn, old)
            if kind is Kind.SAME and drawn.random() < 0.3:
                new = _same(drawn, new)
            if new != old and _is_seen(old, new):
                yield Pair(old, new, kind)


def _is_seen(old: Query, new: Query) -> bool:
    """Whether the change is one of the texts."""
    if (old.conf, old.source, old.other) != (new.conf, new.source, new.other):
        return True
    texts = {(each.text(streams=True), view_of(each)) for each in (old, new)}
    return len(texts) > 1


def _with(values: tuple[Part, ...], index: int, other: Part) -> tuple[Part, ...]:
    return (*values[:index], other, *values[index + 1 :])


def _of_group(drawn: random.Random, groups: tuple[tuple[str, ...], ...], one: str) -> str:
    return drawn.choice(next(group for group in groups if one in group))
