"""What a stream may find in its table of files before it starts."""

from __future__ import annotations

from itertools import product

import pytest

from sparksql.gateway.streaming.sinks import Found, hazard

NEW = Found(has_log=False, is_ours=False, holds_data=False, written=None, committed=None, planned=None)


def found(log: int | str | None, *, ours: bool = True, data: bool = False, committed: int | None = None, planned: int | None = None) -> Found:  # fmt: skip
    """`log` is its last batch, "empty" or None for no log."""
    return Found(log is not None, ours, data, log if isinstance(log, int) else None, committed, planned)


@pytest.mark.parametrize(
    ("there", "says"),
    [
        (NEW, None),
        (found(None, planned=0), None),
        (found(None, ours=False, data=True), "no stream has written"),
        (found(None, data=True, planned=0), "no stream has written"),
        (found("empty"), None),
        (found("empty", planned=0), None),
        (found("empty", planned=0, data=True), None),
        (found("empty", ours=False), "TRUNCATE TABLE"),
        (found("empty", ours=False, planned=0), "TRUNCATE TABLE"),
        (found(0, planned=0, data=True), None),
        (found(0, data=True), "checkpoint is new"),
        (found(1, planned=0, data=True), "checkpoint is new"),
        (found(0, ours=False, planned=0, data=True), "checkpoint is new"),
        (found(3, ours=False, committed=3, planned=3, data=True), None),
        (found(3, committed=2, planned=3, data=True), None),
        (found(2, committed=2, planned=3, data=True), None),
        (found(4, committed=2, planned=3, data=True), "batch 4 already"),
        (found(1, committed=2, planned=3, data=True), "it is another one"),
        (found(None, committed=0, planned=0), "created again"),
        (found("empty", committed=0, planned=0), "created again"),
    ],
)
def test_a_stream_is_refused_a_file_target_where_rows_would_be_lost_or_hidden(there: Found, says: str | None) -> None:
    problem = hazard(there)
    assert problem is None if says is None else problem is not None and says in problem


def test_a_stream_without_a_commit_is_refused_a_target_that_others_wrote() -> None:
    """Over all that can be found: a stream without a commit starts only where the log has no batch of another stream."""
    numbers = (None, 0, 1)
    for has_log, ours, data, written, planned in product((False, True), (False, True), (False, True), numbers, numbers):
        if written is not None and not has_log:
            continue
        there = Found(has_log, ours, data, written, None, planned)
        if hazard(there) is None:
            assert ours or not has_log, there
            assert written is None or (ours and written == planned), there
            assert has_log or not data, there
