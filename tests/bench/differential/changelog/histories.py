"""Random histories of two tables, as their databases' changes in the encodings of Debezium and of Maxwell.

Each table is a topic of three partitions; one key's changes are in one of these. Batches take a random number of changes from each
partition, in any order among the partitions: what a batch has seen is a prefix of each partition.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

Row = Mapping[str, Any]
COLUMNS: Mapping[str, str] = {
    "orders": "id BIGINT, customer BIGINT, region STRING, n INT, l BIGINT, d DECIMAL(10,2), x DOUBLE",
    "customers": "id INT, name STRING, factor INT",
}
DIM = ((1, "one"), (2, "two"), (2, "zwei"), (None, "none"))
PARTITIONS = 3


@dataclass(frozen=True)
class Change:
    """A change of a row: `op` is Debezium's."""

    op: str
    before: Row | None
    after: Row | None

    def debezium(self) -> dict[str, Any]:
        """Returns Debezium's envelope."""
        return {"before": self.before, "after": self.after, "op": self.op}

    def maxwell(self) -> dict[str, Any]:
        """Returns Maxwell's value, whose row is the new one, or of a delete the one that was."""
        kinds = {"c": "insert", "u": "update", "d": "delete", "r": "bootstrap-insert"}
        told = {"database": "shop", "table": "t", "type": kinds[self.op], "ts": 1, "data": self.after or self.before}
        return {**told, "old": self.before} if self.op == "u" else told


@dataclass
class History:
    """What happens to the tables. `batches` has for each table and batch the lines of its file; `seen` the rows after each batch."""

    batches: dict[str, list[list[str]]] = field(default_factory=dict)
    seen: dict[str, list[list[Row]]] = field(default_factory=dict)


def history(drawn: random.Random, encoding: str, *, batches: int) -> History:
    """Returns a history. Of Maxwell an update of a key is one change, and the row under its old key stays."""
    found = History()
    for table in COLUMNS:
        queues: list[list[Change]] = [[] for _ in range(PARTITIONS)]
        rows: dict[Any, Row] = {}
        is_snapshot = drawn.random() < 0.5
        for step in range(drawn.randint(10, 26)):
            for change in _changes(drawn, table, rows, encoding, is_snapshot=is_snapshot and step < 5):
                key = (change.after if encoding == "maxwell" and change.after else change.before or change.after or {})[
                    "id"
                ]
                queues[key % PARTITIONS].append(change)
        found.batches[table], found.seen[table] = _batched(drawn, queues, encoding, batches)
    return found


def _changes(
    drawn: random.Random, table: str, rows: dict[Any, Row], encoding: str, *, is_snapshot: bool
) -> list[Change]:
    row = _row(drawn, table)
    before = rows.get(row["id"])
    if rows and not is_snapshot and drawn.random() < 0.15:  # another key for a row that is there
        old = rows[drawn.choice(list(rows))]
        new = {**old, "id": row["id"]}
        if before is None and new["id"] != old["id"]:
            del rows[old["id"]]
            rows[new["id"]] = new
            if encoding == "maxwell":
                return [Change("u", old, new)]
            return [Change("d", old, None), Change("c", None, new)]
    if before is not None and drawn.random() < 0.3:
        del rows[row["id"]]
        return [Change("d", before, None)]
    rows[row["id"]] = row
    if before is not None:
        return [Change("u", before, row)]
    return [Change("r" if is_snapshot else "c", None, row)]


def _row(drawn: random.Random, table: str) -> Row:
    some = (0, 1, 1, 2, 3, None)
    if table == "customers":
        return {"id": drawn.randint(0, 4), "name": drawn.choice(("a", "b", "c", None)), "factor": drawn.choice(some)}
    return {
        "id": drawn.randint(0, 7),
        "customer": drawn.choice((*some, 4)),
        "region": drawn.choice((None, "a", "b", "B")),
        "n": drawn.choice(some),
        "l": drawn.choice((None, drawn.randint(-(2**50), 2**50))),
        "d": drawn.choice((None, *[str(Decimal(drawn.randint(-9999, 99999)) / 100)] * 3)),
        "x": drawn.choice((None, *[drawn.randint(-40, 40) / 4] * 3)),
    }


def _batched(
    drawn: random.Random, queues: Sequence[Sequence[Change]], encoding: str, batches: int
) -> tuple[list[list[str]], list[list[Row]]]:
    """The lines of each batch's file, and the rows after it."""
    places = [0] * PARTITIONS
    offsets = [0] * PARTITIONS
    rows: dict[Any, Row] = {}
    files, seen = [], []
    for batch in range(batches):
        lines: list[str] = []
        for partition, of in enumerate(queues):
            left = len(of) - places[partition]
            take = left if batch == batches - 1 else drawn.randint(0, min(left, 5))
            for change in of[places[partition] : places[partition] + take]:
                values: list[Any] = [getattr(change, encoding)()]
                if encoding == "debezium" and change.op == "d" and drawn.random() < 0.5:
                    values.append(None)  # a tombstone
                for value in values:
                    told = None if value is None else json.dumps(value)
                    lines.append(json.dumps({"value": told, "partition": partition, "offset": offsets[partition]}))
                    offsets[partition] += 1
                _apply(rows, change, encoding)
            places[partition] += take
        drawn.shuffle(lines)
        files.append(lines)
        seen.append(list(rows.values()))
    return files, seen


def _apply(rows: dict[Any, Row], change: Change, encoding: str) -> None:
    if change.after is None:
        assert change.before is not None
        rows.pop(change.before["id"], None)
        return
    rows[change.after["id"]] = change.after
