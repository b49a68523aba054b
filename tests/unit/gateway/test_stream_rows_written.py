"""How many rows a run has written, from reports that Spark keeps the last of: exact, or unknown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparksql.gateway.streaming.written import CommittedBatch, ReportedRows


def reports(rows: list[int], first: int, kept: int) -> tuple[list[CommittedBatch], bool]:
    """What is kept of a run's batches, the newest first, and whether some may be forgotten."""
    batches = [CommittedBatch(first + index, count) for index, count in enumerate(rows)]
    return batches[::-1][:kept], len(batches) >= kept


@given(
    rows=st.lists(st.integers(0, 9), max_size=30),
    first=st.integers(0, 5),
    looks=st.lists(st.integers(0, 30), max_size=10),
    kept=st.integers(1, 12),
)
def test_count_is_the_sum_of_all_batches_or_unknown(rows: list[int], first: int, looks: list[int], kept: int) -> None:
    written, was_unknown = ReportedRows(), False
    for end in sorted(look for look in looks if look <= len(rows)):
        latest, may_lack = reports(rows[:end], first, kept)
        seen = written.add(latest, may_lack=may_lack)
        assert seen is None or (seen == sum(rows[:end]) and not was_unknown)
        was_unknown = was_unknown or (seen is None and end > 0)


@given(rows=st.lists(st.integers(0, 9), min_size=1, max_size=11))
def test_count_is_known_after_each_batch_that_is_looked_at(rows: list[int]) -> None:
    written = ReportedRows()
    for end in range(1, len(rows) + 1):
        latest, may_lack = reports(rows[:end], 4, kept=12)
        assert written.add(latest, may_lack=may_lack) == sum(rows[:end])


def test_count_before_the_first_batch_is_unknown() -> None:
    assert ReportedRows().add([], may_lack=False) is None


def test_count_stays_unknown_after_a_batch_that_no_sink_has_counted() -> None:
    written = ReportedRows()
    assert written.add([CommittedBatch(0, 5)], may_lack=False) == 5
    assert written.add([CommittedBatch(1, -1), CommittedBatch(0, 5)], may_lack=False) is None
    assert written.add([CommittedBatch(2, 3), CommittedBatch(1, -1)], may_lack=False) is None
