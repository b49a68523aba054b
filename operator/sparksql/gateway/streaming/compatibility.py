"""Whether a changed text may go on from the state of the one before it, told from the descriptions of both.

Spark compares types only: a count that becomes a sum, or a key that becomes another column of the same type, goes on from the
old state without an error and gives wrong numbers. Here the meaning of each key and value is compared. What does not shape the
state may change: filters, HAVING, columns of the result that are computed from it, names, the layout of the text.

Pure. `differences` is the seam for what may rewrite state one day: each one says what changed, where, from what to what.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Any

FORMAT_VERSION = 1
AGGREGATE = "aggregate"
COMPLETE = "complete"
_SHOWN = 5  # differences in a message; the first ones cause most of the others
_SHOWN_CHARS = 200
_SOURCE = re.compile(r"\[(\d+)\]\.")
REMEDY = (
    "change the text back, or begin without the state: spec.streaming.upgradeMode Stateless, spec.streaming.onIncompatible "
    "StartFresh, or a new SqlStatement"
)


class DescriptionError(Exception):
    """A stored description that this driver cannot read."""


class Change(StrEnum):
    SOURCE_ADDED = "SourceAdded"
    SOURCE_REMOVED = "SourceRemoved"
    SOURCE_CHANGED = "SourceChanged"
    SOURCES_REORDERED = "SourcesReordered"
    OPERATOR_ADDED = "OperatorAdded"
    OPERATOR_REMOVED = "OperatorRemoved"
    OPERATOR_CHANGED = "OperatorChanged"  # another type of join, another condition, another limit
    INPUT_CHANGED = "InputChanged"  # what the rows of an operator go through before it
    KEY_ADDED = "KeyAdded"
    KEY_REMOVED = "KeyRemoved"
    KEY_CHANGED = "KeyChanged"
    KEYS_REORDERED = "KeysReordered"
    AGGREGATE_ADDED = "AggregateAdded"
    AGGREGATE_REMOVED = "AggregateRemoved"
    AGGREGATE_CHANGED = "AggregateChanged"
    AGGREGATES_REORDERED = "AggregatesReordered"
    COLUMN_ADDED = "ColumnAdded"  # columns of rows that a join keeps
    COLUMN_REMOVED = "ColumnRemoved"
    COLUMN_CHANGED = "ColumnChanged"
    COLUMNS_REORDERED = "ColumnsReordered"
    WATERMARK_CHANGED = "WatermarkChanged"
    OUTPUT_MODE_CHANGED = "OutputModeChanged"


@dataclass(frozen=True)
class Source:
    """What a query streams. `identity` tells it from others: its provider and its place, topics or table; `name` is for people."""

    name: str
    identity: str


@dataclass(frozen=True)
class Column:
    """A column of state. `meaning` is its expression over columns of the sources, `[1].amount` being one of the first source;
    `type` is Spark's; `name` is that of the result and for people only."""

    name: str
    type: str
    meaning: str


