"""Compares the sources of a query with what its checkpoint has read, before the query starts."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from sparksql.gateway.spark.filesystem import HadoopFiles
from sparksql.gateway.spark.scala import simple_name
from sparksql.gateway.spark.shapes import Jvm, LogicalPlan
from sparksql.gateway.sql.errors import refusal
from sparksql.gateway.streaming.checkpoints.content import check_log_of_files
from sparksql.gateway.streaming.continuity.losses import ANEW, KAFKA_REMEDY
from sparksql.gateway.streaming.continuity.places import NOTHING, Source, last_places, sources_of
from sparksql.gateway.streaming.continuity.read_files import read_times, replaced, shown
from sparksql.gateway.streaming.continuity.snapshots import is_iceberg_leaf, moved_start
from sparksql.gateway.streaming.continuity.topic_ids import topic_ids
from sparksql.gateway.streaming.continuity.topics import (
    NAME,
    Recreated,
    TopicIds,
    UnreadableIdsError,
    ids_from_json,
    ids_to_json,
    kept,
    recreated,
)
from sparksql.gateway.streaming.kafka.options import is_kafka
from sparksql.wire.control import ErrorReason

_FAILS_ON_LOSS = "failOnDataLoss"  # of Spark's source of Kafka; true without it
_LOG_OFFSET = "logOffset"  # of Spark's source of files, which alone has it
_FOLDERS_AT_A_TIME = 8

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SourceIds:
    """The ids of a query's sources as the checkpoint is to keep them; `before` is the text that it has.

    `starts` are files of the checkpoint with the places where sources began, see `moved_start`.
    """

    files: HadoopFiles
    checkpoint: str
    text: str | None = field(repr=False)
    before: str | None
    starts: Mapping[str, str] = field(default_factory=dict)

    def write(self) -> None:
        """Keeps the ids in the checkpoint, if they are not there yet, and the files of `starts`."""
        for uri, start in self.starts.items():
            self.files.write_text(uri, start)
        if self.text is not None and self.text != self.before:
            self.files.write_text(f"{self.checkpoint}/{NAME}", self.text)


def check_sources_read(jvm: Jvm, files: HadoopFiles, analysed: LogicalPlan, checkpoint: str) -> SourceIds:
    """Returns the ids of the sources that a query reads from where its checkpoint is.

    A source whose id the checkpoint does not have yet is taken as it is. Raises StatementError, reason SourceLost, when a
    topic was made anew or files were replaced, and reason CheckpointLost when the log of what was read is gone;
    EnvironmentFailed when no broker answers.
    """
    sources, places = sources_of(jvm, analysed), last_places(files, checkpoint)
    before = files.read_text(f"{checkpoint}/{NAME}")
    known = _known(before) if before is not None and places is not None else ()
    if places is None:
        places = (NOTHING,) * len(sources)
    if len(places) != len(sources):  # Spark refuses them
        return SourceIds(files, checkpoint, None, before)
    ids: list[TopicIds] = []
    starts: dict[str, str] = {}
    for number, (source, place) in enumerate(zip(sources, places, strict=True)):
        folder = f"{checkpoint}/sources/{number}"
        if simple_name(source.leaf) == "StreamingRelationV2" and is_kafka(source.leaf.sourceName()):
            ids.append(_checked_topics(jvm, source, folder, place, known[number] if number < len(known) else {}))
            continue
        ids.append({})
        if is_iceberg_leaf(source.leaf):
            starts |= moved_start(jvm, files, source.leaf, folder, place)
        offset = _json(place)
        if simple_name(source.leaf) == "StreamingRelation" and isinstance(offset, dict) and [*offset] == [_LOG_OFFSET]:
            _check_files(files, source, folder, int(offset[_LOG_OFFSET]), checkpoint)
    return SourceIds(files, checkpoint, ids_to_json(ids) if any(ids) else None, before, starts)


def _known(text: str) -> tuple[TopicIds, ...]:
    try:
        return ids_from_json(text)
    except UnreadableIdsError as broken:
        message = (
            f"{NAME} in the checkpoint, which has the ids of the topics that were read, cannot be read: {broken}. Remove it if no topic "
            "was deleted and created again since the last batch"
        )
        raise refusal(ErrorReason.SOURCE_LOST, message) from broken


def _checked_topics(jvm: Jvm, source: Source, folder: str, place: str, before: TopicIds) -> TopicIds:
    """The ids to keep of a Kafka source's topics. Raises StatementError when one was made anew."""
    offsets = _json(place)
    read = frozenset(offsets) if isinstance(offsets, dict) else frozenset()
    now = topic_ids(jvm, source.leaf, folder, read)
    may_lose = not source.leaf.extraOptions().getBoolean(_FAILS_ON_LOSS, True)
    found, gone = recreated(before, now.ids, read), sorted(read & now.missing)
    if not may_lose and found:
        raise refusal(ErrorReason.SOURCE_LOST, _recreated(source.name, found))
    if not may_lose and gone:
        raise refusal(ErrorReason.SOURCE_LOST, _deleted(source.name, gone))
    if found or gone:
        log.warning("%d topics of a source were deleted; its query may lose records", len(found) + len(gone))
    return kept(before, now.ids, read, may_lose=may_lose)


def _recreated(name: str, found: tuple[Recreated, ...]) -> str:
    topics = ", ".join(f"{each.topic} (its id was {each.before}, is {each.now})" for each in found)
    return (
        f"topics of the source {name} were deleted and created again since they were read: {topics}. The query was not started: it would "
        f"leave out their first records. {KAFKA_REMEDY}"
    )


def _deleted(name: str, topics: list[str]) -> str:
    return (
        f"topics of the source {name} are not there any more: {', '.join(topics)}. The query was not started: records that it has not "
        f"read may be lost. {KAFKA_REMEDY}"
    )


def _check_files(files: HadoopFiles, source: Source, folder: str, last: int, checkpoint: str) -> None:
    """Raises StatementError when files that were read have been replaced, or when it is not known any more which were read."""
    uris = {uri.rpartition("/")[2]: uri for uri in files.children(folder)}
    names = [each for each in uris if each.removesuffix(".compact").isdecimal()]
    check_log_of_files(checkpoint, source.name, names, last)
    logs = {each: text for each in names if (text := files.read_text(uris[each])) is not None}
    read = read_times(logs, last)
    now: dict[str, int] = {}
    parents = sorted({path.rpartition("/")[0] for path in read})
    with ThreadPoolExecutor(_FOLDERS_AT_A_TIME, thread_name_prefix="continuity") as pool:
        for parent, times in zip(parents, pool.map(files.modified, parents), strict=True):
            now.update({f"{parent}/{name}": time for name, time in times.items()})
    found = replaced(read, now)
    if found:
        message = (
            f"files of the source {source.name} were replaced after they were read: {shown(found)}. A stream reads a file of one path "
            "once, so the query was not started: it would leave out what is in them now. Give them other names to have them "
            f"read. {ANEW}"
        )
        raise refusal(ErrorReason.SOURCE_LOST, message)


def _json(place: str) -> Any:
    try:
        return json.loads(place)
    except ValueError:
        return None  # of a source whose offsets are no JSON
