"""Results that are kept: how much of them may be in memory, and until when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksql.gateway.results.store import MEMORY_BYTES, ExpiredResultError, ResultStore, StoredResult
from sparksql.gateway.spark.filesystem import HadoopFiles

NOW = datetime(2026, 1, 31, tzinfo=UTC)


class Files:
    """Remembers the folders that were removed."""

    def __init__(self) -> None:
        self.removed: list[str] = []

    def delete(self, folder: str) -> None:
        self.removed.append(folder)


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


def in_memory(size: int) -> StoredResult:
    return StoredResult(columns=(), row_count=0, truncated=False, bytes=size, table=pa.table({}))


def in_files(size: int) -> StoredResult:
    return StoredResult(columns=(), row_count=0, truncated=False, bytes=size, folder="file:///results/a")


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(
                st.just("keep"), st.sampled_from("abc"), st.integers(0, MEMORY_BYTES), st.booleans(), st.integers(0, 9)
            ),
            st.tuples(st.just("drop"), st.sampled_from("abc")),
            st.tuples(st.just("expire"), st.integers(0, 9)),
        )
    )
)
def test_memory_has_room_for_what_the_kept_tables_leave(steps: list[tuple[object, ...]]) -> None:
    files, clock = Files(), Clock()
    store = ResultStore(cast(HadoopFiles, files), clock)
    kept: dict[str, tuple[StoredResult, datetime]] = {}
    for step in steps:
        match step:
            case ("keep", str(name), int(size), bool(is_table), int(seconds)):
                result = in_memory(size) if is_table else in_files(size)
                assert store.keep(name, result, seconds) == clock.now + timedelta(seconds=seconds)
                kept[name] = (result, clock.now + timedelta(seconds=seconds))
            case ("drop", str(name)):
                assert store.drop(name) == kept.pop(name, (None, None))[0]
            case ("expire", int(seconds)):
                clock.now += timedelta(seconds=seconds)
                due = [name for name, (_, expires) in kept.items() if expires <= clock.now]
                assert sorted(store.expire()) == sorted(due)
                for name in due:
                    del kept[name]
        used = sum(result.bytes for result, _ in kept.values() if result.table is not None)
        left = MEMORY_BYTES - used
        assert (store.has_room(left), store.has_room(left + 1)) == (True, False)


def test_files_of_an_expired_result_are_removed_and_it_is_told_apart() -> None:
    files, clock = Files(), Clock()
    store = ResultStore(cast(HadoopFiles, files), clock)
    store.keep("a", in_files(5), 1)
    assert store.get("a").bytes == 5
    clock.now += timedelta(seconds=1)
    assert store.expire() == ["a"]
    assert files.removed == ["file:///results/a"]
    with pytest.raises(ExpiredResultError):
        store.get("a")