@dataclass(frozen=True)
class Operator:
    """An operator with state. `settings` are what else shapes it, such as a join's type; `inputs` are, in order, what its rows
    come from and go through, without projections and filters."""

    kind: str
    keys: tuple[Column, ...] = ()
    values: tuple[Column, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Watermark:
    """An event time column, by its meaning, and the delay behind its maximum."""

    column: str
    delay_millis: int


@dataclass(frozen=True)
class Description:
    """What a checkpoint's state means. Sources are in the order of Spark's offset log; operators stand after those whose rows
    they take. `text_hash` is of the submitted text, empty when it is not known. `confs` are for whoever reads the state:
    Spark itself goes on with those of the checkpoint, so they are not compared.
    """

    spark_version: str
    text_hash: str
    output_mode: str
    sources: tuple[Source, ...]
    watermarks: tuple[Watermark, ...] = ()
    operators: tuple[Operator, ...] = ()
    confs: tuple[tuple[str, str], ...] = ()
    version: int = FORMAT_VERSION

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Description:
        """Raises DescriptionError for what is no description of this form."""
        try:
            raw = json.loads(text)
            if raw["version"] != FORMAT_VERSION:
                raise DescriptionError(f"it has version {raw['version']}, this driver knows {FORMAT_VERSION}")
            return cls(
                spark_version=str(raw["spark_version"]),
                text_hash=str(raw["text_hash"]),
                output_mode=str(raw["output_mode"]),
                sources=tuple(Source(**each) for each in raw["sources"]),
                watermarks=tuple(Watermark(**each) for each in raw["watermarks"]),
                operators=tuple(map(_operator, raw["operators"])),
                confs=_pairs(raw["confs"]),
            )
        except (KeyError, TypeError, ValueError) as broken:
            raise DescriptionError("it is not a description of state") from broken


@dataclass(frozen=True)
class Difference:
    """One reason why state does not fit. `operator` and `column` are for people; empty where there is none."""

    change: Change
    operator: str = ""
    column: str = ""
    before: str = ""
    after: str = ""


def differences(old: Description, new: Description) -> tuple[Difference, ...]:
    """What keeps a query described by `new` from going on from the state of `old`; nothing when it may.

    Another version of Spark may word the same expression in another way, so when the text is the same one, and only Spark's
    version is not, the wording is not compared: types, sources and operators still are.
    """
    if old.spark_version != new.spark_version and old.text_hash == new.text_hash != "":
        old, new = _without_wording(old), _without_wording(new)
    found = list(_sources(old.sources, new.sources))
    found += _operators(old.operators, new.operators)
    if old.operators and new.operators:
        found += _watermarks(old, new)
        found += _output_modes(old.output_mode, new.output_mode)
    return tuple(found)


def message(found: Sequence[Difference], old: Description, new: Description) -> str:
    """The differences for people, with what to do about them."""
    parts = [_sentence(each, old, new) for each in found[:_SHOWN]]
    if len(found) > _SHOWN:
        parts.append(f"and {len(found) - _SHOWN} more")
    if old.spark_version != new.spark_version:
        parts.append(
            f"the state was written by Spark {old.spark_version} and this is {new.spark_version}, which may word an "
            "expression in another way"
        )
    return f"the SQL text does not fit the state in its checkpoint: {'; '.join(parts)}. To go on, {REMEDY}"


def _sources(old: Sequence[Source], new: Sequence[Source]) -> Iterator[Difference]:
    before, after = [source.identity for source in old], [source.identity for source in new]
    if before == after:
        return
    if sorted(before) == sorted(after):
        names = (", ".join(source.name for source in each) for each in (old, new))
        yield Difference(Change.SOURCES_REORDERED, "sources", "", *names)
        return
    for gone, come in _pairings(before, after):
        was, now = (None if gone is None else old[gone]), (None if come is None else new[come])
        if was is None and now is not None:
            yield Difference(Change.SOURCE_ADDED, f"source {now.name}", after=now.identity)
        elif now is None and was is not None:
            yield Difference(Change.SOURCE_REMOVED, f"source {was.name}", before=was.identity)
        elif was is not None and now is not None:
            yield Difference(Change.SOURCE_CHANGED, f"source {was.name}", before=was.identity, after=now.identity)


def _operators(old: Sequence[Operator], new: Sequence[Operator]) -> Iterator[Difference]:
    kinds_before, kinds_after = [each.kind for each in old], [each.kind for each in new]
    if kinds_before != kinds_after:
        for gone, come in _pairings(kinds_before, kinds_after):
            if gone is not None:
                yield Difference(Change.OPERATOR_REMOVED, _named(old, gone), before=_text(old[gone]))
            if come is not None:
                yield Difference(Change.OPERATOR_ADDED, _named(new, come), after=_text(new[come]))
        return
    for index, (was, now) in enumerate(zip(old, new, strict=True)):
        yield from _operator_differences(_named(old, index), was, now)


def _operator_differences(name: str, was: Operator, now: Operator) -> Iterator[Difference]:
    settings = dict(was.settings), dict(now.settings)
    for key in dict.fromkeys([*settings[0], *settings[1]]):
        before, after = settings[0].get(key, "none"), settings[1].get(key, "none")
        if before != after:
            yield Difference(Change.OPERATOR_CHANGED, name, key, before, after)
    yield from _columns(name, was.keys, now.keys, _KEY)
    yield from _columns(name, was.values, now.values, _AGGREGATE if was.kind == AGGREGATE else _COLUMN)
    if was.inputs != now.inputs:
        yield Difference(Change.INPUT_CHANGED, name, "", ", ".join(was.inputs), ", ".join(now.inputs))


# Added, removed, changed, reordered
_KEY = (Change.KEY_ADDED, Change.KEY_REMOVED, Change.KEY_CHANGED, Change.KEYS_REORDERED)
_AGGREGATE = (
    Change.AGGREGATE_ADDED,
    Change.AGGREGATE_REMOVED,
    Change.AGGREGATE_CHANGED,
    Change.AGGREGATES_REORDERED,
)
_COLUMN = (Change.COLUMN_ADDED, Change.COLUMN_REMOVED, Change.COLUMN_CHANGED, Change.COLUMNS_REORDERED)


def _columns(
    operator: str, old: Sequence[Column], new: Sequence[Column], kinds: tuple[Change, Change, Change, Change]
) -> Iterator[Difference]:
    """Columns by their place, as Spark reads the rows of its state."""
    added, removed, changed, reordered = kinds
    before, after = [(c.meaning, c.type) for c in old], [(c.meaning, c.type) for c in new]
    if before == after:
        return
    if sorted(before) == sorted(after):
        texts = (", ".join(column.meaning for column in each) for each in (old, new))
        yield Difference(reordered, operator, ", ".join(column.name for column in old), *texts)
        return
    for gone, come in _pairings(before, after):
        if gone is None and come is not None:
            yield Difference(added, operator, new[come].name, after=new[come].meaning)
        elif come is None and gone is not None:
            yield Difference(removed, operator, old[gone].name, before=old[gone].meaning)
        elif come is not None and gone is not None:
            yield _changed(changed, operator, old[gone], new[come])


def _changed(change: Change, operator: str, was: Column, now: Column) -> Difference:
    if was.meaning == now.meaning:
        return Difference(change, operator, was.name, f"{was.meaning} {was.type}".strip(), now.type)
    return Difference(change, operator, was.name, was.meaning, now.meaning)


def _watermarks(old: Description, new: Description) -> Iterator[Difference]:
    """Another delay may come: Spark never takes a watermark back, and state that is kept longer or shorter stays right."""
    before, after = ([mark.column for mark in each.watermarks] for each in (old, new))
    for gone, come in _pairings(before, after) if before != after else ():
        was, now = (None if gone is None else before[gone]), (None if come is None else after[come])
        yield Difference(Change.WATERMARK_CHANGED, "watermark", was or now or "", was or "none", now or "none")


def _output_modes(before: str, after: str) -> Iterator[Difference]:
    """Append and Update drop groups behind the watermark, which Complete needs; they may take each other's place."""
    if before != after and COMPLETE in (before, after):
        yield Difference(Change.OUTPUT_MODE_CHANGED, "output mode", "", before, after)


def _pairings(before: Sequence[object], after: Sequence[object]) -> Iterator[tuple[int | None, int | None]]:
    """Places in two sequences that differ: (i, j) for one in place of another, (i, None) for one gone, (None, j) for a new one.
    Of sequences as long as each other, those at the same place."""
    if len(before) == len(after):
        yield from ((i, i) for i in range(len(before)) if before[i] != after[i])
        return
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        for step in range(max(i2 - i1, j2 - j1)):
            yield (i1 + step if i1 + step < i2 else None, j1 + step if j1 + step < j2 else None)


def _sentence(each: Difference, old: Description, new: Description) -> str:
    before, after = _shown(each.before, old.sources), _shown(each.after, new.sources)
    column = _shown(each.column, old.sources if each.before else new.sources)
    match each.change:
        case Change.SOURCE_ADDED | Change.OPERATOR_ADDED:
            return f"{each.operator} was added ({after})"
        case Change.SOURCE_REMOVED | Change.OPERATOR_REMOVED:
            return f"{each.operator} was removed ({before})"
        case Change.SOURCES_REORDERED:
            return f"sources were {before} in this order, are {after}"
        case Change.INPUT_CHANGED:
            return f"{each.operator}: its input was {before}, is {after}"
        case Change.OPERATOR_CHANGED:
            return f"{each.operator}: {column} was {before}, is {after}"
        case Change.KEY_ADDED:
            return f"{each.operator}: key column {column} was added ({after})"
        case Change.KEY_REMOVED:
            return f"{each.operator}: key column {column} was removed ({before})"
        case Change.AGGREGATE_ADDED | Change.COLUMN_ADDED:
            return f"{each.operator}: column {column} was added ({after})"
        case Change.AGGREGATE_REMOVED | Change.COLUMN_REMOVED:
            return f"{each.operator}: column {column} was removed ({before})"
        case Change.KEY_CHANGED:
            return f"{each.operator}: key column {column} was {before}, is {after}"
        case Change.AGGREGATE_CHANGED | Change.COLUMN_CHANGED:
            return f"{each.operator}: column {column} was {before}, is {after}"
        case Change.KEYS_REORDERED:
            return f"{each.operator}: key columns {column} were {before} in this order, are {after}"
        case Change.AGGREGATES_REORDERED | Change.COLUMNS_REORDERED:
            return f"{each.operator}: columns {column} were {before} in this order, are {after}"
        case Change.SOURCE_CHANGED | Change.WATERMARK_CHANGED | Change.OUTPUT_MODE_CHANGED:
            return f"{each.operator} was {before}, is {after}"


def _shown(text: str, sources: Sequence[Source]) -> str:
    """A meaning with the names of its sources, which are left out when there is only one."""

    def name(found: re.Match[str]) -> str:
        number = int(found[1])
        return "" if len(sources) == 1 or not 0 < number <= len(sources) else f"{sources[number - 1].name}."

    shown = _SOURCE.sub(name, text)
    return shown if len(shown) <= _SHOWN_CHARS else f"{shown[:_SHOWN_CHARS]}..."


def _named(operators: Sequence[Operator], index: int) -> str:
    """An operator's kind, with its number when there are several of the kind."""
    kind = operators[index].kind
    if sum(each.kind == kind for each in operators) == 1:
        return kind
    return f"{kind} {1 + sum(each.kind == kind for each in operators[:index])}"


def _text(operator: Operator) -> str:
    parts = [f"by {', '.join(column.meaning for column in operator.keys)}"] if operator.keys else []
    if operator.kind == AGGREGATE and operator.values:
        parts.append(f"of {', '.join(column.meaning for column in operator.values)}")
    parts += [f"{key} {value}" for key, value in operator.settings]
    return ", ".join(parts) or operator.kind


def _without_wording(description: Description) -> Description:
    operators = tuple(
        Operator(each.kind, _types(each.keys), _types(each.values), (), ()) for each in description.operators
    )
    return replace(description, watermarks=(), operators=operators)


def _types(columns: Sequence[Column]) -> tuple[Column, ...]:
    return tuple(replace(column, meaning="") for column in columns)


def _operator(raw: Any) -> Operator:
    keys, values = (tuple(Column(**each) for each in raw[part]) for part in ("keys", "values"))
    return Operator(raw["kind"], keys, values, _pairs(raw["settings"]), tuple(map(str, raw["inputs"])))


def _pairs(raw: Any) -> tuple[tuple[str, str], ...]:
    return tuple((str(key), str(value)) for key, value in raw)
