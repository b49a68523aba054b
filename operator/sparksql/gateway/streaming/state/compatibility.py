"""Whether a changed text may go on from the state of the one before it, told from the descriptions of both.

Spark compares types only: a count that becomes a sum, or a key that becomes another column of the same type, goes on from the
old state without an error and gives wrong numbers. Here the meaning of each key and value is compared. What does not shape the
state may change: filters, HAVING, columns of the result that are computed from it, names, the layout of the text.

Pure. What can be met by writing the state anew is told by `rewriting`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from sparksql.gateway.streaming.state import settings
from sparksql.gateway.streaming.state.description import (
    AGGREGATE,
    Description,
    StateColumn,
    StatefulOperator,
    StreamSource,
)
from sparksql.gateway.streaming.state.difference import Difference, DifferenceKind
from sparksql.gateway.streaming.state.structure_difference import opaque, parting
from sparksql.gateway.streaming.state.structure_difference import text as node_text

COMPLETE, UPDATE = "complete", "update"
_WITHOUT_ORDER = "an earlier version, which did not write down the order of the columns of the state"


def differences(old: Description, new: Description) -> tuple[Difference, ...]:
    """Returns what keeps a query described by `new` from going on from the state of `old`; nothing when it may.

    The structures of operators decide; where those differ, the readable parts tell it in the user's words. Another version of
    Spark may word the same expression in another way, so when the text is the same one, and only Spark's version is not, the
    wording is not compared: types, sources and operators still are.
    """
    same_text = old.text_hash == new.text_hash != "" and (old.parameters is None or old.parameters == new.parameters)
    if same_text and (old.is_text_only or new.is_text_only):
        found = [*_sources(old, new), *_settings(old, new)]
        if all(each.is_text_only and each.operators[0].values for each in (old, new)):  # columns of the sources
            found += _operators(old, new, same_text)
        return tuple(found)
    if same_text and (
        old.spark_version != new.spark_version or (old.is_of_first_version and _looks_at_the_clock(old, new))
    ):
        old, new = _without_wording(old), _without_wording(new)
    found = list(_sources(old, new))
    found += _operators(old, new, same_text)
    if old.operators and new.operators:
        found += _settings(old, new)
        found += _watermarks(old, new)
        found += _output_modes(old, new)
        found += _group_filters(old, new)
    if not found and old.operators and old.is_of_first_version and not same_text:
        earlier = "an earlier version, which did not record enough to compare another query with it"
        found.append(Difference(DifferenceKind.NOT_COMPARABLE, "the state", "", earlier, ""))
    return tuple(found)


def _settings(old: Description, new: Description) -> Iterator[Difference]:
    """State has what the old settings gave. Another version of Spark has other defaults, and they are of that version."""
    if old.settings is None or new.settings is None:
        return
    before, after = ({each.name: each for each in given} for given in (old.settings, new.settings))
    for name, was, now in settings.changed(before, after):
        yield Difference(DifferenceKind.SETTING_CHANGED, name, "", was, now)


def _looks_at_the_clock(*descriptions: Description) -> bool:
    """The first version could not always tell a literal of today from the current time."""
    return any(
        f"current_{each}()" in column.meaning
        for description in descriptions
        for operator in description.operators
        for column in (*operator.keys, *operator.values)
        for each in ("date", "timestamp")
    )


def _sources(of_old: Description, of_new: Description) -> Iterator[Difference]:
    old, new = of_old.sources, of_new.sources
    if any(each.is_text_only and not each.sources for each in (of_old, of_new)):  # they could not be read
        return
    before, after = [source.identity for source in old], [source.identity for source in new]
    if before == after:
        if of_old.operators and of_new.operators and not of_old.is_of_first_version:
            yield from _options(old, new)
        return
    if sorted(before) == sorted(after):
        names = (", ".join(source.name for source in each) for each in (old, new))
        yield Difference(DifferenceKind.SOURCES_REORDERED, "sources", "", *names)
        return
    for gone, come in _pairings(before, after):
        was, now = (None if gone is None else old[gone]), (None if come is None else new[come])
        if was is None and now is not None:
            yield Difference(DifferenceKind.SOURCE_ADDED, f"source {now.name}", after=now.identity)
        elif now is None and was is not None:
            yield Difference(DifferenceKind.SOURCE_REMOVED, f"source {was.name}", before=was.identity)
        elif was is not None and now is not None:
            yield Difference(
                DifferenceKind.SOURCE_CHANGED, f"source {was.name}", before=was.identity, after=now.identity
            )


def _options(old: Sequence[StreamSource], new: Sequence[StreamSource]) -> Iterator[Difference]:
    """Options that values are read with: state has what the old ones gave."""
    for was, now in zip(old, new, strict=True):
        if was.reading != now.reading:
            before, after = (f"read with {each.reading or 'no options'}" for each in (was, now))
            yield Difference(DifferenceKind.SOURCE_CHANGED, f"source {was.name}", "", before, after)


def _operators(of_old: Description, of_new: Description, same_text: bool) -> Iterator[Difference]:
    old, new = of_old.operators, of_new.operators
    kinds_before, kinds_after = [each.kind for each in old], [each.kind for each in new]
    if kinds_before != kinds_after:
        for gone, come in _pairings(kinds_before, kinds_after):
            if gone is not None:
                yield Difference(DifferenceKind.OPERATOR_REMOVED, _named(old, gone), before=_text(old[gone]))
            if come is not None:
                yield Difference(DifferenceKind.OPERATOR_ADDED, _named(new, come), after=_text(new[come]))
        return
    for index, (was, now) in enumerate(zip(old, new, strict=True)):
        name = _named(old, index)
        structure = now.structure if was.as_written else now.as_written or now.structure
        if was.structure and was.structure == structure:
            if structure != now.structure and not same_text:
                yield Difference(DifferenceKind.NOT_COMPARABLE, name, "", _WITHOUT_ORDER, "")
            unknown = None if same_text else opaque(of_new.nodes, now.structure)
            if unknown is not None:
                yield Difference(
                    DifferenceKind.NOT_COMPARABLE,
                    name,
                    "",
                    f"{unknown}, which cannot be distinguished from another",
                    "",
                )
            continue
        found = list(_operator_differences(name, was, now))
        if was.structure and now.structure:
            found = found or [_structural(name, of_old, was, of_new, now)]
        yield from found


def _structural(
    name: str, old: Description, was: StatefulOperator, new: Description, now: StatefulOperator
) -> Difference:
    """The place where two operators part that read the same."""
    found = parting(old.nodes, was.structure, new.nodes, now.structure)
    match found.path:
        case ("keys", int(place), *_) if place < len(was.keys):
            of = f"key column {was.keys[place].name}"
        case ("functions", int(place), *_) if place < len(was.values):
            of = f"column {was.values[place].name}"
        case ("columns", *_) | ("conditions", *_):
            of = str(found.path[0])
        case _:
            of = "input"
    return Difference(DifferenceKind.OPERATOR_CHANGED, name, f"{of}: {found.where}", found.before, found.after)


def _group_filters(old: Description, new: Description) -> Iterator[Difference]:
    """Yields the conditions on groups that differ.

    Spark applies a condition on keys, which the text has above the groups, to the rows below them: groups that are
    there already would not be seen by it.
    """
    if old.is_of_first_version or old.group_filters == new.group_filters:
        return
    before, after = (_conditions(each) for each in (old, new))
    yield Difference(DifferenceKind.GROUP_FILTER_CHANGED, "aggregate", "", before, after)


def _conditions(description: Description) -> str:
    told = [node_text(description.nodes, description.nodes[each][1]["condition"]) for each in description.group_filters]
    return " and ".join(told) or "none"


def _operator_differences(name: str, was: StatefulOperator, now: StatefulOperator) -> Iterator[Difference]:
    settings = dict(was.settings), dict(now.settings)
    for key in dict.fromkeys([*settings[0], *settings[1]]):
        before, after = settings[0].get(key, "none"), settings[1].get(key, "none")
        if before != after:
            yield Difference(DifferenceKind.OPERATOR_CHANGED, name, key, before, after)
    yield from _columns(name, was.keys, now.keys, _KEY)
    yield from _columns(name, was.values, now.values, _AGGREGATE if was.kind == AGGREGATE else _COLUMN)
    if was.inputs != now.inputs:
        yield Difference(DifferenceKind.INPUT_CHANGED, name, "", ", ".join(was.inputs), ", ".join(now.inputs))


# Added, removed, changed, reordered
_KEY = (DifferenceKind.KEY_ADDED, DifferenceKind.KEY_REMOVED, DifferenceKind.KEY_CHANGED, DifferenceKind.KEYS_REORDERED)
_AGGREGATE = (
    DifferenceKind.AGGREGATE_ADDED,
    DifferenceKind.AGGREGATE_REMOVED,
    DifferenceKind.AGGREGATE_CHANGED,
    DifferenceKind.AGGREGATES_REORDERED,
)
_COLUMN = (
    DifferenceKind.COLUMN_ADDED,
    DifferenceKind.COLUMN_REMOVED,
    DifferenceKind.COLUMN_CHANGED,
    DifferenceKind.COLUMNS_REORDERED,
)


def _columns(
    operator: str,
    old: Sequence[StateColumn],
    new: Sequence[StateColumn],
    kinds: tuple[DifferenceKind, DifferenceKind, DifferenceKind, DifferenceKind],
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


def _changed(change: DifferenceKind, operator: str, was: StateColumn, now: StateColumn) -> Difference:
    if was.meaning == now.meaning:
        return Difference(change, operator, was.name, f"{was.meaning} {was.type}".strip(), now.type)
    return Difference(change, operator, was.name, was.meaning, now.meaning)


def _watermarks(old: Description, new: Description) -> Iterator[Difference]:
    """Another delay may come: Spark never takes a watermark back, and state that is kept longer or shorter stays right."""
    before, after = ([mark.column for mark in each.watermarks] for each in (old, new))
    for gone, come in _pairings(before, after) if before != after else ():
        was, now = (None if gone is None else before[gone]), (None if come is None else after[come])
        yield Difference(DifferenceKind.WATERMARK_CHANGED, "watermark", was or now or "", was or "none", now or "none")


def _output_modes(old: Description, new: Description) -> Iterator[Difference]:
    """Yields a change of the output mode that the state does not allow.

    Append and Update drop groups behind the watermark, which Complete needs. Append keeps back groups until they are
    closed, and Update would not tell those of them to which no row comes any more.
    """
    before, after = old.output_mode, new.output_mode
    kept_back = after == UPDATE and any(each.kind == AGGREGATE for each in new.operators)
    if before != after and (COMPLETE in (before, after) or kept_back):
        yield Difference(DifferenceKind.OUTPUT_MODE_CHANGED, "output mode", "", before, after)


def _pairings(before: Sequence[object], after: Sequence[object]) -> Iterator[tuple[int | None, int | None]]:
    """Yields the places in two sequences that differ.

    (i, j) stands for one in place of another, (i, None) for one gone, (None, j) for a new one. Of sequences as long as
    each other, those at the same place are compared.
    """
    if len(before) == len(after):
        yield from ((i, i) for i in range(len(before)) if before[i] != after[i])
        return
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        for step in range(max(i2 - i1, j2 - j1)):
            yield (i1 + step if i1 + step < i2 else None, j1 + step if j1 + step < j2 else None)


def _named(operators: Sequence[StatefulOperator], index: int) -> str:
    """An operator's kind, with its number when there are several of the kind."""
    kind = operators[index].kind
    if sum(each.kind == kind for each in operators) == 1:
        return kind
    return f"{kind} {1 + sum(each.kind == kind for each in operators[:index])}"


def _text(operator: StatefulOperator) -> str:
    parts = [f"by {', '.join(column.meaning for column in operator.keys)}"] if operator.keys else []
    if operator.kind == AGGREGATE and operator.values:
        parts.append(f"of {', '.join(column.meaning for column in operator.values)}")
    parts += [f"{key} {value}" for key, value in operator.settings]
    return ", ".join(parts) or operator.kind


def _without_wording(description: Description) -> Description:
    operators = tuple(
        StatefulOperator(each.kind, _types(each.keys), _types(each.values), (), ()) for each in description.operators
    )
    return replace(description, watermarks=(), operators=operators, group_filters=())


def _types(columns: Sequence[StateColumn]) -> tuple[StateColumn, ...]:
    return tuple(replace(column, meaning="") for column in columns)
