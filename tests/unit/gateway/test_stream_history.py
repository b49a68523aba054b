"""Where a stream of Iceberg stands, by Spark's log of offsets."""

import pytest

from sparksql.gateway.streaming.history import snapshots

HEAD = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1700000000000,"conf":{}}\n'
ICEBERG = '{"version":1,"snapshot_id":6135871940000000001,"position":2,"scan_all_files":false}'
EMPTY = '{"version":1,"snapshot_id":-1,"position":-1,"scan_all_files":false}'


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((ICEBERG,), [6135871940000000001]),
        ((EMPTY,), []),
        (('{"orders":{"0":17}}', ICEBERG, '{"logOffset":3}'), [6135871940000000001]),
        (('{"snapshot_id":{"0":17}}', "12", "-", "not json"), []),
        ((), []),
    ],
)
def test_snapshots_of_a_log_entry(lines: tuple[str, ...], expected: list[int]) -> None:
    assert snapshots(HEAD + "\n".join(lines)) == expected


def test_an_entry_that_is_not_there() -> None:
    assert snapshots("") == []
