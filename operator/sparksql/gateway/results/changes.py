"""What turns one version of a result into the next: a changelog of rows, as FLIP-91's results have it.

A query without end whose result changes, an aggregation, gives its whole result after each batch; its client is told the
difference.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa


class RowKind(StrEnum):
    """What a row of a changelog does to the result, by the names that Flink's clients know."""

    INSERT = "INSERT"
    UPDATE_BEFORE = "UPDATE_BEFORE"
    UPDATE_AFTER = "UPDATE_AFTER"
    DELETE = "DELETE"

    @property
    def short(self) -> str:
        """Returns the two characters that Flink's SQL Client shows."""
        match self:
            case RowKind.INSERT:
                return "+I"
            case RowKind.UPDATE_BEFORE:
                return "-U"
            case RowKind.UPDATE_AFTER:
                return "+U"
            case RowKind.DELETE:
                return "-D"


KIND_COLUMN = "op"  # as Flink's SQL Client names it


def with_kinds(table: pa.Table, kinds: Sequence[RowKind]) -> pa.Table:
    """Returns the rows of a changelog behind a first column, KIND_COLUMN, that has their kinds in short form."""
    column = pa.array([kind.short for kind in kinds], pa.string())
    return table.add_column(0, pa.field(KIND_COLUMN, pa.string(), nullable=False), column)


@dataclass(frozen=True)
class Changes:
    """Rows of a changelog in their order, and the kind of each."""

    table: pa.Table
    kinds: tuple[RowKind, ...]


@dataclass(frozen=True)
class _Version:
    """A whole result: the text of each row, and where the row of each key is, if no two rows have one key."""

    table: pa.Table
    texts: Sequence[str] = field(default=(), repr=False)
    by_key: dict[str, int] | None = field(default_factory=dict)


@dataclass(frozen=True)
class _Change:
    kind: RowKind
    row: int  # of the version before for what is taken away, of the next one otherwise

    @property
    def is_old(self) -> bool:
        return self.kind in (RowKind.UPDATE_BEFORE, RowKind.DELETE)


class ChangingRows:
    """Compares each version of a result with the one before.

    `keys` are the positions of the columns that tell its rows apart: a row that changes is then an update. Without them, or
    where two rows have the same ones, it is a deletion and an insertion.
    """

    def __init__(self, keys: Sequence[int] | None) -> None:
        self._keys = keys
        self._before = _Version(pa.table({}))

    def next(self, table: pa.Table) -> Changes:
        """Returns what turns the version before into this one: nothing for an equal one. The first version is all insertions."""
        before, self._before = self._before, self._version(table)
        changes = _changes(before, self._before)
        tables = [version.table for version in (before, self._before) if version.table.num_rows]
        if not changes:
            return Changes(table.slice(0, 0), ())
        offset = before.table.num_rows
        rows = [change.row if change.is_old else offset + change.row for change in changes]
        return Changes(pa.concat_tables(tables).take(rows), tuple(change.kind for change in changes))

    def _version(self, table: pa.Table) -> _Version:
        """Equal rows have equal texts, NaN among them, which no comparison of values would find equal."""
        columns = [column.to_pylist() for column in table.columns]
        texts = [repr(row) for row in zip(*columns, strict=True)]
        if self._keys is None:
            return _Version(table, texts, None)
        keys = [repr([columns[each][row] for each in self._keys]) for row in range(len(texts))]
        by_key = {key: row for row, key in enumerate(keys)}
        return _Version(table, texts, by_key if len(by_key) == len(texts) else None)


def _changes(before: _Version, after: _Version) -> list[_Change]:
    if before.by_key is None or after.by_key is None:
        return _of_rows(before, after)
    return _by_key(before, before.by_key, after, after.by_key)


def _by_key(before: _Version, old: dict[str, int], after: _Version, new: dict[str, int]) -> list[_Change]:
    changes = [_Change(RowKind.DELETE, row) for key, row in old.items() if key not in new]
    for key, row in new.items():
        was = old.get(key)
        if was is None:
            changes.append(_Change(RowKind.INSERT, row))
        elif before.texts[was] != after.texts[row]:
            changes += [_Change(RowKind.UPDATE_BEFORE, was), _Change(RowKind.UPDATE_AFTER, row)]
    return changes


def _of_rows(before: _Version, after: _Version) -> list[_Change]:
    left: defaultdict[str, list[int]] = defaultdict(list)
    for row, text in enumerate(before.texts):
        left[text].append(row)
    added: list[_Change] = []
    for row, text in enumerate(after.texts):
        if left[text]:
            left[text].pop()
        else:
            added.append(_Change(RowKind.INSERT, row))
    gone = sorted(row for rows in left.values() for row in rows)
    return [*(_Change(RowKind.DELETE, row) for row in gone), *added]
