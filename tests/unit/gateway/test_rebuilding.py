"""Whether a state can be computed anew from what its sources still have, and the files of such a state."""

from __future__ import annotations

import json

import pytest

from sparksql.gateway.streaming.checkpoints.batch_files import moved_state
from sparksql.gateway.streaming.rebuilding.rebuild import Place, with_settings
from sparksql.gateway.streaming.state.description import Description, StreamSource, Watermark
from sparksql.gateway.streaming.state.rebuilding import (
    NotRebuildable,
    Rebuilding,
    Snapshot,
    SourceHistory,
    files_history,
    files_read,
    history_rows,
    iceberg_history,
    kafka_history,
    other_sources,
    other_watermarks,
)

BEGUN, READ = {"t": {"0": 5}}, {"t": {"0": 9, "1": 4}}
LOST = {
    "retention": (
        {"t": {"0": 7, "1": 0}},
        frozenset(),
        "partition 0 of topic t is there from offset 7 on and was read from 5 to 9",
    ),
    "a partition": ({"t": {"0": 0}}, frozenset(), "partition 1 of topic t is gone"),
    "compaction": ({"t": {"0": 0, "1": 0}}, frozenset("t"), "topic t is compacted"),
}


def test_offsets_of_kafka_are_counted_from_where_the_query_began() -> None:
    whole = {"t": {"0": 5, "1": 0}}
    assert kafka_history("src", BEGUN, READ, whole, frozenset()) == SourceHistory("src", "8 offsets")
    unknown = kafka_history("src", BEGUN, READ, whole, None)
    assert isinstance(unknown, SourceHistory) and unknown.amount.startswith("8 offsets (the topic configuration")
    nothing_read = {"t": {"0": 5}}
    assert kafka_history("src", BEGUN, nothing_read, {}, frozenset()) == SourceHistory("src", "0 offsets")


@pytest.mark.parametrize(("earliest", "compacted", "says"), LOST.values(), ids=LOST.keys())
def test_history_that_kafka_no_longer_has_is_refused_by_name(
    earliest: dict[str, dict[str, int]], compacted: frozenset[str], says: str
) -> None:
    found = kafka_history("src", BEGUN, READ, earliest, compacted)
    assert isinstance(found, NotRebuildable) and says in found.reason


def test_files_that_a_stream_has_read_are_told_by_its_logs_and_their_loss_is_refused() -> None:
    def log(*entries: tuple[int, str]) -> str:
        return "\n".join(
            ["v1", *(json.dumps({"path": path, "timestamp": 1, "batchId": batch}) for batch, path in entries)]
        )

    logs = {
        "8": log((8, "gone/from/the/compacted")),
        "9.compact": log((0, "a/1"), (9, "a/2")),
        "10": log((10, "a/3")),
        "11": log((11, "a/4")),
    }
    read = files_read(logs, 10)
    assert read == ["a/1", "a/2", "a/3"]
    assert files_history("src", read, {*read, "a/4"}) == SourceHistory("src", "3 files")
    lost = files_history("src", read, {"a/3"})
    assert isinstance(lost, NotRebuildable) and "file 1 no longer exists; file 2 no longer exists" in lost.reason


def test_a_state_is_not_computed_anew_from_other_sources() -> None:
    def reads(*names: str) -> Description:
        return Description("4", "", "append", tuple(StreamSource(name, f"table {name}") for name in names))

    assert other_sources(reads("a", "b"), reads("a", "b")) is None
    for old, new in ((reads("a"), reads("a", "b")), (reads("a", "b"), reads("b", "a")), (reads(), reads())):
        assert isinstance(other_sources(old, new), NotRebuildable)


def test_a_watermark_over_another_column_says_nothing_of_what_is_over() -> None:
    def over(*columns: str, delay: int = 1) -> Description:
        watermarks = tuple(Watermark(column, delay) for column in columns)
        return Description("4", "", "append", (), watermarks)

    assert not other_watermarks(over("[1].ts"), over("[1].ts", delay=9))
    assert all(other_watermarks(over(*old), over("[1].ts")) for old in ((), ("[1].arrived",)))


