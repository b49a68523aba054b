"""Files that a table's stream has read and that were replaced since.

Spark's stream of files knows those that it has read by their paths alone: another file that is put in such a place is never read,
without an error (measured with Spark 4.1.3: also one that is newer, and one whose predecessor was removed first). Its log has
the time of modification of each file as it was read.

Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import unquote

_MILLIS = 1000
_SHOWN = 3


def read_times(logs: Mapping[str, str], last: int) -> dict[str, int]:
    """Returns the paths of files that a stream has read by its offset `last`, with their times of modification.

    `logs` are the files of Spark's log of a source, by their names: `9.compact` has all that came before as well.
    Times are in milliseconds since 1970.
    """
    numbers = {int(name.partition(".")[0]): name for name in logs}
    compact = max((number for number, name in numbers.items() if name.endswith(".compact")), default=-1)
    found: dict[str, int] = {}
    for number in sorted(numbers):
        if number < compact:
            continue
        for line in logs[numbers[number]].splitlines()[1:]:
            entry = json.loads(line)
            if int(entry["batchId"]) <= last:
                found[unquote(str(entry["path"]))] = int(entry["timestamp"])
    return found


def replaced(read: Mapping[str, int], now: Mapping[str, int]) -> list[str]:
    """Returns the paths of files that are there with another time of modification than the one that was read."""
    return sorted(path for path, time in now.items() if path in read and _differ(read[path], time))


def _differ(one: int, other: int) -> bool:
    """Object stores give whole seconds in one answer and milliseconds in another: these are compared by their seconds."""
    if one % _MILLIS and other % _MILLIS:
        return one != other
    return one // _MILLIS != other // _MILLIS


def shown(paths: list[str]) -> str:
    """Returns some paths for a message."""
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return f"{', '.join(paths[:_SHOWN])}{more}"
