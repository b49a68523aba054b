"""The ids of Kafka's topics, kept in a checkpoint: a topic that was deleted and made anew under its name has another one.

Spark keeps numbers of records alone. In a topic made anew it goes on at the number where it was: records before it are never
read, and where enough of them were written meanwhile no error names that. Kafka gives each topic an id for its life (since
Kafka 2.8); brokers without ids give none, and their topics are not compared.

Pure.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

NAME = "sparksql-sources.json"
_VERSION = 1

TopicIds = Mapping[str, str]  # by the topic's name; one without an id is not there


class UnreadableIdsError(Exception):
    """A file of ids that this driver cannot read."""


@dataclass(frozen=True)
class Recreated:
    """A topic that has another id than the one that was read."""

    topic: str
    before: str
    now: str


def ids_to_json(sources: Sequence[TopicIds]) -> str:
    """Returns the file's text: the ids of each source's topics, in the order of the sources."""
    return json.dumps({"version": _VERSION, "topics": [dict(sorted(each.items())) for each in sources]}, indent=1)


def ids_from_json(text: str) -> tuple[TopicIds, ...]:
    """Reads a file's text. Raises UnreadableIdsError."""
    try:
        raw = json.loads(text)
        if raw["version"] != _VERSION:
            raise UnreadableIdsError(f"it has version {raw['version']}, this driver supports {_VERSION}")
        return tuple({str(topic): str(number) for topic, number in each.items()} for each in raw["topics"])
    except (KeyError, TypeError, ValueError, AttributeError) as broken:
        raise UnreadableIdsError("it does not hold ids of topics") from broken


def recreated(before: TopicIds, now: TopicIds, read: Collection[str]) -> tuple[Recreated, ...]:
    """Returns the topics made anew among those that the last batch has `read`, in the order of their names.

    A topic that is not among them is read from its first record, whichever id it has.
    """
    return tuple(
        Recreated(topic, before[topic], now[topic])
        for topic in sorted(read)
        if topic in before and topic in now and before[topic] != now[topic]
    )


def kept(before: TopicIds, now: TopicIds, read: Collection[str], *, may_lose: bool) -> TopicIds:
    """Returns the ids to keep in the checkpoint.

    That of a topic which is not there now stays, as the checkpoint still has a place in it, unless the query `may_lose`
    rows.
    """
    stay = {} if may_lose else {topic: number for topic, number in before.items() if topic in read}
    return {**stay, **now}
