"""Whether a state that does not fit a text can be computed anew, from the history that the sources still have.

The sources must be the very same ones in the same order: only for those the checkpoint has a place up to which they were
read. What of their history is still there is told by `rebuilding.history`.

Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from sparksql.gateway.streaming.state.description import Description
from sparksql.wire.control import HISTORY_READ

Offsets = Mapping[str, Mapping[str, int]]  # of Kafka: topic -> partition -> offset
_COMPACT = "cleanup.policy compact, which keeps the last record of a key alone"
_BEFORE_FIRST = -1  # StreamingOffset.START_OFFSET of Iceberg
_SHOWN = 3  # partitions or files in a message


@dataclass(frozen=True)
class Snapshot:
    """A snapshot of a table of Iceberg, by the number of the one that it was made of; None of the first one."""

    parent: int | None


@dataclass(frozen=True)
class SourceHistory:
    """What is read again of one source, in words with a number where that is known: `1200 offsets`."""

    source: str
    amount: str


@dataclass(frozen=True)
class Rebuilding:
    """Says from what a state is computed anew; nothing is read for a text that keeps no state.

    `is_over_by_itself`: what of history is over tells the watermark that the new text comes to, see `other_watermarks`.
    """

    histories: tuple[SourceHistory, ...] = ()
    is_over_by_itself: bool = False


@dataclass(frozen=True)
class NotRebuildable:
    """Says why a state is not computed anew."""

    reason: str


def other_sources(old: Description, new: Description) -> NotRebuildable | None:
    """Returns why the place in the old text's sources is none in those of the new one; None if it is."""
    if not old.sources or not new.sources:
        return NotRebuildable("the sources of the query are not known")
    if [each.identity for each in old.sources] == [each.identity for each in new.sources]:
        return None
    names = (", ".join(each.name for each in described.sources) for described in (old, new))
    was, now = names
    return NotRebuildable(
        f"its sources are {now} and were {was}: the checkpoint has no offsets for other sources. Keep the sources "
        "when you change the query, or read the other ones in another SqlStatement"
    )


def other_watermarks(old: Description, new: Description) -> bool:
    """Tells whether the old text's watermark says nothing of the new one's: it is of no column that this has one over."""
    return {each.column for each in old.watermarks} != {each.column for each in new.watermarks}


def kafka_history(
    source: str, begun: Offsets, read: Offsets, earliest: Offsets, compacted: Collection[str] | None
) -> SourceHistory | NotRebuildable:
    """Returns how many offsets of Kafka are read again, or which ones are gone.

    `begun` is where the query began, `read` up to where it has read, `earliest` what the topics have now. A partition that
    was added later was read from its first offset on. `compacted` are the topics in which offsets have no record any more;
    None when nobody knows.
    """
    lost = [f"topic {topic} is compacted ({_COMPACT})" for topic in sorted(read.keys() & set(compacted or ()))]
    count = 0
    for topic, partitions in read.items():
        for partition, end in partitions.items():
            start = begun.get(topic, {}).get(partition, 0)
            first = earliest.get(topic, {}).get(partition)
            count += max(0, end - start)
            if end > start and (first is None or first > start):
                there = "is gone" if first is None else f"is there from offset {first} on"
                lost.append(f"partition {partition} of topic {topic} {there} and was read from {start} to {end}")
    unknown = (
        "" if compacted is not None else " (the topic configuration is not readable by this user: compaction unknown)"
    )
    return _incomplete(source, lost) if lost else SourceHistory(source, f"{count} offsets{unknown}")


def iceberg_history(
    source: str, begun: int, last: int, snapshot_of: Callable[[int], Snapshot | None]
) -> SourceHistory | NotRebuildable:
    """Returns how many snapshots of a table of Iceberg are read again, or which one is gone.

    `begun` is the snapshot that the query began with, `last` the one that it has read last; -1 is one before the table's first.
    `snapshot_of` gives those that the table has.
    """
    if last == _BEFORE_FIRST:
        return SourceHistory(source, "nothing")
    count, number = 1, last
    while number != begun:
        snapshot = snapshot_of(number)
        if snapshot is None:
            return _incomplete(source, [f"snapshot {number} has expired"])
        if snapshot.parent is None and begun == _BEFORE_FIRST:
            return SourceHistory(source, f"{count} snapshots")
        if snapshot.parent is None:
            return _incomplete(source, [f"snapshot {last} was not made of {begun}, with which the query began"])
        count, number = count + 1, snapshot.parent
    if snapshot_of(begun) is None:
        return _incomplete(source, [f"snapshot {begun} has expired"])
    return SourceHistory(source, f"{count} snapshots")


def files_history(source: str, read: Collection[str], there: Collection[str]) -> SourceHistory | NotRebuildable:
    """Returns how many files are read again, or which ones are gone, of the paths that were read and those that there are."""
    lost = sorted(set(read).difference(there))
    if lost:
        return _incomplete(source, [f"file {path.rpartition('/')[2]} no longer exists" for path in lost])
    return SourceHistory(source, f"{len(read)} files")


def _incomplete(source: str, lost: list[str]) -> NotRebuildable:
    more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
    return NotRebuildable(
        f"the history of source {source} is not whole any more: {'; '.join(lost[:_SHOWN])}{more}. A state of the rest would be "
        "wrong without a word"
    )


def files_read(logs: Mapping[str, str], last: int) -> list[str]:
    """Returns the paths of the files that a table's stream has read by its offset `last`, by the logs in its checkpoint.

    A log is named by a number; `9.compact` has all that came before as well.
    """
    numbers = {int(name.partition(".")[0]): name for name in logs}
    compact = max((number for number, name in numbers.items() if name.endswith(".compact")), default=-1)
    found: dict[str, None] = {}
    for number in sorted(numbers):
        if number < compact:
            continue
        for line in logs[numbers[number]].splitlines()[1:]:
            entry = json.loads(line)
            if int(entry["batchId"]) <= last:
                found[str(entry["path"])] = None
    return list(found)


def history_rows(how: Rebuilding) -> list[tuple[str, ...]]:
    """Returns rows of `COMPARISON` that tell what is read again, of each source; at least one."""
    read = [(f"source {each.source}", each.amount) for each in how.histories] or [
        ("", "nothing: the text keeps no state")
    ]
    return [(HISTORY_READ, source, "", "", amount, "") for source, amount in read]


def told(how: Rebuilding) -> str:
    """Returns for people what is read again."""
    if not how.histories:
        return "nothing is read again, as the text keeps no state"
    return ", ".join(f"{each.amount} of source {each.source}" for each in how.histories)
