"""Changes between two versions of a result, against plain Python."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.gateway.results.changes import ChangingRows, RowKind

INSERT, BEFORE, AFTER, DELETE = RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE

Row = tuple[str | None, float | None]


def table(rows: list[Row]) -> pa.Table:
    return pa.table(
        {"k": pa.array([k for k, _ in rows], pa.string()), "v": pa.array([v for _, v in rows], pa.float64())}
    )


def told(changing: ChangingRows, rows: list[Row]) -> list[tuple[RowKind, str | None, float | None]]:
    changes = changing.next(table(rows))
    values = [tuple(row.values()) for row in changes.table.to_pylist()]
    return [(kind, *value) for kind, value in zip(changes.kinds, values, strict=True)]  # type: ignore[misc]


def test_rows_with_keys_are_inserted_updated_and_deleted() -> None:
    changing = ChangingRows([0])

    assert told(changing, [("a", 1), ("b", 2)]) == [(INSERT, "a", 1), (INSERT, "b", 2)]
    assert told(changing, [("a", 1), ("b", 2)]) == []
    assert told(changing, [("b", 3), (None, 1)]) == [
        (DELETE, "a", 1),
        (BEFORE, "b", 2),
        (AFTER, "b", 3),
        (INSERT, None, 1),
    ]


def test_a_result_of_one_row_is_updated() -> None:
    changing = ChangingRows([])

    assert told(changing, [("count", 1)]) == [(INSERT, "count", 1)]
    assert told(changing, [("count", 2)]) == [(BEFORE, "count", 1), (AFTER, "count", 2)]


@pytest.mark.parametrize("keys", [None, [0]])
def test_rows_that_no_key_tells_apart_are_deleted_and_inserted(keys: list[int] | None) -> None:
    changing = ChangingRows(keys)

    told(changing, [("a", 1), ("a", 1), ("a", 2)])

    assert told(changing, [("a", 1), ("a", 3)]) == [(DELETE, "a", 1), (DELETE, "a", 2), (INSERT, "a", 3)]


def test_nan_is_equal_to_itself() -> None:
    changing = ChangingRows([0])

    told(changing, [("a", float("nan"))])

    assert told(changing, [("a", float("nan"))]) == []


rows = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([0.0, 1.0, None])), max_size=5)


@given(st.lists(rows, max_size=5), st.sampled_from([None, [0], [0, 1]]))
def test_applied_changes_give_each_version(versions: list[list[Row]], keys: list[int] | None) -> None:
    changing, seen = ChangingRows(keys), Counter[Row]()

    for version in versions:
        for kind, *row in told(changing, version):
            seen[tuple(row)] += 1 if kind in (INSERT, AFTER) else -1  # type: ignore[index]
            assert min(seen.values()) >= 0, "a row is taken away that is not there"
        assert +seen == Counter(version)
