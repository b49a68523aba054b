"""Tells people how a text differs from the state that it would go on from, and what to do about it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sparksql.gateway.sql.own_columns import in_words
from sparksql.gateway.streaming.state.description import Description, StreamSource
from sparksql.gateway.streaming.state.difference import Difference, DifferenceKind

_SHOWN = 5  # differences in a message; the first ones cause most of the others
_SHOWN_CHARS = 200
_SOURCE = re.compile(r"\[(\d+)\]\.")
_ARITHMETIC = re.compile(r" #[0-9a-f]{8}(?![0-9a-f])")  # digests of how the bounds of windows are computed
_NUMBERS = re.compile(r"(one of \()?\d+(, \d+)*\)?")
_OF_KEYS = (DifferenceKind.KEY_ADDED, DifferenceKind.KEY_CHANGED, DifferenceKind.KEY_REMOVED)
_OTHER_ARITHMETIC = "the same with other arithmetic"
REMEDY = (
    "change the query back, restore a savepoint that is compatible with it (spec.streaming.startFrom and restoreNonce), rebuild "
    "the state from the history of the sources (spec.streaming.upgradeMode Rebuild), or start without the state: spec.streaming.upgradeMode Stateless, spec.streaming.onIncompatible StartFresh, or a new SqlStatement"
)
NO_REMEDY = "none is needed: the state is migrated to another location, and the existing checkpoint remains"
REBUILT_REMEDY = (
    "none is needed: the state is rebuilt from the history of the sources in another location, and the existing checkpoint "
    "remains"
)
FIRST_REMEDY = "start the text that the state is of once, after which others can be compared with it, or "


def message(found: Sequence[Difference], old: Description, new: Description, why: str = "") -> str:
    """Returns the differences for people, with what to do about them; `why` the state is not made anew for them."""
    parts = [*_told(found, old, new)]
    if why:
        parts.append(why)
    if old.spark_version != new.spark_version:
        parts.append(
            f"the state was written by Spark {old.spark_version} and this is {new.spark_version}, which may "
            "print an expression differently"
        )
    told = f"the query is incompatible with the state in its checkpoint: {'; '.join(parts)}. To go on, "
    return f"{told}{FIRST_REMEDY if old.is_of_first_version else ''}{REMEDY}"


def rewritten_message(found: Sequence[Difference], old: Description, new: Description) -> str:
    """Returns the differences of a text that the state fits once it is written anew."""
    return f"the state in the checkpoint is migrated for the query: {'; '.join(_told(found, old, new))}"


def rebuilt_message(found: Sequence[Difference], old: Description, new: Description, history: str) -> str:
    """Returns the differences of a text whose state is computed anew, and from what `history`."""
    told = "; ".join(_told(found, old, new))
    return f"the state is rebuilt for the query from the history of its sources ({history}), as the old one is incompatible: {told}"


def _told(found: Sequence[Difference], old: Description, new: Description) -> Iterator[str]:
    yield from (_sentence(each, old, new) for each in found[:_SHOWN])
    if len(found) > _SHOWN:
        yield f"and {len(found) - _SHOWN} more"


def _sentence(each: Difference, old: Description, new: Description) -> str:
    column, before, after = map(_shortened, in_query_words(each, old, new))
    match each.change:
        case DifferenceKind.SOURCE_ADDED | DifferenceKind.OPERATOR_ADDED:
            return f"{each.operator} was added ({after})"
        case DifferenceKind.SOURCE_REMOVED | DifferenceKind.OPERATOR_REMOVED:
            return f"{each.operator} was removed ({before})"
        case DifferenceKind.SOURCES_REORDERED:
            return f"sources were {before} in this order, are {after}"
        case DifferenceKind.INPUT_CHANGED:
            return f"{each.operator}: its input was {before}, is {after}"
        case DifferenceKind.OPERATOR_CHANGED:
            return f"{each.operator}: {column} was {before}, is {after}"
        case DifferenceKind.KEY_ADDED:
            return f"{each.operator}: key column {column} was added ({after})"
        case DifferenceKind.KEY_REMOVED:
            return f"{each.operator}: key column {column} was removed ({before})"
        case DifferenceKind.AGGREGATE_ADDED | DifferenceKind.COLUMN_ADDED:
            return f"{each.operator}: column {column} was added ({after})"
        case DifferenceKind.AGGREGATE_REMOVED | DifferenceKind.COLUMN_REMOVED:
            return f"{each.operator}: column {column} was removed ({before})"
        case DifferenceKind.KEY_CHANGED:
            return f"{each.operator}: key column {column} was {before}, is {after}"
        case DifferenceKind.AGGREGATE_CHANGED | DifferenceKind.COLUMN_CHANGED:
            return f"{each.operator}: column {column} was {before}, is {after}"
        case DifferenceKind.KEYS_REORDERED:
            return f"{each.operator}: key columns {column} were {before} in this order, are {after}"
        case DifferenceKind.AGGREGATES_REORDERED | DifferenceKind.COLUMNS_REORDERED:
            return f"{each.operator}: columns {column} were {before} in this order, are {after}"
        case DifferenceKind.GROUP_FILTER_CHANGED:
            return f"{each.operator}: the condition on its groups was {before}, is {after}"
        case DifferenceKind.NOT_COMPARABLE:
            return f"{each.operator} is of {before}"
        case DifferenceKind.SETTING_CHANGED:
            return f"the setting {each.operator} was {before}, is {after}"
        case DifferenceKind.SOURCE_CHANGED | DifferenceKind.WATERMARK_CHANGED | DifferenceKind.OUTPUT_MODE_CHANGED:
            return f"{each.operator} was {before}, is {after}"


def in_query_words(each: Difference, old: Description, new: Description) -> tuple[str, str, str]:
    """Returns the column, the old and the new meaning of a difference without names and digests that only the gateway knows."""
    before, after = (_ARITHMETIC.sub("", text) for text in (each.before, each.after))
    if before == after and each.before != each.after:
        after = _OTHER_ARITHMETIC
    column = ", ".join(in_words(name) for name in each.column.split(", "))
    if each.change in _OF_KEYS and all(_NUMBERS.fullmatch(text) for text in (before, after) if text):
        column = "of DISTINCT"  # Spark's number of a DISTINCT is the one constant key beside others: it removes those of the text
    sources = old.sources if each.before else new.sources
    return _named(column, sources), _named(before, old.sources), _named(after, new.sources)


def _named(text: str, sources: Sequence[StreamSource]) -> str:
    """Returns a meaning with the names of its sources, which are left out when there is only one."""

    def name(found: re.Match[str]) -> str:
        number = int(found[1])
        return "" if len(sources) == 1 or not 0 < number <= len(sources) else f"{sources[number - 1].name}."

    return _SOURCE.sub(name, text)


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."