def test_a_text_without_state_is_told_to_read_no_history() -> None:
    assert history_rows(Rebuilding()) == [("HistoryRead", "", "", "", "nothing: the text keeps no state", "")]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("0/3/1.delta", "0/3/8.snapshot"),
        ("0/3/left-keyToNumValues/2.delta", "0/3/left-keyToNumValues/9.delta"),
        ("0/3/1.zip", None),
        ("0/3/2.zip", "0/3/9.zip"),
        ("0/3/SSTs/a.sst", "0/3/SSTs/a.sst"),
        ("0/3/.1.delta.crc", None),
        ("0/0/_metadata/schema", "0/0/_metadata/schema"),
    ],
)
def test_files_of_a_state_of_two_versions_get_the_names_of_the_last_batch(path: str, name: str | None) -> None:
    assert moved_state(path, 2, 9) == name


def test_a_begun_state_with_an_unknown_file_is_refused() -> None:
    for path in ("0/3/1.changelog", "0/3/1_id.zip", "0/3/1.snapshot"):
        with pytest.raises(ValueError, match="has 1"):
            moved_state(path, 2, 9)


def test_a_batch_of_history_has_the_offsets_and_another_watermark() -> None:
    place = Place(3, 'v1\n{"batchWatermarkMs":480000,"batchTimestampMs":1,"conf":{}}\n{"logOffset":2}')
    version, metadata, source = place.with_watermark(0).splitlines()
    assert place.watermark == 480000
    assert (version, source) == ("v1", '{"logOffset":2}')
    assert json.loads(metadata) == {"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {}}


def test_settings_of_a_state_replace_those_of_the_state_before_and_no_others() -> None:
    before = 'v1\n{"batchWatermarkMs":7,"conf":{"store":"old","partitions":"2"}}\n{"logOffset":2}'
    version, metadata, source = with_settings(before, {"store": "new"}).splitlines()
    assert (version, source) == ("v1", '{"logOffset":2}')
    assert json.loads(metadata) == {"batchWatermarkMs": 7, "conf": {"store": "new", "partitions": "2"}}


# Four snapshots, each made of the one before it, of which the first one may have expired.
SNAPSHOTS = {11: Snapshot(None), 12: Snapshot(11), 13: Snapshot(12), 14: Snapshot(13)}


@pytest.mark.parametrize(
    ("begun", "last", "gone", "amount"),
    [
        (-1, -1, (), "nothing"),
        (-1, 13, (), "3 snapshots"),
        (11, 14, (), "4 snapshots"),
        (12, 14, (11,), "3 snapshots"),
        (14, 14, (11, 12, 13), "1 snapshots"),
    ],
)
def test_iceberg_history_is_whole_from_the_snapshot_that_the_query_began_with(
    begun: int, last: int, gone: tuple[int, ...], amount: str
) -> None:
    there = {number: each for number, each in SNAPSHOTS.items() if number not in gone}
    assert iceberg_history("src", begun, last, there.get) == SourceHistory("src", amount)


@pytest.mark.parametrize(
    ("begun", "last", "gone", "lost"),
    [
        (-1, 13, (11,), "snapshot 11 has expired"),
        (11, 14, (12,), "snapshot 12 has expired"),
        (11, 14, (11,), "snapshot 11 has expired"),
        (14, 14, (14,), "snapshot 14 has expired"),
        (14, 12, (), "snapshot 12 was not made of 14, with which the query began"),
    ],
)
def test_iceberg_history_without_a_snapshot_is_not_whole(
    begun: int, last: int, gone: tuple[int, ...], lost: str
) -> None:
    there = {number: each for number, each in SNAPSHOTS.items() if number not in gone}
    found = iceberg_history("src", begun, last, there.get)
    assert isinstance(found, NotRebuildable) and lost in found.reason
