"""What a checkpoint must still have of what it has read of a source of files."""

from __future__ import annotations

import pytest

from sparksql.gateway.sql.errors import StatementError
from sparksql.gateway.streaming.checkpoints.content import check_log_of_files
from sparksql.wire.control import ErrorReason


@pytest.mark.parametrize(
    ("names", "last"), [([], -1), (["0"], 0), (["8", "9.compact"], 9), (["9.compact", "10"], 9), (["19.compact"], 12)]
)
def test_log_of_files_with_the_last_offset_is_taken(names: list[str], last: int) -> None:
    check_log_of_files("file:///c", "src", names, last)


@pytest.mark.parametrize(("names", "last"), [([], 0), (["0"], 1), (["9.compact", "10"], 11), (["2"], 1), (["x"], 0)])
def test_log_of_files_without_the_last_offset_is_refused(names: list[str], last: int) -> None:
    with pytest.raises(StatementError) as refused:
        check_log_of_files("file:///c", "src", names, last)
    assert refused.value.error.reason is ErrorReason.CHECKPOINT_LOST
    assert "source src" in refused.value.error.message
